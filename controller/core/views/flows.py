"""Why a flow takes the path it takes: the candidates, their loads, the bound and the gap, and the rules it meets."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.core.machine import Core
from controller.core.planning import unit_id
from controller.core.requests import unit_of
from controller.core.state import JobState
from controller.core.views.common import HopView, Surroundings, certificate, hops, known_hosts, seconds_text
from controller.core.views.plans import PlannedFlowView, planned_flow
from controller.core.views.trace import PacketTraceView, trace_packet
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


@dataclass(frozen=True, slots=True)
class FlowExplanationView:
    flows: tuple[ExplainedFlowView, ...]
    trace: PacketTraceView


def explain_flow(core: Core, src: str, dst: str, udp_source_port: int, dscp: int = 0) -> FlowExplanationView:
    """Every announced flow from `src` to `dst` (names or addresses), and what a packet between them meets.

    With a UDP source port, only flows that it belongs to. Raises UnknownHost.
    """
    source, destination = known_hosts(core, src, dst)
    between = [
        (job, flow)
        for job in core.state.jobs.values()
        for flow in job.flows
        if flow.src_address in source.addresses and flow.dst_address in destination.addresses
    ]
    # A flow whose port is not known is matched by addresses alone, unless one with this very port is there.
    exact = [(job, flow) for job, flow in between if udp_source_port in (0, flow.udp_source_port)]
    found = exact or [(job, flow) for job, flow in between if not flow.udp_source_port]
    about = Surroundings.of(core)
    flows = tuple(_explained(core, job, flow, about) for job, flow in found)
    port = udp_source_port or next((flow.udp_source_port for _, flow in found), 0)
    return FlowExplanationView(flows, trace_packet(core, source, destination, port, dscp))


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
    best = f"{seconds_text(min(others))} on the best of {len(others)} others" if others else "no other path is live"
    optimal = "proven optimal" if proof.proven_optimal else f"at most {proof.gap:.1%} above the bound"
    needed = seconds_text(chosen.load_with_s)
    return f"Chosen by {proof.method}: its fullest link needs {needed}; {best}. The plan is {optimal}."
