"""Whether flows that have paths should take others: as few moves as bring a gain worth a reordering.

Moving a live RDMA flow reorders its packets, so flows stay unless the fullest link falls by at least a threshold; flows
whose path died must move in any case. Decides the moves and says why each is made; carrying them out is others' work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from controller.fabric.model import Path
from controller.fabric.paths import IntArray
from controller.placement.by_phase import moved_by_phase
from controller.placement.cut_bounds import cut_bound
from controller.placement.effort import FULL, Effort
from controller.placement.instance import TOLERANCE, FloatArray, Instance, in_order
from controller.placement.place import IMPROVED, answer, refine
from controller.placement.problem import Placement, Problem, at_level
from controller.placement.proof import prove
from controller.placement.splitting import place_parts

# Share by which the fullest link must fall before flows are moved for it.
THRESHOLD = 0.05


@dataclass(frozen=True, slots=True)
class Move:
    """`before` is () where the flow had no path. `forced`: its path is gone, or it never had one."""

    flow_id: str
    before: Path
    after: Path
    forced: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Replan:
    """`gain` is the share by which moving flows that could stay lowers the fullest link; 0.0 where none moves.
    `reason` says in one sentence why flows move or stay."""

    placement: Placement
    moves: tuple[Move, ...]
    gain: float
    reason: str


_NO_GROUPS: Mapping[str, str] = MappingProxyType({})


def replan(
    problem: Problem,
    threshold: float = THRESHOLD,
    effort: Effort = FULL,
    group_of: Mapping[str, str] = _NO_GROUPS,
) -> Replan:
    """The placement of `problem`, whose pins say where flows are now. Raises as `place` does.

    An infinite `threshold` moves nothing that can stay. `group_of` names parts of one flow as `place_parts` takes them;
    a part is moved and counted for itself. Of several priorities the higher come first: a flow may be moved for others
    of its own priority, never for lower ones, and stands still for what is decided after it.
    """
    before = {d.flow_id: d.pinned or () for d in problem.demands}
    settled: dict[str, Path] = {}
    moves: list[Move] = []
    gains: list[str] = []
    gain = 0.0
    levels = sorted({d.priority for d in problem.demands}, reverse=True) or [0]
    for level in levels:
        present = problem if len(levels) == 1 else at_level(problem, level, settled)
        search = _Search(present, frozenset(settled), before, effort, group_of)
        found = search.replan(threshold)
        settled.update(found.placement.paths)
        moves += found.moves
        gain = max(gain, found.gain)
        gains += [found.reason] if found.gain else []
    return Replan(found.placement, tuple(moves), gain, "; ".join(gains) or found.reason)


@dataclass(frozen=True, slots=True)
class _Search:
    """One priority: `settled` flows are of higher ones. `before` says where all flows were."""

    problem: Problem
    settled: frozenset[str]
    before: Mapping[str, Path]
    effort: Effort
    group_of: Mapping[str, str]

    def replan(self, threshold: float) -> Replan:
        kept = place_parts(self.problem, self.group_of, self.effort)
        forced = self._forced(kept)
        now = kept.certificate
        if now.gap <= threshold:
            return Replan(
                kept, forced, 0.0, f"no flow is moved that can stay: at best {_share(now.gap)} could be gained"
            )
        moved = self._moved(kept)
        gain = 1 - moved.certificate.max_load_s / now.max_load_s
        if gain < threshold:
            sentence = f"no flow is moved that can stay: {_share(gain)} gained is less than {_share(threshold)}"
            return Replan(kept, forced, 0.0, sentence)
        changed = {flow_id: path for flow_id, path in moved.paths.items() if kept.paths[flow_id] != path}
        reason = f"with {len(changed)} move{'s' * (len(changed) != 1)} the fullest link falls by {_share(gain)}"
        chosen = tuple(
            Move(flow_id, kept.paths[flow_id], path, forced=False, reason=reason)
            for flow_id, path in changed.items()
            if self.before[flow_id] == kept.paths[flow_id]
        )
        after = tuple(replace(move, after=moved.paths[move.flow_id]) for move in forced)
        who = "1 flow that could stay is" if len(chosen) == 1 else f"{len(chosen)} flows that could stay are"
        sentence = f"{who} moved: the fullest link falls by {_share(gain)}"
        return Replan(moved, (*after, *chosen), gain, sentence)

    def _forced(self, kept: Placement) -> tuple[Move, ...]:
        """Moves of flows that were not where they are in `kept`: their paths are gone, or they are new."""
        moves = []
        for demand in in_order(self.problem.demands):
            path, old = kept.paths.get(demand.flow_id), self.before[demand.flow_id]
            if path is not None and path != old and demand.flow_id not in self.settled:
                moves.append(Move(demand.flow_id, old, path, True, "its path is gone" if old else "it had no path"))
        return tuple(moves)

    def _moved(self, kept: Placement) -> Placement:
        """What can be had when every flow of this priority may move: by taking flows off full links, or, where that
        does not reach the bound, by placing all anew; in either case with every flow put back that need not have
        moved. With phases: slot by slot, those with the largest gaps first."""
        if self.problem.phases:
            return moved_by_phase(self.problem, kept.paths, self._slot_placed, self._slot_moved)
        demands = tuple(d if d.flow_id in self.settled else replace(d, pinned=None) for d in self.problem.demands)
        free = replace(self.problem, demands=demands)
        instance = Instance.of(free)
        start = _rows(instance, kept.paths)
        bound = cut_bound(instance)
        found = refine(instance, start, bound, self.effort)
        method = kept.certificate.method.split("+")[0] + IMPROVED
        if _peak_s(instance, found) > bound.seconds * (1 + THRESHOLD):
            anew = place_parts(free, self.group_of, self.effort)
            if anew.certificate.max_load_s < _peak_s(instance, found) * (1 - THRESHOLD):
                found, method = _rows(instance, anew.paths), anew.certificate.method
        found = _put_back(instance, start, found)
        return answer(free, instance, found, method, prove(instance, found, bound))

    def _slot_placed(self, slot: Problem) -> Placement:
        return place_parts(slot, self.group_of, self.effort)

    def _slot_moved(self, slot: Problem) -> Placement:
        """The slot's own best moves from where its flows are."""
        before = {d.flow_id: d.pinned or () for d in slot.demands}
        return _Search(slot, self.settled, before, self.effort, self.group_of).replan(THRESHOLD).placement


def _share(value: float) -> str:
    return f"{value:.1%}"


def _rows(instance: Instance, paths: Mapping[str, Path]) -> IntArray:
    rows = np.zeros_like(instance.chosen)
    for i, (demand, pair) in enumerate(zip(instance.demands, instance.candidates.pairs, strict=True)):
        row = instance.routes.row_of(pair, paths[demand.flow_id])
        if row is not None:
            rows[i] = row
    return rows


def _peak_s(instance: Instance, chosen: IntArray) -> float:
    return float(instance.load_s(chosen).max())


def _put_back(instance: Instance, start: IntArray, found: IntArray) -> IntArray:
    """Every flow back where it was unless that would lift a link above the fullest; the largest are tried first,
    because they suffer most from reordering."""
    result, load = found.copy(), instance.load_s(found)
    limit = float(load.max()) * (1 + TOLERANCE)
    moved = np.flatnonzero((start != found).any(axis=1))
    for i in moved[np.argsort(-instance.bits[moved], kind="stable")].tolist():
        _try_row(instance, result, load, limit, i, start[i])
    return result


def _try_row(instance: Instance, chosen: IntArray, load: FloatArray, limit: float, flow: int, row: IntArray) -> None:
    """Puts the flow on `row` if no link of it then exceeds `limit`; changes `chosen` and `load`."""
    old, bits = chosen[flow].copy(), instance.bits[flow]
    load[old] -= bits / instance.rates_bps[old]
    after = load[row] + bits / instance.rates_bps[row]
    if float(after.max()) <= limit:
        chosen[flow], load[row] = row, after
    else:
        load[old] += bits / instance.rates_bps[old]
