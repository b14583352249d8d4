"""Why an announced flow takes the path it takes: the candidates, their loads, the bound and the gap."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.core.machine import Core
from controller.core.planning import unit_id
from controller.core.requests import find_host, unit_of
from controller.core.state import JobState
from controller.core.views.common import HopView, Surroundings, UnknownFlow, UnknownHost, certificate, hops
from controller.core.views.plans import PlannedFlowView, planned_flow
from controller.jobs.collective import Flow
from controller.placement.certificate import Certificate
from controller.placement.explain import explain


@dataclass(frozen=True, slots=True)
class CandidateView:
    path: tuple[HopView, ...]
    load_without_s: float
    load_with_s: float
    background_bps: float
    chosen: bool


@dataclass(frozen=True, slots=True)
class ExplainedFlowView:
    flow: PlannedFlowView
    job_id: str
    certificate: Certificate
    candidates: tuple[CandidateView, ...]
    reason: str


def explain_flow(core: Core, src: str, dst: str, udp_source_port: int) -> tuple[ExplainedFlowView, ...]:
    """Every announced flow from `src` to `dst` (names or addresses). Raises UnknownHost, UnknownFlow."""
    source, destination = find_host(core.state, src), find_host(core.state, dst)
    missing = [text for text, host in ((src, source), (dst, destination)) if host is None]
    if source is None or destination is None:
        raise UnknownHost("\n".join(f"no host {text!r} on this fabric" for text in missing))
    found = [
        (job, flow)
        for job in core.state.jobs.values()
        for flow in job.flows
        if flow.src_address in source.addresses
        and flow.dst_address in destination.addresses
        and udp_source_port in (0, flow.udp_source_port)
    ]
    if not found:
        raise UnknownFlow(f"no announced flow from {src} to {dst}: it would use ECMP; announce its collective first")
    about = Surroundings.of(core)
    return tuple(_explained(core, job, flow, about) for job, flow in found)


def _explained(core: Core, job: JobState, flow: Flow, about: Surroundings) -> ExplainedFlowView:
    shown = planned_flow(core, flow, about)
    candidates: Sequence[CandidateView] = ()
    if shown.state == "planned" and core.state.placement is not None:
        rows = explain(core.state.problem, core.state.placement, unit_id(unit_of(flow)))
        candidates = [
            CandidateView(hops(core, r.path, about.far), r.load_without_s, r.load_with_s, r.background_bps, r.chosen)
            for r in rows
        ]
    proof = certificate(core)
    return ExplainedFlowView(shown, job.collective.job_id, proof, tuple(candidates), _reason(shown, proof, candidates))


def _reason(flow: PlannedFlowView, proof: Certificate, candidates: Sequence[CandidateView]) -> str:
    if flow.state == "local":
        return "Both hosts are on one leaf: there is nothing to choose."
    if flow.state == "ecmp":
        return "No rule could be installed or no path is live: the flow uses ECMP."
    chosen = next((c for c in candidates if c.chosen), None)
    if chosen is None:
        return "The placement is being renewed."
    others = [c.load_with_s for c in candidates if not c.chosen]
    best = f"{min(others):.3g} s on the best of {len(others)} others" if others else "no other path is live"
    optimal = "proven optimal" if proof.proven_optimal else f"at most {proof.gap:.1%} above the bound"
    return (
        f"Chosen by {proof.method}: its fullest link needs {chosen.load_with_s:.3g} s; {best}. The plan is {optimal}."
    )
