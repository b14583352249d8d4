"""Slurm's topology.conf: a tree of switches (topology/tree) or blocks of nodes (topology/block).

It decides what a line says. A switch named as a child that no line describes is left out with a remark, where Slurm
would refuse the whole file; nodes may be below several switches (rails, or several roots). LinkSpeed has no unit and
means nothing to Slurm either, so no rate is taken from it.
Source: topology.conf(5) of Slurm 25.11. The remarks "# switch.1.1=leaf-1-1" are topograph's, and give aliases.
"""

import re
from dataclasses import dataclass

from controller.fabric.cabling import CablingPlan
from controller.formats.plan_builder import PlanBuilder
from controller.formats.slurm_tree import SwitchEntry, add_tree

_KEYS = {"switchname", "switches", "nodes", "linkspeed", "blockname", "blocksizes"}
_ASSIGNMENT = re.compile(r"([A-Za-z]+)=(\S*)")
_ALIAS = re.compile(r"#\s*(\S+)=(\S+)\s*")
_MAX_LINE = 1_000_000


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str


def read(text: str, filename: str) -> CablingPlan:
    """The plan; `blocks` of a block topology have no switches. Raises PlanFileError with every problem."""
    builder = PlanBuilder(filename, "slurm-conf", cables_counted=False)
    aliases = {found[1]: found[2] for line in text.splitlines() if (found := _ALIAS.fullmatch(line.strip()))}
    entries = []
    for line in _lines(text):
        values = _values(line, builder)
        if "switchname" in values:
            entry = _switch(values, line.number, aliases, builder)
            entries += [entry] if entry else []
        elif "blockname" in values:
            _block(values, line.number, builder)
        elif values and not values.keys() <= {"blocksizes"}:
            builder.problem(line.number, "a line without SwitchName or BlockName", "begin it with SwitchName=NAME")
    add_tree(entries, builder)
    return builder.plan("slurm")


def _lines(text: str) -> list[_Line]:
    """Without remarks and empty lines; a backslash at the end joins the next line on."""
    found: list[_Line] = []
    held, first = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].rstrip()
        first = first or number
        if line.endswith("\\") and len(held) < _MAX_LINE:
            held += line[:-1] + " "
            continue
        if (held + line).strip():
            found.append(_Line(first, (held + line).strip()))
        held, first = "", 0
    if held.strip():
        found.append(_Line(first, held.strip()))
    return found


def _values(line: _Line, builder: PlanBuilder) -> dict[str, str]:
    if line.text.lower().startswith("include"):
        builder.problem(line.number, "another file is included here", "put that file's lines in this place")
        return {}
    values: dict[str, str] = {}
    # Slurm takes blanks around "=", and values in quotes.
    for word in "=".join(part.strip() for part in line.text.split("=")).split():
        found = _ASSIGNMENT.fullmatch(word)
        key = found[1].lower() if found else ""
        if found is None:
            builder.problem(line.number, f'"{_short(word)}" is no KEY=value', "write Nodes=a,b without spaces")
        elif key not in _KEYS:
            builder.problem(line.number, f"unknown key {_short(found[1])}", "remove it; known: SwitchName, Switches, "
                            "Nodes, LinkSpeed, BlockName, BlockSizes")  # fmt: skip
        elif key in values:
            builder.problem(line.number, f"{found[1]} is given twice", "keep one of the two")
        else:
            values[key] = found[2].strip('"')
    return values


def _switch(values: dict[str, str], line: int, aliases: dict[str, str], builder: PlanBuilder) -> SwitchEntry | None:
    name = values["switchname"]
    if re.search(r"[\[\],]", name) or not name:
        builder.problem(line, f'"{_short(name)}" is no name of one switch', "write one line for each switch")
        return None
    if "blockname" in values:
        builder.problem(line, "both SwitchName and BlockName", "keep one of the two")
        return None
    children = builder.hosts_of(values["switches"], line) if values.get("switches") else ()
    nodes = builder.hosts_of(values["nodes"], line) if values.get("nodes") else ()
    if not values.keys() & {"switches", "nodes"}:
        builder.remark(line, f"switch {name} has neither Switches nor Nodes; Slurm itself refuses that")
    return SwitchEntry(name, children, nodes, line, aliases.get(name, ""))


def _block(values: dict[str, str], line: int, builder: PlanBuilder) -> None:
    name = values["blockname"]
    if not name:
        builder.problem(line, "a block without a name", "write BlockName=NAME")
        return
    builder.block(name, builder.hosts_of(values["nodes"], line) if values.get("nodes") else (), line)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
