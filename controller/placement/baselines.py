"""What placement is compared with: hashing, spraying, and plain heuristics. Nothing is placed by these.

Hedera's two schedulers have a file of their own, `hedera`.
"""

from collections import defaultdict
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from controller.fabric.paths import IntArray
from controller.placement import place
from controller.placement.cut_bounds import cut_bound
from controller.placement.instance import TOLERANCE, Instance
from controller.placement.least_loaded import least_loaded as least_loaded_links
from controller.placement.problem import Demand, Placement, Problem

ECMP = "ecmp"
GREEDY = "greedy, repeated"

# Times that the greedy looks at every flow again.
_PASSES = 8


def ecmp(problem: Problem, queue_pairs: int = 1, seed: int = 0) -> Placement:
    """Every queue pair of every demand on a path drawn by a hash of its name and `seed`; pins are ignored.

    This is equal-cost multipath at its best: the hash is uniform and sees each queue pair (distinct UDP source ports).
    With more than one queue pair the placement speaks of "<flow_id>#<n>", each with an equal share of the bytes.
    """
    demands = problem.demands
    if queue_pairs > 1:
        demands = tuple(part for demand in demands for part in _parts(demand, queue_pairs))
    instance = free_instance(replace(problem, demands=demands))
    chosen = drawn(instance, seed)
    return place.answer(problem, instance, chosen, ECMP, cut_bound(instance))


def least_loaded(problem: Problem) -> Placement:
    """Largest first onto the least loaded path, and nothing more; pins are kept."""
    instance = Instance.of(problem)
    chosen = least_loaded_links(instance)
    return place.answer(problem, instance, chosen, place.LEAST_LOADED, cut_bound(instance))


def greedy(problem: Problem) -> Placement:
    """Every flow, as it comes, onto the path whose fullest link is lowest then; again and again for each flow with all
    others where they are, until none gains. Pins are ignored.

    After the summary of "Routing for Large ML Models" (arXiv 2503.05324): a greedy with a proven factor of 2, of about
    10 ms on 64 leaves and 32 spines.
    """
    instance = free_instance(problem)
    chosen, load = instance.chosen.copy(), np.zeros(len(instance.rates_bps))
    for number in range(_PASSES):
        changed = False
        for i in range(len(instance.demands)):
            rows, bits = instance.candidates[i], instance.bits[i]
            if number:
                load[chosen[i]] -= bits / instance.rates_bps[chosen[i]]
            after = (load[rows] + bits / instance.rates_bps[rows]).max(axis=1)
            best = rows[int(np.argmin(after))]
            if number:
                now = float((load[chosen[i]] + bits / instance.rates_bps[chosen[i]]).max())
                if float(after.min()) >= now * (1 - TOLERANCE):
                    best = chosen[i]
            changed |= bool((best != chosen[i]).any())
            chosen[i] = best
            load[best] += bits / instance.rates_bps[best]
        if number and not changed:
            break
    return place.answer(problem, instance, chosen, GREEDY, cut_bound(instance))


def sprayed_load_s(problem: Problem) -> float:
    """Load of the fullest link when switches spread the packets of every flow evenly over all its live paths: what
    packet spraying gives without loss by reordering."""
    instance = free_instance(problem)
    load = np.zeros(len(instance.rates_bps))
    together: dict[tuple[int, int], float] = defaultdict(float)
    first: dict[tuple[int, int], int] = {}
    for i, pair in enumerate(instance.candidates.pairs):
        together[pair] += float(instance.bits[i])
        first.setdefault(pair, i)
    for pair, bits in together.items():
        rows = instance.candidates[first[pair]]
        for column in rows.T:
            load += np.bincount(column % len(load), minlength=len(load)) * (bits / len(rows))
    return float((load / instance.rates_bps).max())


def free_instance(problem: Problem) -> Instance:
    """The problem with nothing pinned."""
    return Instance.of(replace(problem, demands=tuple(replace(d, pinned=None) for d in problem.demands)))


def _parts(demand: Demand, count: int) -> list[Demand]:
    whole, rest = divmod(demand.size_bytes, count)
    return [
        replace(demand, flow_id=f"{demand.flow_id}#{n}", size_bytes=whole + (n < rest), pinned=None)
        for n in range(count)
    ]


def drawn(instance: Instance, seed: int) -> IntArray:
    """A path for every demand by a hash of its name and `seed`."""
    chosen = np.zeros_like(instance.chosen)
    for i, demand in enumerate(instance.demands):
        rows = instance.candidates[i]
        digest = blake2b(f"{seed}/{demand.flow_id}".encode(), digest_size=8).digest()
        chosen[i] = rows[int.from_bytes(digest) % len(rows)]
    return chosen
