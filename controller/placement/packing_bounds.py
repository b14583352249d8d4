"""What no placement can beat because flows do not divide: how many links of a leaf its flows fill, packed like bins.

Source: Martello and Toth's bound L2 for bin packing (1990). Flows larger than half of what a link can carry need a link
each; what is smaller than those leave room for beside them must fit into the rest. And what a link carries is a sum of
sizes, of which there are few where few jobs run. Decides nothing.
"""

import numpy as np

from controller.placement.cut_bounds import Bound
from controller.placement.instance import TOLERANCE, FloatArray, Instance
from controller.placement.leaf_bounds import best_of_leaves

PACKING = "packing"

# Leaves looked at (the fullest), and halvings of the interval in which the bound lies.
_LEAVES = 32
_HALVINGS = 16
# Sizes tried as units, the smallest first.
_UNITS = 32
# Sizes of a leaf beyond which their sums lie too close to tell anything, sums looked at, and what is rounding.
_KINDS = 6
_SUMS = 200_000
ALIKE = 1e-6


def packing_bound(instance: Instance, load_s: FloatArray, low_s: float) -> Bound:
    """The best bound above `low_s` from single leaves whose links are alike; `load_s` is a placement's, by link."""
    return best_of_leaves(instance, load_s, low_s, _LEAVES, PACKING, _of_leaf)


def _of_leaf(bits: FloatArray, links: int, rate_bps: float, low_s: float, high_s: float) -> float:
    low_s = max(low_s, max(fullest_sum(bits, links), whole_units(bits, links)) / rate_bps)
    for _ in range(_HALVINGS):
        middle_s = (low_s + high_s) / 2
        if bins_needed(bits, middle_s * rate_bps) > links:
            low_s = middle_s
        else:
            high_s = middle_s
    return low_s


def whole_units(sizes: FloatArray, links: int) -> float:
    """At least so much is on the fullest of `links`, if every size counts as whole units, rounded down: then some link
    carries its fair share of units rounded up. The best of several units."""
    units = np.unique(sizes[sizes > 0])[:_UNITS]
    counts = np.floor(sizes / units[:, np.newaxis] * (1 + TOLERANCE)).sum(axis=1)
    return float((np.ceil(counts / links) * units).max(initial=0.0)) * (1 - TOLERANCE)


def fullest_sum(sizes: FloatArray, links: int) -> float:
    """At least so much is on the fullest of `links`: no less than its fair share, and a sum of some of the `sizes`.

    The flows of a job are alike, so there are few sums; sizes that differ by rounding count as the smallest of them,
    which can only make the bound lower. 0.0 where there are too many different sizes for this to tell anything.
    """
    sizes = sizes[sizes > 0]
    kinds, counts = kinds_of(sizes)
    if not len(kinds) or len(kinds) > _KINDS:
        return 0.0
    share = float((kinds * counts).sum()) / links
    most = np.minimum(counts, np.ceil(share / kinds)).astype(np.intp)
    if np.prod(most + 1.0) > _SUMS:
        return 0.0
    sums = np.zeros(1)
    for kind, count in zip(kinds.tolist(), most.tolist(), strict=True):
        sums = np.add.outer(sums, kind * np.arange(count + 1)).ravel()
    return float(sums[sums >= share * (1 - TOLERANCE)].min())


def kinds_of(sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sizes that differ by more than rounding, and how many there are of each; `sizes` are sorted."""
    larger = np.append(len(sizes) > 0, sizes[1:] > sizes[:-1] * (1 + ALIKE))
    starts = np.flatnonzero(larger[: len(sizes)])
    return sizes[starts], np.diff(np.append(starts, len(sizes))).astype(np.float64)


def bins_needed(sizes: FloatArray, capacity: float) -> int:
    """At least so many bins of `capacity` hold the `sizes`, which are sorted, the smallest first."""
    if sizes[-1] > capacity:
        return len(sizes) + 1
    sums = np.concatenate(([0.0], np.cumsum(sizes)))
    half = int(np.searchsorted(sizes, capacity / 2, "right"))
    # Thresholds: what is smaller than one is left out of account; each gives a bound, the first one counts all.
    at = np.arange(half + 1)
    threshold = np.append(sizes[:half], capacity / 2)
    alone = np.searchsorted(sizes, capacity - threshold, "right")
    with_room = len(sizes) - half - (len(sizes) - np.maximum(alone, half))
    room = with_room * capacity - (sums[np.maximum(alone, half)] - sums[half])
    left = np.maximum(sums[half] - sums[at] - room, 0.0)
    # Rounding must not invent a bin.
    more = np.ceil(left / capacity - TOLERANCE)
    return int((len(sizes) - half + more).max())
