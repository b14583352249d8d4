"""PTM's topology.dot, from a cabling: what is cabled now becomes what is meant.

It decides that a cable which cannot be used stays in and is marked: PTM compares with what was meant, not with what
works. Every end needs a port. Source: topology.dot(5) of Cumulus PTM.
"""

from collections.abc import Iterator

from controller.fabric.cabling import Cable, CablingPlan, is_nic_port
from controller.formats.writing import ExportError


def lines(plan: CablingPlan) -> Iterator[str]:
    """Lines of the graph. Raises ExportError."""
    cables = [cable for cable in plan.cables if _is_named(cable)]
    problems = [f"{name!r} cannot be written to ptm: take the line break out of it" for name in _odd_names(plan)]
    if not cables:
        problems.append("no cable is known by both its ports, which is all that PTM has: nothing to write")
    if problems:
        raise ExportError(problems)
    yield "# topology.dot, written by heddle export ptm"
    yield f"graph {_quoted(plan.name)} {{"
    for host in plan.hosts:
        yield f'    {_quoted(host)} [function="host"]'
    for cable in cables:
        ends = (f"{_quoted(end.node)}:{_quoted(end.port)}" for end in (cable.a, cable.b))
        mark = "" if cable.usable else f"  // {cable.state} when this was written"
        yield f"    {' -- '.join(ends)}{mark}"
    yield "}"
    unknown = [cable for cable in plan.cables if not _is_named(cable)]
    yield from (f"# left out, a port is not known: {cable.a} to {cable.b}" for cable in unknown)


def _is_named(cable: Cable) -> bool:
    """A host's interfaces may be counted only, and PTM wants their names."""
    return all(end.port and not is_nic_port(end.port) for end in (cable.a, cable.b))


def _odd_names(plan: CablingPlan) -> list[str]:
    names = [switch.name for switch in plan.switches] + list(plan.hosts)
    ports = [end.port for cable in plan.cables for end in (cable.a, cable.b)]
    return [name for name in dict.fromkeys(names + ports) if "\n" in name or "\r" in name or "\\" in name]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
