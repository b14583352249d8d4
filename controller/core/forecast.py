"""What a drain would lead to, worked out on a copy of the state. Nothing is changed and nothing is sent."""

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass

from controller.core import planning
from controller.core.avoidance import Avoided, Origin, reduced
from controller.core.drains import would_cut_off
from controller.core.remembered import Avoidance, Target
from controller.core.requests import unit_of
from controller.core.state import State
from controller.pipeline.rules import SwitchTables
from controller.placement.certificate import Certificate

_NOTHING = Certificate(0.0, 0.0, 0.0, "nothing-to-place", True, 0.0)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The field names are those of DrainForecast in proto/heddle/v1. Loads are seconds."""

    max_load_before_s: float
    max_load_after_s: float
    certificate: Certificate
    flows: int
    flows_to_move: int
    flows_without_path: int
    jobs: tuple[str, ...]
    cut_off: tuple[str, ...]


def forecast(state: State, targets: Collection[Target], base: Mapping[int, SwitchTables], *, forced: bool) -> Forecast:
    """The plan as it would be without these; background traffic is taken to be what it was at the last placement."""
    tried = copy(state)
    tried.avoided = Avoided({origin: dict(held) for origin, held in state.avoided.by_origin.items()})
    for target in targets:
        tried.avoided.avoid(target, Origin.OPERATOR, Avoidance(forced=forced))
    tried.reduced = reduced(state.reduced.whole, tried.avoided)
    tried.view = tried.reduced.view
    planning.replan(tried, state.problem.background_bps, base)
    before, after = state.paths, tried.paths
    moved = {unit for unit, path in before.items() if unit in after and after[unit] != path}
    lost = before.keys() - after.keys()
    found = tried.placement.certificate if tried.placement else _NOTHING
    return Forecast(
        max_load_before_s=state.placement.certificate.max_load_s if state.placement else 0.0,
        max_load_after_s=found.max_load_s,
        certificate=found,
        flows=len(before),
        flows_to_move=len(moved),
        flows_without_path=len(lost),
        jobs=tuple(
            job_id
            for job_id, job in sorted(state.jobs.items())
            if any(unit_of(flow) in moved or unit_of(flow) in lost for flow in job.flows)
        ),
        cut_off=would_cut_off(state, targets),
    )
