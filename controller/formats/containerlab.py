"""containerlab's topology files: nodes of several kinds, and links between their interfaces.

It decides which nodes are hosts: those of a plain Linux kind that hang on switches only, or on one node; a Linux node
between others of its kind is a switch (FRR labs). The label `graph-icon` overrules that. Links to the machine that
runs the lab are left out with a remark. Source: containerlab.dev/manual/topo-def-file (0.7x).
"""

from collections import defaultdict
from collections.abc import Iterator

from controller.fabric.cabling import CableEnd, CablingPlan
from controller.formats.plan_builder import PlanBuilder
from controller.formats.yaml_tools import Node, read_tree

_HOST_KINDS = {"linux", "host", "ext-container", "k8s-kind"}
_SWITCH_ICONS, _HOST_ICONS = {"switch", "router"}, {"server", "host", "client"}
# Endpoints that stand for something outside the lab.
_OUTSIDE = {"host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy"}

_Link = tuple[CableEnd, CableEnd, int]


def read(text: str, filename: str) -> CablingPlan:
    """The plan, which bears the lab's name. Raises PlanFileError with every problem."""
    builder = PlanBuilder(filename, "containerlab")
    root = read_tree(text, builder)
    topology = root.get("topology")
    kinds = {name: _kind(node, topology) for name, node in topology.get("nodes").items()}
    lines = {name: node.line for name, node in topology.get("nodes").items()}
    links = [link for entry in topology.get("links").each() for link in _link(entry, builder)]
    icons = {name: node.get("labels").get("graph-icon").value for name, node in topology.get("nodes").items()}
    hosts = _hosts(kinds, icons, links)
    for name, line in lines.items():
        builder.host(name, line) if name in hosts else builder.switch(name, line)
    for a, b, line in links:
        missing = [end.node for end in (a, b) if end.node not in kinds]
        for node in missing:
            builder.problem(line, f'a link to "{node}", which is no node of this file', "add the node, or correct it")
        if not missing:
            builder.cable(a, b, line)
    name = root.get("name").value
    return builder.plan(name if isinstance(name, str) and name else "containerlab")


def _kind(node: Node, topology: Node) -> str:
    group = node.get("group").value
    inherited = topology.get("groups").get(group).get("kind").value if isinstance(group, str) else None
    kind = node.get("kind").value or inherited or topology.get("defaults").get("kind").value
    return kind if isinstance(kind, str) else ""


def _link(entry: Node, builder: PlanBuilder) -> Iterator[_Link]:
    """Brief form: `endpoints: ["a:e1", "b:e1"]`; long form: `type: veth` and endpoints of node and interface."""
    kind = entry.get("type").value
    if kind is not None and kind != "veth":
        builder.remark(entry.line, f"a link of type {kind} leads out of the lab and is left out")
        return
    ends = [_end(end) for end in entry.get("endpoints").each()]
    if len(ends) != 2:
        what = f"{entry.path} has {len(ends)} endpoints"
        builder.problem(entry.line, what, 'write endpoints: ["leaf1:e1-1", "spine1:e1-1"]')
        return
    a, b = ends
    if a is None or b is None:
        return
    if {a.node, b.node} & _OUTSIDE:
        builder.remark(entry.line, f"the link between {a} and {b} leads out of the lab and is left out")
    else:
        yield a, b, entry.line


def _end(end: Node) -> CableEnd | None:
    if isinstance(end.value, dict):
        node, port = end.get("node").text("node: leaf1"), end.get("interface").text("interface: e1-1")
        return CableEnd(node, port) if node and port else None
    text = end.text('"leaf1:e1-1"')
    if text is None:
        return None
    node, _, port = text.partition(":")
    if not node or not port:
        end.wrong("a node and its interface", '"leaf1:e1-1"')
        return None
    return CableEnd(node, port)


def _hosts(kinds: dict[str, str], icons: dict[str, object], links: list[_Link]) -> set[str]:
    neighbours: dict[str, set[str]] = defaultdict(set)
    for a, b, _ in links:
        neighbours[a.node].add(b.node)
        neighbours[b.node].add(a.node)
    hosts = set()
    for name, kind in kinds.items():
        icon = icons.get(name)
        near = neighbours[name]
        plain = kind in _HOST_KINDS and icon not in _SWITCH_ICONS
        among_switches = all(kinds.get(other) not in _HOST_KINDS for other in near)
        if (isinstance(icon, str) and icon in _HOST_ICONS) or (plain and (among_switches or len(near) == 1)):
            hosts.add(name)
    return hosts
