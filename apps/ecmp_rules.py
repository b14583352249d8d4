"""What a switch holds under plain ECMP: a host route per planned host over all shortest paths. Pure.

Spreading is by Open vSwitch's `bundle` with UDP ports among its fields and a basis per switch. A select group would
send all RoCE flows of one pair of hosts to one uplink (its default hash leaves UDP ports out), and one basis for all
switches would polarise: what one tier has chosen alike, the next would choose alike again. Such a baseline would be
easy to beat and prove nothing.
"""

import hashlib
import ipaddress
import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from heddle.southbound.v1 import link_pb2

from apps.ecmp_paths import End, ShortestPaths
from controller.fabric.plan import FabricPlan, PlannedHost

COOKIE = 0x45434D50_00000000  # "ECMP"
SYMMETRIC_L3L4_UDP = 3  # NX_HASH_FIELDS_SYMMETRIC_L3L4_UDP (Open vSwitch, include/openflow/nicira-ext.h)

_CONTROLLER = 0xFFFFFFFD
_WHOLE_PACKET = 0xFFFF
_ANY_PORT = 0xFFFFFFFF
_ARP_PRIORITY, _ROUTE_PRIORITY = 100, 50
# Weights are kept exact as long as a bundle does not grow beyond this.
_MAX_MEMBERS = 64


class Select(StrEnum):
    """How a switch spreads: Nicira's bundle, or a select group on switches that do not know it."""

    BUNDLE = "bundle"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Tables:
    """By identity: rules by (table, priority, match), groups by number. Serialised, so that equality is cheap."""

    rules: dict[bytes, bytes]
    groups: dict[int, bytes]


def rule_key(rule: link_pb2.Rule) -> bytes:
    """What OpenFlow takes as a rule's identity."""
    key = link_pb2.Rule(table_id=rule.table_id, priority=rule.priority, match=rule.match)
    return key.SerializeToString(deterministic=True)


def tables(rules: Iterable[link_pb2.Rule], groups: Iterable[link_pb2.Group]) -> Tables:
    return Tables(
        {rule_key(rule): rule.SerializeToString(deterministic=True) for rule in rules},
        {group.group_id: group.SerializeToString(deterministic=True) for group in groups},
    )


def basis(seed: int, dpid: int) -> int:
    """The 16 bits that make this switch's hash differ from every other's, the same in every run with this seed."""
    return int.from_bytes(hashlib.blake2b(f"{seed}:{dpid}".encode(), digest_size=2).digest(), "big")


def weighted_ports(links: Iterable[tuple[int, int]]) -> list[int]:
    """(port, rate) pairs -> ports, each as often as its share of the rate; a faster link appears more often."""
    links = sorted(links)
    unit = math.gcd(*(rate for _, rate in links))
    total = sum(rate for _, rate in links)
    if total // unit > _MAX_MEMBERS:
        return [port for port, rate in links for _ in range(max(1, round(rate * _MAX_MEMBERS / total)))]
    return [port for port, rate in links for _ in range(rate // unit)]


class EcmpRoutes:
    """Shortest paths of a plan without the links at `down` ends; `desired` gives a switch's tables."""

    def __init__(self, plan: FabricPlan, seed: int, select: Select) -> None:
        self._plan = plan
        self._seed = seed
        self._select = select
        self._names = {switch.dpid: switch.name for switch in plan.switches}
        self._paths_without: frozenset[End] = frozenset()
        self._paths = ShortestPaths(plan, self._paths_without)

    def desired(self, dpid: int, down: frozenset[End]) -> Tables:
        """Raises KeyError when the plan has no such switch."""
        here = self._names[dpid]
        if down != self._paths_without:
            self._paths, self._paths_without = ShortestPaths(self._plan, down), down
        rules = [_arp_rule()]
        groups: list[link_pb2.Group] = []
        for number, (destination, hosts) in enumerate(self._hosts_by_switch().items(), 1):
            if destination == here:
                rules += [_route(host, _output(host.port)) for host in hosts]
                continue
            if hops := self._paths.next_hops(here, destination):
                action = self._spread(dpid, number, weighted_ports(hops), groups)
                rules += [_route(host, action) for host in hosts]
        return tables(rules, groups)

    def _spread(self, dpid: int, number: int, ports: list[int], groups: list[link_pb2.Group]) -> link_pb2.Action:
        if len(set(ports)) == 1:
            return _output(ports[0])
        if self._select is Select.BUNDLE:
            return link_pb2.Action(
                bundle=link_pb2.Bundle(fields=SYMMETRIC_L3L4_UDP, basis=basis(self._seed, dpid), ports=ports)
            )
        groups.append(_select_group(number, ports))
        return link_pb2.Action(group_id=number)

    def _hosts_by_switch(self) -> dict[str, list[PlannedHost]]:
        by_switch: dict[str, list[PlannedHost]] = {}
        for host in self._plan.hosts:
            by_switch.setdefault(host.switch, []).append(host)
        return dict(sorted(by_switch.items()))


def _route(host: PlannedHost, action: link_pb2.Action) -> link_pb2.Rule:
    match = [
        link_pb2.MatchField(name="eth_type", value=b"\x08\x00"),
        link_pb2.MatchField(name="ipv4_dst", value=ipaddress.IPv4Address(host.ipv4).packed),
    ]
    return link_pb2.Rule(priority=_ROUTE_PRIORITY, match=match, cookie=COOKIE, actions=[action])


def _arp_rule() -> link_pb2.Rule:
    action = link_pb2.Action(output=link_pb2.Output(port_no=_CONTROLLER, max_len=_WHOLE_PACKET))
    match = [link_pb2.MatchField(name="eth_type", value=b"\x08\x06")]
    return link_pb2.Rule(priority=_ARP_PRIORITY, match=match, cookie=COOKIE, actions=[action])


def _select_group(number: int, ports: list[int]) -> link_pb2.Group:
    buckets = [
        link_pb2.Bucket(weight=ports.count(port), watch_port=_ANY_PORT, actions=[_output(port)])
        for port in sorted(set(ports))
    ]
    return link_pb2.Group(group_id=number, kind=link_pb2.Group.KIND_SELECT, buckets=buckets)


def _output(port_no: int) -> link_pb2.Action:
    return link_pb2.Action(output=link_pb2.Output(port_no=port_no))
