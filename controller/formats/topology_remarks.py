"""What is odd about a plan and still works: said to a person, never an error.

It decides only what deserves a sentence. Heddle's placement and detours assume a leaf-spine fabric, so cables that
are none of its kind are pointed out, as are parts that nothing can reach.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterator

import networkx as nx

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan


def remarks(plan: FabricPlan) -> tuple[str, ...]:
    """One sentence for each oddity, in a fixed order; empty for an ordinary leaf-spine fabric."""
    return (*_cables(plan), *_reach(plan), *_subnets(plan))


def _cables(plan: FabricPlan) -> Iterator[str]:
    roles = {switch.name: switch.role for switch in plan.switches}
    for link in plan.links:
        if roles[link.a] == roles[link.b]:
            ends = f"{link.a}:{link.a_port} and {link.b}:{link.b_port}"
            yield f"the cable between {ends} joins two {_plural(roles[link.a])}; paths use leaf-to-spine cables only"


def _plural(role: Role) -> str:
    return {Role.LEAF: "leaves", Role.SPINE: "spines"}.get(role, "switches")


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
