"""Tiers of a cabling: which switch is how high above the hosts, and which switches are one place to a scheduler.

It decides levels from what the plan says of them, else from the switches' roles, else from the distance to the hosts.
A scheduler that knows only trees (Kueue, topograph) cannot be told that a leaf is below four spines; switches of one
level that share something below them are therefore one group. Cables that cannot be used do not count.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from controller.fabric.cabling import Cable, CablingPlan
from controller.fabric.model import Role

_LEVEL_OF_ROLE = {Role.LEAF: 0, Role.SPINE: 1, Role.CORE: 2}


@dataclass(frozen=True, slots=True)
class Group:
    """`parent` is empty at the top. `hosts` are those directly below; at level 0 usually all of them."""

    name: str
    level: int
    switches: tuple[str, ...]
    hosts: tuple[str, ...]
    parent: str


def without_edges(plan: CablingPlan) -> CablingPlan:
    """The same with every edge switch (a DPU, a hypervisor's bridge) taken for a part of its hosts, which then hang on
    its leaves themselves: to a scheduler it is no place of its own."""
    hosts = frozenset(plan.hosts)
    edges = {switch.name for switch in plan.switches if switch.role is Role.EDGE}
    if not edges:
        return plan
    leaves: dict[str, list[Cable]] = {edge: [] for edge in edges}
    kept, below = [], []
    for cable in plan.cables:
        within = edges & {cable.a.node, cable.b.node}
        if not within:
            kept.append(cable)
        elif hosts & {cable.a.node, cable.b.node}:
            below.append(cable)
        else:
            leaves[within.pop()].append(cable)
    for cable in below:
        host, edge = (cable.a, cable.b) if cable.b.node in edges else (cable.b, cable.a)
        for up in leaves[edge.node]:
            leaf = up.b if up.a.node == edge.node else up.a
            kept.append(Cable(host, leaf, cable.rate_bps, cable.place, cable.state if not cable.usable else up.state))
    switches = tuple(switch for switch in plan.switches if switch.name not in edges)
    return replace(plan, switches=switches, cables=tuple(kept))


def levels(plan: CablingPlan) -> dict[str, int]:
    """Of every switch; 0 for a switch that nothing is known of."""
    found: dict[str, int] = {}
    for switch in plan.switches:
        level = switch.level if switch.level is not None else _LEVEL_OF_ROLE.get(switch.role)
        if level is not None:
            found[switch.name] = level
    neighbours = _neighbours(plan)
    edge = dict.fromkeys(s for _, s, _ in plan.to_hosts() if s not in found)
    found |= dict.fromkeys(edge, 0)
    queue = deque(sorted(found, key=lambda name: found[name]))
    while queue:
        name = queue.popleft()
        for other in neighbours[name]:
            if other not in found:
                found[other] = found[name] + 1
                queue.append(other)
    return {switch.name: found.get(switch.name, 0) for switch in plan.switches}


def children(plan: CablingPlan, level_of: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """The switches directly below each switch, in the plan's order, over cables that can be used."""
    neighbours = _neighbours(plan)
    return {
        s.name: tuple(other for other in neighbours[s.name] if level_of[other] < level_of[s.name])
        for s in plan.switches
    }


def hosts_below(plan: CablingPlan) -> dict[str, tuple[str, ...]]:
    """The hosts directly at each switch."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for host, switch, cable in plan.to_hosts():
        if cable.usable:
            found[switch][host] = None
    return {switch: tuple(hosts) for switch, hosts in found.items()}


def groups(plan: CablingPlan) -> tuple[Group, ...]:
    """A forest, the lowest level first. Leaves that share a host (rails) are one group, and so on upwards."""
    level_of = levels(plan)
    below, hosts = children(plan, level_of), hosts_below(plan)
    of_switch: dict[str, int] = {}
    members: list[list[str]] = []
    for level in sorted(set(level_of.values())):
        here = [switch.name for switch in plan.switches if level_of[switch.name] == level]
        shared = {
            name: {("host", host) for host in hosts.get(name, ())}
            | {("group", str(of_switch[child])) for child in below[name]}
            for name in here
        }
        for joined in _joined(here, shared):
            of_switch |= dict.fromkeys(joined, len(members))
            members.append(joined)
    parent: dict[int, int] = {}
    for name in sorted(below, key=lambda name: level_of[name]):
        for child in below[name]:
            # The lowest place above wins, where a cabling skips a level.
            parent.setdefault(of_switch[child], of_switch[name])
    names = _names(members)
    return tuple(
        Group(
            names[index],
            level_of[joined[0]],
            tuple(joined),
            tuple(dict.fromkeys(host for name in joined for host in hosts.get(name, ()))),
            names[parent[index]] if index in parent else "",
        )
        for index, joined in enumerate(members)
    )


def _neighbours(plan: CablingPlan) -> dict[str, dict[str, None]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for cable in plan.between_switches():
        if cable.usable and cable.a.node != cable.b.node:
            found[cable.a.node][cable.b.node] = None
            found[cable.b.node][cable.a.node] = None
    return found


def _joined(names: Iterable[str], shared: Mapping[str, set[tuple[str, str]]]) -> list[list[str]]:
    """Names in sets, two in one set when they share something, directly or by way of others."""
    root: dict[tuple[str, str], tuple[str, str]] = {}

    def top(key: tuple[str, str]) -> tuple[str, str]:
        root.setdefault(key, key)
        while root[key] != key:
            root[key] = root[root[key]]
            key = root[key]
        return key

    listed = list(names)
    for name in listed:
        for key in sorted(shared[name]):
            root[top(key)] = top(("", name))
    found: dict[tuple[str, str], list[str]] = {}
    for name in listed:
        found.setdefault(top(("", name)), []).append(name)
    return list(found.values())


def _names(members: list[list[str]]) -> list[str]:
    """A switch's own name, or first and last of a group ("spine1..spine4"), told apart by a number if need be."""
    taken: set[str] = {joined[0] for joined in members if len(joined) == 1}
    names = []
    for joined in members:
        name = joined[0] if len(joined) == 1 else f"{joined[0]}..{joined[-1]}"
        number = 2
        while len(joined) > 1 and name in taken:
            name, number = f"{joined[0]}..{joined[-1]}-{number}", number + 1
        taken.add(name)
        names.append(name)
    return names
