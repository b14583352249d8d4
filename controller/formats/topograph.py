"""topograph's models: a mapping of switches with their children, and blocks that hang nodes under a switch.

It decides that a switch named only as a child is a rack without nodes, and that gaps are no fault. Cables are not
counted, since a model has none. Source: github.com/NVIDIA/topograph, tests/models and pkg/models (2026).
"""

from controller.fabric.cabling import CableEnd, CablingPlan
from controller.formats.plan_builder import PlanBuilder
from controller.formats.yaml_tools import Node, read_tree

_KNOWN = {"switches", "blocks", "capacity_blocks", "nodes"}


def read(text: str, filename: str) -> CablingPlan:
    """The plan. Raises PlanFileError with every problem."""
    builder = PlanBuilder(filename, "topograph", cables_counted=False)
    root = read_tree(text, builder)
    for key, node in root.items():
        if key not in _KNOWN:
            builder.remark(node.line, f'the section "{key}" is left out')
    children: dict[str, tuple[str, ...]] = {}
    lines: dict[str, int] = {}
    for name, switch in root.get("switches").items():
        builder.switch(name, switch.line)
        below = tuple(dict.fromkeys(filter(None, (c.text("- rack-1") for c in switch.get("switches").each()))))
        children[name], lines[name] = below, switch.line
        for child in below:
            builder.switch(child, switch.line)
            builder.cable(CableEnd(child), CableEnd(name), switch.line)
        _nodes(switch.get("nodes"), name, builder)
    for section in ("blocks", "capacity_blocks"):
        for block in root.get(section).each():
            _block(block, builder, children, lines)
    builder.levels_from(children, lines)
    return builder.plan("topograph")


def _block(block: Node, builder: PlanBuilder, children: dict[str, tuple[str, ...]], lines: dict[str, int]) -> None:
    """Older models name a capacity block and hang its nodes elsewhere."""
    if not block.has("switch") and block.has("name"):
        name = block.get("name").text("name: cb1")
        if name is not None:
            builder.block(name, _hosts(block.get("nodes"), builder), block.line)
        return
    switch = block.get("switch").text("switch: rack-1")
    if switch is None:
        return
    builder.switch(switch, block.line)
    children.setdefault(switch, ())
    lines.setdefault(switch, block.line)
    hosts = _nodes(block.get("nodes"), switch, builder)
    domain = next((v.value for key, v in block.get("annotations").items() if key.endswith("/domain")), None)
    if isinstance(domain, str) and domain:
        builder.block(domain, hosts, block.line)


def _nodes(nodes: Node, switch: str, builder: PlanBuilder) -> tuple[str, ...]:
    hosts = _hosts(nodes, builder)
    for host in hosts:
        builder.host(host, nodes.line)
        builder.cable(CableEnd(host), CableEnd(switch), nodes.line)
    return hosts


def _hosts(nodes: Node, builder: PlanBuilder) -> tuple[str, ...]:
    texts = [(node.text('- "node[01-04]"'), node.line) for node in nodes.each()]
    return tuple(dict.fromkeys(host for text, line in texts if text for host in builder.hosts_of(text, line)))
