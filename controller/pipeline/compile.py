"""What every switch should hold: a pure function of the fabric, the placed flows and the traffic classes.

Tables: guard (punt discovery and ARP), classify (class to queue and mark), steer (announced flows to their path),
route (everything else by ECMP over live links). Steering never replaces routing: a flow whose rule is missing is
still delivered. How a switch gets from what it holds to this is decided in `diff`.
"""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.fabric.arp import ETHERTYPE_ARP as _ARP
from controller.fabric.arp import PROBE_MAC
from controller.fabric.beacon import ETHERTYPE_LLDP as _LLDP
from controller.fabric.model import FabricView, Host, Path, PortRef, Role
from controller.pipeline.cookies import Kind, cookie
from controller.pipeline.groups import GroupAllocator, failover_group, spread, weighted_ports
from controller.pipeline.rules import (
    OFPP_CONTROLLER,
    WHOLE_PACKET,
    Action,
    Bucket,
    Bundle,
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
from controller.pipeline.tables import CLASSIFY, GUARD, ROUTE, STEER, checked
from controller.qos.classes import ClassSettings, QosSettings, TrafficClass

ROCE_PORT = 4791
_IPV4, _IPV6 = 0x0800, 0x86DD
_UDP = 17
_PUNT_METER = 1


@dataclass(frozen=True, slots=True)
class SteeredFlow:
    """A flow with its path. `udp_source_port` 0: matched by addresses and the RoCEv2 port only."""

    src_address: str
    dst_address: str
    udp_source_port: int
    path: Path
    owner: str


@dataclass(slots=True)
class _Tables:
    rules: list[Rule] = field(default_factory=list)
    groups: dict[int, Group] = field(default_factory=dict)
    meters: set[Meter] = field(default_factory=set)

    def freeze(self) -> SwitchTables:
        return SwitchTables(frozenset(self.rules), frozenset(self.groups.values()), frozenset(self.meters))


@dataclass(frozen=True, slots=True)
class _Neighbourhood:
    """Live links by switch: `towards[dpid][neighbour]` are the local ports, sorted."""

    towards: Mapping[int, Mapping[int, tuple[int, ...]]]
    capacity: Mapping[PortRef, int]
    hosts_of: Mapping[int, tuple[Host, ...]]

    @classmethod
    def of(cls, view: FabricView) -> "_Neighbourhood":
        towards: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        capacity: dict[PortRef, int] = {}
        for link in view.links:
            for here, there in ((link.a, link.b), (link.b, link.a)):
                towards[here.dpid][there.dpid].append(here.port_no)
                capacity[here] = link.capacity_bps
        hosts: dict[int, list[Host]] = defaultdict(list)
        for host in view.hosts:
            hosts[host.port.dpid].append(host)
        sorted_ports = {d: {n: tuple(sorted(p)) for n, p in by.items()} for d, by in towards.items()}
        return cls(sorted_ports, capacity, {d: tuple(h) for d, h in hosts.items()})

    def uplinks_to(self, leaf: int, destination: int, view: FabricView) -> tuple[int, ...]:
        """Ports of `leaf` whose spine has a live link to leaf `destination`."""
        ports = [
            port
            for spine, local in self.towards.get(leaf, {}).items()
            if view.switches[spine].role == Role.SPINE and destination in self.towards.get(spine, {})
            for port in local
        ]
        return tuple(sorted(ports))


def compile_base(view: FabricView, qos: QosSettings, punt_packets_per_second: int) -> dict[int, SwitchTables]:
    """Everything but steering, for every connected switch."""
    near = _Neighbourhood.of(view)
    result = {}
    for dpid, switch in view.switches.items():
        if not switch.connected:
            continue
        tables = _Tables()
        tables.meters.add(Meter(_PUNT_METER, punt_packets_per_second, punt_packets_per_second))
        tables.rules += _guard_rules()
        tables.rules += _classify_rules(qos)
        tables.rules.append(checked(Rule(STEER.table_id, 0, (), cookie(Kind.ROUTE), goto_table=ROUTE.table_id)))
        _add_routes(tables, dpid, view, near)
        result[dpid] = tables.freeze()
    return result


def compile_steering(view: FabricView, flows: Iterable[SteeredFlow]) -> dict[int, SwitchTables]:
    """The steering rules and groups alone; a switch without any is left out.

    A flow is steered wherever it has a choice: at its leaf, and at a spine that has several links to the next leaf.
    """
    near = _Neighbourhood.of(view)
    owner_of = {PortRef(d, p): n for d, by in near.towards.items() for n, ports in by.items() for p in ports}
    allocators: dict[int, GroupAllocator] = defaultdict(GroupAllocator)
    wanted: list[tuple[int, Match, str, tuple[int, int]]] = []
    for flow in flows:
        destination = owner_of.get(flow.path[-1])
        if destination is None:
            # Its last link just died: until it is placed anew, routing carries it.
            continue
        matched = steer_match((flow.src_address, flow.dst_address, flow.udp_source_port))
        for hop in flow.path:
            if len(_choices(hop.dpid, destination, near, view)) > 1:
                key = (destination, hop.port_no)
                allocators[hop.dpid].want(key)
                wanted.append((hop.dpid, matched, flow.owner, key))
    result: dict[int, _Tables] = defaultdict(_Tables)
    numbers = {dpid: allocator.allocate() for dpid, allocator in allocators.items()}
    for dpid, ids in numbers.items():
        for (destination, port), group_id in ids.items():
            choices = _choices(dpid, destination, near, view)
            result[dpid].groups[group_id] = failover_group(group_id, spread(choices, port, destination))
    for dpid, matched, owner, key in wanted:
        priority = 200 if any(f.name == "udp_src" for f in matched) else 100
        actions = (ToGroup(numbers[dpid][key]),)
        rule = Rule(STEER.table_id, priority, matched, cookie(Kind.STEER, owner), actions)
        result[dpid].rules.append(checked(rule))
    return {dpid: tables.freeze() for dpid, tables in result.items()}


def merged(base: Mapping[int, SwitchTables], steering: Mapping[int, SwitchTables]) -> dict[int, SwitchTables]:
    """Steering on top of the base; a switch that is not connected has no base and is left out."""
    none = SwitchTables()
    return {
        dpid: SwitchTables(b.rules | (s := steering.get(dpid, none)).rules, b.groups | s.groups, b.meters | s.meters)
        for dpid, b in base.items()
    }


def _choices(here: int, destination: int, near: _Neighbourhood, view: FabricView) -> tuple[int, ...]:
    """The local ports by which a packet at switch `here` can reach leaf `destination`."""
    if view.switches[here].role == Role.SPINE:
        return near.towards.get(here, {}).get(destination, ())
    return near.uplinks_to(here, destination, view)


def steer_match(unit: tuple[str, str, int]) -> Match:
    """What tells a steerable unit (source address, destination address, UDP source port or 0) from others."""
    source, destination = ipaddress.ip_address(unit[0]), ipaddress.ip_address(unit[1])
    fields: dict[str, int | tuple[int, int]] = {"ip_proto": _UDP, "udp_dst": ROCE_PORT}
    if unit[2]:
        fields["udp_src"] = unit[2]
    version = "ipv4" if source.version == 4 else "ipv6"
    fields |= {"eth_type": _IPV4 if version == "ipv4" else _IPV6}
    fields |= {f"{version}_src": int(source), f"{version}_dst": int(destination)}
    return match(**fields)


def _guard_rules() -> list[Rule]:
    punt = (Output(OFPP_CONTROLLER, WHOLE_PACKET),)
    ours = cookie(Kind.GUARD)
    # Bridge-filtered multicast (IEEE 802.1Q, table 8-1) never leaves the link it was sent on.
    link_local = match(eth_dst=(0x0180C2000000, 0xFFFFFFFFFFF0))
    answers_to_us = match(eth_type=_ARP, eth_dst=int(PROBE_MAC.replace(":", ""), 16))
    questions_to_all = match(eth_type=_ARP, eth_dst=0xFFFFFFFFFFFF)
    return [
        checked(Rule(GUARD.table_id, 1000, match(eth_type=_LLDP), ours, punt)),
        checked(Rule(GUARD.table_id, 900, answers_to_us, ours, punt, meter_id=_PUNT_METER)),
        checked(Rule(GUARD.table_id, 900, questions_to_all, ours, punt, meter_id=_PUNT_METER)),
        # Hosts confirm a neighbour they know by unicast: that must work while no controller does.
        checked(Rule(GUARD.table_id, 850, match(eth_type=_ARP), ours, goto_table=ROUTE.table_id)),
        checked(Rule(GUARD.table_id, 800, link_local, ours)),
        checked(Rule(GUARD.table_id, 0, (), ours, goto_table=CLASSIFY.table_id)),
    ]


def _classify_rules(qos: QosSettings) -> list[Rule]:
    ours = cookie(Kind.CLASSIFY)

    def rule(priority: int, matched: Match, actions: tuple[Action, ...] = ()) -> Rule:
        return checked(Rule(CLASSIFY.table_id, priority, matched, ours, actions, goto_table=STEER.table_id))

    rules = [rule(0, ())]
    if not qos.enabled:
        return rules
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
    return rules


def _into(settings: ClassSettings) -> tuple[Action, ...]:
    return (SetField("ip_dscp", settings.dscp), SetQueue(settings.queue_id))


def _add_routes(tables: _Tables, dpid: int, view: FabricView, near: _Neighbourhood) -> None:
    ours = cookie(Kind.ROUTE)

    def route(priority: int, fields: dict[str, int | tuple[int, int]], actions: tuple[Action, ...]) -> None:
        tables.rules.append(checked(Rule(ROUTE.table_id, priority, match(**fields), ours, actions)))

    for host in near.hosts_of.get(dpid, ()):
        for fields in _destinations(host):
            route(300, fields, (Output(host.port.port_no),))
    is_leaf = view.switches[dpid].role == Role.LEAF
    if is_leaf:
        # What comes down from a spine and is not for a host here must not go up again: that could circle.
        for ports in near.towards.get(dpid, {}).values():
            for port in ports:
                route(200, {"in_port": port}, ())
    for leaf, hosts in near.hosts_of.items():
        if leaf == dpid:
            continue
        actions = _towards(tables, dpid, _choices(dpid, leaf, near, view), near, view)
        if not actions:
            continue
        for host in hosts:
            for fields in _destinations(host):
                route(100, fields, actions)


def _destinations(host: Host) -> list[dict[str, int | tuple[int, int]]]:
    result: list[dict[str, int | tuple[int, int]]] = []
    for text in host.addresses:
        address = ipaddress.ip_address(text)
        if address.version == 4:
            result.append({"eth_type": _IPV4, "ipv4_dst": int(address)})
            result.append({"eth_type": _ARP, "arp_tpa": int(address)})
        else:
            result.append({"eth_type": _IPV6, "ipv6_dst": int(address)})
    return result


def _towards(
    tables: _Tables, dpid: int, ports: tuple[int, ...], near: _Neighbourhood, view: FabricView
) -> tuple[Action, ...]:
    """ECMP over `ports`, weighted by capacity."""
    if len(ports) <= 1:
        return tuple(Output(p) for p in ports)
    members = weighted_ports({p: near.capacity[PortRef(dpid, p)] for p in ports})
    if view.switches[dpid].nicira:
        # A basis per switch, or every switch would make the same choice and half the fabric would idle.
        return (Bundle(members, basis=dpid & 0xFFFF),)
    buckets = tuple(Bucket((Output(p),), weight=members.count(p), watch_port=p) for p in ports)
    group_id = GroupAllocator.select_id(ports)
    tables.groups[group_id] = Group(group_id, GroupKind.SELECT, buckets)
    return (ToGroup(group_id),)
