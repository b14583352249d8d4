"""Up and down in a fabric of several tiers: how high a switch stands, what is below it, how far a packet climbs.

Edge switches are below leaves, those below spines, those below cores. Traffic climbs as little as it must, turns once
and then only goes down, so no route can circle. A cable between two switches of one height, or to a switch of
unknown role, is none of its ways. Which of several ways a packet takes is decided in `pipeline`, and by `placement`.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.fabric.model import FabricView, Role

HEIGHT: Mapping[Role, int] = {Role.EDGE: 0, Role.LEAF: 1, Role.SPINE: 2, Role.CORE: 3}
# Higher than any fabric: there is no way.
_NEVER = len(HEIGHT)


@dataclass(slots=True)
class Tiers:
    """Of one view; what is asked for is kept. `uppers` and `lowers` are the neighbours of each switch, sorted."""

    uppers: Mapping[int, tuple[int, ...]]
    lowers: Mapping[int, tuple[int, ...]]
    _below: dict[int, frozenset[int]] = field(default_factory=dict)
    _climbs: dict[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, view: FabricView) -> "Tiers":
        uppers: dict[int, set[int]] = defaultdict(set)
        lowers: dict[int, set[int]] = defaultdict(set)
        height = {dpid: HEIGHT.get(switch.role) for dpid, switch in view.switches.items()}
        for link in view.links:
            for low, high in ((link.a.dpid, link.b.dpid), (link.b.dpid, link.a.dpid)):
                below, above = height.get(low), height.get(high)
                if below is not None and above is not None and below < above:
                    uppers[low].add(high)
                    lowers[high].add(low)
        return cls({d: tuple(sorted(s)) for d, s in uppers.items()}, {d: tuple(sorted(s)) for d, s in lowers.items()})

    def below(self, dpid: int) -> frozenset[int]:
        """The switch and everything that is reached from it by going down."""
        known = self._below.get(dpid)
        if known is None:
            lowers = self.lowers.get(dpid, ())
            known = self._below[dpid] = frozenset((dpid,)).union(*(self.below(lower) for lower in lowers))
        return known

    def climb(self, here: int, destination: int) -> int:
        """How many steps up a packet at `here` must take before it can go down to `destination`; more than any fabric
        is high when it cannot."""
        if destination in self.below(here):
            return 0
        known = self._climbs.get((here, destination))
        if known is None:
            steps = (self.climb(upper, destination) for upper in self.uppers.get(here, ()))
            known = self._climbs[here, destination] = min(min(steps, default=_NEVER) + 1, _NEVER)
        return known

    def reaches(self, here: int, destination: int) -> bool:
        """Whether a packet at `here` has any way to the switch `destination`."""
        return self.climb(here, destination) < _NEVER

    def next_switches(self, here: int, destination: int) -> tuple[int, ...]:
        """The neighbours to which a packet at `here` may go on its way to the switch `destination`, sorted."""
        steps = self.climb(here, destination)
        if steps == 0:
            return tuple(lower for lower in self.lowers.get(here, ()) if destination in self.below(lower))
        if steps >= _NEVER:
            return ()
        return tuple(u for u in self.uppers.get(here, ()) if self.climb(u, destination) == steps - 1)


def below_leaves(view: FabricView) -> tuple[FabricView, tuple[str, ...]]:
    """The view in which hosts of an edge switch with one leaf know it, and a sentence on each edge switch without any.

    Below one leaf an edge switch has nothing to choose, and paths begin at the leaf; below several they begin at the
    edge switch itself (`edge_paths`).
    """
    edges = {dpid for dpid, switch in view.switches.items() if switch.role == Role.EDGE}
    if not edges:
        return view, ()
    uppers = Tiers.of(view).uppers
    leaves = {dpid for dpid, switch in view.switches.items() if switch.role == Role.LEAF}
    leaf = {dpid: above[0] for dpid in edges if len(above := uppers.get(dpid, ())) == 1 and above[0] in leaves}
    hosts = tuple(replace(host, below_leaf=leaf.get(host.port.dpid)) for host in view.hosts)
    return replace(view, hosts=hosts), tuple(
        f"edge switch {view.switches[dpid].name} hangs on no leaf: nothing reaches its hosts from elsewhere"
        for dpid in sorted(edges)
        if view.switches[dpid].connected and not uppers.get(dpid)
    )


def pods(view: FabricView) -> dict[int, int]:
    """Switch -> pod, counted from 1 in the order of their lowest switches; cores are in none. A fabric without cores is
    one pod."""
    around: dict[int, set[int]] = defaultdict(set)
    inside = {d for d, s in view.switches.items() if s.role in HEIGHT and s.role != Role.CORE}
    for link in view.links:
        if link.a.dpid in inside and link.b.dpid in inside:
            around[link.a.dpid].add(link.b.dpid)
            around[link.b.dpid].add(link.a.dpid)
    cores = any(switch.role == Role.CORE for switch in view.switches.values())
    found: dict[int, int] = {}
    number = 0
    for start in sorted(inside):
        if start in found:
            continue
        number = number + 1 if cores else 1
        todo = [start]
        while todo:
            here = todo.pop()
            if here not in found:
                found[here] = number
                todo += around[here]
    return found
