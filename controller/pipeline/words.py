"""Rules, actions and packets in words, for people who read a trace or a difference. It decides nothing about them."""

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address

from controller.fabric.ndp import SOLICITATION
from controller.pipeline.cookies import Kind, is_ours, kind_of
from controller.pipeline.marks import mark_words
from controller.pipeline.packet import (
    BROADCAST_MAC,
    ETH_ARP,
    ETH_IPV4,
    ETH_IPV6,
    ETH_LLDP,
    IP_ICMP,
    IP_ICMPV6,
    IP_TCP,
    IP_UDP,
    ROCE_PORT,
    mac_text,
)
from controller.pipeline.rules import (
    FIELD_BITS,
    OFPP_ANY,
    OFPP_CONTROLLER,
    OFPP_IN_PORT,
    Action,
    Bucket,
    Bundle,
    DecrementTtl,
    Group,
    Match,
    MatchField,
    Meter,
    Output,
    Rule,
    SetField,
    SetQueue,
    SetTtl,
    ToGroup,
)
from controller.pipeline.tables import TABLES

FOREIGN = "foreign"
_ADDRESSES = frozenset({"ipv4_src", "ipv4_dst", "ipv6_src", "ipv6_dst", "arp_spa", "arp_tpa", "ipv6_nd_target"})
_ETHERTYPES = {ETH_IPV4: "IPv4", ETH_IPV6: "IPv6", ETH_ARP: "ARP", ETH_LLDP: "LLDP"}
_PROTOCOLS = {IP_UDP: "UDP", IP_TCP: "TCP", IP_ICMP: "ICMP", IP_ICMPV6: "ICMPv6"}
# In the order in which they are said; "{}" is the value. Those of the second kind follow a comma.
_ENDS = {
    "eth_src": "from MAC {}",
    "eth_dst": "to MAC {}",
    "vlan_vid": "in VLAN {}",
    "ipv4_src": "from {}",
    "ipv6_src": "from {}",
    "ipv4_dst": "to {}",
    "ipv6_dst": "to {}",
    "arp_spa": "from {}",
    "arp_tpa": "for {}",
    "ipv6_nd_target": "for {}",
}
_DETAILS = {
    "udp_src": "UDP source port {}",
    "udp_dst": "UDP port {}",
    "tcp_src": "TCP source port {}",
    "tcp_dst": "TCP port {}",
    "ip_dscp": "DSCP {}",
    "ip_ecn": "ECN {}",
    "in_port": "in by port {}",
}


def table_name(table_id: int) -> str:
    """Of our pipeline; a table that only others use has but a number."""
    return TABLES[table_id].name if table_id in TABLES else f"table {table_id}"


def cookie_kind(cookie: int) -> str:
    """ "guard", "steer", ...; "foreign" when the rule is not ours."""
    if not is_ours(cookie):
        return FOREIGN
    try:
        return Kind(kind_of(cookie)).name.lower()
    except ValueError:
        return f"kind {kind_of(cookie)}"


def value_text(name: str, value: int) -> str:
    """A field's value in its usual spelling."""
    if name in ("eth_src", "eth_dst", "arp_sha", "arp_tha"):
        return mac_text(value)
    if name in ("ipv4_src", "ipv4_dst", "arp_spa", "arp_tpa"):
        return str(IPv4Address(value))
    if name in ("ipv6_src", "ipv6_dst", "ipv6_nd_target"):
        return str(IPv6Address(value))
    return f"{value:#06x}" if name == "eth_type" else str(value)


def prefix_mask(bits: int, length: int) -> int:
    """A mask of `length` leading ones in a field of `bits`."""
    return (1 << bits) - (1 << bits - length)


def field_text(field: MatchField) -> str:
    """ "ipv4_dst=10.0.2.1", with "/24" or "/mask" where the mask is not whole."""
    return f"{field.name}={_value_and_mask(field)}"


def _value_and_mask(field: MatchField) -> str:
    value = value_text(field.name, field.value)
    if field.mask is None:
        return value
    length = field.mask.bit_count()
    if field.name in _ADDRESSES and field.mask == prefix_mask(FIELD_BITS[field.name], length):
        return f"{value}/{length}"
    return f"{value}/{value_text(field.name, field.mask)}"


def match_words(match: Match) -> str:
    """ "RoCEv2 over IPv4 from 10.0.1.1 to 10.0.2.1"; "every packet" when nothing is asked for."""
    left = {field.name: field for field in match}
    said = _protocol(left)
    if not said:
        said = ["every packet" if not left else "packets"]
    broadcast = left.get("eth_dst")
    if broadcast == MatchField("eth_dst", BROADCAST_MAC):
        said.append("to all")
        del left["eth_dst"]
    source = left.get("eth_src")
    if source is not None and (marked := mark_words(source.value, source.mask)) is not None:
        said.append(marked)
        del left["eth_src"]
    said += [phrase.format(_value_and_mask(left.pop(name))) for name, phrase in _ENDS.items() if name in left]
    details = [phrase.format(_value_and_mask(left.pop(name))) for name, phrase in _DETAILS.items() if name in left]
    # A field that only others match on keeps its name.
    details += [field_text(field) for field in left.values()]
    return ", ".join([" ".join(said), *details])


def _protocol(left: dict[str, MatchField]) -> list[str]:
    """The protocol's name; the fields that it says are taken out of `left`."""

    def exact(name: str) -> int | None:
        field = left.get(name)
        return field.value if field is not None and field.mask is None else None

    ethertype = exact("eth_type")
    if ethertype is None:
        return []
    del left["eth_type"]
    below = _ETHERTYPES.get(ethertype, f"Ethernet type {ethertype:#06x}")
    protocol = exact("ip_proto")
    if protocol is None:
        return [below]
    del left["ip_proto"]
    if protocol == IP_ICMPV6 and exact("icmpv6_type") == SOLICITATION:
        del left["icmpv6_type"]
        # The groups to which such questions go say nothing more.
        left.pop("eth_dst", None)
        return ["IPv6 neighbour solicitation"]
    if protocol == IP_UDP and exact("udp_dst") == ROCE_PORT:
        del left["udp_dst"]
        return [f"RoCEv2 over {below}"]
    return [f"{_PROTOCOLS.get(protocol, f'protocol {protocol}')} over {below}"]


def packet_words(headers: Mapping[str, int]) -> str:
    """A packet in the words of a match, with its DSCP and TTL."""
    named = ("eth_type", "ip_proto", "ipv4_src", "ipv4_dst", "ipv6_src", "ipv6_dst", "udp_src", "udp_dst", "ip_dscp")
    return match_words(tuple(MatchField(name, headers[name]) for name in named if name in headers))


def action_words(action: Action, port_words: Callable[[int], str]) -> str:
    """`port_words` says where a port leads."""
    match action:
        case Output(port_no):
            if port_no == OFPP_IN_PORT:
                return "back where it came in"
            return "to the controller" if port_no == OFPP_CONTROLLER else f"to {port_words(port_no)}"
        case ToGroup(group_id):
            return f"group {group_id:#x}"
        case SetQueue(queue_id):
            return f"queue {queue_id}"
        case SetField("ip_dscp", value):
            return f"DSCP {value}"
        case SetField("eth_src", value) if (words := mark_words(value)) is not None:
            return f"mark as {words}"
        case SetField(name, value):
            return f"set {name} to {value_text(name, value)}"
        case SetTtl(ttl):
            return f"TTL {ttl}"
        case DecrementTtl():
            return "decrement TTL"
        case Bundle(ports):
            distinct = tuple(dict.fromkeys(ports))
            return f"hash over ports {', '.join(map(str, distinct))}"


def rule_words(rule: Rule, port_words: Callable[[int], str]) -> str:
    """ "priority 100, IPv4 to 10.0.2.1: to port 2 (leaf2)"; the cookie only where it is not ours."""
    does = [action_words(action, port_words) for action in rule.actions]
    if rule.meter_id is not None:
        does.insert(0, f"meter {rule.meter_id}")
    if rule.goto_table is not None:
        does.append(f"go to {table_name(rule.goto_table)}")
    cookie = "" if is_ours(rule.cookie) else f", cookie {rule.cookie:#x}"
    return f"priority {rule.priority}, {match_words(rule.match)}: {', '.join(does) or 'drop'}{cookie}"


def group_words(group: Group, port_words: Callable[[int], str]) -> str:
    """ "group 0x10000001, fast_failover: to port 1 (spine1) | to port 2 (spine2)"."""
    weights = [f" (weight {bucket.weight})" if bucket.weight else "" for bucket in group.buckets]
    said = [bucket_words(bucket, port_words) for bucket in group.buckets]
    buckets = " | ".join(words + weight for words, weight in zip(said, weights, strict=True))
    return f"group {group.group_id:#x}, {group.kind}: {buckets or 'no buckets'}"


def bucket_words(bucket: Bucket, port_words: Callable[[int], str]) -> str:
    """What it does; the port that it watches only where it sends to another."""
    said = [action_words(action, port_words) for action in bucket.actions] or ["drop"]
    if bucket.watch_port != OFPP_ANY and Output(bucket.watch_port) not in bucket.actions:
        said.append(f"while port {bucket.watch_port} is up")
    return ", ".join(said)


def meter_words(meter: Meter) -> str:
    return f"meter {meter.meter_id}: {meter.packets_per_second} packets/s, burst {meter.burst_packets}"
