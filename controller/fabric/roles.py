"""Which switch is a leaf and which a spine, inferred from cabling and hosts; the plan, where there is one, wins.

A leaf-spine fabric is bipartite: no cable joins two leaves or two spines. So the switches fall into two sides, and
the side that carries hosts is the leaves. Where that fails, the answer is "unknown" and a sentence that says why.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from controller.fabric.model import PortRef, Role


@dataclass(frozen=True, slots=True)
class Roles:
    of: Mapping[int, Role]
    problems: tuple[str, ...]


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
    neighbours: dict[int, set[int]] = defaultdict(set)
    for a, b in links:
        neighbours[a.dpid].add(b.dpid)
        neighbours[b.dpid].add(a.dpid)
    with_hosts = {port.dpid for port in host_ports}
    roles: dict[int, Role] = {}
    problems: list[str] = []
    unseen = set(dpids)
    while unseen:
        sides, clash = _two_sides(min(unseen), neighbours)
        unseen -= sides.keys()
        if clash:
            one, other = (names.get(d, f"{d:x}") for d in clash)
            problems.append(f"{one} has a link to {other}, on its own side of the fabric: no roles can be told")
            roles.update(dict.fromkeys(sides, Role.UNKNOWN))
            continue
        leaf_side = _leaf_side(sides, with_hosts, edge_ports)
        if leaf_side is None:
            roles.update(dict.fromkeys(sides, Role.UNKNOWN))
        else:
            roles.update({d: Role.LEAF if side == leaf_side else Role.SPINE for d, side in sides.items()})
        problems += [
            f"{names.get(dpid, f'{dpid:x}')} looks like a spine but a host is attached to it"
            for dpid in sorted(with_hosts & sides.keys())
            if roles[dpid] == Role.SPINE
        ]
    roles.update({dpid: role for dpid, role in planned.items() if dpid in roles})
    return Roles(roles, tuple(problems))


def _two_sides(start: int, neighbours: Mapping[int, set[int]]) -> tuple[dict[int, int], tuple[int, int] | None]:
    """Breadth-first two-colouring of one component; the second value is a pair that breaks it."""
    sides = {start: 0}
    clash = None
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for there in sorted(neighbours.get(here, ())):
            if there not in sides:
                sides[there] = 1 - sides[here]
                queue.append(there)
            elif sides[there] == sides[here]:
                clash = clash or (here, there)
    return sides, clash


def _leaf_side(sides: Mapping[int, int], with_hosts: set[int], edge_ports: Mapping[int, int]) -> int | None:
    hosts, edges = [0, 0], [0, 0]
    for dpid, side in sides.items():
        hosts[side] += dpid in with_hosts
        edges[side] += edge_ports.get(dpid, 0)
    for count in (hosts, edges):
        if count[0] != count[1]:
            return 0 if count[0] > count[1] else 1
    return None
