"""Which bounds are worth their time for a placement: cuts always, the dearer ones only while a gap is left.

Decides how hard to prove, never what to place; all effort is counted, none is timed.
"""

import numpy as np

from controller.fabric.paths import ABSENT, IntArray
from controller.placement.cut_bounds import Bound
from controller.placement.fluid_bounds import linear_program_bound, weighted_bound
from controller.placement.instance import TOLERANCE, FloatArray, Instance
from controller.placement.packing_bounds import packing_bound
from controller.placement.pattern_bounds import pattern_bound
from controller.placement.routes import TwoTierRoutes


def prove(instance: Instance, chosen: IntArray, bound: Bound) -> Bound:
    """The highest bound found that holds for every placement, given the `bound` of cuts; stops at a proof."""
    load_s = instance.load_s(chosen)
    peak_s = float(load_s.max())

    def proven() -> bool:
        return peak_s <= bound.seconds * (1 + TOLERANCE)

    if proven():
        return bound
    bound = prove_by_sizes(instance, load_s, bound)
    if proven() or _pours_evenly(instance):
        return bound
    exact = linear_program_bound(instance)
    bound = bound.or_higher(exact)
    if proven() or exact.seconds:
        return bound
    return bound.or_higher(weighted_bound(instance, load_s, peak_s))


def prove_by_sizes(instance: Instance, load_s: FloatArray, bound: Bound) -> Bound:
    """The same from the sizes at single leaves alone, for the placement with the loads `load_s` by link number."""
    bound = bound.or_higher(packing_bound(instance, load_s, bound.seconds))
    if float(load_s.max()) <= bound.seconds * (1 + TOLERANCE):
        return bound
    return bound.or_higher(pattern_bound(instance, load_s, bound.seconds))


def _pours_evenly(instance: Instance) -> bool:
    """Whether every leaf has all its links, alike: then flows that divide at will load no link more than the cuts
    say, and no other bound of that kind can say more."""
    routes = instance.routes
    if not isinstance(routes, TwoTierRoutes):
        return False
    links = np.concatenate((routes.table.up.ravel(), routes.table.down.ravel()))
    rates = instance.rates_bps[links]
    finite = rates[np.isfinite(rates)]
    return bool((links != ABSENT).all()) and len(finite) > 0 and finite.min() == finite.max()
