"""NetQ's topologyGraph.json: nodes by tier, and links, each of which is a bundle of cables with their interfaces.

It decides that every compounded link is a cable of its own: four cables between a pair are four links. Nodes are
called by their names; where two share a name, by their ids. A node that only LLDP has told of, and that stands on no
tier, is a host. Source: NVIDIA NetQ 4.x's topology API, as topograph's
netq provider reads it.
"""

from collections import Counter
from collections.abc import Iterator

from controller.fabric.cabling import CableEnd, CablingPlan
from controller.fabric.model import Role
from controller.formats.plan_builder import PlanBuilder
from controller.formats.yaml_tools import Node, read_tree

_HOST_TYPES = {"host", "server"}
# A node without an agent, known from a neighbour's LLDP only; NetQ puts it on no tier.
_UNTOLD, _NO_TIER = "discovered_via_lldp", -1
_MAX_TIER = 16


def read(text: str, filename: str) -> CablingPlan:
    """The plan. Raises PlanFileError with every problem. JSON is read as the YAML it also is, which gives lines."""
    builder = PlanBuilder(filename, "netq")
    root = read_tree(text, builder)
    graphs = list(root.each()) if isinstance(root.value, list) else [root]
    devices = [device for graph in graphs for device in _devices(graph)]
    names = _names(devices, builder)
    for device in devices:
        _add(device, names, builder)
    for graph in graphs:
        for bundle in graph.get("links").each():
            for cable in _cables(bundle):
                _cable(cable, names, builder)
    return builder.plan("netq")


def _devices(graph: Node) -> Iterator[Node]:
    """Nodes are grouped by tier; a node outside any group stands for itself."""
    for node in graph.get("nodes").each():
        inside = list(node.get("compounded_nodes").each())
        yield from inside or ([node] if node.get("node_type").value != "tier" else [])


def _cables(bundle: Node) -> Iterator[Node]:
    inside = list(bundle.get("compounded_links").each())
    yield from inside or [bundle]


def _names(devices: list[Node], builder: PlanBuilder) -> dict[str, str]:
    """Name by id."""
    given = [(d.get("id").text('"id": "node0"'), d.get("name").value) for d in devices]
    uses = Counter(name for _, name in given)
    for name, count in uses.items():
        if name and count > 1:
            builder.remark(0, f"{count} nodes are called {name}; they go by their ids")
    return {
        node_id: name if isinstance(name, str) and name and uses[name] == 1 else node_id
        for node_id, name in given
        if node_id is not None
    }


def _add(device: Node, names: dict[str, str], builder: PlanBuilder) -> None:
    node_id = device.get("id").value
    if not isinstance(node_id, str) or node_id not in names:
        return
    kind, tier = device.get("device_type").value, device.get("tier").value
    if (isinstance(kind, str) and kind in _HOST_TYPES) or (kind == _UNTOLD and tier == _NO_TIER):
        builder.host(names[node_id], device.line)
    else:
        # Tier 0 is the hosts', so the first switches are on tier 1.
        level = tier - 1 if isinstance(tier, int) and 1 <= tier <= _MAX_TIER else None
        role = {0: Role.LEAF, 1: Role.SPINE}.get(level, Role.UNKNOWN) if level is not None else Role.UNKNOWN
        builder.switch(names[node_id], device.line, role=role, level=level)


def _cable(cable: Node, names: dict[str, str], builder: PlanBuilder) -> None:
    ends = [
        (end.get("node").text('"node": "node0"'), end.get("interface").value) for end in cable.get("interfaces").each()
    ]
    if len(ends) != 2:
        what = f"{cable.path} has {len(ends)} interfaces"
        builder.problem(cable.line, what, 'give it two: [{"node": "node0", "interface": "swp1"}, ...]')
        return
    found = [CableEnd(names.get(n, n), p if isinstance(p, str) else "") for n, p in ends if n is not None]
    if len(found) == 2:
        builder.cable(found[0], found[1], cable.line)
