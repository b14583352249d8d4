"""The optimum of small problems, by integer programming: a placement and a bound at once.

Where few flows meet few links, local search and bounds from single leaves both miss by whole flows; there HiGHS finds
and proves the optimum in a tenth of a second. Flows of one size between the same leaves are one variable for each path,
so that queue pairs cost nothing. Effort is limited by branch-and-bound nodes, never by time, so the same input gives
the same output. Decides nothing about larger problems, which it leaves alone.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from controller.fabric.paths import ABSENT, IntArray, Pair
from controller.placement.cut_bounds import NOTHING, Bound
from controller.placement.instance import FloatArray, Instance

INTEGER_PROGRAM = "integer program"

# Beyond so many variables most searches end at the limit of nodes, with neither a better placement nor a better bound.
MOST_VARIABLES = 200
_NODES = 1000
# Sizes that differ by less are one size: queue pairs of one flow differ by a byte.
_ALIKE = 1e-6
# Relative; what the solver may be off by.
_SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class Solved:
    """`chosen` is as in `Instance`, or None where the search found none."""

    chosen: IntArray | None
    bound: Bound


@dataclass(frozen=True, slots=True)
class _Kind:
    """Flows of one size between one pair of leaves; `first` is the number of the variable of its first path."""

    flows: list[int]
    bits: float
    rows: IntArray
    first: int


def solve(instance: Instance, peak_s: float, most_variables: int = MOST_VARIABLES) -> Solved:
    """The best placement found, and a bound, at most `peak_s`, which some placement is known to have. Nothing of either
    for large problems and for those with pinned flows, whose best placement says nothing about the bound."""
    if not len(instance.movable) or not instance.movable.all() or peak_s <= 0:
        return Solved(None, NOTHING)
    kinds = _kinds(instance, most_variables)
    if not kinds:
        return Solved(None, NOTHING)
    variables = kinds[-1].first + len(kinds[-1].rows)
    count = np.array([len(kind.flows) for kind in kinds], dtype=np.float64)
    lengths = np.array([len(kind.rows) for kind in kinds])
    # In units of the largest flow the coefficients are near 1, which the solver's cuts are made for.
    unit_s = max(kind.bits for kind in kinds) / float(instance.rates_bps.min())
    if not unit_s:
        return Solved(None, NOTHING)
    solved = milp(
        np.append(np.zeros(variables), 1.0),
        constraints=[_loads(instance, kinds, variables, unit_s), _all_placed(lengths, count, variables)],
        # Cutting off what is worse than what is held already takes more nodes, not fewer (tried on fabrics of 4 x 4).
        bounds=Bounds(0.0, np.append(np.repeat(count, lengths), np.inf)),
        integrality=np.append(np.ones(variables), 0.0),
        options={"node_limit": _NODES, "mip_rel_gap": _SLACK},
    )
    proven_s = float(solved.mip_dual_bound or 0.0) * unit_s * (1 - _SLACK)
    bound = Bound(min(proven_s, peak_s), INTEGER_PROGRAM) if np.isfinite(proven_s) and proven_s > 0 else NOTHING
    if solved.x is None:
        return Solved(None, bound)
    return Solved(_dealt(instance, kinds, np.rint(solved.x[:-1]).astype(np.intp)), bound)


def _kinds(instance: Instance, most_variables: int) -> list[_Kind]:
    """Empty when there are too many variables."""
    by_pair: dict[Pair, list[int]] = {}
    for i, pair in enumerate(instance.candidates.pairs):
        by_pair.setdefault(pair, []).append(i)
    found: list[_Kind] = []
    variables = 0
    for numbers in by_pair.values():
        rows = instance.candidates[numbers[0]]
        numbers.sort(key=lambda i: (instance.bits[i], i))
        while numbers:
            # Counted as its smallest, a kind can only make the bound lower.
            least = float(instance.bits[numbers[0]])
            alike = [i for i in numbers if instance.bits[i] <= least * (1 + _ALIKE)]
            found.append(_Kind(alike, least, rows, variables))
            variables += len(rows)
            if variables > most_variables:
                return []
            numbers = numbers[len(alike) :]
    return found


def _loads(instance: Instance, kinds: list[_Kind], variables: int, unit_s: float) -> LinearConstraint:
    """No link carries more than the last variable, in units of `unit_s`."""
    links = len(instance.rates_bps) - 1
    entries: list[tuple[float, int, int]] = []
    for kind in kinds:
        for j, row in enumerate(kind.rows.tolist()):
            seconds: FloatArray = kind.bits / instance.rates_bps
            entries += [(float(seconds[link]) / unit_s, link, kind.first + j) for link in row if link != ABSENT]
    entries += [(-1.0, link, variables) for link in sorted({link for _, link, _ in entries})]
    values, at, column = zip(*entries, strict=True)
    return LinearConstraint(coo_array((values, (at, column)), shape=(links, variables + 1)).tocsr(), -np.inf, 0.0)


def _all_placed(lengths: IntArray, count: FloatArray, variables: int) -> LinearConstraint:
    kind = np.repeat(np.arange(len(lengths)), lengths)
    whole = coo_array((np.ones(variables), (kind, np.arange(variables))), shape=(len(lengths), variables + 1))
    return LinearConstraint(whole.tocsr(), count, count)


def _dealt(instance: Instance, kinds: list[_Kind], used: IntArray) -> IntArray:
    """The flows of each kind, in order, on the paths that are used, as often as each is."""
    chosen = instance.chosen.copy()
    for kind in kinds:
        here = used[kind.first : kind.first + len(kind.rows)]
        chosen[kind.flows] = np.repeat(kind.rows, here, axis=0)
    return chosen
