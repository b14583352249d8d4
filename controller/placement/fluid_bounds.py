"""What no placement can beat even if flows were poured over all their paths at will: bounds from link weights.

Any weights prove a bound (duality of the min-max load problem): if crossing a link costs its weight, then all bits on
their cheapest paths cost at least so much, and links loaded for T seconds can pay T x sum(weight x rate) at most. A cut
is the case of equal weights on the links that cross it; so the search below finds, among others, cuts around any
subset of spines, which matter where the fabric is not symmetric. The best weights give the optimum of the linear
program, which HiGHS finds exactly where that is affordable. Decides nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

from controller.fabric.paths import ABSENT, IntArray, TwoTierPaths
from controller.placement.cut_bounds import NOTHING, Bound
from controller.placement.instance import TOLERANCE, FloatArray, Instance
from controller.placement.routes import TwoTierRoutes

WEIGHTED_LINKS = "weighted links"
LINEAR_PROGRAM = "linear program"

# Rounds of the search; each looks at every path once.
ROUNDS = 60
# Beyond so many paths in all (links of two-tier fabrics excepted) neither search nor linear program is tried.
MOST_PATHS = 300_000
MOST_VARIABLES = 2_000

# How strongly the search favours full links at first, and by how much more with each round (falling, as subgradient
# steps must). Tried on fabrics with links down; what matters is the product with the logarithm of the links' number.
_FIRST_PRESSURE = 30.0
_STEP = 1.0
_DECLINE = 0.3


@dataclass(frozen=True, slots=True)
class _Pairs:
    """By pair of leaves: the bits it exchanges. `cheapest(weight)` returns each pair's distance, and the links of its
    cheapest path as rows (ABSENT where there is none); weights are by link number, infinite at the end or 0."""

    bits: FloatArray
    cheapest: Callable[[FloatArray], tuple[FloatArray, IntArray]]


def weighted_bound(instance: Instance, load_s: FloatArray, target_s: float, rounds: int = ROUNDS) -> Bound:
    """The best bound that the search finds within `rounds`, or before when it reaches `target_s` (a placement's load:
    nothing can be above). It starts from `load_s`, that placement's loads by link number, the last entry being 0."""
    pairs = _pairs(instance)
    if pairs is None:
        return NOTHING
    rates = np.where(np.isfinite(instance.rates_bps), instance.rates_bps, 0.0)
    best, pressure = 0.0, load_s / max(float(load_s.max()), 1e-300)
    total = _FIRST_PRESSURE * pressure
    for number in range(rounds):
        weight = np.where(rates > 0, np.exp(total - total.max()) / np.maximum(rates, 1.0), 0.0)
        distance, rows = pairs.cheapest(weight)
        paid = float((weight * rates).sum())
        best = max(best, float((pairs.bits * distance).sum()) / paid)
        if best >= target_s * (1 - TOLERANCE):
            break
        filled = np.zeros(len(rates))
        for column in rows.T:
            filled += np.bincount(column % len(rates), weights=pairs.bits, minlength=len(rates))
        seconds = np.where(rates > 0, filled / np.maximum(rates, 1.0), 0.0)
        total += _STEP / (1 + _DECLINE * number) * seconds / max(float(seconds.max()), 1e-300)
    return Bound(min(best, target_s), WEIGHTED_LINKS)


def linear_program_bound(instance: Instance, most_variables: int = MOST_VARIABLES) -> Bound:
    """The optimum of the linear program, less the solver's own tolerance; no bound when it is too large or fails."""
    rows, starts, bits = _listed(instance, most_variables)
    if not len(rows):
        return NOTHING
    paths, links = len(rows), len(instance.rates_bps) - 1
    pair = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, paths)))
    # Shares of each pair's bits by path, and the load in units of what the fluid sum suggests: well scaled for HiGHS.
    at = rows != ABSENT
    number = np.broadcast_to(np.arange(paths)[:, np.newaxis], rows.shape)[at]
    unit_s = float(bits.sum() / instance.rates_bps[np.unique(rows[at])].sum())
    seconds = bits[pair[number]] / instance.rates_bps[rows[at]] / unit_s
    crossing = coo_array((seconds, (rows[at], number)), shape=(links, paths + 1))
    used = np.unique(rows[at])
    peak = coo_array((np.ones(len(used)), (used, np.full(len(used), paths))), shape=(links, paths + 1))
    whole = coo_array((np.ones(paths), (pair, np.arange(paths))), shape=(len(starts), paths + 1))
    cost = np.zeros(paths + 1)
    cost[-1] = 1.0
    solved = linprog(
        cost,
        A_ub=(crossing - peak).tocsr()[used],
        b_ub=np.zeros(len(used)),
        A_eq=vstack([whole]).tocsr(),
        b_eq=np.ones(len(starts)),
        method="highs",
    )
    if solved.status != 0:
        return NOTHING
    return Bound(float(solved.fun) * unit_s * (1 - 1e-6), LINEAR_PROGRAM)


def _unique_pairs(instance: Instance) -> tuple[list[int], FloatArray]:
    """(a demand of each pair, the pair's bits)."""
    number: dict[tuple[int, int], int] = {}
    pair = [number.setdefault(p, len(number)) for p in instance.candidates.pairs]
    first: dict[int, int] = {}
    for i, p in enumerate(pair):
        first.setdefault(p, i)
    return list(first.values()), np.bincount(pair, weights=instance.bits).astype(np.float64)


def _pairs(instance: Instance) -> _Pairs | None:
    if isinstance(instance.routes, TwoTierRoutes):
        firsts, bits = _unique_pairs(instance)
        return _Pairs(bits, _over_spines(instance, instance.routes.table, firsts))
    rows, starts, bits = _listed(instance, MOST_PATHS)
    return _Pairs(bits, _over_rows(rows, starts)) if len(rows) else None


def _over_spines(
    instance: Instance, table: TwoTierPaths, firsts: list[int]
) -> Callable[[FloatArray], tuple[FloatArray, IntArray]]:
    ends = [instance.candidates.pairs[i] for i in firsts]
    up = table.up[[table.row[a] for a, _ in ends]]
    down = table.down[[table.row[b] for _, b in ends]]
    starts = table.spine_starts
    parallel = len(starts) < up.shape[1]
    every = np.arange(len(ends))

    def best_of(weight: FloatArray, links: IntArray) -> tuple[FloatArray, IntArray]:
        """Weight and link of the cheapest parallel cable to each spine."""
        cost = weight[links]
        if not parallel:
            return cost, links
        width = np.diff(np.append(starts, links.shape[1]))
        least = np.minimum.reduceat(cost, starts, axis=1)
        hit = np.where(cost == np.repeat(least, width, axis=1), links, ABSENT)
        return least, np.maximum.reduceat(hit, starts, axis=1)

    def cheapest(weight: FloatArray) -> tuple[FloatArray, IntArray]:
        dear = np.append(weight[:-1], np.inf)
        (there, rise), (back, fall) = best_of(dear, up), best_of(dear, down)
        distance = there + back
        spine = distance.argmin(axis=1)
        return distance[every, spine], np.stack((rise[every, spine], fall[every, spine]), axis=1)

    return cheapest


def _listed(instance: Instance, most: int) -> tuple[IntArray, IntArray, FloatArray]:
    """(rows of all paths, where each pair's begin, bits by pair); no rows when there are more than `most`."""
    firsts, bits = _unique_pairs(instance)
    found, paths = [], 0
    for i in firsts:
        found.append(instance.candidates[i])
        paths += len(found[-1])
        if paths > most:
            return np.empty((0, 0), dtype=np.intp), np.empty(0, dtype=np.intp), bits
    if not found:
        return np.empty((0, 0), dtype=np.intp), np.empty(0, dtype=np.intp), bits
    lengths = np.array([len(rows) for rows in found])
    return np.concatenate(found), np.cumsum(lengths) - lengths, bits


def _over_rows(rows: IntArray, starts: IntArray) -> Callable[[FloatArray], tuple[FloatArray, IntArray]]:
    pair = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))

    def cheapest(weight: FloatArray) -> tuple[FloatArray, IntArray]:
        free = np.append(weight[:-1], 0.0)
        cost = free[rows].sum(axis=1)
        least = np.minimum.reduceat(cost, starts)
        hit = np.flatnonzero(cost == least[pair])
        _, where = np.unique(pair[hit], return_index=True)
        return least, rows[hit[where]]

    return cheapest
