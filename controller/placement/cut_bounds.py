"""The bound of all cuts at once, in a few array operations: what leaves or enters a leaf or a pod, or joins a pair.

The same numbers as going through the cuts one by one (`bounds`), which a test holds against it; where the fabric is
neither two nor three tiers, that is what is done. Decides nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from controller.fabric.paths import ABSENT, IntArray, TwoTierPaths
from controller.fabric.three_tiers import ThreeTierPaths
from controller.placement.bounds import instance_bound_s, pair_bound_s, spread_bound_s
from controller.placement.instance import TOLERANCE, BoolArray, FloatArray, Instance
from controller.placement.routes import ThreeTierRoutes, TwoTierRoutes, leaf_rows


@dataclass(frozen=True, slots=True)
class Bound:
    """No placement's fullest link needs less than `seconds`; `name` says what proves it."""

    seconds: float
    name: str

    def or_higher(self, other: "Bound") -> "Bound":
        """Whichever says more; the earlier one when the other adds no more than rounding."""
        return other if other.seconds > self.seconds * (1 + TOLERANCE) else self


# A bound from some pairs is as true as one from all.
_PAIRS_TRIED = 256

NOTHING = Bound(0.0, "")
LEAF_UPLINKS = "leaf uplinks"
LEAF_DOWNLINKS = "leaf downlinks"
POD_UPLINKS = "pod uplinks"
POD_DOWNLINKS = "pod downlinks"
LEAF_PAIR = "leaf pair"
CUTS = "cuts"


def cut_bound(instance: Instance) -> Bound:
    """The highest bound of any single cut."""
    if not instance.demands:
        return NOTHING
    routes = instance.routes
    if isinstance(routes, TwoTierRoutes):
        source, destination = leaf_rows(routes.table.row, instance.candidates.pairs)
        found = _two_tiers(instance, routes.table, source, destination)
        return _pairs(instance, found, routes.table.joints[source, destination])
    if isinstance(routes, ThreeTierRoutes):
        found = _three_tiers(instance, routes.table, *leaf_rows(routes.table.row, instance.candidates.pairs))
    else:
        return Bound(instance_bound_s(instance), CUTS)
    return _pairs(instance, found)


def _two_tiers(instance: Instance, table: TwoTierPaths, source: IntArray, destination: IntArray) -> Bound:
    """A link counts for a leaf only if it leads somewhere its flows go: to a spine that knows one of their ends."""
    wanted = np.zeros((len(table.leaves),) * 2, dtype=np.float32)
    wanted[source, destination] = 1
    up = (table.up != ABSENT) & _reached(wanted, table.down, table)
    down = (table.down != ABSENT) & _reached(wanted.T, table.up, table)
    bound = _spread(instance, source, _Links.of(instance, table.up, up), LEAF_UPLINKS)
    return bound.or_higher(_spread(instance, destination, _Links.of(instance, table.down, down), LEAF_DOWNLINKS))


def _reached(wanted: np.ndarray, far: IntArray, table: TwoTierPaths) -> BoolArray:
    """[leaf, channel]: whether the channel's spine has a live link (in `far`) to some leaf that this one wants."""
    starts = table.spine_starts
    live = np.logical_or.reduceat(far != ABSENT, starts, axis=1).astype(np.float32)
    width = np.diff(np.append(starts, far.shape[1]))
    found: BoolArray = np.repeat(wanted @ live > 0, width, axis=1)
    return found


def _three_tiers(instance: Instance, table: ThreeTierPaths, source: IntArray, destination: IntArray) -> Bound:
    low, high = table.low, table.high
    bound = _spread(instance, source, _Links.of(instance, low.up, low.up != ABSENT), LEAF_UPLINKS)
    other = _spread(instance, destination, _Links.of(instance, low.down, low.down != ABSENT), LEAF_DOWNLINKS)
    bound = bound.or_higher(other)
    far = np.flatnonzero(table.pod[source] != table.pod[destination])
    if not len(far):
        return bound
    for leaf, directions, name in ((source, high.up, POD_UPLINKS), (destination, high.down, POD_DOWNLINKS)):
        links = _Links.of(instance, *_by_pod(table, directions))
        bound = bound.or_higher(_spread(instance, table.pod[leaf], links, name, far))
    return bound


def _by_pod(table: ThreeTierPaths, directions: IntArray) -> tuple[IntArray, BoolArray]:
    """A row for each pod with the links of all its spines."""
    order = np.argsort(table.spine_pod, kind="stable")
    spines = np.bincount(table.spine_pod)
    width = directions.shape[1]
    links = np.full((len(spines), int(spines.max()) * width), ABSENT, dtype=np.intp)
    place = np.arange(len(order)) - np.repeat(np.cumsum(spines) - spines, spines)
    for column in range(width):
        links[table.spine_pod[order], place * width + column] = directions[order, column]
    return links, links != ABSENT


@dataclass(frozen=True, slots=True)
class _Links:
    """By group (leaf or pod): how many links it has, their rates together, the slowest and the fastest."""

    count: IntArray
    together_bps: FloatArray
    slowest_bps: FloatArray
    fastest_bps: FloatArray
    rates_of: Callable[[int], FloatArray]

    @classmethod
    def of(cls, instance: Instance, links: IntArray, there: BoolArray) -> "_Links":
        rates = instance.rates_bps[links]
        return cls(
            count=there.sum(axis=1),
            together_bps=np.where(there, rates, 0.0).sum(axis=1),
            slowest_bps=np.where(there, rates, np.inf).min(axis=1, initial=np.inf),
            fastest_bps=np.where(there, rates, 0.0).max(axis=1, initial=0.0),
            rates_of=lambda group: rates[group][there[group]],
        )


def _spread(instance: Instance, group: IntArray, links: _Links, name: str, among: IntArray | None = None) -> Bound:
    """`bounds.spread_bound_s` of every group at once where its links are alike, one by one where they are not."""
    bits = instance.bits
    if among is not None:
        group, bits = group[among], bits[among]
    order = np.lexsort((-bits, group))
    group, bits = group[order], bits[order]
    flows = np.bincount(group, minlength=len(links.count))
    first = np.cumsum(flows) - flows
    total = np.concatenate(([0.0], np.cumsum(bits)))
    present = np.flatnonzero(flows)
    fluid = (total[first + flows] - total[first])[present] / links.together_bps[present]
    best = float(fluid.max())
    alike = links.slowest_bps == links.fastest_bps
    # Of the j largest flows of a group, some link carries ceil(j / links) at least, and at best the smallest of them.
    end = np.arange(1, len(bits) + 1)
    rank = end - first[group]
    crowd = -(-rank // np.maximum(links.count[group], 1))
    pigeonhole = (total[end] - total[end - crowd]) / links.slowest_bps[group]
    best = max(best, float(np.where(alike[group], pigeonhole, 0.0).max()))
    largest = bits[first[present]] / links.slowest_bps[present]
    for i in np.flatnonzero(~alike[present] & (fluid + largest > best)).tolist():
        members = bits[first[present[i]] : first[present[i]] + flows[present[i]]]
        best = max(best, spread_bound_s(members, links.rates_of(int(present[i]))))
    return Bound(best, name)


def _pairs(instance: Instance, bound: Bound, joints: IntArray | None = None) -> Bound:
    """What one pair of leaves exchanges, of the pairs that might exceed the bound.

    `joints` counts, by demand, the spines that join its leaves: so many disjoint paths there are at least. As many
    flows as that need no more than the largest of them on the slowest link.
    """
    numbers: dict[tuple[int, int], int] = {}
    pair = np.array([numbers.setdefault(p, len(numbers)) for p in instance.candidates.pairs], dtype=np.intp)
    order = np.lexsort((-instance.bits, pair))
    flows = np.bincount(pair)
    first = order[np.cumsum(flows) - flows]
    largest, together = instance.bits[first], np.bincount(pair, weights=instance.bits)
    paths = np.ones(len(flows), dtype=np.intp) if joints is None else np.maximum(joints[first], 1)
    most = np.where(flows <= paths, largest, np.minimum(together, together / paths + largest))
    may_exceed = np.flatnonzero(most / instance.rates_bps.min() > bound.seconds * (1 + TOLERANCE))
    for number in may_exceed[np.argsort(-most[may_exceed], kind="stable")][:_PAIRS_TRIED].tolist():
        members = np.flatnonzero(pair == number).tolist()
        bound = bound.or_higher(Bound(pair_bound_s(instance, members, instance.candidates[members[0]]), LEAF_PAIR))
    return bound
