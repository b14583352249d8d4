"""The plans of the announced jobs: which path each flow has, and how near to optimal the whole is."""

from dataclasses import dataclass

from controller.core.machine import Core
from controller.core.requests import unit_of
from controller.core.state import JobState
from controller.core.views.common import HopView, Surroundings, UnknownJob, certificate, hops
from controller.jobs.collective import Flow
from controller.placement.certificate import Certificate


@dataclass(frozen=True, slots=True)
class PlannedFlowView:
    flow_id: str
    src_host: str
    dst_host: str
    src_address: str
    dst_address: str
    size_bytes: int
    queue_pairs: int
    udp_source_port: int
    path: tuple[HopView, ...]
    state: str
    # Of its latest move; empty when it was never moved.
    moved_because: str = ""
    path_before: tuple[HopView, ...] = ()
    moved_revision: int = 0


@dataclass(frozen=True, slots=True)
class PlanView:
    job_id: str
    revision: int
    certificate: Certificate
    flows: tuple[PlannedFlowView, ...]
    state: str
    notes: tuple[str, ...]


def plans(core: Core, job_id: str) -> tuple[PlanView, ...]:
    """One job's plan, or all when `job_id` is empty. Raises UnknownJob."""
    if job_id and job_id not in core.state.jobs:
        raise UnknownJob(f"no job {job_id!r} is announced")
    chosen = [core.state.jobs[job_id]] if job_id else [core.state.jobs[j] for j in sorted(core.state.jobs)]
    about = Surroundings.of(core)
    return tuple(_plan(core, job, about) for job in chosen)


def _plan(core: Core, job: JobState, about: Surroundings) -> PlanView:
    flows = tuple(planned_flow(core, flow, about) for flow in job.flows)
    states = {flow.state for flow in flows}
    state = "degraded" if "ecmp" in states else "placed" if "planned" in states else "local"
    return PlanView(job.collective.job_id, core.revision, certificate(core), flows, state, job.notes)


def planned_flow(core: Core, flow: Flow, about: Surroundings) -> PlannedFlowView:
    unit = unit_of(flow)
    path, moved = core.state.paths.get(unit, ()), core.state.moves.get(unit)
    return PlannedFlowView(
        flow.flow_id,
        about.label(flow.src_host, flow.src_address),
        about.label(flow.dst_host, flow.dst_address),
        flow.src_address,
        flow.dst_address,
        flow.size_bytes,
        flow.queue_pairs,
        flow.udp_source_port,
        hops(core, path, about.far),
        "planned" if path else ("local" if about.same_leaf(flow) else "ecmp"),
        moved.move.reason if moved else "",
        hops(core, moved.move.before, about.far) if moved else (),
        moved.revision if moved else 0,
    )
