"""Splits as few flows as it takes over their queue pairs, where one path for each cannot reach the bound.

A flow whose queue pairs have UDP source ports of their own can take several paths, one for each queue pair; every one
widens what a failure touches, and may cost a rule, so flows stay whole unless splitting lowers the fullest link. Source
of the idea: Ethereal (arXiv 2407.00550), which shows that splitting a few flows does what spraying packets does.
Decides which flows are split and where their parts go; which flows could be is the caller's knowledge.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.fabric.model import Path, PortRef
from controller.fabric.paths import IntArray
from controller.placement.by_phase import place_by_phase
from controller.placement.certificate import Certificate
from controller.placement.cut_bounds import Bound, cut_bound
from controller.placement.effort import FULL, Effort
from controller.placement.instance import TOLERANCE, Instance, in_order
from controller.placement.phases import split
from controller.placement.place import answer, best_found, harder_where_worth_it, place, refine, with_proof
from controller.placement.problem import Demand, Phases, Placement, Problem, at_level

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


def place_split(problem: Problem, queue_pairs: Mapping[str, int], effort: Effort = FULL) -> SplitPlacement:
    """`queue_pairs[flow_id]` says over how many paths a flow may go, by equal shares of its bytes; 1 where not said.

    Never worse than `place` on the same problem, but where there are several priorities. Pinned flows stay whole and
    where they are. Raises as `place` does.
    """
    parts = {d.flow_id: _parts(d, queue_pairs.get(d.flow_id, 1)) for d in in_order(problem.demands)}
    demands = tuple(part for of_flow in parts.values() for part in of_flow)
    group_of = {part.flow_id: flow_id for flow_id, of_flow in parts.items() for part in of_flow}
    phases = _phases_of_parts(problem.phases, parts)
    placed = place_parts(replace(problem, demands=demands, phases=phases), group_of, effort)
    paths = {
        flow_id: tuple(placed.paths[part.flow_id] for part in of_flow)
        for flow_id, of_flow in parts.items()
        if of_flow[0].flow_id in placed.paths
    }
    return SplitPlacement(
        whole={flow_id: taken[0] for flow_id, taken in paths.items() if len(set(taken)) == 1},
        parts={flow_id: taken for flow_id, taken in paths.items() if len(set(taken)) > 1},
        unplaced=tuple(flow_id for flow_id in parts if flow_id not in paths),
        load_s=placed.load_s,
        certificate=placed.certificate,
    )


def _parts(demand: Demand, count: int) -> list[Demand]:
    """A demand for each queue pair, named so that they sort next to each other; one that may not divide as it is."""
    if count <= 1:
        return [demand]
    each, rest = divmod(demand.size_bytes, count)
    return [replace(demand, flow_id=f"{demand.flow_id}#{n}", size_bytes=each + (n < rest)) for n in range(count)]


def _phases_of_parts(phases: Phases, parts: Mapping[str, Sequence[Demand]]) -> Phases:
    return {
        part.flow_id: sent
        for flow_id, of_flow in (parts.items() if phases else ())
        for part, sent in zip(of_flow, split(phases, flow_id, len(of_flow)), strict=True)
    }


def place_parts(problem: Problem, group_of: Mapping[str, str], effort: Effort = FULL) -> Placement:
    """As `place`, but demands with one `group_of[flow_id]` are parts of one flow: they keep together on one path unless
    parting them lowers the fullest link. A demand without a group is a flow of its own.

    Parts that are pinned stay where they are, each for itself. The bound holds however the parts are placed. Of several
    priorities the higher are placed first, as `place` does it.
    """
    levels = sorted({demand.priority for demand in problem.demands}, reverse=True)
    if len(levels) <= 1:
        return _place_level(problem, group_of, effort)
    settled: dict[str, Path] = {}
    for level in levels:
        placement = _place_level(at_level(problem, level, settled), group_of, effort)
        settled.update(placement.paths)
    return placement


def _place_level(problem: Problem, group_of: Mapping[str, str], effort: Effort) -> Placement:
    if problem.phases:
        return place_by_phase(problem, lambda slot: _place_level(slot, group_of, effort))
    demands = in_order(problem.demands)
    flows = _flows(demands, group_of)
    of_whole = replace(problem, demands=tuple(_whole(parts) for parts in flows))
    if len(flows) == len(demands):
        return place(of_whole, effort)
    return harder_where_worth_it(lambda once: _parts_placed(problem, demands, flows, of_whole, once), effort)


def _parts_placed(
    problem: Problem, demands: tuple[Demand, ...], flows: list[list[Demand]], of_whole: Problem, effort: Effort
) -> Placement:
    instance = Instance.of(replace(problem, demands=demands))
    bound, members = cut_bound(instance), _members(instance, flows)
    if not effort.thorough and cut_bound(Instance.of(of_whole)).seconds > bound.seconds * (1 + TOLERANCE):
        # Flows must part to reach the bound, so that where they would go whole need not be known.
        return _parts_first(problem, instance, bound, members, effort)
    together = place(of_whole, effort)
    if not instance.demands or together.certificate.max_load_s <= bound.seconds * (1 + TOLERANCE):
        return _parted(together, flows)
    chosen = _rows(instance, _parted(together, flows).paths)
    if members:
        chosen = _spread(instance, chosen, bound, effort)
    return _put_together(problem, instance, chosen, together.certificate.method, bound, members, effort)


def _parts_first(
    problem: Problem, instance: Instance, bound: Bound, members: Sequence[Sequence[int]], effort: Effort
) -> Placement:
    method, chosen = best_found(instance, bound, effort)
    return _put_together(problem, instance, chosen, method, bound, members, effort)


def _put_together(
    problem: Problem,
    instance: Instance,
    chosen: IntArray,
    method: str,
    bound: Bound,
    members: Sequence[Sequence[int]],
    effort: Effort,
) -> Placement:
    """The answer, with flows made whole where that costs nothing."""
    chosen, method, bound = with_proof(instance, chosen, method, bound, effort)
    chosen = _merged(instance, chosen, members)
    split = any(len({tuple(row) for row in chosen[numbers].tolist()}) > 1 for numbers in members)
    return answer(problem, instance, chosen, method.split("+")[0] + SPLIT if split else method, bound)


def _spread(instance: Instance, start: IntArray, bound: Bound, effort: Effort) -> IntArray:
    """The parts taken off full links, or, where that leaves a gap, all placed anew."""
    chosen = refine(instance, start, bound, effort)
    if _peak_s(instance, chosen) > bound.seconds * (1 + _ANEW_ABOVE):
        _, anew = best_found(instance, bound, effort)
        if _peak_s(instance, anew) < _peak_s(instance, chosen) * (1 - TOLERANCE):
            return anew
    return chosen


def _flows(demands: Iterable[Demand], group_of: Mapping[str, str]) -> list[list[Demand]]:
    """The parts of each flow. Parts that are pinned elsewhere are another flow: they do not move to their fellows."""
    found: dict[tuple[str, bool, int, int, Path | None], list[Demand]] = defaultdict(list)
    for demand in demands:
        named = group_of.get(demand.flow_id)
        key = (named or demand.flow_id, named is None, demand.src_leaf, demand.dst_leaf, demand.pinned)
        found[key].append(demand)
    return list(found.values())


def _whole(parts: Sequence[Demand]) -> Demand:
    """Named after its first part, which no other demand can be."""
    return parts[0] if len(parts) == 1 else replace(parts[0], size_bytes=sum(part.size_bytes for part in parts))


def _parted(together: Placement, flows: Iterable[Sequence[Demand]]) -> Placement:
    """The same placement, said of the parts."""
    paths: dict[str, Path] = {}
    unplaced: list[str] = []
    for parts in flows:
        path = together.paths.get(parts[0].flow_id)
        if path is None:
            unplaced += [part.flow_id for part in parts]
        else:
            paths |= dict.fromkeys((part.flow_id for part in parts), path)
    return replace(together, paths=paths, unplaced=tuple(sorted(unplaced)))


def _rows(instance: Instance, paths: Mapping[str, Path]) -> IntArray:
    """Every part on the path that is said of it."""
    chosen = instance.chosen.copy()
    for i, demand in enumerate(instance.demands):
        row = instance.routes.row_of(instance.candidates.pairs[i], paths[demand.flow_id])
        if row is not None:
            chosen[i] = row
    return chosen


def _members(instance: Instance, flows: Iterable[Sequence[Demand]]) -> list[list[int]]:
    """The numbers of the parts of each flow that has several and may move."""
    number = {demand.flow_id: i for i, demand in enumerate(instance.demands)}
    found = ([number[part.flow_id] for part in parts if part.flow_id in number] for parts in flows)
    return [numbers for numbers in found if len(numbers) > 1 and instance.movable[numbers].all()]


def _peak_s(instance: Instance, chosen: IntArray) -> float:
    return float(instance.load_s(chosen).max())


def _merged(instance: Instance, chosen: IntArray, members: Iterable[Sequence[int]]) -> IntArray:
    """The same, with flows put together again whose parts all find room on one of their paths."""
    together = _Together(instance, chosen)
    for numbers in members:
        together.put(numbers)
    return np.array(together.rows, dtype=np.intp).reshape(chosen.shape)


class _Together:
    """`rows[i]` are the links of part i. Plain lists: a flow's few links cost arrays more than the arithmetic."""

    def __init__(self, instance: Instance, chosen: IntArray) -> None:
        self.rows: list[tuple[int, ...]] = list(map(tuple, chosen.tolist()))
        self._bits: list[float] = instance.bits.tolist()
        self._rates: list[float] = instance.rates_bps.tolist()
        load = instance.load_s(chosen)
        self._load: list[float] = load.tolist()
        self._limit = float(load.max()) * (1 + TOLERANCE)

    def put(self, numbers: Sequence[int]) -> None:
        """The parts `numbers` onto the first of their paths, the most used first, that holds them all, if any does."""
        uses = Counter(self.rows[i] for i in numbers)
        if len(uses) < 2:
            return
        lifted: dict[int, float] = {}
        for i in numbers:
            for link in self.rows[i]:
                lifted[link] = lifted.get(link, self._load[link]) - self._bits[i] / self._rates[link]
        bits = sum(self._bits[i] for i in numbers)
        for row, _ in uses.most_common():
            after = {link: lifted[link] + bits / self._rates[link] for link in row}
            if max(after.values()) <= self._limit:
                for link, load in (lifted | after).items():
                    self._load[link] = load
                for i in numbers:
                    self.rows[i] = row
                return
