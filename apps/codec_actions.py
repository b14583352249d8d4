"""Actions: southbound `Action` <-> OpenFlow bytes (OpenFlow 1.3.5, 7.2.4; Open vSwitch's nicira-ext.h for bundle).

Decoding is total over well-formed lengths: an action of somebody else, for which the southbound protocol has no word,
becomes an `Action` with no kind, whatever is inside it.
"""

import struct
from collections.abc import Callable, Iterable

from heddle.southbound.v1 import link_pb2
from ryu.ofproto import nicira_ext, ofproto_common
from ryu.ofproto import ofproto_v1_3 as ofp

from apps.codec_fields import PADDING, CodecError, decode_field, encode_field

_HEAD = struct.Struct("!HH")
_OUTPUT = struct.Struct("!HHIH6x")
_NUMBER = struct.Struct("!HHI")
_TTL = struct.Struct("!HHB3x")
_BUNDLE = struct.Struct("!HHIHHHHIHHI4x")
_BUNDLE_SUBTYPE = 12  # NXAST_BUNDLE
_DECREMENT_TTL = _HEAD.pack(ofp.OFPAT_DEC_NW_TTL, 8) + bytes(4)
# NXAST_BUNDLE names its members by OpenFlow 1.0 port numbers: 16 bits, of which the last 256 are reserved.
_BUNDLE_MAX_PORT = 0xFEFF


def within(what: str, value: int, maximum: int) -> int:
    """`value`, unless it has no room in its field: then CodecError."""
    if value > maximum:
        raise CodecError(f"{what}={value} is larger than {maximum}")
    return value


# --- to the wire -------------------------------------------------------------------------------------------


def encode_actions(actions: Iterable[link_pb2.Action]) -> bytes:
    """A list of actions. Raises CodecError on one that OpenFlow 1.3 cannot say."""
    return b"".join([encode_action(action) for action in actions])


def encode_action(action: link_pb2.Action) -> bytes:
    kind = action.WhichOneof("kind")
    if kind is None:
        raise CodecError("the action is empty")
    return _ENCODERS[kind](action)


def encode_output(port_no: int, max_len: int = 0) -> bytes:
    return _OUTPUT.pack(ofp.OFPAT_OUTPUT, _OUTPUT.size, port_no, within("max_len", max_len, ofp.OFPCML_NO_BUFFER))


def _encode_set_field(action: link_pb2.Action) -> bytes:
    field = action.set_field
    if field.mask:
        raise CodecError(f"set_field {field.name} has a mask, which OpenFlow 1.3 does not allow")
    _, oxm = encode_field(field)
    padding = PADDING[(4 + len(oxm)) & 7]
    return _HEAD.pack(ofp.OFPAT_SET_FIELD, 4 + len(oxm) + len(padding)) + oxm + padding


def _encode_bundle(action: link_pb2.Action) -> bytes:
    bundle = action.bundle
    ports = [within("bundle port", port, _BUNDLE_MAX_PORT) for port in bundle.ports]
    members = struct.pack(f"!{len(ports)}H", *ports)
    members += PADDING[len(members) & 7]
    return (
        _BUNDLE.pack(
            ofp.OFPAT_EXPERIMENTER,
            _BUNDLE.size + len(members),
            ofproto_common.NX_EXPERIMENTER_ID,
            _BUNDLE_SUBTYPE,
            nicira_ext.NX_BD_ALG_HRW,
            within("bundle fields", bundle.fields, 0xFFFF),
            within("bundle basis", bundle.basis, 0xFFFF),
            nicira_ext.NXM_OF_IN_PORT,
            len(ports),
            0,
            0,
        )
        + members
    )


_ENCODERS: dict[str, Callable[[link_pb2.Action], bytes]] = {
    "output": lambda a: encode_output(a.output.port_no, a.output.max_len),
    "group_id": lambda a: _NUMBER.pack(ofp.OFPAT_GROUP, 8, a.group_id),
    "queue_id": lambda a: _NUMBER.pack(ofp.OFPAT_SET_QUEUE, 8, a.queue_id),
    "set_field": _encode_set_field,
    "decrement_ttl": lambda _: _DECREMENT_TTL,
    "set_ttl": lambda a: _TTL.pack(ofp.OFPAT_SET_NW_TTL, 8, within("set_ttl", a.set_ttl, 0xFF)),
    "bundle": _encode_bundle,
}


# --- from the wire -----------------------------------------------------------------------------------------


def decode_actions(data: bytes, offset: int, end: int) -> list[link_pb2.Action]:
    """The actions between two offsets. Raises CodecError when their lengths do not add up."""
    actions = []
    while offset < end:
        if offset + 8 > end:
            raise CodecError("an action is cut off")
        kind, length = _HEAD.unpack_from(data, offset)
        if length < 8 or offset + length > end:
            raise CodecError(f"an action of {length} bytes")
        decode = _DECODERS.get(kind)
        actions.append(decode(data[offset : offset + length]) if decode else link_pb2.Action())
        offset += length
    return actions


def _decode_output(data: bytes) -> link_pb2.Action:
    if len(data) != _OUTPUT.size:
        return link_pb2.Action()
    _, _, port_no, max_len = _OUTPUT.unpack(data)
    # Only towards the controller does max_len mean anything; switches keep any number elsewhere.
    return link_pb2.Action(
        output=link_pb2.Output(port_no=port_no, max_len=max_len if port_no == ofp.OFPP_CONTROLLER else 0)
    )


def _decode_set_field(data: bytes) -> link_pb2.Action:
    try:
        field, _ = decode_field(data, 4, len(data))
    except CodecError:
        return link_pb2.Action()
    return link_pb2.Action(set_field=field)


def _decode_experimenter(data: bytes) -> link_pb2.Action:
    if len(data) < _BUNDLE.size:
        return link_pb2.Action()
    _, length, vendor, subtype, algorithm, fields, basis, _, members, _, _ = _BUNDLE.unpack_from(data)
    wanted = (ofproto_common.NX_EXPERIMENTER_ID, _BUNDLE_SUBTYPE, nicira_ext.NX_BD_ALG_HRW)
    if (vendor, subtype, algorithm) != wanted or _BUNDLE.size + 2 * members > length:
        return link_pb2.Action()
    ports = struct.unpack_from(f"!{members}H", data, _BUNDLE.size)
    return link_pb2.Action(bundle=link_pb2.Bundle(fields=fields, basis=basis, ports=ports))


def _number(data: bytes) -> int:
    return int.from_bytes(data[4:8], "big")


_DECODERS: dict[int, Callable[[bytes], link_pb2.Action]] = {
    ofp.OFPAT_OUTPUT: _decode_output,
    ofp.OFPAT_GROUP: lambda data: link_pb2.Action(group_id=_number(data)),
    ofp.OFPAT_SET_QUEUE: lambda data: link_pb2.Action(queue_id=_number(data)),
    ofp.OFPAT_SET_FIELD: _decode_set_field,
    ofp.OFPAT_DEC_NW_TTL: lambda _: link_pb2.Action(decrement_ttl=True),
    ofp.OFPAT_SET_NW_TTL: lambda data: link_pb2.Action(set_ttl=data[4]),
    ofp.OFPAT_EXPERIMENTER: _decode_experimenter,
}
