"""What placement is compared with: hashing, as switches do it, and the plain heuristic. Nothing is placed by these."""

from dataclasses import replace
from hashlib import blake2b

import numpy as np

from controller.fabric.paths import IntArray
from controller.placement import place
from controller.placement.cut_bounds import cut_bound
from controller.placement.instance import Instance
from controller.placement.least_loaded import least_loaded as least_loaded_links
from controller.placement.problem import Demand, Placement, Problem

ECMP = "ecmp"


def ecmp(problem: Problem, queue_pairs: int = 1, seed: int = 0) -> Placement:
    """Every queue pair of every demand on a path drawn by a hash of its name and `seed`; pins are ignored.

    This is equal-cost multipath at its best: the hash is uniform and sees each queue pair (distinct UDP source ports).
    With more than one queue pair the placement speaks of "<flow_id>#<n>", each with an equal share of the bytes.
    """
    demands = problem.demands
    if queue_pairs > 1:
        demands = tuple(part for demand in demands for part in _parts(demand, queue_pairs))
    instance = Instance.of(replace(problem, demands=tuple(replace(d, pinned=None) for d in demands)))
    chosen = _drawn(instance, seed)
    return place.answer(problem, instance, chosen, ECMP, cut_bound(instance))


def least_loaded(problem: Problem) -> Placement:
    """Largest first onto the least loaded path, and nothing more; pins are kept."""
    instance = Instance.of(problem)
    chosen = least_loaded_links(instance)
    return place.answer(problem, instance, chosen, place.LEAST_LOADED, cut_bound(instance))


def _parts(demand: Demand, count: int) -> list[Demand]:
    whole, rest = divmod(demand.size_bytes, count)
    return [
        replace(demand, flow_id=f"{demand.flow_id}#{n}", size_bytes=whole + (n < rest), pinned=None)
        for n in range(count)
    ]


def _drawn(instance: Instance, seed: int) -> IntArray:
    chosen = np.zeros_like(instance.chosen)
    for i, demand in enumerate(instance.demands):
        rows = instance.candidates[i]
        digest = blake2b(f"{seed}/{demand.flow_id}".encode(), digest_size=8).digest()
        chosen[i] = rows[int.from_bytes(digest) % len(rows)]
    return chosen
