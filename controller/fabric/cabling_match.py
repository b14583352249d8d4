"""Which node and which port of a plan is which of those that are seen.

It decides on spelling only: nodes by their names, aliases, short names; ports by number or by `port_names`. What
follows for a cable is `cabling_verdict`'s.
"""

from dataclasses import replace
from functools import lru_cache

from controller.fabric.cabling import CableEnd, CablingPlan, SeenCable, SeenEnd, SeenFabric, is_nic_port
from controller.fabric.names import resolver
from controller.fabric.port_names import PortMatch, compare


class NodeNames:
    """Planned names of switches and hosts in the words of what is seen. Two planned nodes never become one."""

    def __init__(self, plan: CablingPlan, seen: SeenFabric) -> None:
        self._seen = {switch.name for switch in seen.switches if switch.connected} | seen.hosts.keys()
        self._seen |= {end.node for cable in seen.cables if cable.state != "down" for end in (cable.a, cable.b)}
        known: dict[str, tuple[str, ...]] = {switch.name: () for switch in seen.switches}
        known |= {end.node: () for cable in seen.cables for end in (cable.a, cable.b)}
        known |= dict(seen.hosts)
        aliases = {switch.name: switch.alias for switch in plan.switches if switch.alias}
        names = resolver(known)
        planned = {switch.name for switch in plan.switches} | set(plan.hosts)
        self._of: dict[str, str] = {name: name for name in planned if name in known}
        taken = set(self._of)
        for name in sorted(planned - self._of.keys()):
            found = names.find(name).name or names.find(aliases.get(name, name)).name
            if found is not None and found not in taken:
                self._of[name] = found
                taken.add(found)

    def seen_name(self, node: str) -> str:
        """The planned name itself when nothing like it is seen."""
        return self._of.get(node, node)

    def end(self, end: CableEnd) -> CableEnd:
        return CableEnd(self.seen_name(end.node), end.port)

    def is_seen(self, node: str) -> bool:
        return node in self._seen

    def same_port(self, planned: CableEnd, seen: SeenEnd) -> bool:
        return planned.node == seen.node and _port(planned.port, seen, seen.node) is PortMatch.SAME


def with_neighbours(plan: CablingPlan, seen: SeenFabric) -> SeenFabric:
    """What is seen, with the neighbours as cables whose word counts: switches of others, and whoever bears a name that
    the plan knows. A NIC knows addresses only, and a host's own name need not be the plan's: neither contradicts it."""
    names = resolver({switch.name: () for switch in plan.switches} | dict.fromkeys(plan.hosts, ()))
    counted = [
        neighbour.cable
        for neighbour in seen.neighbours
        if neighbour.kind == "switch" or names.find(neighbour.cable.a.node).name is not None
    ]
    return replace(seen, cables=(*seen.cables, *counted)) if counted else seen


def meets(a: CableEnd, b: CableEnd, seen: SeenCable) -> PortMatch:
    """How well a cable that joins the same two nodes fits the planned ends, the better way round."""
    best = PortMatch.DIFFERENT
    for near, far in ((seen.a, seen.b), (seen.b, seen.a)):
        if (a.node, b.node) != (near.node, far.node):
            continue
        ways = {_port(a.port, near, near.node), _port(b.port, far, far.node)}
        if ways == {PortMatch.SAME}:
            return PortMatch.SAME
        if PortMatch.DIFFERENT not in ways:
            best = PortMatch.MAYBE
    return best


def _port(planned: str, seen: SeenEnd, node: str) -> PortMatch:
    """What neither side can contradict is the same: a plan may name no port, a host's port may have no name, and where
    one counts a host's ports and the other names them, nothing tells which is which."""
    if not planned or (seen.number is None and not seen.name):
        return PortMatch.SAME
    if seen.number is None and is_nic_port(planned) != is_nic_port(seen.name):
        return PortMatch.SAME
    if seen.number is not None and planned == str(seen.number):
        return PortMatch.SAME
    return _compare(planned, seen.name, node) if seen.name else PortMatch.DIFFERENT


_compare = lru_cache(maxsize=65536)(compare)
