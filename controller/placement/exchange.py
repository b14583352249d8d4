"""Local search by trading between two channels: flows change places along a chain until every link has room.

`improvement` pushes one flow aside; where links are full of flows of unlike sizes that is rarely enough, because the
flow pushed aside disturbs the leaf at its other end. Here a flow goes from one channel to another, whatever that
overfills sends a flow back the other way, and so on from leaf to leaf, as along a Kempe chain: flows of one size can
always be traded so without lifting any link, so a chain ends where there is room, not where it happens to begin.
Effort is counted in flows moved, never in time, so the same input gives the same output. Decides nothing else.
"""

from collections.abc import Iterator

import numpy as np

from controller.fabric.paths import ABSENT, IntArray
from controller.placement.instance import TOLERANCE, Instance
from controller.placement.routes import TwoTierRoutes

# Flows that all chains together may move, there and back; some 3 microseconds each.
EXCHANGE_STEPS = 100_000
# Flows in one chain, flows tried at each link of it, and flows moved before a chain is given up.
_LONGEST = 24
_TRIED = 4
_EFFORT = 400
# A limit nearer than this to one that was missed is not worth trying.
_FINEST = 0.001


def exchange(instance: Instance, start: IntArray, target_s: float, steps: int = EXCHANGE_STEPS) -> IntArray:
    """A placement at most as loaded as `start`; stops at `target_s` (a lower bound) or after moving `steps` flows.

    `start` itself where the fabric has not two tiers.
    """
    routes = instance.routes
    peak_s = float(instance.load_s(start).max())
    if not isinstance(routes, TwoTierRoutes) or peak_s <= target_s * (1 + TOLERANCE):
        return start
    trade = _Trade(instance, routes, start, steps)
    # The bound is tried first, since it is often the optimum; then limits between what was missed and what is held.
    missed_s, limit_s = target_s, target_s
    while trade.steps > 0:
        held = trade.bring_below(limit_s * (1 + TOLERANCE / 2))
        peak_s = trade.peak_s()
        missed_s = missed_s if held else limit_s
        if peak_s <= missed_s * (1 + _FINEST):
            break
        limit_s = (missed_s + peak_s) / 2
    return trade.chosen()


class _Trade:
    """A placement under change. Loads and limits are bits by link number; a flow's channel is where both its links are,
    or ABSENT where it crosses between parallel cables (it then stays where it is, like a pinned one)."""

    def __init__(self, instance: Instance, routes: TwoTierRoutes, start: IntArray, steps: int) -> None:
        self.steps = steps
        self._start = start
        table = routes.table
        rows = [(table.row[a], table.row[b]) for a, b in instance.candidates.pairs]
        ends = np.array(rows, dtype=np.intp).reshape(-1, 2)
        # Links of each flow by channel: [up, down].
        self._up: list[list[int]] = table.up.tolist()
        self._down: list[list[int]] = table.down.tolist()
        self._ends = rows
        self._bits: list[float] = instance.bits.tolist()
        self._rate: list[float] = instance.rates_bps.tolist()
        self._load: list[float] = instance.bits_on(start, instance.bits).tolist()
        there = (table.up[ends[:, 0]] == start[:, :1]) & (table.down[ends[:, 1]] == start[:, 1:2])
        at = np.where(there.any(axis=1) & instance.movable, there.argmax(axis=1), ABSENT)
        self._channel: list[int] = at.tolist()
        self._channels = range(table.up.shape[1])
        self._on: list[set[int]] = [set() for _ in self._load]
        for flow, channel in enumerate(self._channel):
            if channel != ABSENT:
                for link in self._links(flow, channel):
                    self._on[link].add(flow)
        self._limit: list[float] = []

    def chosen(self) -> IntArray:
        result = self._start.copy()
        for flow, channel in enumerate(self._channel):
            if channel != ABSENT:
                result[flow] = self._links(flow, channel)
        return result

    def peak_s(self) -> float:
        return max((load / rate for load, rate in zip(self._load, self._rate, strict=True)), default=0.0)

    def _links(self, flow: int, channel: int) -> tuple[int, int]:
        source, destination = self._ends[flow]
        return self._up[source][channel], self._down[destination][channel]

    def bring_below(self, limit_s: float) -> bool:
        """Whether every link came to `limit_s` at most. Links that were below it stay so; none is lifted above what it
        had, so that a failure does no harm."""
        self._limit = [limit_s * rate for rate in self._rate]
        over = [link for link, load in enumerate(self._load) if load > self._limit[link]]
        over.sort(key=lambda link: (-self._load[link] / self._rate[link], link))
        return all(self._relieve(link) for link in over)

    def _relieve(self, link: int) -> bool:
        while self._load[link] > self._limit[link]:
            if not any(self._start_chain(flow, other, link) for flow, other in self._openings(link)):
                return False
        return True

    def _openings(self, link: int) -> Iterator[tuple[int, int]]:
        """Flows of a link with the channels they might go to, the emptiest first."""
        flows = sorted(self._on[link], key=lambda flow: (self._bits[flow], flow))
        if not flows:
            return
        first = flows[0]
        source, destination = self._ends[first]
        mine = self._up[source] if self._up[source][self._channel[first]] == link else self._down[destination]
        others = [c for c in self._channels if mine[c] != ABSENT and mine[c] != link]
        others.sort(key=lambda c: (self._load[mine[c]] - self._limit[mine[c]], c))
        over = self._load[link] - self._limit[link]
        # Whoever alone brings the link below its limit comes first, the smallest of them before the others.
        flows.sort(key=lambda flow: (self._bits[flow] < over, abs(self._bits[flow] - over), flow))
        # Queue pairs of one flow are as good as one another.
        first_of = {(self._bits[flow], self._ends[flow]): flow for flow in reversed(flows)}
        flows = [flow for flow in flows if first_of[self._bits[flow], self._ends[flow]] == flow]
        yield from ((flow, other) for other in others for flow in flows if self._can_go(flow, other))

    def _can_go(self, flow: int, channel: int) -> bool:
        return ABSENT not in self._links(flow, channel)

    def _start_chain(self, flow: int, other: int, link: int) -> bool:
        """Moves `flow`, and whoever must make room for it, if that leaves `link` less full than it was."""
        if self.steps <= 0:
            return False
        self._before: dict[int, float] = {link: self._load[link] * (1 - TOLERANCE)}
        self._moved: set[int] = set()
        self._effort = _EFFORT
        mine = self._channel[flow]
        return self._go(flow, mine, other, [])

    def _go(self, flow: int, here: int, there: int, full: list[tuple[int, int, int]]) -> bool:
        """Moves `flow` and settles all links that are too full, its own and those in `full`; undoes it otherwise.

        An entry of `full` is (link, channel of that link, the other of the two channels).
        """
        self._move(flow, here, there)
        self._moved.add(flow)
        full = [entry for entry in full if self._too_full(entry[0])]
        full += [(link, there, here) for link in self._links(flow, there) if self._too_full(link)]
        full += [(link, here, there) for link in self._links(flow, here) if self._too_full(link)]
        if self._settle(full):
            return True
        self._moved.discard(flow)
        self._move(flow, there, here)
        return False

    def _settle(self, full: list[tuple[int, int, int]]) -> bool:
        if not full:
            return True
        if len(self._moved) >= _LONGEST or self._effort <= 0 or self.steps <= 0:
            return False
        link, here, there = full[0]
        excess = self._load[link] - self._allowed(link)
        free = [flow for flow in self._on[link] if flow not in self._moved and self._can_go(flow, there)]
        # One that makes room alone, if it finds room itself; else the largest, and others follow it.
        free.sort(key=lambda f: (self._bits[f] < excess, self._overfill(f, there), self._bits[f], f))
        return any(self._go(flow, here, there, full) for flow in free[:_TRIED])

    def _overfill(self, flow: int, channel: int) -> float:
        """How much too full the two links would be."""
        return sum(
            max(self._load[link] + self._bits[flow] - self._allowed(link), 0.0) for link in self._links(flow, channel)
        )

    def _allowed(self, link: int) -> float:
        return max(self._limit[link], self._before.get(link, 0.0))

    def _too_full(self, link: int) -> bool:
        return self._load[link] > self._allowed(link)

    def _move(self, flow: int, here: int, there: int) -> None:
        self.steps -= 1
        self._effort -= 1
        bits = self._bits[flow]
        for link in self._links(flow, here):
            self._before.setdefault(link, self._load[link])
            self._load[link] -= bits
            self._on[link].discard(flow)
        for link in self._links(flow, there):
            self._before.setdefault(link, self._load[link])
            self._load[link] += bits
            self._on[link].add(flow)
        self._channel[flow] = there
