"""Which tier each switch is of, inferred from cabling and hosts; the plan, where there is one, wins.

A Clos fabric is bipartite: no cable joins two leaves or two spines. So the switches fall into two sides. Leaves are on
the side that carries hosts, and so are the cores (super-spines), which join the spines of different pods; spines are on
the other side, and so are edge switches (a DPU, a hypervisor's bridge), which hang below leaves and carry hosts
themselves. A cable that alone breaks this order is named and left out; where none is to blame alone, the answer is
"unknown" and a sentence that says why. Which way traffic takes is not decided here.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from controller.fabric.model import PortRef, Role

Neighbours = dict[int, set[int]]
_LEAF_SIDE, _SPINE_SIDE = frozenset({Role.LEAF, Role.CORE}), frozenset({Role.SPINE, Role.EDGE})
_ONE_LOWER = {Role.LEAF: Role.EDGE, Role.SPINE: Role.LEAF, Role.CORE: Role.SPINE}


@dataclass(frozen=True, slots=True)
class Roles:
    of: Mapping[int, Role]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Signs:
    """What tells a leaf: hosts that were heard, ports that are up and face no switch, and the plan."""

    with_hosts: Set[int]
    edge_ports: Mapping[int, int]
    planned: Mapping[int, Role]

    def bears_hosts(self, dpid: int) -> bool:
        return dpid in self.with_hosts or self.planned.get(dpid) == Role.LEAF


def infer(
    dpids: Collection[int],
    links: Iterable[tuple[PortRef, PortRef]],
    host_ports: Iterable[PortRef],
    edge_ports: Mapping[int, int],
    planned: Mapping[int, Role],
    names: Mapping[int, str],
) -> Roles:
    """`edge_ports[dpid]` counts ports that are up and face no switch: where no host has spoken yet, the side with
    more of them is taken to be the leaves."""
    neighbours: Neighbours = defaultdict(set)
    for a, b in links:
        neighbours[a.dpid].add(b.dpid)
        neighbours[b.dpid].add(a.dpid)
    signs = _Signs({port.dpid for port in host_ports}, edge_ports, planned)
    roles: dict[int, Role] = {}
    problems: list[str] = []

    def name(dpid: int) -> str:
        return names.get(dpid, f"{dpid:x}")

    for members in _components(dpids, neighbours):
        sides, odd = _two_sides(members, neighbours, signs)
        found = _tiers(sides, neighbours, signs) if sides else None
        known = found or all(dpid in planned for dpid in members)
        lost = "it carries nothing" if known else "no roles can be told"
        problems += [f"{name(a)} has a link to {name(b)}, on its own side of the fabric: {lost}" for a, b in odd]
        if not known and not odd and len(members) > 1:
            some = ", ".join(name(dpid) for dpid in members[:4]) + (", ..." if len(members) > 4 else "")
            problems.append(f"no host has been heard that tells leaves from spines among {some}")
        roles |= found or dict.fromkeys(members, Role.UNKNOWN)
    roles.update({dpid: role for dpid, role in planned.items() if dpid in roles})
    problems += [
        f"{name(dpid)} looks like a spine but a host is attached to it"
        for dpid in sorted(signs.with_hosts & roles.keys())
        if roles[dpid] in (Role.SPINE, Role.CORE)
    ]
    return Roles(roles, tuple(problems))


def _components(dpids: Collection[int], neighbours: Neighbours) -> Iterator[list[int]]:
    """The parts that hang together, each sorted."""
    unseen = set(dpids)
    while unseen:
        found, queue = {min(unseen)}, deque([min(unseen)])
        while queue:
            for there in neighbours.get(queue.popleft(), ()):
                if there not in found:
                    found.add(there)
                    queue.append(there)
        unseen -= found
        yield sorted(found)


def _two_sides(
    members: list[int], neighbours: Neighbours, signs: _Signs
) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """(switch -> 0 or 1, the pairs of switches that are joined although they are on one side). No sides when another
    division would be as good, unless those to blame all bear hosts."""
    sides = _coloured(members, neighbours)
    if not _odd(sides, neighbours):
        return sides, []
    by_hosts = {dpid: 0 if signs.bears_hosts(dpid) else 1 for dpid in members}
    tried = [_improved(start, neighbours) for start in (by_hosts, sides)]
    best = min(tried, key=lambda each: len(_odd(each, neighbours)))
    odd = _odd(best, neighbours)
    clear = all(
        _excess(a, best, neighbours) > 0 < _excess(b, best, neighbours)
        or (signs.bears_hosts(a) and signs.bears_hosts(b))
        for a, b in odd
    )
    return (best, odd) if clear else ({}, odd[:1])


def _coloured(members: list[int], neighbours: Neighbours) -> dict[int, int]:
    """Breadth first, one side after the other."""
    sides = {members[0]: 0}
    queue = deque([members[0]])
    while queue:
        here = queue.popleft()
        for there in sorted(neighbours.get(here, ())):
            if there not in sides:
                sides[there] = 1 - sides[here]
                queue.append(there)
    return sides


def _odd(sides: Mapping[int, int], neighbours: Neighbours) -> list[tuple[int, int]]:
    return sorted((a, b) for a in sides for b in neighbours.get(a, ()) if a < b and sides[a] == sides[b])


def _excess(dpid: int, sides: Mapping[int, int], neighbours: Neighbours) -> int:
    """By how many its neighbours on the other side outnumber those on its own."""
    return sum(1 if sides[there] != sides[dpid] else -1 for there in neighbours.get(dpid, ()))


def _improved(sides: Mapping[int, int], neighbours: Neighbours) -> dict[int, int]:
    """Every switch goes to the side of the fewer of its neighbours; each change leaves fewer odd pairs, so it ends."""
    result, changed = dict(sides), True
    while changed:
        changed = False
        for dpid in result:
            if _excess(dpid, result, neighbours) < 0:
                result[dpid], changed = 1 - result[dpid], True
    return result


def _tiers(sides: Mapping[int, int], neighbours: Neighbours, signs: _Signs) -> dict[int, Role] | None:
    """The role of each switch; None while nothing tells which side the leaves are on."""
    leaf_side = _leaf_side(sides, signs)
    if leaf_side is None:
        return None

    def joined(dpid: int) -> set[int]:
        return {there for there in neighbours.get(dpid, ()) if sides[there] != sides[dpid]}

    lower = [dpid for dpid, side in sides.items() if side == leaf_side]
    edges = _edges([dpid for dpid, side in sides.items() if side != leaf_side], joined, signs)
    spines = {dpid for dpid, side in sides.items() if side != leaf_side} - edges
    leaves = {dpid for dpid in lower if signs.bears_hosts(dpid)}
    leaves = leaves or {dpid for dpid in lower if signs.edge_ports.get(dpid)} or set(lower)
    pod_of = _pods(leaves, joined)
    roles = {**dict.fromkeys(edges, Role.EDGE), **dict.fromkeys(spines, Role.SPINE)}
    for dpid in lower:
        is_core = dpid not in leaves and _joins_pods(dpid, joined(dpid) - edges, pod_of, signs)
        roles[dpid] = Role.CORE if is_core else Role.LEAF
    cores = {dpid for dpid, role in roles.items() if role == Role.CORE}
    if any(joined(dpid) and joined(dpid) <= cores for dpid in spines):
        # Four tiers: what bears the hosts is below the leaves.
        on_top = {dpid for dpid in spines if joined(dpid) <= cores}
        roles = {d: Role.CORE if d in on_top else _ONE_LOWER.get(role, role) for d, role in roles.items()}
    return roles


def _leaf_side(sides: Mapping[int, int], signs: _Signs) -> int | None:
    votes, hosts, edges = [0, 0], [0, 0], [0, 0]
    for dpid, side in sides.items():
        planned = signs.planned.get(dpid)
        votes[side] += planned in _LEAF_SIDE
        votes[1 - side] += planned in _SPINE_SIDE
        hosts[side] += dpid in signs.with_hosts
        edges[side] += signs.edge_ports.get(dpid, 0)
    for count in (votes, hosts, edges):
        if count[0] != count[1]:
            return 0 if count[0] > count[1] else 1
    return None


def _edges(upper: Collection[int], joined: Callable[[int], set[int]], signs: _Signs) -> set[int]:
    """Switches with hosts beside the spines, all of whose leaves some real spine joins to more."""
    spines = [dpid for dpid in upper if dpid not in signs.with_hosts]
    with_hosts = [dpid for dpid in upper if dpid in signs.with_hosts and joined(dpid)]
    return {dpid for dpid in with_hosts if any(joined(dpid) < joined(spine) for spine in spines)}


def _pods(leaves: Iterable[int], joined: Callable[[int], set[int]]) -> dict[int, int]:
    """Spine -> pod: those that a leaf joins are in one, whose name is its lowest spine."""
    pod_of: dict[int, int] = {}
    for leaf in leaves:
        together = {pod_of.get(spine, spine) for spine in joined(leaf)}
        for spine, pod in pod_of.items():
            if pod in together:
                pod_of[spine] = min(together)
        pod_of.update(dict.fromkeys(joined(leaf), min(together, default=0)))
    return pod_of


def _joins_pods(dpid: int, spines: set[int], pod_of: Mapping[int, int], signs: _Signs) -> bool:
    """Whether this switch, which bears no host, joins pods and so is a core. Spines of a pod in which no host has
    spoken yet are told from those of other pods, unless the switch has ports that may face hosts."""
    pods = {pod_of[spine] for spine in spines if spine in pod_of}
    of_other_pods = any(spine not in pod_of for spine in spines)
    return len(pods) > 1 or (len(pods) == 1 and of_other_pods and not signs.edge_ports.get(dpid))
