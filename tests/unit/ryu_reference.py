"""How Ryu itself would spell a southbound modification: the yardstick for the agent's own encoder in tests.

It builds Ryu's message objects and lets them serialise themselves, which is ten times slower and shares no code with
`apps.codec_encode`.
"""

from collections.abc import Iterable
from typing import Any

from heddle.southbound.v1 import link_pb2
from ryu.ofproto import nicira_ext
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from apps.codec_fields import CodecError

_Group = link_pb2.Group
GROUP_TYPES = {
    _Group.KIND_ALL: ofp.OFPGT_ALL,
    _Group.KIND_SELECT: ofp.OFPGT_SELECT,
    _Group.KIND_INDIRECT: ofp.OFPGT_INDIRECT,
    _Group.KIND_FAST_FAILOVER: ofp.OFPGT_FF,
}
METER_FLAGS = ofp.OFPMF_PKTPS | ofp.OFPMF_BURST

# NXAST_BUNDLE names its members by OpenFlow 1.0 port numbers: 16 bits, of which the last 256 are reserved.
_BUNDLE_MAX_PORT = 0xFEFF


def encode_modification(datapath: Any, modification: link_pb2.Modification) -> Any:
    """The FlowMod, GroupMod, MeterMod or BarrierRequest that carries out `modification`. Raises CodecError."""
    kind = modification.WhichOneof("kind")
    if kind == "barrier":
        return parser.OFPBarrierRequest(datapath)
    if kind == "add_rule":
        return _add_rule(datapath, modification.add_rule)
    if kind == "delete_rule":
        return _delete_rule(datapath, modification.delete_rule)
    if kind in ("add_group", "modify_group"):
        command = ofp.OFPGC_ADD if kind == "add_group" else ofp.OFPGC_MODIFY
        return _group_mod(datapath, command, getattr(modification, kind))
    if kind == "delete_group_id":
        # The type is ignored on delete (OpenFlow 1.3.5, 6.4), but has to be a valid one.
        return parser.OFPGroupMod(datapath, ofp.OFPGC_DELETE, ofp.OFPGT_ALL, modification.delete_group_id, [])
    if kind in ("add_meter", "modify_meter"):
        command = ofp.OFPMC_ADD if kind == "add_meter" else ofp.OFPMC_MODIFY
        return _meter_mod(datapath, command, getattr(modification, kind))
    if kind == "delete_meter_id":
        return parser.OFPMeterMod(datapath, ofp.OFPMC_DELETE, METER_FLAGS, modification.delete_meter_id, [])
    raise CodecError("the modification is empty")


def serialise(message: Any, xid: int) -> bytes:
    """The message on the wire. Raises struct.error when it is longer than OpenFlow's 65,535 bytes."""
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


def encode_packet_out(datapath: Any, packet: link_pb2.PacketOut) -> Any:
    """An unbuffered PacketOut to all of `out_ports`."""
    actions = [parser.OFPActionOutput(port_no, 0) for port_no in packet.out_ports]
    return parser.OFPPacketOut(
        datapath, buffer_id=ofp.OFP_NO_BUFFER, in_port=ofp.OFPP_CONTROLLER, actions=actions, data=bytes(packet.data)
    )


def encode_action(action: link_pb2.Action) -> Any:
    """One Ryu action. Raises CodecError."""
    kind = action.WhichOneof("kind")
    if kind == "output":
        return parser.OFPActionOutput(
            action.output.port_no, _within("max_len", action.output.max_len, ofp.OFPCML_NO_BUFFER)
        )
    if kind == "group_id":
        return parser.OFPActionGroup(action.group_id)
    if kind == "queue_id":
        return parser.OFPActionSetQueue(action.queue_id)
    if kind == "set_field":
        return to_ryu_set_field(action.set_field)
    if kind == "decrement_ttl":
        return parser.OFPActionDecNwTtl()
    if kind == "set_ttl":
        return parser.OFPActionSetNwTtl(_within("set_ttl", action.set_ttl, 0xFF))
    if kind == "bundle":
        return _bundle(action.bundle)
    raise CodecError("the action is empty")


def _add_rule(datapath: Any, rule: link_pb2.Rule) -> Any:
    # Without OFPFF_RESET_COUNTS an overwritten rule keeps its counters (OpenFlow 1.3.5, 6.4).
    return _flow_mod(datapath, ofp.OFPFC_ADD, rule, list(_instructions(rule)))


def _delete_rule(datapath: Any, rule: link_pb2.Rule) -> Any:
    return _flow_mod(datapath, ofp.OFPFC_DELETE_STRICT, rule, [])


def _flow_mod(datapath: Any, command: int, rule: link_pb2.Rule, instructions: list[Any]) -> Any:
    return parser.OFPFlowMod(
        datapath,
        # A delete leaves the cookie out of the comparison: cookie_mask stays 0.
        cookie=rule.cookie,
        table_id=_within("table_id", rule.table_id, ofp.OFPTT_MAX),
        command=command,
        priority=_within("priority", rule.priority, 0xFFFF),
        buffer_id=ofp.OFP_NO_BUFFER,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        match=to_ryu_match(rule.match),
        instructions=instructions,
    )


def _instructions(rule: link_pb2.Rule) -> Iterable[Any]:
    if rule.HasField("meter_id"):
        yield parser.OFPInstructionMeter(rule.meter_id)
    if rule.actions:
        yield parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [encode_action(action) for action in rule.actions])
    if rule.HasField("goto_table"):
        yield parser.OFPInstructionGotoTable(_within("goto_table", rule.goto_table, ofp.OFPTT_MAX))


def _group_mod(datapath: Any, command: int, group: link_pb2.Group) -> Any:
    if group.kind not in GROUP_TYPES:
        raise CodecError(f"group {group.group_id} has no kind")
    buckets = [_bucket(group.kind, bucket) for bucket in group.buckets]
    return parser.OFPGroupMod(datapath, command, GROUP_TYPES[group.kind], group.group_id, buckets)


def _bucket(kind: int, bucket: link_pb2.Bucket) -> Any:
    # Weight belongs to select and watch_port to fast-failover; the specification wants the neutral value elsewhere.
    return parser.OFPBucket(
        weight=_within("weight", bucket.weight, 0xFFFF) if kind == _Group.KIND_SELECT else 0,
        watch_port=bucket.watch_port if kind == _Group.KIND_FAST_FAILOVER else ofp.OFPP_ANY,
        watch_group=ofp.OFPG_ANY,
        actions=[encode_action(action) for action in bucket.actions],
    )


def _meter_mod(datapath: Any, command: int, meter: link_pb2.Meter) -> Any:
    band = parser.OFPMeterBandDrop(rate=meter.packets_per_second, burst_size=meter.burst_packets)
    return parser.OFPMeterMod(datapath, command, METER_FLAGS, meter.meter_id, [band])


def _bundle(bundle: link_pb2.Bundle) -> Any:
    ports = [_within("bundle port", port, _BUNDLE_MAX_PORT) for port in bundle.ports]
    return parser.NXActionBundle(
        algorithm=nicira_ext.NX_BD_ALG_HRW,
        fields=_within("bundle fields", bundle.fields, 0xFFFF),
        basis=_within("bundle basis", bundle.basis, 0xFFFF),
        slave_type=nicira_ext.NXM_OF_IN_PORT,
        n_slaves=len(ports),
        ofs_nbits=0,
        dst=0,
        slaves=ports,
    )


def _within(what: str, value: int, maximum: int) -> int:
    if value > maximum:
        raise CodecError(f"{what}={value} is larger than {maximum}")
    return value


def to_ryu_match(fields: Iterable[link_pb2.MatchField]) -> Any:
    """An OFPMatch. Raises CodecError on an unknown field or a value of the wrong width."""
    numbered = sorted((_to_ryu_field(field) for field in fields), key=lambda entry: _order(entry[0]))
    # The ordered form skips Ryu's normalisation, which is done here and costs it three conversions per field.
    return parser.OFPMatch(_ordered_fields=[(name, value) for _, name, value in numbered])


def to_ryu_set_field(field: link_pb2.MatchField) -> Any:
    """An OFPActionSetField. Raises CodecError."""
    if field.mask:
        raise CodecError(f"set_field {field.name} has a mask, which OpenFlow 1.3 does not allow")
    _, name, value = _to_ryu_field(field)
    return parser.OFPActionSetField(**{name: value})


def _to_ryu_field(field: link_pb2.MatchField) -> tuple[Any, str, Any]:
    try:
        number, kind = ofp.oxm_get_field_info_by_name(field.name)
    except (KeyError, ValueError):
        raise CodecError(f"OpenFlow 1.3 has no field {field.name!r}") from None
    width = getattr(kind, "size", len(field.value))
    if len(field.value) != width or len(field.mask) not in (0, width):
        raise CodecError(
            f"{field.name} is {width} bytes wide; the value has {len(field.value)}, the mask {len(field.mask)}"
        )
    mask = bytes(field.mask) or None
    value = bytes(field.value) if mask is None else _and(field.value, mask)
    name, user_value = ofp.oxm_to_user(number, value, mask)
    return number, name, user_value


def _order(number: Any) -> int:
    """Ryu's own order: by number, so that eth_type comes before the fields that depend on it."""
    return int(number[0] if isinstance(number, tuple) else number)


def _and(value: bytes, mask: bytes) -> bytes:
    return bytes(a & b for a, b in zip(value, mask, strict=True))
