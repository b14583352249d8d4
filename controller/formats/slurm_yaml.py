"""Slurm's topology.yaml: a list of topologies, of which one is a tree of switches or a set of blocks.

It decides which of them is the cabling: the tree that is the cluster's default, else the first tree, else blocks.
The others are remarked on. Rings, tori and flat topologies say nothing about switches.
Source: topology.yaml(5) of Slurm 25.11.
"""

from controller.fabric.cabling import CablingPlan
from controller.formats.plan_builder import PlanBuilder
from controller.formats.slurm_tree import SwitchEntry, add_tree
from controller.formats.yaml_tools import Node, read_tree

_KINDS = ("tree", "block", "flat", "ring", "torus3d")


def read(text: str, filename: str) -> CablingPlan:
    """The plan of the chosen topology, which bears its name. Raises PlanFileError with every problem."""
    builder = PlanBuilder(filename, "slurm-yaml", cables_counted=False)
    root = read_tree(text, builder)
    topologies = list(root.each())
    if not topologies and not builder.problems:
        root.wrong("a list of topologies", "- topology: default")
    chosen = _choose(topologies)
    for topology in topologies:
        name, kind = _name(topology), _kind(topology)
        if kind == "":
            cure = f"give it one of {', '.join(_KINDS)}"
            builder.problem(topology.line, f"topology {name} has no kind that is known", cure)
        elif topology is not chosen:
            builder.remark(topology.line, f"topology {name} ({kind}) is left out")
    if chosen is None:
        return builder.plan("slurm")
    if _kind(chosen) == "tree":
        entries = [_switch(switch, builder) for switch in chosen.get("tree").get("switches").each()]
        add_tree([entry for entry in entries if entry], builder)
    else:
        for block in chosen.get("block").get("blocks").each():
            _block(block, builder)
    return builder.plan(_name(chosen))


def _kind(topology: Node) -> str:
    return next((kind for kind in _KINDS if topology.has(kind)), "")


def _name(topology: Node) -> str:
    name = topology.get("topology").value
    return name if isinstance(name, str) and name else "without a name"


def _choose(topologies: list[Node]) -> Node | None:
    trees = [topology for topology in topologies if _kind(topology) == "tree"]
    blocks = [topology for topology in topologies if _kind(topology) == "block"]
    default = [topology for topology in trees if topology.get("cluster_default").value is True]
    return next(iter([*default, *trees, *blocks]), None)


def _switch(switch: Node, builder: PlanBuilder) -> SwitchEntry | None:
    name = switch.get("switch").text("switch: s1")
    if name is None:
        return None
    return SwitchEntry(name, _list(switch.get("children"), builder), _list(switch.get("nodes"), builder), switch.line)


def _block(block: Node, builder: PlanBuilder) -> None:
    name = block.get("block").text("block: b1")
    if name is not None:
        builder.block(name, _list(block.get("nodes"), builder), block.line)


def _list(names: Node, builder: PlanBuilder) -> tuple[str, ...]:
    if names.value is None:
        return ()
    text = names.text("nodes: node[01-04]")
    return builder.hosts_of(text, names.line) if text is not None else ()
