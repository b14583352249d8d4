"""Splits as few flows as it takes over their queue pairs, where one path for each cannot reach the bound.

A flow whose queue pairs have UDP source ports of their own can take several paths, one for each queue pair; every one
costs a rule and widens what a failure touches, so flows stay whole unless splitting lowers the fullest link. Source of
the idea: Ethereal (arXiv 2407.00550), which shows that splitting a few flows does what spraying packets does. Decides
which flows are split and where their parts go; which flows could be is the caller's knowledge.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from controller.fabric.model import Path, PortRef
from controller.fabric.paths import IntArray
from controller.placement.certificate import Certificate
from controller.placement.cut_bounds import cut_bound
from controller.placement.improvement import improve
from controller.placement.instance import TOLERANCE, FloatArray, Instance
from controller.placement.place import IMPROVEMENT_STEPS, answer, best_found, certify, place
from controller.placement.problem import Demand, Placement, Problem
from controller.placement.proof import prove

SPLIT = "+split"

# Starting anew may split many flows; it is tried where taking parts off full links leaves a gap above this.
_ANEW_ABOVE = 0.01


@dataclass(frozen=True, slots=True)
class SplitPlacement:
    """`whole[flow_id]` is the path of a flow that stays together, `parts[flow_id]` that of each queue pair of one that
    does not. `load_s` and `certificate` are as in `Placement`; the bound holds for any way of splitting over these
    queue pairs, none of which divides."""

    whole: Mapping[str, Path]
    parts: Mapping[str, tuple[Path, ...]]
    unplaced: tuple[str, ...]
    load_s: Mapping[PortRef, float]
    certificate: Certificate


def place_split(
    problem: Problem, queue_pairs: Mapping[str, int], improvement_steps: int = IMPROVEMENT_STEPS
) -> SplitPlacement:
    """`queue_pairs[flow_id]` says over how many paths a flow may go, by equal shares of its bytes; 1 where not said.

    Never worse than `place` on the same problem. Pinned flows stay whole and where they are; so do all flows when
    there are several priorities. Raises as `place` does.
    """
    together = place(problem, improvement_steps)
    divisible = {d.flow_id: queue_pairs.get(d.flow_id, 1) for d in problem.demands}
    demands = tuple(part for d in problem.demands for part in _parts(d, divisible[d.flow_id]))
    instance = Instance.of(replace(problem, demands=tuple(replace(d, priority=0) for d in demands)))
    one_priority = len({d.priority for d in problem.demands}) <= 1
    if not instance.demands or max(divisible.values()) <= 1 or not one_priority:
        return _unsplit(together)
    bound = cut_bound(instance)
    if together.certificate.max_load_s <= bound.seconds * (1 + TOLERANCE):
        return _unsplit(together)
    start = _start(instance, together)
    chosen = improve(instance, start, bound.seconds, improvement_steps)
    if _peak_s(instance, chosen) > bound.seconds * (1 + _ANEW_ABOVE):
        _, anew = best_found(instance, bound.seconds, improvement_steps)
        if _peak_s(instance, anew) < _peak_s(instance, chosen) * (1 - TOLERANCE):
            chosen = anew
    chosen = _merged(instance, chosen)
    bound = prove(instance, chosen, bound)
    method = together.certificate.method.split("+")[0] + SPLIT
    return _split(instance, divisible, answer(problem, instance, chosen, method, bound))


def _parts(demand: Demand, count: int) -> list[Demand]:
    """A demand for each queue pair, named so that they sort next to each other; one that may not divide as it is."""
    if count <= 1:
        return [demand]
    each, rest = divmod(demand.size_bytes, count)
    return [replace(demand, flow_id=f"{demand.flow_id}#{n}", size_bytes=each + (n < rest)) for n in range(count)]


def _flow_of(part: str, divisible: Mapping[str, int]) -> str:
    return part if part in divisible else part.rpartition("#")[0]


def _start(instance: Instance, together: Placement) -> IntArray:
    """Every part on its flow's path."""
    routes = instance.routes
    chosen = instance.chosen.copy()
    for i, demand in enumerate(instance.demands):
        path = together.paths.get(demand.flow_id) or together.paths[demand.flow_id.rpartition("#")[0]]
        row = routes.row_of(instance.candidates.pairs[i], path)
        if row is not None:
            chosen[i] = row
    return chosen


def _peak_s(instance: Instance, chosen: IntArray) -> float:
    return float(instance.load_s(chosen).max())


def _merged(instance: Instance, chosen: IntArray) -> IntArray:
    """The same, with flows put together again whose parts all find room on one of their paths."""
    result = chosen.copy()
    load = instance.load_s(result)
    limit = float(load.max()) * (1 + TOLERANCE)
    members: dict[str, list[int]] = defaultdict(list)
    for i, demand in enumerate(instance.demands):
        if "#" in demand.flow_id and instance.movable[i]:
            members[demand.flow_id.rpartition("#")[0]].append(i)
    for numbers in members.values():
        rows = [tuple(row) for row in result[numbers].tolist()]
        if len(set(rows)) > 1:
            _merge(instance, result, load, limit, numbers, [row for row, _ in Counter(rows).most_common()])
    return result


def _merge(
    instance: Instance,
    chosen: IntArray,
    load: FloatArray,
    limit: float,
    numbers: list[int],
    paths: list[tuple[int, ...]],
) -> None:
    """Puts the parts `numbers` on the first of `paths` that holds them all; changes `chosen` and `load` if one does."""
    lifted = load.copy()
    for i in numbers:
        lifted[chosen[i]] -= instance.bits[i] / instance.rates_bps[chosen[i]]
    bits = float(instance.bits[numbers].sum())
    for path in paths:
        row = np.array(path, dtype=np.intp)
        after = lifted[row] + bits / instance.rates_bps[row]
        if float(after.max()) <= limit:
            chosen[numbers] = row
            lifted[row] = after
            load[:] = lifted
            return


def _unsplit(together: Placement) -> SplitPlacement:
    return SplitPlacement(together.paths, {}, together.unplaced, together.load_s, together.certificate)


def _split(instance: Instance, divisible: Mapping[str, int], placed: Placement) -> SplitPlacement:
    by_flow: dict[str, list[Path]] = defaultdict(list)
    for demand in instance.demands:
        by_flow[_flow_of(demand.flow_id, divisible)].append(placed.paths[demand.flow_id])
    whole = {flow_id: paths[0] for flow_id, paths in by_flow.items() if len(set(paths)) == 1}
    parts = {flow_id: tuple(paths) for flow_id, paths in by_flow.items() if len(set(paths)) > 1}
    unplaced = tuple(dict.fromkeys(_flow_of(part, divisible) for part in placed.unplaced))
    found = placed.certificate
    certificate = certify(found.max_load_s, found.lower_bound_s, found.method, found.bound)
    return SplitPlacement(whole, parts, unplaced, placed.load_s, certificate)
