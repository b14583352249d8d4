"""Whether a switch takes a modification, and the name of the error it answers otherwise.

The checks are those of OpenFlow 1.3.5 as Open vSwitch 3.1 makes them (tests/openvswitch compares the two). What a
modification does to the tables once it is taken is decided in `switches`.
"""

from collections.abc import Collection
from dataclasses import dataclass

from controller.fabric.ndp import ADVERTISEMENT, SOLICITATION
from controller.pipeline.packet import ETH_ARP, ETH_IPV4, ETH_IPV6, IP_ICMP, IP_ICMPV6, IP_TCP, IP_UDP
from controller.pipeline.rules import (
    OFPP_ANY,
    OFPP_IN_PORT,
    DecrementTtl,
    Group,
    GroupKind,
    Match,
    Output,
    Rule,
    SetField,
    SetTtl,
    ToGroup,
)

BAD_MASK = "OFPET_BAD_MATCH/OFPBMC_BAD_MASK"
BAD_PREREQUISITE = "OFPET_BAD_MATCH/OFPBMC_BAD_PREREQ"
INCONSISTENT = "OFPET_BAD_ACTION/OFPBAC_MATCH_INCONSISTENT"
BAD_OUT_GROUP = "OFPET_BAD_ACTION/OFPBAC_BAD_OUT_GROUP"
BAD_OUT_PORT = "OFPET_BAD_ACTION/OFPBAC_BAD_OUT_PORT"
BAD_TABLE = "OFPET_FLOW_MOD_FAILED/OFPFMFC_BAD_TABLE_ID"
TABLE_FULL = "OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL"
BAD_GOTO = "OFPET_BAD_INSTRUCTION/OFPBIC_BAD_TABLE_ID"
INVALID_METER = "OFPET_METER_MOD_FAILED/OFPMMFC_INVALID_METER"
BUNDLE_FAILED = "OFPET_BUNDLE_FAILED/OFPBFC_MSG_FAILED"
METER_EXISTS = "OFPET_METER_MOD_FAILED/OFPMMFC_METER_EXISTS"
UNKNOWN_METER = "OFPET_METER_MOD_FAILED/OFPMMFC_UNKNOWN_METER"
OUT_OF_METERS = "OFPET_METER_MOD_FAILED/OFPMMFC_OUT_OF_METERS"
GROUP_EXISTS = "OFPET_GROUP_MOD_FAILED/OFPGMFC_GROUP_EXISTS"
UNKNOWN_GROUP = "OFPET_GROUP_MOD_FAILED/OFPGMFC_UNKNOWN_GROUP"
INVALID_GROUP = "OFPET_GROUP_MOD_FAILED/OFPGMFC_INVALID_GROUP"
OUT_OF_GROUPS = "OFPET_GROUP_MOD_FAILED/OFPGMFC_OUT_OF_GROUPS"
WATCH_UNSUPPORTED = "OFPET_GROUP_MOD_FAILED/OFPGMFC_WATCH_UNSUPPORTED"

# Open vSwitch holds port numbers in 16 bits and keeps the last 256 for its own use.
_OVS_PORTS = 0xFF00

# Fields of which a rule may match some bits only. OpenFlow 1.3 leaves out the transport ports; Open vSwitch does not.
_MASKABLE = frozenset(
    {
        *("eth_dst", "eth_src", "vlan_vid", "ipv4_src", "ipv4_dst", "ipv6_src", "ipv6_dst", "arp_spa", "arp_tpa"),
        *("ipv6_nd_target", "tcp_src", "tcp_dst", "udp_src", "udp_dst"),
    }
)
_IP = frozenset({ETH_IPV4, ETH_IPV6})
# Field -> the values of eth_type and of ip_proto it is defined for (OpenFlow 1.3.5, table 12).
_PREREQUISITES: dict[str, tuple[frozenset[int], int | None]] = {
    "ip_dscp": (_IP, None),
    "ip_ecn": (_IP, None),
    "ip_proto": (_IP, None),
    "ipv4_src": (frozenset({ETH_IPV4}), None),
    "ipv4_dst": (frozenset({ETH_IPV4}), None),
    "ipv6_src": (frozenset({ETH_IPV6}), None),
    "ipv6_dst": (frozenset({ETH_IPV6}), None),
    "tcp_src": (_IP, IP_TCP),
    "tcp_dst": (_IP, IP_TCP),
    "udp_src": (_IP, IP_UDP),
    "udp_dst": (_IP, IP_UDP),
    "icmpv4_type": (frozenset({ETH_IPV4}), IP_ICMP),
    "icmpv6_type": (frozenset({ETH_IPV6}), IP_ICMPV6),
    "icmpv6_code": (frozenset({ETH_IPV6}), IP_ICMPV6),
    "ipv6_nd_target": (frozenset({ETH_IPV6}), IP_ICMPV6),
    "arp_op": (frozenset({ETH_ARP}), None),
    "arp_spa": (frozenset({ETH_ARP}), None),
    "arp_tpa": (frozenset({ETH_ARP}), None),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a switch has room for; None is without limit."""

    tables: int = 254
    rules: int | None = None
    rules_per_table: int | None = None
    groups: int | None = None
    meters: int | None = None


def rule_error(rule: Rule, limits: Limits, groups: Collection[int], meters: Collection[int]) -> str | None:
    """Why the rule cannot stand whatever else the tables hold, or None."""
    if rule.table_id >= limits.tables:
        return BAD_TABLE
    if any(field.mask is not None and field.name not in _MASKABLE for field in rule.match):
        return BAD_MASK
    exact = {field.name: field.value for field in rule.match if field.mask is None}
    if not all(_defined(field.name, exact) for field in rule.match):
        return BAD_PREREQUISITE
    if rule.goto_table is not None and not rule.table_id < rule.goto_table < limits.tables:
        return BAD_GOTO
    for action in rule.actions:
        if isinstance(action, SetField) and not _settable(action.name, rule.match, exact):
            return INCONSISTENT
        if isinstance(action, DecrementTtl | SetTtl) and exact.get("eth_type") not in _IP:
            return INCONSISTENT
        if isinstance(action, Output) and _OVS_PORTS <= action.port_no < OFPP_IN_PORT:
            return BAD_OUT_PORT
    if any(isinstance(action, ToGroup) and action.group_id not in groups for action in rule.actions):
        return BAD_OUT_GROUP
    if rule.meter_id is not None and rule.meter_id not in meters:
        return INVALID_METER
    return None


def _defined(name: str, exact: dict[str, int]) -> bool:
    eth_types, ip_proto = _PREREQUISITES.get(name, (None, None))
    if eth_types is None:
        return True
    if name == "ipv6_nd_target" and exact.get("icmpv6_type") not in (SOLICITATION, ADVERTISEMENT):
        return False
    return exact.get("eth_type") in eth_types and (ip_proto is None or exact.get("ip_proto") == ip_proto)


def _settable(name: str, match: Match, exact: dict[str, int]) -> bool:
    if name == "vlan_vid":
        # There must be a tag to write to: either any tag (masked) or a certain one.
        return any(field.name == "vlan_vid" and field.value for field in match)
    return _defined(name, exact)


def group_error(group: Group) -> str | None:
    """Why the group is malformed, or None. Groups named by buckets need not exist, as in Open vSwitch."""
    if group.kind is GroupKind.INDIRECT and len(group.buckets) != 1:
        return INVALID_GROUP
    for bucket in group.buckets:
        if bucket.weight and group.kind is not GroupKind.SELECT:
            return INVALID_GROUP
        if group.kind is GroupKind.FAST_FAILOVER and bucket.watch_port == OFPP_ANY:
            return INVALID_GROUP
        if group.kind in (GroupKind.ALL, GroupKind.INDIRECT) and bucket.watch_port != OFPP_ANY:
            return WATCH_UNSUPPORTED
    return None
