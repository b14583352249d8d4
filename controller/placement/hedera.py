"""Hedera's two schedulers, to be compared with: Global First Fit and Simulated Annealing. Nothing is placed by these.

Source: Al-Fares et al., "Hedera: Dynamic Flow Scheduling for Data Center Networks" (NSDI 2010), sections 5.1 and 5.2.
Both know every flow's size here, which is more than Hedera's estimator told them, and what a link may carry is set to
what serves each best, so that they are as strong as they can be. Flows that First Fit finds no room for stay where
hashing put them, as in the paper.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from controller.fabric.paths import IntArray
from controller.placement import place
from controller.placement.baselines import drawn, free_instance
from controller.placement.cut_bounds import cut_bound
from controller.placement.instance import FloatArray, Instance
from controller.placement.problem import Placement, Problem

FIRST_FIT = "hedera first fit"
ANNEALING = "hedera annealing"

# What a link may carry, as multiples of the lower bound; the best result counts.
_ROOM = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)

# The paper starts from a temperature that falls by one with every iteration, 1,000 in all.
ITERATIONS = 1_000


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
    iterations: int = ITERATIONS,
    destination: Mapping[str, str] | None = None,
) -> Placement:
    """Simulated Annealing over one choice for every destination host; pins ignored.

    `destination[flow_id]` names the host a flow goes to; without it every flow is its own. All flows to one host share
    a choice, which is a number among each flow's paths. The energy is the total excess over what links may carry; the
    neighbour of a state swaps the choices of two hosts of one leaf or gives one host another. The best state seen
    counts.
    """
    instance = free_instance(problem)
    bound = cut_bound(instance)
    if not instance.demands:
        return place.answer(problem, instance, instance.chosen, ANNEALING, bound)
    state = _Annealing(instance, destination or {}, np.random.default_rng(seed), bound.seconds)
    for temperature in range(iterations, 0, -1):
        state.step(temperature / iterations)
    return place.answer(problem, instance, state.best, ANNEALING, bound)


class _Annealing:
    def __init__(
        self, instance: Instance, destination: Mapping[str, str], rng: np.random.Generator, room_s: float
    ) -> None:
        self._instance, self._rng, self._room_s = instance, rng, room_s
        flows: dict[str, list[int]] = defaultdict(list)
        for i, demand in enumerate(instance.demands):
            flows[destination.get(demand.flow_id, demand.flow_id)].append(i)
        self._flows = list(flows.values())
        leaf: dict[int, list[int]] = defaultdict(list)
        for host, members in enumerate(self._flows):
            leaf[instance.demands[members[0]].dst_leaf].append(host)
        self._peers = [leaf[instance.demands[members[0]].dst_leaf] for members in self._flows]
        self._choice = rng.integers(0, 1 << 30, len(self._flows))
        self._chosen = instance.chosen.copy()
        for host in range(len(self._flows)):
            self._apply(host)
        self._load = instance.load_s(self._chosen)
        self._energy = self._excess(self._load)
        self.best, self._best_peak = self._chosen.copy(), float(self._load.max())

    def step(self, warmth: float) -> None:
        """One neighbour: taken when it is better, or by chance while it is warm (1 at first, 0 at the end)."""
        host = int(self._rng.integers(len(self._flows)))
        peers = self._peers[host]
        other = peers[int(self._rng.integers(len(peers)))]
        before = self._choice[[host, other]].copy()
        if other != host:
            self._choice[[host, other]] = before[::-1]
        else:
            self._choice[host] = self._rng.integers(0, 1 << 30)
        touched = sorted({host, other})
        rows = self._chosen.copy()
        for each in touched:
            self._apply(each)
        load = self._instance.load_s(self._chosen)
        energy = self._excess(load)
        # The excess is measured in bounds: at full warmth one bound more is taken every third time.
        if energy <= self._energy or self._rng.random() < np.exp((self._energy - energy) / max(warmth, 1e-9)):
            self._load, self._energy = load, energy
            if float(load.max()) < self._best_peak:
                self.best, self._best_peak = self._chosen.copy(), float(load.max())
            return
        self._choice[[host, other]] = before
        self._chosen = rows

    def _apply(self, host: int) -> None:
        for flow in self._flows[host]:
            rows = self._instance.candidates[flow]
            self._chosen[flow] = rows[int(self._choice[host]) % len(rows)]

    def _excess(self, load: FloatArray) -> float:
        return float(np.maximum(load - self._room_s, 0.0).sum()) / max(self._room_s, 1e-300)
