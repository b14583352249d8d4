"""Hedera's two schedulers, to be compared with: Global First Fit and Simulated Annealing. Nothing is placed by these.

Source: Al-Fares et al., "Hedera: Dynamic Flow Scheduling for Data Center Networks" (NSDI 2010), sections 5.1 and 5.2.
Both know every flow's size here, which is more than Hedera's estimator told them, and what a link may carry is set to
what serves each best, so that they are as strong as they can be. Flows that First Fit finds no room for stay where
hashing put them, as in the paper.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from controller.fabric.paths import IntArray, Pair
from controller.placement import place
from controller.placement.baselines import drawn, free_instance
from controller.placement.cut_bounds import cut_bound
from controller.placement.instance import TOLERANCE, Instance
from controller.placement.problem import Placement, Problem

FIRST_FIT = "hedera first fit"
ANNEALING = "hedera annealing"

# What a link may carry, as multiples of the lower bound; the best result counts.
_ROOM = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)

# The paper's 1,000 iterations are for some dozen hosts; it gets as many for each host as it has there, and no fewer.
ITERATIONS = 1_000
_PER_HOST = 20

# A host's choice is a large number, taken modulo the number of a flow's paths.
_NUMBERS = 1 << 30
# In bounds: a change that is worse by this much is taken every third time at the start.
_WARMEST = 0.05


def first_fit(problem: Problem, seed: int = 0) -> Placement:
    """Global First Fit: each flow in turn onto the first of its paths on which every link has room; pins ignored."""
    instance = free_instance(problem)
    bound = cut_bound(instance)
    hashed = drawn(instance, seed)
    found = [_fit(instance, hashed, factor * bound.seconds) for factor in _ROOM]
    best = min(found, key=lambda chosen: float(instance.load_s(chosen).max()), default=hashed)
    return place.answer(problem, instance, best, FIRST_FIT, bound)


def _fit(instance: Instance, hashed: IntArray, room_s: float) -> IntArray:
    chosen = hashed.copy()
    load = np.zeros(len(instance.rates_bps))
    for i in range(len(instance.demands)):
        rows = instance.candidates[i]
        after = load[rows] + instance.bits[i] / instance.rates_bps[rows]
        fits = np.flatnonzero(after.max(axis=1) <= room_s * (1 + 1e-9))
        if len(fits):
            chosen[i] = rows[fits[0]]
        load[chosen[i]] += instance.bits[i] / instance.rates_bps[chosen[i]]
    return chosen


def annealing(
    problem: Problem,
    seed: int = 0,
    iterations: int = 0,
    destination: Mapping[str, str] | None = None,
) -> Placement:
    """Simulated Annealing over one choice for every destination host; pins ignored.

    `destination[flow_id]` names the host a flow goes to; without it every flow is its own. All flows to one host share
    a choice, which is a number among each flow's paths. The energy is the total excess over what links may carry; the
    neighbour of a state swaps the choices of two hosts of one leaf or gives one host another. The best state seen
    counts. `iterations` 0: twenty for each host, at least the paper's 1,000.
    """
    instance = free_instance(problem)
    bound = cut_bound(instance)
    if not instance.demands:
        return place.answer(problem, instance, instance.chosen, ANNEALING, bound)
    state = _Annealing(instance, destination or {}, np.random.default_rng(seed), bound.seconds)
    steps = iterations or max(ITERATIONS, _PER_HOST * state.hosts)
    for temperature in range(steps, 0, -1):
        state.step(temperature / steps)
    return place.answer(problem, instance, state.best, ANNEALING, bound)


class _Annealing:
    """Plain lists: a step touches a handful of links, for which an array operation costs more than the arithmetic."""

    def __init__(
        self, instance: Instance, destination: Mapping[str, str], rng: np.random.Generator, room_s: float
    ) -> None:
        self._rng, self._room_s = rng, room_s
        self._bits: list[float] = instance.bits.tolist()
        self._rates: list[float] = instance.rates_bps.tolist()
        rows: dict[Pair, list[list[int]]] = {}
        for i, pair in enumerate(instance.candidates.pairs):
            if pair not in rows:
                rows[pair] = instance.candidates[i].tolist()
        self._rows = [rows[pair] for pair in instance.candidates.pairs]
        flows: dict[str, list[int]] = defaultdict(list)
        for i, demand in enumerate(instance.demands):
            flows[destination.get(demand.flow_id, demand.flow_id)].append(i)
        self._flows = list(flows.values())
        leaf: dict[int, list[int]] = defaultdict(list)
        for host, members in enumerate(self._flows):
            leaf[instance.demands[members[0]].dst_leaf].append(host)
        self._peers = [leaf[instance.demands[members[0]].dst_leaf] for members in self._flows]
        self._choice: list[int] = rng.integers(0, _NUMBERS, len(self._flows)).tolist()
        self._chosen: list[list[int]] = [[]] * len(self._bits)
        for host, members in enumerate(self._flows):
            for flow in members:
                self._chosen[flow] = self._row(flow, self._choice[host])
        self._load: list[float] = instance.load_s(np.array(self._chosen, dtype=np.intp)).tolist()
        self._best, self._best_energy = self._chosen[:], self._excess_s(range(len(self._load)))
        self._energy = self._best_energy

    @property
    def hosts(self) -> int:
        return len(self._flows)

    @property
    def best(self) -> IntArray:
        return np.array(self._best, dtype=np.intp)

    def step(self, warmth: float) -> None:
        """One neighbour: taken when it is better, or by chance while it is warm (1 at first, 0 at the end)."""
        host = int(self._rng.integers(len(self._flows)))
        peers = self._peers[host]
        other = peers[int(self._rng.integers(len(peers)))]
        if other != host:
            wanted = {host: self._choice[other], other: self._choice[host]}
        else:
            wanted = {host: int(self._rng.integers(0, _NUMBERS))}
        old = {flow: self._chosen[flow] for each in wanted for flow in self._flows[each]}
        new = {flow: self._row(flow, pick) for each, pick in wanted.items() for flow in self._flows[each]}
        links = {link for rows in (old, new) for row in rows.values() for link in row}
        loads = [(link, self._load[link]) for link in links]
        before_s = self._excess_s(links)
        for flow, row in new.items():
            self._move(flow, old[flow], row)
        change_s = self._excess_s(links) - before_s
        if change_s <= 0 or self._rng.random() < math.exp(-change_s / (self._room_s * max(warmth, 1e-9) * _WARMEST)):
            for each, pick in wanted.items():
                self._choice[each] = pick
            self._energy += change_s
            if self._energy < self._best_energy * (1 - TOLERANCE):
                self._best, self._best_energy = self._chosen[:], self._energy
            return
        for link, load in loads:
            self._load[link] = load
        for flow, row in old.items():
            self._chosen[flow] = row

    def _row(self, flow: int, choice: int) -> list[int]:
        rows = self._rows[flow]
        return rows[choice % len(rows)]

    def _move(self, flow: int, old: Iterable[int], new: list[int]) -> None:
        bits = self._bits[flow]
        for link in old:
            self._load[link] -= bits / self._rates[link]
        for link in new:
            self._load[link] += bits / self._rates[link]
        self._chosen[flow] = new

    def _excess_s(self, links: Iterable[int]) -> float:
        return sum(max(self._load[link] - self._room_s, 0.0) for link in links)
