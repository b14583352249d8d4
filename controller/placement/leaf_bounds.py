"""Walks the fullest leaves of a two-tier fabric for bounds that hold for one leaf and its links alone.

Decides which leaves are looked at; what is proven of one is the caller's.
"""

from collections.abc import Callable

import numpy as np

from controller.fabric.paths import ABSENT
from controller.placement.cut_bounds import NOTHING, Bound
from controller.placement.instance import TOLERANCE, FloatArray, Instance
from controller.placement.routes import TwoTierRoutes

# (bits of the leaf's flows, sorted; its links; the rate of each in bit/s; the bound so far and the time of the fullest
# of these links, in seconds) -> seconds that no placement undercuts.
LeafBound = Callable[[FloatArray, int, float, float, float], float]


def best_of_leaves(
    instance: Instance, load_s: FloatArray, low_s: float, most: int, method: str, bound_of: LeafBound
) -> Bound:
    """The best bound above `low_s` that `bound_of` gives for one of the `most` fullest leaves on each side; `load_s`
    is a placement's, by link. Leaves whose links are unlike are left out."""
    routes = instance.routes
    if not isinstance(routes, TwoTierRoutes):
        return NOTHING
    table, best = routes.table, low_s
    for side, links in ((0, table.up), (1, table.down)):
        fullest = np.where(links != ABSENT, load_s[links], 0.0).max(axis=1, initial=0.0)
        rows = np.array([table.row[pair[side]] for pair in instance.candidates.pairs], dtype=np.intp)
        over = np.flatnonzero(fullest > best * (1 + TOLERANCE))
        for leaf in over[np.argsort(-fullest[over], kind="stable")][:most].tolist():
            rates = instance.rates_bps[links[leaf][links[leaf] != ABSENT]]
            if len(rates) and rates.min() == rates.max():
                bits = np.sort(instance.bits[rows == leaf])
                best = max(best, bound_of(bits, len(rates), float(rates[0]), best, float(fullest[leaf])))
    return Bound(best, method) if best > low_s else NOTHING
