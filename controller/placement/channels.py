"""Places flows by edge colouring: exactly where the fabric is symmetric and flows are equal, as a start elsewhere.

A flow is an edge from its source leaf to its destination leaf; a colour is a channel (one spine, one of the parallel
cables). A leaf with more flows than channels is split into vertices of at most that many flows, filled one after the
other; then each of its links carries its fair share of flows rounded up or down, in both directions, which nothing can
beat. Source: König (1916) on line colouring, known from rearrangeable Clos networks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from controller.fabric.paths import ABSENT, IntArray, TwoTierPaths
from controller.placement.cut_bounds import LEAF_DOWNLINKS, LEAF_UPLINKS
from controller.placement.edge_colouring import colour
from controller.placement.instance import BoolArray, Instance, effective_rates_bps
from controller.placement.kempe import settle
from controller.placement.problem import Demand, Problem
from controller.placement.routes import TwoTierRoutes

# A channel twice as fast as the slowest counts as two, up to this many.
_WIDEST = 8


@dataclass(frozen=True, slots=True)
class ExactPlacement:
    """`links[i]` is (uplink, downlink) of demand i as link numbers; all flows have `bits`, all links `rate_bps`."""

    links: IntArray
    bits: float
    rate_bps: float
    lower_bound_s: float
    bound: str


def place_exactly(problem: Problem, demands: tuple[Demand, ...], paths: TwoTierPaths) -> ExactPlacement | None:
    """The optimum, or None where it cannot be had this way.

    It can when nothing is pinned to a live path, all flows have one size, and all links concerned exist on every
    channel and have one effective rate. Raises ValueError for links without a capacity.
    """
    size = demands[0].size_bytes
    if any(d.size_bytes != size or d.src_leaf == d.dst_leaf for d in demands):
        return None
    if any(d.pinned is not None and paths.is_live((d.src_leaf, d.dst_leaf), d.pinned) for d in demands):
        return None
    try:
        source, destination = _rows(paths, demands)
    except KeyError:
        return None
    links = np.concatenate((paths.up[np.unique(source)].ravel(), paths.down[np.unique(destination)].ravel()))
    if not len(links) or (links == ABSENT).any():
        return None
    rates = effective_rates_bps(problem, paths.ports, links)[links]
    if rates.min() != rates.max():
        return None
    channels = len(paths.channels)
    whole = np.zeros((len(paths.leaves), channels), dtype=np.bool_)
    channel = colour_around(source, destination, whole, whole)
    bits, rate = 8.0 * size, float(rates[0])
    sent, received = int(np.bincount(source).max()), int(np.bincount(destination).max())
    busiest = max(sent, received)
    return ExactPlacement(
        links=np.stack((paths.up[source, channel], paths.down[destination, channel]), axis=1),
        bits=bits,
        rate_bps=rate,
        lower_bound_s=-(-busiest // channels) * bits / rate,
        bound=LEAF_UPLINKS if sent >= received else LEAF_DOWNLINKS,
    )


def colouring_start(instance: Instance, around_pins: bool = False) -> tuple[IntArray, BoolArray] | None:
    """Links for the movable demands, and which demands still lack them because their colour's link is missing.

    Ignores unequal sizes and single slow links: improvement deals with those. Pinned demands are left out, or, with
    `around_pins`, coloured too and brought back to where they are: new flows then fit between them where that is
    possible, at the price of a walk for each pin. None where the fabric has no two tiers or nothing may move.
    """
    routes, open_ = instance.routes, instance.movable.copy()
    if not isinstance(routes, TwoTierRoutes) or not open_.any():
        return None
    paths = routes.table
    coloured = np.arange(len(open_)) if around_pins else np.flatnonzero(open_)
    source, destination = _rows(paths, tuple(instance.demands[i] for i in coloured.tolist()))
    slots = _slots(instance, paths, source, destination)
    up, down = paths.up[:, slots], paths.down[:, slots]
    fixed = _slots_of_pins(instance, coloured, up[source], down[destination]) if around_pins else {}
    slot = colour_around(source, destination, up == ABSENT, down == ABSENT, fixed)
    links = np.stack((up[source, slot], down[destination, slot]), axis=1)
    moving = open_[coloured]
    coloured, links = coloured[moving], links[moving]
    there = (links != ABSENT).all(axis=1)
    chosen = instance.chosen.copy()
    chosen[coloured[there]] = links[there]
    open_[coloured[there]] = False
    return chosen, open_


def _slots_of_pins(instance: Instance, demands: IntArray, up: IntArray, down: IntArray) -> dict[int, int]:
    """Place among `demands` -> slot of those that are pinned to both links of one slot; a slot is given once."""
    result = {}
    for place in np.flatnonzero(~instance.movable[demands]).tolist():
        links = instance.chosen[demands[place]]
        both = np.flatnonzero((up[place] == links[0]) & (down[place] == links[1]))
        if len(both):
            result[place] = int(both[0])
    return result


def colour_around(
    source: IntArray,
    destination: IntArray,
    no_up: BoolArray,
    no_down: BoolArray,
    fixed: Mapping[int, int] = MappingProxyType({}),
) -> IntArray:
    """A slot for each flow, fairly spread at each leaf, that avoids, where it can, the slots whose link its leaf lacks.

    Leaves are numbered from 0; `no_up[leaf, slot]` and `no_down` say what each lacks. For a missing link a phantom
    flow, from the leaf to itself, is brought to that very slot: then no real flow of the leaf is on it. Flows that are
    `fixed` are brought to their slots likewise.
    """
    slots = no_up.shape[1]
    left, right = _split(source, slots - no_up.sum(axis=1)), _split(destination, slots - no_down.sum(axis=1))
    phantoms = _phantoms(left, right, no_up, no_down)
    ends = np.concatenate((left.of_flow, phantoms[:, 0])), np.concatenate((right.of_flow, phantoms[:, 1]))
    leaves = np.concatenate((source, phantoms[:, 2]))
    flows = len(source)
    wanted = {flows + i: slot for i, slot in enumerate(phantoms[:, 3].tolist())} | dict(fixed)
    return settle(*ends, _thinned(colour(*ends, slots), leaves, slots), slots, wanted)[:flows]


@dataclass(frozen=True, slots=True)
class _Vertices:
    """The vertices that leaves are split into: of each flow, and of each leaf `count[leaf]` from `first[leaf]` on."""

    of_flow: IntArray
    first: IntArray
    count: IntArray


def _split(leaf: IntArray, room: IntArray) -> _Vertices:
    """The first room[leaf] flows of a leaf share a vertex, the next ones another, and so on."""
    flows, room = np.bincount(leaf, minlength=len(room)), np.maximum(room, 1)
    rank = np.empty(len(leaf), dtype=np.intp)
    rank[np.argsort(leaf, kind="stable")] = np.arange(len(leaf)) - np.repeat(np.cumsum(flows) - flows, flows)
    count = -(-flows // room)
    first = np.cumsum(count) - count
    return _Vertices(first[leaf] + rank // room[leaf], first, count)


def _phantoms(left: _Vertices, right: _Vertices, no_up: BoolArray, no_down: BoolArray) -> IntArray:
    """(left vertex, right vertex, leaf, wanted slot) for each vertex that must keep a slot free.

    One phantom serves a vertex of either side where both lack the slot; otherwise its other end is a vertex of its own.
    """
    result: list[tuple[int, int, int, int]] = []
    own_left, own_right = int(left.count.sum()), int(right.count.sum())
    for leaf, slot in np.argwhere(no_up | no_down).tolist():
        lefts = int(left.count[leaf]) if no_up[leaf, slot] else 0
        rights = int(right.count[leaf]) if no_down[leaf, slot] else 0
        for i in range(max(lefts, rights)):
            n = len(result)
            start = int(left.first[leaf]) + i if i < lefts else own_left + n
            end = int(right.first[leaf]) + i if i < rights else own_right + n
            result.append((start, end, leaf, slot))
    return np.array(result, dtype=np.intp).reshape(-1, 4)


def _thinned(colouring: IntArray, leaf: IntArray, channels: int) -> IntArray:
    """With channels to spare, a colour may stand for several: what differs still differs. Flows then rest on all spines
    instead of the first few, and less hangs on each."""
    used = int(colouring.max()) + 1
    return colouring + used * (leaf % (channels // used))


def _rows(paths: TwoTierPaths, demands: tuple[Demand, ...]) -> tuple[IntArray, IntArray]:
    row = paths.row
    source = np.array([row[d.src_leaf] for d in demands], dtype=np.intp)
    return source, np.array([row[d.dst_leaf] for d in demands], dtype=np.intp)


def _slots(instance: Instance, paths: TwoTierPaths, source: IntArray, destination: IntArray) -> IntArray:
    """Channel numbers, each as often as its usual rate is a multiple of the slowest channel's."""
    used = np.concatenate((paths.up[np.unique(source)], paths.down[np.unique(destination)]))
    rates = instance.rates_bps[used]
    finite = np.isfinite(rates)
    if finite.any() and np.ptp(rates[finite]) == 0:
        return np.flatnonzero(finite.any(axis=0))
    usual = np.zeros(used.shape[1])
    for channel, links in enumerate(used.T):
        rates = instance.rates_bps[links[links != ABSENT]]
        if np.isfinite(rates).any():
            usual[channel] = np.median(rates[np.isfinite(rates)])
    known = np.flatnonzero(usual)
    weight = np.clip(np.rint(usual[known] / usual[known].min()), 1, _WIDEST).astype(np.intp)
    return np.repeat(known, weight)
