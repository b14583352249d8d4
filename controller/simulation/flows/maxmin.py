"""Max-min fair rates of flows on links: what congestion control that is fair and never idles a link would reach.

Decides rates only. Progressive filling (Bertsekas and Gallager, "Data Networks", 6.5.2) raises all flows together and
freezes those of the link that fills first. Here every link that fills before anything else can fill on its flows'
other links is frozen in the same round (a bottleneck that depends on no other, as in Ros-Giralt et al., "On the
bottleneck structure of congestion-controlled networks", 2019): the same rates in a handful of rounds.
"""

import numpy as np
import numpy.typing as npt

from controller.fabric.paths import ABSENT

FloatArray = npt.NDArray[np.float64]
LinkRows = npt.NDArray[np.int32]

# Shares are quotients of sums: two that differ by less than this part are one.
_SAME = 1e-9


def max_min_rates(rows: LinkRows, capacity_bps: FloatArray) -> FloatArray:
    """bit/s of each flow.

    `rows` has shape (flows, hops): the numbers of the links that a flow crosses, each once, filled up with ABSENT.
    `capacity_bps[link]` may be 0. A flow that crosses no link gets infinity.
    """
    rates = np.full(len(rows), np.inf)
    # One more entry, where ABSENT points: a link that never fills.
    left = np.append(capacity_bps, np.inf)
    waiting = np.flatnonzero((rows != ABSENT).any(axis=1))
    crossed = rows[waiting]
    while len(waiting):
        share, narrowest = _shares(crossed, left)
        frozen = _at_their_bottleneck(crossed, share, narrowest)
        rates[waiting[frozen]] = narrowest[frozen]
        left -= _on_links(crossed[frozen], narrowest[frozen], len(left))
        np.maximum(left, 0.0, out=left)
        waiting, crossed = waiting[~frozen], crossed[~frozen]
    return rates


def _shares(crossed: LinkRows, left: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(bit/s that each link has for each of its flows, the least of it on each flow's links)."""
    flows = np.zeros(len(left))
    for column in crossed.T:
        flows += np.bincount(column % len(left), minlength=len(left))
    share = np.divide(left, flows, out=np.full(len(left), np.inf), where=flows > 0)
    share[-1] = np.inf
    narrowest: FloatArray = share[crossed].min(axis=1)
    return share, narrowest


def _at_their_bottleneck(crossed: LinkRows, share: FloatArray, narrowest: FloatArray) -> npt.NDArray[np.bool_]:
    """Which flows cross a link whose flows are all held back by just that link."""
    limit = narrowest[:, np.newaxis] * (1 + _SAME)
    holds_back = share[crossed] <= limit
    # A link with a flow that is narrower elsewhere still has to hand out what that flow leaves.
    depends = np.zeros(len(share), dtype=np.bool_)
    depends[crossed[~holds_back]] = True
    frozen: npt.NDArray[np.bool_] = np.any(holds_back & ~depends[crossed], axis=1)
    return frozen


def _on_links(crossed: LinkRows, rates: FloatArray, count: int) -> FloatArray:
    total = np.zeros(count)
    for column in crossed.T:
        total += np.bincount(column % count, weights=rates, minlength=count)
    total[-1] = 0.0
    return total


def link_rates(rows: LinkRows, rates_bps: FloatArray, links: int) -> FloatArray:
    """bit/s on each of `links` links, when the flow of row i sends `rates_bps[i]`."""
    crossing = np.where(np.isfinite(rates_bps), rates_bps, 0.0)
    return _on_links(rows, crossing, links + 1)[:-1]
