"""What the model and Open vSwitch are compared with: packets, a pipeline like ours, and pipelines at random."""

from random import Random

from controller.fabric.ndp import SOLICITATION, encode_question
from controller.pipeline.packet import (
    ARP_REQUEST,
    BROADCAST_MAC,
    ETH_ARP,
    ETH_IPV4,
    ETH_IPV6,
    ETH_LLDP,
    IP_ICMPV6,
    IP_UDP,
    VLAN_PRESENT,
    Packet,
    arp,
    icmp_echo,
    ip_value,
    tcp,
    udp,
)
from controller.pipeline.rules import (
    OFPP_CONTROLLER,
    OFPP_IN_PORT,
    WHOLE_PACKET,
    Action,
    Bucket,
    Bundle,
    DecrementTtl,
    Group,
    GroupKind,
    Match,
    Meter,
    Output,
    Rule,
    SetField,
    SetQueue,
    SetTtl,
    ToGroup,
    match,
)
from controller.simulation.frame import decode
from tests.openvswitch.model_pair import PORTS

# --- packets ----------------------------------------------------------------------------------------------

MACS = [f"02:00:00:00:01:{i:02x}" for i in range(1, 5)]
V4 = [f"10.0.{leaf}.{host}" for leaf in (1, 2) for host in (1, 2, 17)]
V6 = [f"fd00::{leaf}:{host}" for leaf in (1, 2) for host in (1, 17)]
UDP_PORTS = (0, 49152, 50001, 65535)
DSCPS = (0, 10, 26, 46, 48)
ECNS = range(3)


def some_packet(random: Random) -> Packet:
    """One of the kinds of packets a fabric carries, with values from small pools so that rules are hit."""
    choose = random.choice
    source_mac, destination_mac = random.sample(MACS, 2)
    family = choose((V4, V4, V4, V6))
    source, destination = random.sample(family, 2)
    ends = (source, destination, source_mac, destination_mac)
    ttl = choose((1, 2, 64, 64, 64))
    kind = random.random()
    if kind < 0.6:
        return udp(*ends, choose(UDP_PORTS), choose((4791, 53)), dscp=choose(DSCPS), ecn=choose(ECNS), ttl=ttl)
    if kind < 0.75:
        return tcp(*ends, choose(UDP_PORTS), 22, dscp=choose(DSCPS), ttl=ttl)
    if kind < 0.85:
        return icmp_echo(*ends)
    if kind < 0.9:
        return decode(encode_question(choose(V6)))
    if kind < 0.95:
        return arp(ARP_REQUEST, int(source_mac.replace(":", ""), 16), ip_value(choose(V4)), 0, ip_value(choose(V4)))
    return Packet({"eth_dst": 0x0180C200000E, "eth_src": 0x020000000101, "eth_type": ETH_LLDP}, b"beacon")


# --- a pipeline like ours ---------------------------------------------------------------------------------

DOWN_PORT = 2


def fabric_like() -> tuple[list[Rule], list[Group], list[Meter]]:
    """A leaf by hand: guard, classes, steering by 5-tuple, routes by prefix, with every kind of group."""
    alternates = (Bucket((Output(1),), watch_port=1), Bucket((Output(2),), watch_port=2))
    groups = [
        Group(1, GroupKind.FAST_FAILOVER, alternates),
        Group(2, GroupKind.FAST_FAILOVER, alternates[::-1]),
        Group(3, GroupKind.FAST_FAILOVER, (Bucket((SetTtl(4), Output(3)), watch_port=3),)),
        Group(4, GroupKind.ALL, (Bucket((Output(3),)), Bucket((SetField("ip_dscp", 10), Output(4))))),
        Group(5, GroupKind.INDIRECT, (Bucket((DecrementTtl(), ToGroup(1))),)),
        Group(6, GroupKind.SELECT, (Bucket((Output(1),), weight=1), Bucket((Output(3),), weight=3))),
        # An action set: decremented first, then set; the last output counts.
        Group(7, GroupKind.INDIRECT, (Bucket((Output(1), SetTtl(9), Output(4), DecrementTtl())),)),
        Group(8, GroupKind.INDIRECT, (Bucket((Output(1), ToGroup(2), Output(4))),)),
        Group(9, GroupKind.INDIRECT, (Bucket((Bundle((1, 3), 0, 3),)),)),
    ]
    punt = Output(OFPP_CONTROLLER, WHOLE_PACKET)
    v4, v6 = {"eth_type": ETH_IPV4}, {"eth_type": ETH_IPV6}
    roce = {**v4, "ip_proto": IP_UDP, "udp_dst": 4791}
    asks = {**v6, "ip_proto": IP_ICMPV6, "icmpv6_type": SOLICITATION}

    def to(host: str) -> Match:
        return match(**v4, ipv4_dst=ip_value(host))

    def net(text: str, bits: int) -> tuple[int, int]:
        return ip_value(text), (1 << 32) - (1 << 32 - bits)

    rules = [
        Rule(0, 100, match(eth_type=ETH_LLDP), 0x11, (punt,)),
        Rule(0, 90, match(eth_type=ETH_ARP), 0x11, (punt,), meter_id=1),
        Rule(0, 89, match(**asks, eth_dst=(0x3333FF000000, 0xFFFFFF000000)), 0x11, (punt,), 3, 1),
        Rule(0, 0, match(), 0x11, goto_table=1),
        Rule(1, 50, match(**v4, ip_proto=IP_UDP, udp_dst=4791, ip_dscp=48), 0x12, (SetQueue(3),), goto_table=2),
        Rule(1, 40, match(**roce), 0x12, (SetQueue(2), SetField("ip_dscp", 26)), goto_table=2),
        Rule(1, 30, match(**v6, ip_proto=IP_UDP, udp_dst=4791), 0x12, (SetField("ip_dscp", 26),), goto_table=2),
        Rule(1, 0, match(), 0x12, goto_table=2),
        Rule(2, 70, match(**roce, ipv4_dst=ip_value(V4[3]), udp_src=49152), 0x13, (ToGroup(1),)),
        Rule(2, 69, match(**roce, ipv4_dst=ip_value(V4[3]), udp_src=50001), 0x13, (ToGroup(2),)),
        Rule(2, 68, match(**roce, ipv4_dst=ip_value(V4[4])), 0x13, (ToGroup(5),)),
        Rule(2, 60, match(**roce, ipv4_dst=ip_value(V4[5]), ip_ecn=1), 0x13, (ToGroup(4), Output(5))),
        Rule(2, 59, match(**roce, ipv4_dst=ip_value(V4[5]), ip_ecn=2), 0x13, (ToGroup(3), Output(5))),
        Rule(2, 0, match(), 0x13, goto_table=3),
        Rule(3, 90, match(in_port=3, **v4, ipv4_dst=net("10.0.2.0", 24)), 0x14, (DecrementTtl(), ToGroup(7))),
        Rule(3, 89, match(in_port=4, **v4, ipv4_dst=net("10.0.2.0", 24)), 0x14, (ToGroup(8), Output(6))),
        Rule(3, 88, match(in_port=5, **v4, ipv4_dst=net("10.0.2.0", 24)), 0x14, (ToGroup(9),)),
        Rule(3, 80, to(V4[0]), 0x14, (SetField("eth_dst", 0x020000000104), Output(4))),
        Rule(3, 79, to(V4[1]), 0x14, (DecrementTtl(), Output(5))),
        Rule(3, 70, match(**v4, ipv4_dst=net("10.0.2.0", 24)), 0x14, (Output(1), Output(1), Output(6))),
        Rule(3, 60, match(**v6, ipv6_dst=(ip_value("fd00::2:0"), 0xFFFF << 16)), 0x14, (DecrementTtl(), Output(6))),
        Rule(3, 51, match(**asks, ipv6_nd_target=ip_value(V6[0])), 0x14, (Output(4),)),
        Rule(3, 50, match(eth_dst=BROADCAST_MAC), 0x14, ()),
        Rule(3, 49, match(**asks, ipv6_nd_target=(ip_value("fd00::2:0"), 0xFFFF << 16)), 0x14, (Output(6),)),
    ]
    return rules, groups, [Meter(1, 500, 100)]


# --- random pipelines in our vocabulary -------------------------------------------------------------------


class RandomPipeline:
    """Rules and groups at random. Priorities differ within a table, so that every packet has one right fate."""

    def __init__(self, random: Random, *, hashes: bool) -> None:
        self._random = random
        self._hashes = hashes
        self.groups = [self._group(group_id) for group_id in range(1, 9)]
        self.rules = [self._rule(table, 1 + p) for table in range(4) for p in range(random.randrange(4, 14))]
        # Without a way on, most packets would never see the later tables.
        self.rules += [Rule(table, 0, (), 0, goto_table=table + 1) for table in range(3)]

    def _group(self, group_id: int) -> Group:
        kinds = [GroupKind.ALL, GroupKind.INDIRECT, GroupKind.FAST_FAILOVER] + [GroupKind.SELECT] * self._hashes
        kind = self._random.choice(kinds)
        count = 1 if kind is GroupKind.INDIRECT else self._random.randrange(1, 4)
        return Group(group_id, kind, tuple(self._bucket(kind, group_id) for _ in range(count)))

    def _bucket(self, kind: GroupKind, group_id: int) -> Bucket:
        fewest = 0 if kind is GroupKind.FAST_FAILOVER else 1
        actions = [self._action(None, groups=range(1, group_id)) for _ in range(self._random.randrange(fewest, 4))]
        if kind is GroupKind.SELECT:
            return Bucket(tuple(actions), weight=self._random.randrange(1, 4))
        if kind is GroupKind.FAST_FAILOVER:
            return Bucket(tuple(actions), watch_port=self._random.choice(PORTS))
        return Bucket(tuple(actions))

    def _rule(self, table_id: int, priority: int) -> Rule:
        fields = self._fields()
        actions = [self._action(fields, groups=range(1, 9)) for _ in range(self._random.randrange(0, 4))]
        goto = self._random.choice((None, None, table_id + 1)) if table_id < 3 else None
        return Rule(table_id, priority, match(**fields), priority, tuple(actions), goto)

    def _fields(self) -> dict[str, int | tuple[int, int]]:
        """Some fields with their prerequisites."""
        choose, likely = self._random.choice, self._random.random
        fields: dict[str, int | tuple[int, int]] = {}
        if likely() < 0.3:
            fields["in_port"] = choose(PORTS)
        if likely() < 0.15:
            fields["eth_dst"] = int(choose(MACS).replace(":", ""), 16)
        if likely() < 0.1:
            fields["eth_src"] = (int(choose(MACS).replace(":", ""), 16), choose((0xFFFFFFFFFFFF, 0xFFFFFFFFFFFE)))
        if likely() < 0.1:
            fields["vlan_vid"] = choose((0, (VLAN_PRESENT, VLAN_PRESENT)))
        family = choose((None, 4, 4, 4, 6))
        if family is None:
            return fields if likely() < 0.5 else {**fields, "eth_type": choose((ETH_ARP, ETH_LLDP))}
        fields["eth_type"] = ETH_IPV4 if family == 4 else ETH_IPV6
        for end in ("src", "dst"):
            if likely() < 0.4:
                width, pool = (32, V4) if family == 4 else (128, V6)
                bits = choose((width, width, width - 8, width - 4))
                fields[f"ipv{family}_{end}"] = (ip_value(choose(pool)), (1 << width) - (1 << width - bits))
        if likely() < 0.2:
            fields["ip_dscp"] = choose(DSCPS)
        if likely() < 0.1:
            fields["ip_ecn"] = choose(ECNS)
        if likely() < 0.5:
            fields["ip_proto"] = IP_UDP
            if likely() < 0.6:
                fields["udp_dst"] = 4791
            if likely() < 0.5:
                fields["udp_src"] = choose((*UDP_PORTS, (1, 1), (0, 1)))
        return fields

    def _action(self, fields: dict[str, int | tuple[int, int]] | None, groups: range) -> Action:
        """`fields` None: in a bucket, where nothing is checked against a match."""
        choose = self._random.choice
        kinds = ["output", "output", "output", "queue", "mac"]
        if fields is None or "ip_dscp" in fields or fields.get("eth_type") in (ETH_IPV4, ETH_IPV6):
            kinds += ["dscp", "decrement", "ttl"]
        if groups:
            kinds += ["group", "group"]
        if self._hashes:
            kinds.append("bundle")
        match choose(kinds):
            case "output":
                return Output(choose((*PORTS, *PORTS, *PORTS, 77, OFPP_IN_PORT)))
            case "queue":
                return SetQueue(choose(range(4)))
            case "mac":
                return SetField(choose(("eth_src", "eth_dst")), int(choose(MACS).replace(":", ""), 16))
            case "dscp":
                return SetField("ip_dscp", choose(DSCPS))
            case "decrement":
                return DecrementTtl()
            case "ttl":
                return SetTtl(choose((1, 3, 64)))
            case "group":
                return ToGroup(choose(groups))
            case _:
                return Bundle(tuple(self._random.choices(PORTS, k=3)), choose(range(9)), 3)
