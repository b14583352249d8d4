"""What is odd about a plan and still works: said to a person, never an error.

It decides only what deserves a sentence. Heddle's placement and detours assume a Clos fabric, so cables that
are none of its kind are pointed out, as are parts that nothing can reach.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterator, Mapping

import networkx as nx

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan
from controller.fabric.tiers import HEIGHT


def remarks(plan: FabricPlan) -> tuple[str, ...]:
    """One sentence for each oddity, in a fixed order; empty for an ordinary fabric of two or three tiers."""
    return (*_cables(plan), *_reach(plan), *_subnets(plan))


def _cables(plan: FabricPlan) -> Iterator[str]:
    roles = {switch.name: switch.role for switch in plan.switches}
    for link in plan.links:
        a, b = roles[link.a], roles[link.b]
        if a == b or abs(HEIGHT.get(a, 0) - HEIGHT.get(b, 0)) > 1:
            ends = f"{link.a}:{link.a_port} and {link.b}:{link.b_port}"
            joined = f"two {_plural(a)}" if a == b else f"{_one(a)} and {_one(b)}"
            yield f"the cable between {ends} joins {joined}; planned paths use cables between neighbouring tiers only"
    yield from _edge_switches(plan, roles)


def _edge_switches(plan: FabricPlan, roles: Mapping[str, Role]) -> Iterator[str]:
    leaves: dict[str, set[str]] = {name: set() for name, role in roles.items() if role == Role.EDGE}
    for link in plan.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near in leaves and roles[far] == Role.LEAF:
                leaves[near].add(far)
    for name, above in leaves.items():
        if not above:
            yield f"edge switch {name} hangs on no leaf: nothing reaches its hosts from elsewhere"


def _plural(role: Role) -> str:
    return {Role.LEAF: "leaves", Role.SPINE: "spines", Role.CORE: "cores", Role.EDGE: "edge switches"}[role]


def _one(role: Role) -> str:
    return {Role.EDGE: "an edge switch"}.get(role, f"a {role}")


def _reach(plan: FabricPlan) -> Iterator[str]:
    graph = nx.Graph()
    graph.add_nodes_from(switch.name for switch in plan.switches)
    graph.add_edges_from((link.a, link.b) for link in plan.links)
    parts = sorted((sorted(part) for part in nx.connected_components(graph)), key=lambda part: (-len(part), part))
    for part in parts[1:]:
        yield f"nothing connects {_some(part)} to the rest of the fabric"


def _subnets(plan: FabricPlan) -> Iterator[str]:
    networks = Counter(str(ipaddress.IPv4Interface(f"{h.ipv4}/{h.prefix_length}").network) for h in plan.hosts)
    if len(networks) > 1:
        yield f"hosts are in {len(networks)} subnets ({_some(sorted(networks))}); there is no router between them"


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
