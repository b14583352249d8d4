"""Whether flows that have paths should take others: as few moves as bring a gain worth a reordering.

Moving a live RDMA flow reorders its packets, so flows stay unless the fullest link falls by at least a threshold; flows
whose path died must move in any case. Decides the moves and says why each is made; carrying them out is others' work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from controller.fabric.model import Path
from controller.fabric.paths import IntArray
from controller.placement.cut_bounds import cut_bound
from controller.placement.improvement import improve
from controller.placement.instance import TOLERANCE, FloatArray, Instance, in_order
from controller.placement.place import IMPROVED, IMPROVEMENT_STEPS, answer, place
from controller.placement.problem import Placement, Problem
from controller.placement.proof import prove

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


def replan(problem: Problem, threshold: float = THRESHOLD, improvement_steps: int = IMPROVEMENT_STEPS) -> Replan:
    """The placement of `problem`, whose pins say where flows are now. Raises as `place` does.

    Flows that share a priority may be moved for one another; with several priorities none is moved that can stay.
    """
    kept = place(problem, improvement_steps)
    before = {d.flow_id: d.pinned or () for d in problem.demands}
    forced = _forced(problem, before, kept)
    now = kept.certificate
    if len({d.priority for d in problem.demands}) > 1:
        return Replan(kept, forced, 0.0, "flows of several priorities: none is moved that can stay")
    if now.max_load_s <= now.lower_bound_s * (1 + threshold):
        return Replan(kept, forced, 0.0, f"no flow is moved that can stay: at best {_share(now.gap)} could be gained")
    moved = _moved(problem, kept, improvement_steps)
    gain = 1 - moved.certificate.max_load_s / now.max_load_s
    if gain < threshold:
        sentence = f"no flow is moved that can stay: {_share(gain)} gained is less than {_share(threshold)}"
        return Replan(kept, forced, 0.0, sentence)
    chosen = tuple(
        Move(
            flow_id,
            kept.paths[flow_id],
            path,
            forced=False,
            reason=f"with {len(_changed(kept, moved))} moves the fullest link falls by {_share(gain)}",
        )
        for flow_id, path in _changed(kept, moved).items()
        if before[flow_id] == kept.paths[flow_id]
    )
    after = tuple(replace(move, after=moved.paths[move.flow_id]) for move in forced)
    sentence = f"{len(chosen)} flows that could stay are moved: the fullest link falls by {_share(gain)}"
    return Replan(moved, (*after, *chosen), gain, sentence)


def _share(value: float) -> str:
    return f"{value:.1%}"


def _changed(kept: Placement, moved: Placement) -> Mapping[str, Path]:
    return {flow_id: path for flow_id, path in moved.paths.items() if kept.paths[flow_id] != path}


def _forced(problem: Problem, before: Mapping[str, Path], kept: Placement) -> tuple[Move, ...]:
    """Moves of flows that were not where they are in `kept`: their paths are gone, or they are new."""
    moves = []
    for demand in in_order(problem.demands):
        path = kept.paths.get(demand.flow_id)
        old = before[demand.flow_id]
        if path is not None and path != old:
            moves.append(Move(demand.flow_id, old, path, True, "its path is gone" if old else "it had no path"))
    return tuple(moves)


def _moved(problem: Problem, kept: Placement, steps: int) -> Placement:
    """What can be had when every flow may move: by taking flows off full links, or, where that does not reach the
    bound, by placing all anew; in either case with every flow put back that need not have moved."""
    free = replace(problem, demands=tuple(replace(d, pinned=None) for d in problem.demands))
    instance = Instance.of(free)
    start = _rows(instance, kept.paths)
    bound = cut_bound(instance)
    found = improve(instance, start, bound.seconds, steps)
    method = kept.certificate.method.split("+")[0] + IMPROVED
    if _peak_s(instance, found) > bound.seconds * (1 + THRESHOLD):
        anew = place(free, steps)
        if anew.certificate.max_load_s < _peak_s(instance, found) * (1 - THRESHOLD):
            found, method = _rows(instance, anew.paths), anew.certificate.method
    found = _put_back(instance, start, found)
    return answer(free, instance, found, method, prove(instance, found, bound))


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
