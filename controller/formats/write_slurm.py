"""Slurm's topology.conf and topology.yaml (topology/tree), from a cabling.

It decides that a switch with nothing below it is left out, which Slurm would refuse, and that every spine lists every
leaf below it, as in Slurm's own example of several roots. Source: topology.conf(5), topology.yaml(5) of Slurm 25.11.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from controller.fabric.cabling import CablingPlan
from controller.fabric.cabling_levels import children, hosts_below, levels
from controller.fabric.host_lists import collect
from controller.formats.writing import check_names, left_out, rail_remarks, word


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    switches: tuple[str, ...]
    nodes: tuple[str, ...]


def conf_lines(plan: CablingPlan) -> Iterator[str]:
    """Lines of topology.conf. Raises ExportError."""
    yield "# topology.conf, written by heddle export slurm-conf"
    yield from rail_remarks(plan)
    for entry in _entries(plan, "slurm-conf"):
        if not entry.switches and not entry.nodes:
            yield f"# left out, nothing below it: {entry.name}"
            continue
        words = [f"SwitchName={entry.name}"]
        words += [f"Switches={collect(entry.switches)}"] if entry.switches else []
        words += [f"Nodes={collect(entry.nodes)}"] if entry.nodes else []
        yield " ".join(words)
    yield from left_out(plan)


def yaml_lines(plan: CablingPlan) -> Iterator[str]:
    """Lines of topology.yaml, with one tree that is the cluster's default. Raises ExportError."""
    yield "# topology.yaml, written by heddle export slurm-yaml"
    yield from rail_remarks(plan)
    entries = _entries(plan, "slurm-yaml")
    yield from ("---", "- topology: default", "  cluster_default: true", "  tree:", "    switches:")
    for entry in entries:
        if not entry.switches and not entry.nodes:
            yield f"# left out, nothing below it: {entry.name}"
            continue
        yield f"      - switch: {word(entry.name)}"
        if entry.switches:
            yield f"        children: {word(collect(entry.switches))}"
        if entry.nodes:
            yield f"        nodes: {word(collect(entry.nodes))}"
    yield from left_out(plan)


def _entries(plan: CablingPlan, target: str) -> list[_Entry]:
    """The lowest level first."""
    check_names(plan, target)
    level_of = levels(plan)
    below, hosts = children(plan, level_of), hosts_below(plan)
    ordered = sorted((switch.name for switch in plan.switches), key=lambda name: level_of[name])
    filled = {name for name in ordered if hosts.get(name)}
    found = []
    for name in ordered:
        # Slurm refuses a child that no line describes, so an empty leaf is nobody's child either.
        kept = tuple(child for child in below[name] if child in filled)
        filled |= {name} if kept else set()
        found.append(_Entry(name, kept, hosts.get(name, ())))
    return found
