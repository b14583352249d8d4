"""What every switch should hold: a pure function of the fabric, the placed flows and the traffic classes.

Tables: guard (punt discovery and ARP), classify (class to queue and mark), steer (announced flows to their path, see
`steering`), route (everything else by ECMP over live links, and round dead ones, see `detour`). Steering never
replaces routing: a flow whose rule is
missing is still delivered. How a switch gets from what it holds to this is decided in `diff`.
"""

import ipaddress
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from controller.fabric import ndp
from controller.fabric.arp import ETHERTYPE_ARP as _ARP
from controller.fabric.arp import PROBE_MAC
from controller.fabric.beacon import ETHERTYPE_LLDP as _LLDP
from controller.fabric.model import FabricView, PortRef
from controller.pipeline.cookies import Kind, cookie
from controller.pipeline.detour import Detours, SwitchDetours
from controller.pipeline.groups import GroupAllocator, bundle_over, weighted_ports
from controller.pipeline.neighbourhood import Neighbourhood
from controller.pipeline.prefixes import blocks
from controller.pipeline.rules import (
    OFPP_CONTROLLER,
    WHOLE_PACKET,
    Action,
    Bucket,
    Group,
    GroupKind,
    Match,
    Meter,
    Output,
    Rule,
    SetField,
    SetQueue,
    SwitchTables,
    ToGroup,
    match,
)
from controller.pipeline.steering import ROCE_PORT, ROCE_V1_ETHERTYPE
from controller.pipeline.tables import CLASSIFY, GUARD, ROUTE, STEER, checked
from controller.qos.classes import ClassSettings, QosSettings, TrafficClass

_IPV4, _IPV6 = 0x0800, 0x86DD
_UDP = 17
_PUNT_METER = 1
# One packet a second tells that there is such traffic; it comes at line rate and must not crowd out questions.
_ROCE_V1_METER = 2
# IP version -> a mask that covers the whole address.
_WHOLE = {4: (1 << 32) - 1, 6: (1 << 128) - 1}


@dataclass(slots=True)
class _Tables:
    rules: list[Rule] = field(default_factory=list)
    groups: dict[int, Group] = field(default_factory=dict)
    meters: set[Meter] = field(default_factory=set)

    def add(self, more: SwitchTables) -> None:
        self.rules += more.rules
        self.groups |= {group.group_id: group for group in more.groups}

    def freeze(self) -> SwitchTables:
        return SwitchTables(frozenset(self.rules), frozenset(self.groups.values()), frozenset(self.meters))


def compile_base(
    view: FabricView,
    qos: QosSettings,
    punt_packets_per_second: int,
    by_prefix: Collection[int] = (),
    unspread: Collection[int] = (),
    without_detours: Collection[int] = (),
    last_resort: FabricView | None = None,
) -> dict[int, SwitchTables]:
    """Everything but steering, for every connected switch.

    Switches in `by_prefix` are short of rules and hold prefixes of other leaves' hosts instead of each host; those in
    `unspread` are short of groups and send all that is bound for a leaf over one link. Those in either have no room for
    detours, nor have those in `without_detours`. `last_resort` is the view with the links that are to be avoided.
    """
    near = Neighbourhood.of(view, last_resort)
    detours = Detours.of(near)
    short = {*by_prefix, *unspread, *without_detours}
    result = {}
    for dpid, switch in view.switches.items():
        if not switch.connected:
            continue
        tables = _Tables()
        tables.meters.add(Meter(_PUNT_METER, punt_packets_per_second, punt_packets_per_second))
        tables.meters.add(Meter(_ROCE_V1_METER, 1, 1))
        tables.rules += _guard_rules()
        tables.rules += _classify_rules(qos)
        tables.rules.append(checked(Rule(STEER.table_id, 0, (), cookie(Kind.ROUTE), goto_table=ROUTE.table_id)))
        round_failures = None if dpid in short else SwitchDetours(detours, dpid)
        _add_routes(tables, dpid, near, dpid in by_prefix, dpid not in unspread, round_failures)
        result[dpid] = tables.freeze()
    return result


def merged(base: Mapping[int, SwitchTables], steering: Mapping[int, SwitchTables]) -> dict[int, SwitchTables]:
    """Steering on top of the base; a switch that is not connected has no base and is left out."""
    # Where nothing is steered the very same tables stay, and nobody needs to compare them.
    return {dpid: b if (s := steering.get(dpid)) is None else _together(b, s) for dpid, b in base.items()}


def _together(a: SwitchTables, b: SwitchTables) -> SwitchTables:
    return SwitchTables(a.rules | b.rules, a.groups | b.groups, a.meters | b.meters)


# A question about an IPv6 address goes to the group of all whose addresses end alike (RFC 4291, 2.7.1).
_SOLICITATION: dict[str, int | tuple[int, int]] = {
    "eth_type": _IPV6,
    "ip_proto": ndp.ICMPV6,
    "icmpv6_type": ndp.SOLICITATION,
    "eth_dst": (0x3333FF000000, 0xFFFFFF000000),
}
_TO_US = (Output(OFPP_CONTROLLER, WHOLE_PACKET),)
# What discovery rests on.
BEACON_PUNT = checked(Rule(GUARD.table_id, 1000, match(eth_type=_LLDP), cookie(Kind.GUARD), _TO_US))


# The same on every switch and in every compilation; sharing the rules makes comparing them cheap as well.
@lru_cache(maxsize=1)
def _guard_rules() -> tuple[Rule, ...]:
    punt, ours = _TO_US, cookie(Kind.GUARD)
    # Bridge-filtered multicast (IEEE 802.1Q, table 8-1) never leaves the link it was sent on.
    link_local = match(eth_dst=(0x0180C2000000, 0xFFFFFFFFFFF0))
    answers_to_us = match(eth_type=_ARP, eth_dst=int(PROBE_MAC.replace(":", ""), 16))
    questions_to_all = match(eth_type=_ARP, eth_dst=0xFFFFFFFFFFFF)
    answers_to_us_v6 = match(eth_type=_IPV6, eth_dst=int(PROBE_MAC.replace(":", ""), 16))
    icmpv6: dict[str, int | tuple[int, int]] = {"eth_type": _IPV6, "ip_proto": ndp.ICMPV6}
    solicitations = match(**_SOLICITATION)
    advertisements = match(**icmpv6, icmpv6_type=ndp.ADVERTISEMENT, eth_dst=0x333300000001)
    return (
        BEACON_PUNT,
        checked(Rule(GUARD.table_id, 900, answers_to_us, ours, punt, meter_id=_PUNT_METER)),
        # The controller learns from every question; the one who is asked gets it as well (and nobody else), so that
        # hosts find one another while no controller answers.
        checked(Rule(GUARD.table_id, 900, questions_to_all, ours, punt, ROUTE.table_id, _PUNT_METER)),
        # The same of IPv6: questions go to all whose addresses end alike, unasked words to all.
        checked(Rule(GUARD.table_id, 900, answers_to_us_v6, ours, punt, meter_id=_PUNT_METER)),
        checked(Rule(GUARD.table_id, 900, solicitations, ours, punt, ROUTE.table_id, _PUNT_METER)),
        checked(Rule(GUARD.table_id, 900, advertisements, ours, punt, meter_id=_PUNT_METER)),
        # A neighbour that is known is confirmed by unicast.
        checked(Rule(GUARD.table_id, 850, match(eth_type=_ARP), ours, goto_table=ROUTE.table_id)),
        checked(Rule(GUARD.table_id, 800, link_local, ours)),
        # RoCEv1 has no IP header: it is not routed, and somebody should hear of it.
        checked(Rule(GUARD.table_id, 700, match(eth_type=ROCE_V1_ETHERTYPE), ours, punt, meter_id=_ROCE_V1_METER)),
        checked(Rule(GUARD.table_id, 0, (), ours, goto_table=CLASSIFY.table_id)),
    )


@lru_cache(maxsize=8)
def _classify_rules(qos: QosSettings) -> tuple[Rule, ...]:
    ours = cookie(Kind.CLASSIFY)

    def rule(priority: int, matched: Match, actions: tuple[Action, ...] = ()) -> Rule:
        return checked(Rule(CLASSIFY.table_id, priority, matched, ours, actions, goto_table=STEER.table_id))

    rules = [rule(0, ())]
    if not qos.enabled:
        return tuple(rules)
    control, collective = qos.of(TrafficClass.CONTROL), qos.of(TrafficClass.COLLECTIVE)
    best_effort = qos.of(TrafficClass.BEST_EFFORT)
    for eth_type in (_IPV4, _IPV6):
        roce: dict[str, int | tuple[int, int]] = {"eth_type": eth_type, "ip_proto": _UDP, "udp_dst": ROCE_PORT}
        rules += [rule(300, match(**roce, ip_dscp=dscp), _into(control)) for dscp in qos.control_dscps]
        rules.append(rule(200, match(**roce), _into(collective)))
        # A mark alone does not jump the queue: what is not RoCEv2 loses a mark that only we give.
        ours_alone = sorted({control.dscp, collective.dscp} - {best_effort.dscp})
        rules += [rule(150, match(eth_type=eth_type, ip_dscp=dscp), _into(best_effort)) for dscp in ours_alone]
        rules.append(rule(100, match(eth_type=eth_type), (SetQueue(best_effort.queue_id),)))
    return tuple(rules)


def _into(settings: ClassSettings) -> tuple[Action, ...]:
    return (SetField("ip_dscp", settings.dscp), SetQueue(settings.queue_id))


def _add_routes(
    tables: _Tables, dpid: int, near: Neighbourhood, by_prefix: bool, spread: bool, detours: SwitchDetours | None
) -> None:
    for host in near.hosts_of.get(dpid, ()):
        for version, address in _numbers(host.addresses):
            tables.rules += _routes(300, _destinations(version, address), (Output(host.port.port_no),))
    # What comes down from above and is not for anything below must not go up again: that could circle. A packet on a
    # detour may, since its bounces are counted.
    from_above = near.from_above(dpid)
    for port in from_above:
        tables.rules += _routes(200, (match(in_port=port),), ())
    below = near.below(dpid)
    way_to: dict[int, tuple[Action, ...]] = {}
    # Most leaves are reached by the same ports.
    alike: dict[tuple[int, ...], tuple[Action, ...]] = {}
    for leaf in near.hosts_of.keys() - {dpid}:
        ports = near.choices(dpid, leaf)
        if not spread:
            way_to[leaf] = _towards(tables, dpid, ports, near, leaf)
            continue
        if ports not in alike:
            alike[ports] = _towards(tables, dpid, ports, near, None)
        way_to[leaf] = alike[ports]
    if detours is not None:
        way_to = {leaf: detours.guard(leaf, way) for leaf, way in way_to.items()}
        tables.add(detours.freeze())
    for version, value, mask, leaf in _elsewhere(dpid, near, by_prefix):
        if way_to[leaf]:
            matches = _destinations(version, value, mask, near.view.switches[dpid].nicira)
            tables.rules += _routes(250 if from_above and leaf in below else 100, matches, way_to[leaf])


# A failure changes few of a fabric's routes, and the very same rules are found equal without a look at them.
@lru_cache(maxsize=1 << 17)
def _routes(priority: int, matches: tuple[Match, ...], actions: tuple[Action, ...]) -> tuple[Rule, ...]:
    ours = cookie(Kind.ROUTE)
    return tuple(checked(Rule(ROUTE.table_id, priority, matched, ours, actions)) for matched in matches)


def _elsewhere(dpid: int, near: Neighbourhood, by_prefix: bool) -> Iterator[tuple[int, int, int, int]]:
    """(IP version, value, mask, leaf) of everything that is attached to another leaf: hosts, or prefixes of them.

    Host routes are the rule, since they change with their own host alone; prefixes change with their neighbours.
    """
    of_version: dict[int, dict[int, int]] = {4: {}, 6: {}}
    for leaf, hosts in near.hosts_of.items():
        for host in hosts:
            for version, address in _numbers(host.addresses):
                of_version[version][address] = leaf
    for version, leaf_of in of_version.items():
        if by_prefix:
            meaning = {address: leaf if leaf != dpid else None for address, leaf in leaf_of.items()}
            for block in blocks(meaning, _WHOLE[version].bit_length()):
                yield version, block.value, block.mask, block.meaning
        else:
            yield from ((version, a, _WHOLE[version], leaf) for a, leaf in leaf_of.items() if leaf != dpid)


@lru_cache(maxsize=1 << 16)
def _numbers(addresses: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """(IP version, value) of each. Every switch asks for every host's."""
    return tuple((address.version, int(address)) for address in map(ipaddress.ip_address, addresses))


@lru_cache(maxsize=1 << 16)
def _destinations(version: int, value: int, mask: int | None = None, any_mask: bool = False) -> tuple[Match, ...]:
    """What matches packets for the addresses, and what matches questions about them. OpenFlow 1.3 matches whole targets
    of IPv6 questions only; Open vSwitch takes `any_mask`."""
    mask = _WHOLE[version] if mask is None else mask
    if version == 6:
        packets = match(eth_type=_IPV6, ipv6_dst=(value, mask))
        asked = any_mask or mask == _WHOLE[version]
        return (packets, match(**_SOLICITATION, ipv6_nd_target=(value, mask))) if asked else (packets,)
    return match(eth_type=_IPV4, ipv4_dst=(value, mask)), match(eth_type=_ARP, arp_tpa=(value, mask))


def _towards(
    tables: _Tables, dpid: int, ports: tuple[int, ...], near: Neighbourhood, over_one_link_to: int | None
) -> tuple[Action, ...]:
    """ECMP over `ports`, weighted by capacity; or one of them, another for each leaf."""
    if len(ports) <= 1:
        return tuple(Output(p) for p in ports)
    if near.view.switches[dpid].nicira:
        return (bundle_over(dpid, ports, near.capacity),)
    members = weighted_ports({p: near.capacity[PortRef(dpid, p)] for p in ports})
    if over_one_link_to is not None:
        return (Output(members[(dpid + over_one_link_to) % len(members)]),)
    buckets = tuple(Bucket((Output(p),), weight=members.count(p), watch_port=p) for p in ports)
    group_id = GroupAllocator.select_id(ports)
    tables.groups[group_id] = Group(group_id, GroupKind.SELECT, buckets)
    return (ToGroup(group_id),)
