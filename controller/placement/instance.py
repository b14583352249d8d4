"""A placement problem in numbers: what all methods and bounds work on.

Decides which demands can be placed at all and which stay where they are; the methods decide the rest.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller.fabric.model import Path, PortRef
from controller.fabric.paths import IntArray, Pair
from controller.placement.capacity import effective_bps
from controller.placement.problem import Demand, Problem
from controller.placement.routes import Routes, routes_for

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

# Loads are sums of floats: two that differ by less than this share are equal.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Instance:
    """`demands` have a live path and are sorted by flow_id. Row i of the other arrays belongs to demand i.

    `candidates[i]` has shape (paths, hops) and holds link numbers (indices into `routes.ports`), filled up with -1.
    `chosen[i]` is the pinned path's row, or zeros where `movable[i]`. `rates_bps` is by link number: the effective
    rate of links on candidate paths, infinity elsewhere and in one more entry at its end, which is where -1 points. No
    array may be changed by readers.
    """

    routes: Routes
    demands: tuple[Demand, ...]
    unplaced: tuple[str, ...]
    bits: FloatArray
    candidates: tuple[IntArray, ...]
    chosen: IntArray
    movable: BoolArray
    rates_bps: FloatArray

    @classmethod
    def of(cls, problem: Problem) -> "Instance":
        """Raises ValueError for flow ids used twice and for links without a capacity."""
        demands = in_order(problem.demands)
        return cls.on(problem, demands, routes_for(problem.paths, ((d.src_leaf, d.dst_leaf) for d in demands)))

    @classmethod
    def on(cls, problem: Problem, demands: tuple[Demand, ...], routes: Routes) -> "Instance":
        """The same for who has the demands `in_order` and their routes already."""
        choices = {pair: _choices(routes, pair) for pair in {(d.src_leaf, d.dst_leaf): None for d in demands}}
        live = tuple(d for d in demands if len(choices[d.src_leaf, d.dst_leaf]))
        hops = max((rows.shape[1] for rows in choices.values()), default=0)
        chosen = np.zeros((len(live), hops), dtype=np.intp)
        movable = np.ones(len(live), dtype=np.bool_)
        for i, demand in enumerate(live):
            if demand.pinned is not None and routes.is_live((demand.src_leaf, demand.dst_leaf), demand.pinned):
                movable[i] = False
                chosen[i] = -1
                chosen[i, : len(demand.pinned)] = [routes.index[port] for port in demand.pinned]
        used = np.unique(np.concatenate([rows.ravel() for rows in choices.values()])) if live else chosen.ravel()
        return cls(
            routes=routes,
            demands=live,
            unplaced=tuple(d.flow_id for d in demands if not len(choices[d.src_leaf, d.dst_leaf])),
            bits=np.array([8.0 * d.size_bytes for d in live]),
            candidates=tuple(choices[d.src_leaf, d.dst_leaf] for d in live),
            chosen=chosen,
            movable=movable,
            rates_bps=effective_rates_bps(problem, routes.ports, used[used >= 0]),
        )

    def load_s(self, chosen: IntArray) -> FloatArray:
        """Seconds by link number when demand i takes the links `chosen[i]`; the last entry stays 0.0."""
        return self.bits_on(chosen, self.bits) / self.rates_bps

    def bits_on(self, chosen: IntArray, bits: FloatArray) -> FloatArray:
        """By link number, when the flow of row i brings `bits[i]` to the links `chosen[i]`."""
        result = np.zeros(len(self.rates_bps))
        for column in chosen.T:
            result += np.bincount(column % len(result), weights=bits, minlength=len(result))
        return result

    def path(self, row: Iterable[int]) -> Path:
        return tuple(self.routes.ports[i] for i in row if i >= 0)


def in_order(demands: Iterable[Demand]) -> tuple[Demand, ...]:
    """Sorted by flow_id, so that no answer depends on the order of asking. ValueError when an id is used twice."""
    ordered = tuple(sorted(demands, key=lambda demand: demand.flow_id))
    if len({demand.flow_id for demand in ordered}) < len(ordered):
        uses = Counter(demand.flow_id for demand in ordered)
        twice = [flow_id for flow_id, count in uses.items() if count > 1]
        raise ValueError(f"flow ids used more than once: {', '.join(twice[:8])}; each demand needs its own")
    return ordered


def effective_rates_bps(problem: Problem, ports: Sequence[PortRef], used: IntArray) -> FloatArray:
    """By link number for the `used` ones, infinity elsewhere and at the end. ValueError names what lacks a capacity."""
    result = np.full(len(ports) + 1, np.inf)
    needed = [ports[i] for i in used.tolist()]
    try:
        capacity = [problem.capacity_bps[port] for port in needed]
    except KeyError:
        missing = [str(port) for port in needed if port not in problem.capacity_bps]
        raise ValueError(f"no capacity_bps for {', '.join(missing[:8])}, which are on paths") from None
    background = [problem.background_bps.get(port, 0.0) for port in needed] if problem.background_bps else 0.0
    result[used] = effective_bps(capacity, background)
    return result


def _choices(routes: Routes, pair: Pair) -> IntArray:
    try:
        return routes.choices(pair)
    except KeyError:
        return np.empty((0, 0), dtype=np.intp)
