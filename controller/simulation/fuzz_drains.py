"""Drains on a fuzzed fabric: what a step means, and what must hold of links that an operator has taken out of use.

The checks look at cables and packets and know nothing of how the core decides: a packet crosses an avoided cable only
if, without it, two hosts would have no way of three switches left, or none at all.
"""

from collections.abc import Collection, Iterator, Mapping

from controller.core.avoidance import Origin
from controller.core.machine import Core
from controller.core.remembered import Cable, Target
from controller.fabric.discovery import cable_of
from controller.fabric.model import PortRef
from controller.simulation.fuzz_checks import probes
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import walk

DRAINED = "drained"


def target(network: ModelNetwork, switch: str, cable: int) -> Target | None:
    """None for a host's cable, which nobody can drain."""
    if switch:
        return network.switch(switch).dpid
    found = network.wiring.cables[cable]
    if isinstance(found.a, str) or isinstance(found.b, str):
        return None
    return cable_of(found.a, found.b)


def subject(of: Target) -> str:
    """Its name in the books of promises."""
    return f"drain {of:x}" if isinstance(of, int) else f"drain {of[0]} {of[1]}"


def held(core: Core) -> dict[str, str]:
    return {subject(of): DRAINED for of in core.state.avoided.of(Origin.OPERATOR)}


def wrongly_used(network: ModelNetwork, core: Core) -> Iterator[str]:
    """Packets on drained cables that nothing forces onto them."""
    usable = set(core.usable)
    drained = {cable for cable in usable if core.state.avoided.concerning(cable)}
    if not drained:
        return
    crossed = _crossed(network, core, drained)
    free = usable - drained
    joined = _joined(core, free | crossed)
    for cable in sorted(crossed):
        parallel = {c for c in crossed if {e.dpid for e in c} == {e.dpid for e in cable}}
        # Of parallel cables one would do, but which is nobody's concern.
        if joined == _joined(core, (free | crossed) - parallel):
            yield f"{network.wiring.describe(cable)} is drained, and crossed although all hosts are joined without it"


def _crossed(network: ModelNetwork, core: Core, drained: Collection[Cable]) -> set[Cable]:
    """The drained cables that packets between any two hosts cross."""
    of_end = {end: cable for cable in drained for end in cable}
    tried = probes(core.state.paths)
    found = set()
    for source in network.hosts.values():
        for destination in network.hosts.values():
            if source is destination:
                continue
            for packet in tried(source, destination):
                for switch, port_no in walk(network, packet, source.name).ports:
                    end = PortRef(network.switch(switch).dpid, port_no)
                    if end in of_end:
                        found.add(of_end[end])
    return found


def _joined(core: Core, cables: Collection[Cable]) -> set[tuple[int, int]]:
    """Every two switches with known hosts between which these cables make a way of at most three switches; and,
    exchanged, those between which they make any. A leaf whose hosts are unknown looks like a core, and ways are longer.
    """
    near: dict[int, set[int]] = {}
    for a, b in cables:
        near.setdefault(a.dpid, set()).add(b.dpid)
        near.setdefault(b.dpid, set()).add(a.dpid)
    homes = sorted({host.port.dpid for host in core.state.view.hosts})
    short = {(a, b) for a in homes for b in homes if a < b and near.get(a, set()) & near.get(b, set())}
    part = {home: _part(home, near) for home in homes}
    return short | {(b, a) for a in homes for b in homes if a < b and b in part[a]}


def _part(start: int, near: Mapping[int, Collection[int]]) -> set[int]:
    """Every switch that hangs together with this one."""
    found, todo = {start}, [start]
    while todo:
        new = set(near.get(todo.pop(), ())) - found
        found |= new
        todo += new
    return found
