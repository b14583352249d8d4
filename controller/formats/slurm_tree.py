"""Slurm's trees of switches, whatever file they come from, as a cabling plan.

It decides what an entry means: one or more cables to each child switch, one to each node, ports unknown.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from controller.fabric.cabling import CableEnd
from controller.formats.plan_builder import PlanBuilder


@dataclass(frozen=True, slots=True)
class SwitchEntry:
    """`children` are switches that should be described elsewhere in the file."""

    name: str
    children: tuple[str, ...]
    nodes: tuple[str, ...]
    line: int
    alias: str = ""


def add_tree(entries: Iterable[SwitchEntry], builder: PlanBuilder) -> None:
    """Adds everything that the entries say; a switch described twice is a problem."""
    known: dict[str, SwitchEntry] = {}
    for entry in entries:
        if entry.name in known:
            what = f"switch {entry.name} is described already on line {known[entry.name].line}"
            builder.problem(entry.line, what, "join the two")
            continue
        known[entry.name] = entry
        builder.switch(entry.name, entry.line, alias=entry.alias)
    children = {name: _known_children(entry, known, builder) for name, entry in known.items()}
    for name, entry in known.items():
        for node in entry.nodes:
            builder.host(node, entry.line)
            builder.cable(CableEnd(node), CableEnd(name), entry.line)
        for child in children[name]:
            builder.cable(CableEnd(child), CableEnd(name), entry.line)
    builder.levels_from(children, {name: entry.line for name, entry in known.items()})


def _known_children(entry: SwitchEntry, known: dict[str, SwitchEntry], builder: PlanBuilder) -> tuple[str, ...]:
    unknown = [child for child in entry.children if child not in known]
    if unknown:
        listed = ", ".join(unknown[:10]) + (f" and {len(unknown) - 10} more" if len(unknown) > 10 else "")
        builder.remark(entry.line, f"below switch {entry.name}, no line describes {listed}; left out")
    return tuple(child for child in entry.children if child in known)
