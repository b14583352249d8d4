"""Which ports lead to one server, where only its own LLDP tells: hosts' agents bear one chassis id on every interface.

It decides how the interfaces are counted: in the order of their names, as servers of the same make have them, so that
one that is down or silent does not renumber the others. A plan knows better. Anybody can say anything by LLDP, so
nothing but names and remarks may follow from this.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.fabric.lldp import Neighbour, NeighbourKind
from controller.fabric.model import PortRef


@dataclass(frozen=True, slots=True)
class ServerNic:
    """`server` is the name that it gives itself; `number` counts its interfaces from 1."""

    server: str
    number: int


def server_nics(said: Iterable[tuple[PortRef, Neighbour]]) -> Mapping[PortRef, ServerNic]:
    """Of servers with several interfaces. `said` has one neighbour for each port."""
    by_chassis: dict[str, list[tuple[PortRef, Neighbour]]] = defaultdict(list)
    for port, neighbour in said:
        if neighbour.kind == NeighbourKind.HOST:
            by_chassis[neighbour.chassis_id].append((port, neighbour))
    makes = {tuple(sorted({_port(n) for _, n in found}, key=_in_order)) for found in by_chassis.values()}
    # The makes with most interfaces first: a server that shows fewer is one of those.
    makes_with: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for make in sorted(makes, key=lambda make: (-len(make), make)):
        for each in make:
            makes_with[each].append(make)
    result: dict[PortRef, ServerNic] = {}
    for found in by_chassis.values():
        names = [_port(neighbour) for _, neighbour in found]
        make = next(each for each in makes_with[names[0]] if set(names) <= set(each))
        if len(make) > 1 and len(set(names)) == len(names):
            result |= {port: ServerNic(n.name, make.index(_port(n)) + 1) for port, n in found}
    return result


def _port(neighbour: Neighbour) -> str:
    """What tells the server's interfaces apart: names where it gives any, else addresses."""
    return neighbour.port_name


def _in_order(name: str) -> list[tuple[int, str]]:
    """Numbers in a name count as numbers: eth2 is before eth10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name) if part]
