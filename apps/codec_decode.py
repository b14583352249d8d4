"""Ryu's OpenFlow 1.3 objects -> southbound messages, in the same canonical spelling that the controller uses.

Every function is total: a rule of somebody else may hold actions or instructions for which the southbound protocol
has no word. Such a one is reported as an `Action` with no kind set, so that the rule still shows up with its match
and cookie, and is equal to no rule of ours.
"""

from collections.abc import Iterable
from typing import Any

from heddle.southbound.v1 import link_pb2
from ryu.ofproto import nicira_ext
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from apps.codec_encode import GROUP_TYPES
from apps.codec_fields import from_ryu_field, from_ryu_match

_Group = link_pb2.Group
_GROUP_KINDS = {group_type: kind for kind, group_type in GROUP_TYPES.items()}
_PORT_REASONS = {
    ofp.OFPPR_ADD: link_pb2.PortStatus.REASON_ADD,
    ofp.OFPPR_DELETE: link_pb2.PortStatus.REASON_DELETE,
    ofp.OFPPR_MODIFY: link_pb2.PortStatus.REASON_MODIFY,
}


def decode_rule(statistics: Any) -> link_pb2.Rule:
    """An OFPFlowStats entry as a rule; counters and timeouts are left out."""
    rule = link_pb2.Rule(
        table_id=statistics.table_id,
        priority=statistics.priority,
        cookie=statistics.cookie,
        match=from_ryu_match(statistics.match),
    )
    for instruction in statistics.instructions:
        _add_instruction(rule, instruction)
    return rule


def decode_group(description: Any) -> link_pb2.Group:
    """An OFPGroupDescStats entry."""
    kind = _GROUP_KINDS.get(description.type, _Group.KIND_UNSPECIFIED)
    return link_pb2.Group(
        group_id=description.group_id,
        kind=kind,
        buckets=[_decode_bucket(kind, bucket) for bucket in description.buckets],
    )


def decode_meter(configuration: Any) -> link_pb2.Meter:
    """An OFPMeterConfigStats entry. One that is not a single packet-rate drop band is reported with a rate of 0."""
    bands = configuration.bands
    meter = link_pb2.Meter(meter_id=configuration.meter_id)
    if configuration.flags & ofp.OFPMF_PKTPS and len(bands) == 1 and bands[0].type == ofp.OFPMBT_DROP:
        meter.packets_per_second = bands[0].rate
        meter.burst_packets = bands[0].burst_size
    return meter


def decode_action(action: Any) -> link_pb2.Action:
    """One action; no kind is set when the southbound protocol has no word for it."""
    if isinstance(action, parser.OFPActionOutput):
        # Only towards the controller does max_len mean anything; switches keep any number elsewhere.
        max_len = action.max_len if action.port == ofp.OFPP_CONTROLLER else 0
        return link_pb2.Action(output=link_pb2.Output(port_no=action.port, max_len=max_len))
    if isinstance(action, parser.OFPActionGroup):
        return link_pb2.Action(group_id=action.group_id)
    if isinstance(action, parser.OFPActionSetQueue):
        return link_pb2.Action(queue_id=action.queue_id)
    if isinstance(action, parser.OFPActionSetField):
        return link_pb2.Action(set_field=from_ryu_field(action.key, action.value))
    if isinstance(action, parser.OFPActionDecNwTtl):
        return link_pb2.Action(decrement_ttl=True)
    if isinstance(action, parser.OFPActionSetNwTtl):
        return link_pb2.Action(set_ttl=action.nw_ttl)
    if isinstance(action, parser.NXActionBundle) and action.algorithm == nicira_ext.NX_BD_ALG_HRW:
        bundle = link_pb2.Bundle(fields=action.fields, basis=action.basis, ports=action.slaves)
        return link_pb2.Action(bundle=bundle)
    return link_pb2.Action()


def decode_port(description: Any) -> link_pb2.Port:
    """An OFPPort as it comes in port descriptions and port status messages. OpenFlow counts speed in kbit/s."""
    return link_pb2.Port(
        port_no=description.port_no,
        name=description.name.decode("utf-8", errors="replace"),
        hardware_address=bytes.fromhex(description.hw_addr.replace(":", "")),
        link_up=not description.state & ofp.OFPPS_LINK_DOWN,
        administratively_down=bool(description.config & ofp.OFPPC_PORT_DOWN),
        current_speed_bps=description.curr_speed * 1000,
    )


def decode_port_reason(reason: int) -> link_pb2.PortStatus.Reason:
    return _PORT_REASONS.get(reason, link_pb2.PortStatus.REASON_UNSPECIFIED)


def decode_counters(statistics: Any) -> link_pb2.PortCounters:
    """An OFPPortStats entry, as it is: all-ones stays all-ones."""
    return link_pb2.PortCounters(
        port_no=statistics.port_no,
        rx_packets=statistics.rx_packets,
        tx_packets=statistics.tx_packets,
        rx_bytes=statistics.rx_bytes,
        tx_bytes=statistics.tx_bytes,
        rx_dropped=statistics.rx_dropped,
        tx_dropped=statistics.tx_dropped,
        rx_errors=statistics.rx_errors,
        tx_errors=statistics.tx_errors,
        duration_s=statistics.duration_sec,
    )


def is_cable(port_no: int) -> bool:
    """Reserved ports (LOCAL among them) are the switch's own affair and are not reported."""
    return 0 < port_no <= int(ofp.OFPP_MAX)


def _add_instruction(rule: link_pb2.Rule, instruction: Any) -> None:
    if isinstance(instruction, parser.OFPInstructionMeter):
        rule.meter_id = instruction.meter_id
    elif isinstance(instruction, parser.OFPInstructionGotoTable):
        rule.goto_table = instruction.table_id
    elif instruction.type == ofp.OFPIT_APPLY_ACTIONS:
        rule.actions.extend(_decode_actions(instruction.actions))
    else:
        rule.actions.append(link_pb2.Action())


def _decode_bucket(kind: int, bucket: Any) -> link_pb2.Bucket:
    return link_pb2.Bucket(
        weight=bucket.weight if kind == _Group.KIND_SELECT else 0,
        watch_port=bucket.watch_port if kind == _Group.KIND_FAST_FAILOVER else ofp.OFPP_ANY,
        actions=_decode_actions(bucket.actions),
    )


def _decode_actions(actions: Iterable[Any]) -> list[link_pb2.Action]:
    return [decode_action(action) for action in actions]
