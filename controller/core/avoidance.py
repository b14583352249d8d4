"""Links and switches that traffic keeps off although they work, and which of them it takes all the same.

A link that is drained for maintenance, or that loses packets without being down, is left out of the view of which paths
and routes are made. It goes on working meanwhile, and a switch that has no other way down keeps the one over it
(`pipeline.neighbourhood`): whoever has been told sends nothing there, and whoever has not still gets through.
Where nothing else joins two switches with hosts it stays in, unless it was taken out by force. Who wants a link
avoided, and for how long, is decided by whoever names an origin here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controller.core.remembered import Avoidance, Cable, Target
from controller.fabric.model import FabricView, Link
from controller.fabric.reach import Pair, joined, without
from controller.fabric.tiers import Tiers


class Origin(StrEnum):
    OPERATOR = "operator"
    # It loses packets, or damages them, without being down.
    GRAY = "gray failure"


# What it costs to use such a link all the same: a lossy one is the worse choice.
_COST: Mapping[Origin, int] = {Origin.OPERATOR: 1, Origin.GRAY: 4}


@dataclass(slots=True)
class Avoided:
    """Everything that is to be avoided, by origin. Mutable; part of the core's state. Whoever changes it has the fabric
    looked at anew."""

    by_origin: dict[Origin, dict[Target, Avoidance]] = field(default_factory=lambda: {origin: {} for origin in Origin})

    def avoid(self, target: Target, origin: Origin, why: Avoidance) -> bool:
        """Whether that changes anything."""
        held = self.by_origin[origin]
        changed = held.get(target) != why
        held[target] = why
        return changed

    def release(self, target: Target, origin: Origin) -> bool:
        """Whether that changes anything; what others want avoided stays so."""
        return self.by_origin[origin].pop(target, None) is not None

    def restore(self, drains: Mapping[Target, Avoidance]) -> None:
        """What an operator had drained when an earlier run ended."""
        self.by_origin[Origin.OPERATOR] = dict(drains)

    def of(self, origin: Origin) -> Mapping[Target, Avoidance]:
        return self.by_origin[origin]

    def concerning(self, cable: Cable) -> list[tuple[Origin, Target, Avoidance]]:
        """Who wants this cable avoided, itself or with a switch at its ends."""
        targets: tuple[Target, ...] = (cable, cable[0].dpid, cable[1].dpid)
        return [
            (origin, target, held[target])
            for origin, held in self.by_origin.items()
            for target in dict.fromkeys(targets)
            if target in held
        ]

    def __bool__(self) -> bool:
        return any(self.by_origin.values())


@dataclass(frozen=True, slots=True)
class Reduced:
    """`view` is what paths and routes are made of; `whole` has every usable link. `used` are the links that should be
    avoided and are in the view because nothing else joins the hosts beyond them."""

    view: FabricView = field(default_factory=FabricView)
    whole: FabricView = field(default_factory=FabricView)
    left_out: Mapping[Cable, Link] = field(default_factory=dict)
    used: Mapping[Cable, Link] = field(default_factory=dict)
    # What a switch takes that has no way in `view`: all but what was taken out by force.
    last_resort: FabricView = field(default_factory=FabricView)


def reduced(whole: FabricView, avoided: Avoided) -> Reduced:
    """The view without what is avoided, as far as every two switches with hosts stay joined."""
    if not avoided:
        return Reduced(whole, whole, last_resort=whole)
    cost: dict[Link, int] = {}
    forced = []
    for link in whole.links:
        found = avoided.concerning((link.a, link.b))
        if any(why.forced for _, _, why in found):
            forced.append(link)
        elif found:
            cost[link] = sum(_COST[origin] for origin, _, _ in found)
    possible = without(whole, forced)
    used = _needed(possible, cost)
    left_out = [link for link in (*forced, *cost) if link not in used]
    return Reduced(without(whole, left_out), whole, _by_cable(left_out), _by_cable(used), possible)


def _by_cable(links: Iterable[Link]) -> Mapping[Cable, Link]:
    return {(link.a, link.b): link for link in links}


def _needed(view: FabricView, cost: Mapping[Link, int]) -> set[Link]:
    """The links of `cost` that are taken all the same: the cheapest for each two switches that nothing else joins."""
    taken: set[Link] = set()
    missing = sorted(joined(view) - joined(without(view, cost))) if cost else []
    ways = _Ways(view, cost)
    for a, b in missing:
        # What an earlier pair needs may join this one as well.
        if not taken or not _joins(view, cost.keys() - taken, [(a, b)]):
            taken |= ways.links(a, b)
    # What a later pair needs may make superfluous what an earlier one took.
    for ends in sorted({(link.a.dpid, link.b.dpid) for link in taken}):
        parallel = {link for link in taken if (link.a.dpid, link.b.dpid) == ends}
        if _joins(view, (cost.keys() - taken) | parallel, missing):
            taken -= parallel
    return taken


def _joins(view: FabricView, left_out: Collection[Link], pairs: Iterable[Pair]) -> bool:
    tiers = Tiers.of(without(view, left_out))
    return all(tiers.reaches(a, b) for a, b in pairs)


class _Ways:
    """The cheapest ways through a view in which some links have a cost."""

    def __init__(self, view: FabricView, cost: Mapping[Link, int]) -> None:
        self._tiers = Tiers.of(view)
        self._between: dict[tuple[int, int], list[Link]] = {}
        for link in view.links:
            for ends in ((link.a.dpid, link.b.dpid), (link.b.dpid, link.a.dpid)):
                self._between.setdefault(ends, []).append(link)
        self._cost = cost
        self._best: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}

    def links(self, here: int, destination: int) -> set[Link]:
        """The links with a cost on the cheapest way, parallel ones included where none is without."""
        found: set[Link] = set()
        for there in self._way(here, destination)[1]:
            if self._step(here, there):
                found.update(self._between[here, there])
            here = there
        return found & self._cost.keys()

    def _way(self, here: int, destination: int) -> tuple[int, tuple[int, ...]]:
        """(cost, switches after `here`)."""
        if here == destination:
            return 0, ()
        known = self._best.get((here, destination))
        if known is None:
            ways = []
            for there in self._tiers.next_switches(here, destination):
                cost, rest = self._way(there, destination)
                ways.append((self._step(here, there) + cost, (there, *rest)))
            known = self._best[here, destination] = min(ways)
        return known

    def _step(self, here: int, there: int) -> int:
        return min(self._cost.get(link, 0) for link in self._between[here, there])
