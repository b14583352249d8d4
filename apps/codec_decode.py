"""OpenFlow 1.3 -> southbound messages, in the same canonical spelling that the controller uses.

Tables are read from bytes: a switch may hold rules of somebody else with actions that Ryu's parser knows nothing of or
breaks on, and Ryu takes ten times as long. Everything short is read from Ryu's objects. Actions or instructions for
which the southbound protocol has no word are reported as an `Action` with no kind set, so that their rule still shows
up with its match and cookie, and is equal to no rule of ours.
"""

import struct
from typing import Any

from heddle.southbound.v1 import link_pb2
from ryu.ofproto import ofproto_v1_3 as ofp

from apps.codec_actions import decode_actions
from apps.codec_encode import GROUP_TYPES
from apps.codec_fields import CodecError, decode_match

_Group = link_pb2.Group
_GROUP_KINDS = {group_type: kind for kind, group_type in GROUP_TYPES.items()}
# Length, table, priority and cookie of ofp_flow_stats; its durations, time-outs, flags and counters are passed over.
_FLOW_STATS = struct.Struct("!HBx8xH4x2x4xQ16x")
_GROUP_DESC = struct.Struct("!HBxI")
_BUCKET = struct.Struct("!HHI8x")
_METER_CONFIG = struct.Struct("!HHI")
_BAND = struct.Struct("!HHII4x")
# Length, table and most entries of ofp_table_features; its name, metadata and properties are passed over.
_TABLE_FEATURES = struct.Struct("!HB5x32x8x8x4xI")
# Types, capabilities, and for each type of groups (all, select, indirect, fast failover) the most there may be.
_GROUP_FEATURES = struct.Struct("!II4I16x")
# Type, length, and what meter and goto instructions hold.
_INSTRUCTION = struct.Struct("!HHI")
# Port, packets, bytes, drops and errors (each received and sent), overruns, and the seconds of its life; the other
# kinds of errors, collisions and nanoseconds are passed over.
_PORT_STATS = struct.Struct("!I4x8Q8xQ16xI4x")
# Header, buffer, length and reason are passed over; table, cookie, and how long the match is.
_PACKET_IN = struct.Struct("!8x4x2xxBQ2xH")
_MATCH_HEADER_BYTES = 4
# Class, field and mask bit together; length of the value.
_OXM = struct.Struct("!3sB")
_OXM_IN_PORT, _PORT_BYTES = b"\x80\x00\x00", 4
_PORT_REASONS = {
    ofp.OFPPR_ADD: link_pb2.PortStatus.REASON_ADD,
    ofp.OFPPR_DELETE: link_pb2.PortStatus.REASON_DELETE,
    ofp.OFPPR_MODIFY: link_pb2.PortStatus.REASON_MODIFY,
}


def decode_rules(data: bytes) -> list[link_pb2.Rule]:
    """An array of ofp_flow_stats; counters and timeouts are left out. Raises CodecError when lengths do not add up."""
    rules = []
    for start, end in _entries(data, 0, len(data), _FLOW_STATS.size):
        _, table_id, priority, cookie = _FLOW_STATS.unpack_from(data, start)
        match, offset = decode_match(data, start + _FLOW_STATS.size, end)
        rule = link_pb2.Rule(table_id=table_id, priority=priority, cookie=cookie, match=match)
        _add_instructions(rule, data, offset, end)
        rules.append(rule)
    return rules


def decode_groups(data: bytes) -> list[link_pb2.Group]:
    """An array of ofp_group_desc. Raises CodecError."""
    groups = []
    for start, end in _entries(data, 0, len(data), _GROUP_DESC.size):
        _, group_type, group_id = _GROUP_DESC.unpack_from(data, start)
        kind = _GROUP_KINDS.get(group_type, _Group.KIND_UNSPECIFIED)
        buckets = [
            _decode_bucket(kind, data, at, behind)
            for at, behind in _entries(data, start + _GROUP_DESC.size, end, _BUCKET.size)
        ]
        groups.append(link_pb2.Group(group_id=group_id, kind=kind, buckets=buckets))
    return groups


def decode_meters(data: bytes) -> list[link_pb2.Meter]:
    """An array of ofp_meter_config. One that is not a single packet-rate drop band is reported with a rate of 0.

    Raises CodecError."""
    meters = []
    for start, end in _entries(data, 0, len(data), _METER_CONFIG.size):
        _, flags, meter_id = _METER_CONFIG.unpack_from(data, start)
        meter = link_pb2.Meter(meter_id=meter_id)
        if flags & ofp.OFPMF_PKTPS and end - start == _METER_CONFIG.size + _BAND.size:
            kind, _, rate, burst = _BAND.unpack_from(data, start + _METER_CONFIG.size)
            if kind == ofp.OFPMBT_DROP:
                meter.packets_per_second, meter.burst_packets = rate, burst
        meters.append(meter)
    return meters


def decode_table_limits(data: bytes) -> list[link_pb2.TableLimit]:
    """An array of ofp_table_features, as far as it says how much there is room for. Raises CodecError."""
    limits = []
    for start, _ in _entries(data, 0, len(data), _TABLE_FEATURES.size):
        _, table_id, max_rules = _TABLE_FEATURES.unpack_from(data, start)
        limits.append(link_pb2.TableLimit(table_id=table_id, max_rules=max_rules))
    return limits


def decode_max_failover_groups(data: bytes) -> list[int]:
    """The one figure of ofp_group_features that matters here. Raises CodecError."""
    if len(data) < _GROUP_FEATURES.size:
        raise CodecError(f"group features of {len(data)} bytes")
    return [_GROUP_FEATURES.unpack_from(data)[2 + ofp.OFPGT_FF]]


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


def decode_counters(data: bytes) -> list[link_pb2.PortCounters]:
    """An array of ofp_port_stats, as it is: all-ones stays all-ones. Raises CodecError."""
    if len(data) % _PORT_STATS.size:
        raise CodecError(f"port statistics of {len(data)} bytes")
    return [
        link_pb2.PortCounters(
            port_no=port_no,
            rx_packets=rx_packets,
            tx_packets=tx_packets,
            rx_bytes=rx_bytes,
            tx_bytes=tx_bytes,
            rx_dropped=rx_dropped,
            tx_dropped=tx_dropped,
            rx_errors=rx_errors,
            tx_errors=tx_errors,
            rx_over_errors=rx_over_errors,
            duration_s=duration_s,
        )
        for (
            port_no,
            rx_packets,
            tx_packets,
            rx_bytes,
            tx_bytes,
            rx_dropped,
            tx_dropped,
            rx_errors,
            tx_errors,
            rx_over_errors,
            duration_s,
        ) in _PORT_STATS.iter_unpack(data)
    ]


def decode_packet_in(message: bytes) -> link_pb2.PacketIn:
    """A whole ofp_packet_in; the switch that sent it is not named in it. Raises CodecError."""
    if len(message) < _PACKET_IN.size:
        raise CodecError(f"a packet-in of {len(message)} bytes")
    table_id, cookie, match_bytes = _PACKET_IN.unpack_from(message)
    match_end = _PACKET_IN.size + match_bytes - _MATCH_HEADER_BYTES
    # The match is padded to a multiple of eight bytes, and two more bytes of padding follow.
    data_start = _PACKET_IN.size - _MATCH_HEADER_BYTES + (match_bytes + 7) // 8 * 8 + 2
    if match_bytes < _MATCH_HEADER_BYTES or data_start > len(message):
        raise CodecError(f"a packet-in whose match is said to have {match_bytes} bytes")
    in_port, offset = 0, _PACKET_IN.size
    while offset + _OXM.size <= match_end:
        header, value_bytes = _OXM.unpack_from(message, offset)
        if header == _OXM_IN_PORT and value_bytes == _PORT_BYTES:
            in_port = int.from_bytes(message[offset + _OXM.size : offset + _OXM.size + _PORT_BYTES], "big")
        offset += _OXM.size + value_bytes
    return link_pb2.PacketIn(in_port=in_port, table_id=table_id, cookie=cookie, data=message[data_start:])


def is_cable(port_no: int) -> bool:
    """Reserved ports (LOCAL among them) are the switch's own affair and are not reported."""
    return 0 < port_no <= int(ofp.OFPP_MAX)


def _entries(data: bytes, offset: int, limit: int, smallest: int) -> list[tuple[int, int]]:
    """(start, end) of the structures in an array in which each begins with its own length. Raises CodecError."""
    found = []
    while offset < limit:
        length = int.from_bytes(data[offset : offset + 2], "big")
        if length < smallest or offset + length > limit:
            raise CodecError(f"an entry of {length} bytes where {limit - offset} are left")
        found.append((offset, offset + length))
        offset += length
    return found


def _add_instructions(rule: link_pb2.Rule, data: bytes, offset: int, end: int) -> None:
    while offset < end:
        if offset + _INSTRUCTION.size > end:
            raise CodecError("an instruction is cut off")
        kind, length, number = _INSTRUCTION.unpack_from(data, offset)
        if length < _INSTRUCTION.size or offset + length > end:
            raise CodecError(f"an instruction of {length} bytes")
        if kind == ofp.OFPIT_APPLY_ACTIONS:
            rule.actions.extend(decode_actions(data, offset + _INSTRUCTION.size, offset + length))
        elif kind == ofp.OFPIT_GOTO_TABLE:
            rule.goto_table = number >> 24
        elif kind == ofp.OFPIT_METER:
            rule.meter_id = number
        else:
            rule.actions.append(link_pb2.Action())
        offset += length


def _decode_bucket(kind: int, data: bytes, start: int, end: int) -> link_pb2.Bucket:
    _, weight, watch_port = _BUCKET.unpack_from(data, start)
    return link_pb2.Bucket(
        weight=weight if kind == _Group.KIND_SELECT else 0,
        watch_port=watch_port if kind == _Group.KIND_FAST_FAILOVER else ofp.OFPP_ANY,
        actions=decode_actions(data, start + _BUCKET.size, end),
    )
