"""What no placement can beat where a leaf's flows have few sizes: patterns in which a link can be filled.

Source: Gilmore and Gomory's cutting-stock program (1961). With four sizes there are some hundred ways to fill a link up
to a certain load; if even fractions of them cannot hold all flows of a leaf on its links, no placement can. This bound
is rarely below the optimum of a leaf alone, and costs some linear programs. Decides nothing.
"""

import numpy as np
from scipy.optimize import linprog

from controller.fabric.paths import IntArray
from controller.placement.cut_bounds import Bound
from controller.placement.instance import TOLERANCE, FloatArray, Instance
from controller.placement.leaf_bounds import best_of_leaves
from controller.placement.packing_bounds import ALIKE, kinds_of

PATTERNS = "filling patterns"

# Leaves looked at on each side (the fullest), different sizes of a leaf, and fillings of a link.
_LEAVES = 4
_KINDS = 5
_FILLINGS = 20_000


def pattern_bound(instance: Instance, load_s: FloatArray, low_s: float) -> Bound:
    """The best bound above `low_s` from single leaves whose links are alike; `load_s` is a placement's, by link."""
    return best_of_leaves(instance, load_s, low_s, _LEAVES, PATTERNS, _of_leaf)


def _of_leaf(bits: FloatArray, links: int, rate_bps: float, low_s: float, high_s: float) -> float:
    return least_peak(bits, links, low_s * rate_bps, high_s * rate_bps) / rate_bps * (1 - TOLERANCE)


def least_peak(sizes: FloatArray, links: int, low: float, high: float) -> float:
    """At least so much is on the fullest of `links`, if more than `low`: the smallest sum of sizes up to `high` up to
    which fractions of fillings can hold all; `low` where it is no more, or there are too many sizes to tell. `sizes`
    are sorted."""
    kinds, counts = kinds_of(sizes[sizes > 0])
    if not len(kinds) or len(kinds) > _KINDS:
        return low
    most = np.minimum(counts, np.floor(high / kinds * (1 + TOLERANCE))).astype(np.intp)
    if np.prod(most + 1.0) > _FILLINGS:
        return low
    fillings = np.stack(
        [axis.ravel() for axis in np.meshgrid(*(np.arange(n + 1) for n in most), indexing="ij")], axis=1
    )
    sums = fillings @ kinds
    if _holds(fillings, sums, kinds, counts, links, low):
        # These links may well be less full than `low`, which others are proven to reach.
        return low
    # A kind counts as its smallest, so that what fills a link to `low` may seem to fill it a little less.
    possible = np.unique(sums[(sums >= low * (1 - ALIKE)) & (sums <= high * (1 + TOLERANCE))])
    first, last = 0, len(possible)
    while first < last:
        middle = (first + last) // 2
        if _holds(fillings, sums, kinds, counts, links, float(possible[middle])):
            last = middle
        else:
            first = middle + 1
    return float(possible[first]) if first < len(possible) else high if len(possible) else low


def _holds(
    fillings: IntArray, sums: FloatArray, kinds: FloatArray, counts: FloatArray, links: int, peak: float
) -> bool:
    """Whether fractions of fillings up to `peak`, as many as there are links, hold all flows."""
    fits = sums <= peak * (1 + TOLERANCE)
    # A filling to which something could be added is never needed.
    room = peak * (1 + TOLERANCE) - sums
    full = fits & ~((room[:, np.newaxis] >= kinds) & (fillings < counts)).any(axis=1)
    patterns = fillings[full]
    if not patterns.any(axis=0).all():
        return False
    solved = linprog(np.ones(len(patterns)), A_ub=-patterns.T, b_ub=-counts, method="highs")
    return solved.status != 0 or float(solved.fun) <= links + 1e-6
