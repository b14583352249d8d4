"""Local search: takes flows off the fullest link while that helps.

A flow moves to another path, or pushes one other flow aside to make room for itself. Every change strictly lowers the
fullest link and lifts none to its level, so the result is never worse than the start and the search ends. Effort is
counted in path evaluations, never in time, so the same input gives the same output.
"""

from collections.abc import Callable

import numpy as np

from controller.fabric.paths import IntArray
from controller.placement.instance import TOLERANCE, FloatArray, Instance


def improve(instance: Instance, start: IntArray, target_s: float, steps: int) -> IntArray:
    """A placement at most as loaded as `start`; stops at `target_s` (a lower bound) or after `steps` evaluations."""
    search = _Search(instance, start, steps)
    while search.steps > 0:
        fullest = int(np.argmax(search.load))
        peak = float(search.load[fullest])
        if peak <= target_s * (1 + TOLERANCE) or not search.relieve(fullest, peak * (1 - TOLERANCE)):
            break
    return search.chosen


class _Search:
    """A placement under change: each link's load in seconds and the movable flows on it."""

    def __init__(self, instance: Instance, start: IntArray, steps: int) -> None:
        self.steps = steps
        self.chosen = start.copy()
        self.load = instance.load_s(start)
        self._instance = instance
        self._on_link: list[set[int]] = [set() for _ in self.load]
        for flow in np.flatnonzero(instance.movable).tolist():
            for link in start[flow].tolist():
                self._on_link[link].add(flow)

    def relieve(self, fullest: int, limit: float) -> bool:
        """Lowers one link below `limit` seconds, by one flow at least, without lifting another to `limit`."""
        flows = sorted(self._on_link[fullest], key=lambda flow: (-self._instance.bits[flow], flow))
        return self._any(self._move, flows, limit) or self._any(self._swap, flows, limit)

    def _any(self, change: Callable[[int, float], bool], flows: list[int], limit: float) -> bool:
        return any(self.steps > 0 and change(flow, limit) for flow in flows)

    def _move(self, flow: int, limit: float) -> bool:
        old = self._lift(flow)
        after = self._loads_with(flow).max(axis=1)
        best = int(np.argmin(after))
        fits = bool(after[best] < limit)
        self._put(flow, self._instance.candidates[flow][best] if fits else old)
        return fits

    def _swap(self, flow: int, limit: float) -> bool:
        """Moves `flow` to a path that is too full for it and one flow off that path to a third place (or its own)."""
        old = self._lift(flow)
        after = self._loads_with(flow)
        rows = self._instance.candidates[flow]
        for i in np.argsort(after.max(axis=1), kind="stable").tolist():
            if self.steps <= 0:
                break
            too_full = after[i] >= limit
            self._put(flow, rows[i])
            blockers = self._blockers(flow, rows[i][too_full], after[i][too_full] - limit)
            if self._any(self._move, blockers, limit):
                return True
            self._lift(flow)
        self._put(flow, old)
        return False

    def _blockers(self, flow: int, links: IntArray, excess_s: FloatArray) -> list[int]:
        """Flows other than `flow` whose leaving would free every one of `links`; the smallest first."""
        instance = self._instance
        if not len(links):
            return []
        common = set.intersection(*(self._on_link[link] for link in links.tolist())) - {flow}
        needed = float(np.max(excess_s * instance.rates_bps[links]))
        return sorted((f for f in common if instance.bits[f] > needed), key=lambda f: (instance.bits[f], f))

    def _loads_with(self, flow: int) -> FloatArray:
        """Load of each link of each candidate path with `flow` on it, where it is on none now; one step of effort."""
        self.steps -= 1
        rows = self._instance.candidates[flow]
        result: FloatArray = self.load[rows] + self._instance.bits[flow] / self._instance.rates_bps[rows]
        return result

    def _lift(self, flow: int) -> IntArray:
        row: IntArray = self.chosen[flow].copy()
        self.load[row] -= self._instance.bits[flow] / self._instance.rates_bps[row]
        for link in row.tolist():
            self._on_link[link].discard(flow)
        return row

    def _put(self, flow: int, row: IntArray) -> None:
        self.chosen[flow] = row
        self.load[row] += self._instance.bits[flow] / self._instance.rates_bps[row]
        for link in row.tolist():
            self._on_link[link].add(flow)
