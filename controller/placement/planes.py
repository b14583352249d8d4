"""Places flows by edge colouring in three tiers: first plane and spine for each, then a core for what leaves its pod.

In a regular fabric this is two colourings one after the other, leaf to leaf and spine to spine, the second one for all
planes at once, because their spines are different vertices. It is optimal when the leaves' links are what bounds, as
in every fabric without oversubscription above the leaves; elsewhere it is a start, and the bound tells.
"""

import numpy as np

from controller.fabric.paths import ABSENT, IntArray
from controller.fabric.three_tiers import ThreeTierPaths, Tier
from controller.placement.channels import colour_around
from controller.placement.instance import BoolArray, Instance
from controller.placement.routes import ThreeTierRoutes


def plane_start(instance: Instance) -> tuple[IntArray, BoolArray] | None:
    """Links for the movable demands, and which demands still lack them because a link of their channel is missing;
    shapes as in `Instance.chosen` and `Instance.movable`. None where there are no three tiers or nothing may move."""
    routes, open_ = instance.routes, instance.movable.copy()
    if not isinstance(routes, ThreeTierRoutes) or not open_.any():
        return None
    table = routes.table
    moving = np.flatnonzero(open_)
    pairs = [instance.candidates.pairs[i] for i in moving.tolist()]
    source = np.array([table.row[a] for a, _ in pairs], dtype=np.intp)
    destination = np.array([table.row[b] for _, b in pairs], dtype=np.intp)
    rows = _links(table, source, destination)
    there = (rows[:, [0, 3]] != ABSENT).all(axis=1) & ((rows[:, 1] == ABSENT) == (rows[:, 2] == ABSENT))
    # Without a core in between, only one spine may be.
    short = table.shared[source, destination]
    there &= (rows[:, 1] == ABSENT) == short
    chosen = instance.chosen.copy()
    chosen[moving[there]] = rows[there]
    open_[moving[there]] = False
    return chosen, open_


def _links(table: ThreeTierPaths, source: IntArray, destination: IntArray) -> IntArray:
    """Shape (flows, 4); a flow whose two spines are one gets ABSENT in the middle, as does one without a core."""
    low = table.low
    slot = _coloured(low, source, destination)
    rows = np.full((len(source), 4), ABSENT, dtype=np.intp)
    rows[:, 0], rows[:, 3] = low.up[source, slot], low.down[destination, slot]
    rise, fall = low.upper[source, slot], low.upper[destination, slot]
    far = np.flatnonzero((rise != fall) & (rise != ABSENT) & (fall != ABSENT))
    if len(far):
        rise, fall = rise[far], fall[far]
        core = _coloured(table.high, rise, fall)
        rows[far, 1], rows[far, 2] = table.high.up[rise, core], table.high.down[fall, core]
    return rows


def _coloured(tier: Tier, lower: IntArray, other: IntArray) -> IntArray:
    """A channel of the tier for each flow from one lower switch to another."""
    used = np.zeros(len(tier.up), dtype=np.bool_)
    used[lower] = used[other] = True
    # Switches without flows must not ask for phantoms, which cost time and stand for nothing.
    return colour_around(
        lower, other, (tier.up == ABSENT) & used[:, np.newaxis], (tier.down == ABSENT) & used[:, np.newaxis]
    )
