"""The plain heuristic: largest flow first, each onto the path whose fullest link stays lowest.

For identical parallel links this is Graham's LPT rule (1969), at most 4/3 of the optimum; with two link stages it has
no such promise, which is why `bounds` and `improvement` exist.
"""

import numpy as np

from controller.fabric.paths import IntArray
from controller.placement.instance import BoolArray, Instance

# Among paths whose fullest link would be equally full, the one with less on it altogether is taken; the weight is
# small enough not to overrule any real difference and large enough to stand above rounding.
_TIE = 1e-6


def least_loaded(instance: Instance, chosen: IntArray | None = None, open_: BoolArray | None = None) -> IntArray:
    """`chosen` with a path for every demand where `open_` (by default: every movable one); shape (demands, hops)."""
    result = instance.chosen.copy() if chosen is None else chosen.copy()
    waiting = instance.movable if open_ is None else open_
    settled = ~waiting
    load = instance.bits_on(result[settled], instance.bits[settled]) / instance.rates_bps
    waiting_numbers = np.flatnonzero(waiting)
    largest_first = waiting_numbers[np.argsort(-instance.bits[waiting_numbers], kind="stable")]
    for i in largest_first.tolist():
        rows = instance.candidates[i]
        after = load[rows] + instance.bits[i] / instance.rates_bps[rows]
        best = int(np.argmin(after.max(axis=1) + _TIE * after.sum(axis=1)))
        result[i] = rows[best]
        load[rows[best]] = after[best]
    return result
