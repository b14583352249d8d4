"""Match fields: southbound `MatchField` <-> OXM bytes (OpenFlow 1.3.5, 7.2.3). Names and widths are those of Ryu.

Masks that cover the whole field are dropped and bits outside a mask are cleared when a field is read, so that equal
fields are spelt equal. A field that has no name here is reported under its header's number, so that the rule that holds
it still shows up and is equal to no rule of ours.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache

from heddle.southbound.v1 import link_pb2
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import oxm_fields

# Fields narrower than their bytes: the mask that covers them wholly (OpenFlow 1.3.5, table 12).
_WHOLE = {
    "vlan_vid": b"\x1f\xff",
    "ip_dscp": b"\x3f",
    "ip_ecn": b"\x03",
    "vlan_pcp": b"\x07",
    "mpls_label": b"\x0f\xff\xff",
}
_HAS_MASK = 1 << 8
_UNNAMED = "oxm_"
_HEADER = struct.Struct("!I")
_MATCH_HEAD = struct.Struct("!HH")
# A match without fields, padded to 8 bytes.
_ANY = _MATCH_HEAD.pack(ofp.OFPMT_OXM, 4) + bytes(4)
# By length modulo 8: what makes it a multiple of 8.
PADDING = tuple(bytes(-length % 8) for length in range(8))


class CodecError(ValueError):
    """A message asks for something that OpenFlow 1.3 cannot say, or says something that it does not; the text says
    what."""


def _known_fields() -> dict[str, tuple[int, bytes, bytes, int]]:
    """Name -> (number, header, header with a mask, width in bytes) of every field with a header of 32 bits.

    The number is Ryu's, by which fields are put in order: a field's prerequisites have lower ones.
    """
    found = {}
    for kind in ofp.oxm_types:
        width = getattr(kind.type, "size", None)
        if width is not None and kind._class != oxm_fields.OFPXMC_EXPERIMENTER:
            exact, masked = kind.num << 9 | width, kind.num << 9 | _HAS_MASK | 2 * width
            found[kind.name] = (kind.num, _HEADER.pack(exact), _HEADER.pack(masked), width)
    return found


_FIELDS = _known_fields()
_NAMES = {number: (name, width) for name, (number, _, _, width) in _FIELDS.items()}


# --- to the wire -------------------------------------------------------------------------------------------


def encode_match(fields: Iterable[link_pb2.MatchField]) -> bytes:
    """An ofp_match, padded. Raises CodecError on an unknown field or a value of the wrong width."""
    body = b"".join([oxm for _, oxm in sorted([encode_field(field) for field in fields])])
    if not body:
        return _ANY
    length = 4 + len(body)
    return _MATCH_HEAD.pack(ofp.OFPMT_OXM, length) + body + PADDING[length & 7]


def encode_field(field: link_pb2.MatchField) -> tuple[int, bytes]:
    """(its place among other fields, its bytes). Raises CodecError."""
    return _encode_field(field.SerializeToString())


# Rules by the thousand share their fields: a job's name the same addresses and ports again and again.
@lru_cache(maxsize=1 << 16)
def _encode_field(serialized: bytes) -> tuple[int, bytes]:
    field = link_pb2.MatchField.FromString(serialized)
    name, value, mask = field.name, field.value, field.mask
    try:
        number, exact, masked, width = _FIELDS[name]
    except KeyError:
        return _encode_unnamed(name, value)
    if len(value) != width or len(mask) not in (0, width):
        raise CodecError(f"{name} is {width} bytes wide; the value has {len(value)}, the mask {len(mask)}")
    if not mask:
        return number, exact + value
    return number, masked + _and(value, mask) + mask


def _encode_unnamed(name: str, value: bytes) -> tuple[int, bytes]:
    """A field as `decode_field` reports it when it has no name: header and everything behind it."""
    try:
        header = bytes.fromhex(name.removeprefix(_UNNAMED)) if name.startswith(_UNNAMED) else b""
    except ValueError:
        header = b""
    if len(header) != _HEADER.size or header[-1] != len(value):
        raise CodecError(f"OpenFlow 1.3 has no field {name!r}")
    return int.from_bytes(header, "big") >> 9, header + value


# --- from the wire -----------------------------------------------------------------------------------------


def decode_match(data: bytes, offset: int, limit: int) -> tuple[list[link_pb2.MatchField], int]:
    """The fields of the ofp_match at `offset`, sorted by name, and the offset behind it; nothing is read from
    `limit` on. Raises CodecError."""
    kind, length = _MATCH_HEAD.unpack_from(data, offset)
    if kind != ofp.OFPMT_OXM or length < 4 or offset + length > limit:
        raise CodecError(f"a match of type {kind} and {length} bytes")
    fields = []
    end = offset + length
    position = offset + 4
    while position < end:
        field, position = decode_field(data, position, end)
        if field is not None:
            fields.append(field)
    fields.sort(key=_name)
    return fields, offset + (length + 7) // 8 * 8


def decode_field(data: bytes, offset: int, end: int) -> tuple[link_pb2.MatchField | None, int]:
    """The field at `offset` and the offset behind it; None when its mask leaves nothing to compare. Raises
    CodecError."""
    if offset + 4 > end:
        raise CodecError("a match field is cut off")
    (header,) = _HEADER.unpack_from(data, offset)
    length = header & 0xFF
    body = offset + 4
    behind = body + length
    if behind > end:
        raise CodecError("a match field is longer than its match")
    number, has_mask = header >> 9, header & _HAS_MASK
    width = length // 2 if has_mask else length
    name, expected = _NAMES.get(number, ("", width))
    if not name or width != expected:
        return link_pb2.MatchField(name=f"{_UNNAMED}{header:08x}", value=data[body:behind]), behind
    value = data[body : body + width]
    if not has_mask:
        return link_pb2.MatchField(name=name, value=value), behind
    mask = data[body + width : behind]
    if mask == _WHOLE.get(name, b"\xff" * width):
        return link_pb2.MatchField(name=name, value=value), behind
    if not any(mask):
        return None, behind
    return link_pb2.MatchField(name=name, value=_and(value, mask), mask=mask), behind


def _name(field: link_pb2.MatchField) -> str:
    return str(field.name)


def _and(value: bytes, mask: bytes) -> bytes:
    return (int.from_bytes(value, "big") & int.from_bytes(mask, "big")).to_bytes(len(value), "big")
