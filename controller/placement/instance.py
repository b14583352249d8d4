"""A placement problem in numbers: what all methods and bounds work on.

Decides which demands can be placed at all and which stay where they are; the methods decide the rest.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

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


class Candidates:
    """By demand number, its paths as rows of link numbers, shape (paths, hops), filled up with ABSENT.

    They are made when asked for: who re-plans after a failure needs those of a few flows only.
    """

    def __init__(self, routes: Routes, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs
        self._choices = routes.choices

    def __getitem__(self, number: int) -> IntArray:
        return self._choices(self.pairs[number])

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, slots=True)
class Instance:
    """`demands` have a live path and are sorted by flow_id. Row i of the other arrays belongs to demand i.

    `chosen[i]` is the pinned path's row of link numbers (indices into `routes.ports`, filled up with ABSENT), or zeros
    where `movable[i]`. `rates_bps` is by link number: the effective rate of links that may be on paths, infinity
    elsewhere and in one more entry at its end, which is where ABSENT points. No array may be changed by readers.
    """

    routes: Routes
    demands: tuple[Demand, ...]
    unplaced: tuple[str, ...]
    bits: FloatArray
    candidates: Candidates
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
        pairs = [(d.src_leaf, d.dst_leaf) for d in demands]
        joined = routes.which_join(pairs)
        live: tuple[Demand, ...] = demands
        unplaced: tuple[str, ...] = ()
        if not joined.all():
            yes = joined.tolist()
            live = tuple(d for d, there in zip(demands, yes, strict=True) if there)
            unplaced = tuple(d.flow_id for d, there in zip(demands, yes, strict=True) if not there)
            pairs = [pair for pair, there in zip(pairs, yes, strict=True) if there]
        chosen, movable = _pinned(routes, live, pairs)
        return cls(
            routes=routes,
            demands=live,
            unplaced=unplaced,
            bits=np.array([8.0 * d.size_bytes for d in live]),
            candidates=Candidates(routes, pairs),
            chosen=chosen,
            movable=movable,
            rates_bps=effective_rates_bps(problem, routes.ports, routes.links(dict.fromkeys(pairs))),
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


def _pinned(routes: Routes, demands: tuple[Demand, ...], pairs: Sequence[Pair]) -> tuple[IntArray, BoolArray]:
    """The rows of pinned paths that live, and which demands may move."""
    rows = {
        i: row
        for i, demand in enumerate(demands)
        if demand.pinned is not None and (row := routes.row_of(pairs[i], demand.pinned)) is not None
    }
    hops = routes.choices(pairs[0]).shape[1] if pairs else 0
    chosen = np.zeros((len(demands), hops), dtype=np.intp)
    movable = np.ones(len(demands), dtype=np.bool_)
    if rows:
        numbers = list(rows)
        chosen[numbers] = list(rows.values())
        movable[numbers] = False
    return chosen, movable


def in_order(demands: Iterable[Demand]) -> tuple[Demand, ...]:
    """Sorted by flow_id, so that no answer depends on the order of asking. ValueError when an id is used twice."""
    ordered = tuple(sorted(demands, key=_flow_id))
    if len({demand.flow_id for demand in ordered}) < len(ordered):
        uses = Counter(demand.flow_id for demand in ordered)
        twice = [flow_id for flow_id, count in uses.items() if count > 1]
        raise ValueError(f"flow ids used more than once: {', '.join(twice[:8])}; each demand needs its own")
    return ordered


_flow_id = attrgetter("flow_id")


def effective_rates_bps(problem: Problem, ports: Sequence[PortRef], used: IntArray) -> FloatArray:
    """By link number for the `used` ones, infinity elsewhere and at the end. ValueError names what lacks a capacity."""
    result = np.full(len(ports) + 1, np.inf)
    capacities = problem.capacity_bps
    needed = [ports[i] for i in used.tolist()]
    try:
        # The usual case: capacities of just these links in just this order. Looking each up costs thousands of hashes.
        if len(capacities) == len(ports) and list(capacities) == list(ports):
            capacity = np.fromiter(capacities.values(), dtype=np.float64, count=len(ports))[used]
        else:
            capacity = np.array([capacities[port] for port in needed], dtype=np.float64)
    except KeyError:
        missing = [str(port) for port in needed if port not in problem.capacity_bps]
        raise ValueError(f"no capacity_bps for {', '.join(missing[:8])}, which are on paths") from None
    background = [problem.background_bps.get(port, 0.0) for port in needed] if problem.background_bps else 0.0
    result[used] = effective_bps(capacity, background)
    return result
