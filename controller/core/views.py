"""What the core shows to people and machines: topology, plans, and the reasons for a path.

Pure functions of the core; the dataclasses have the field names of the messages in proto/heddle/v1.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from controller.core.machine import Core
from controller.core.planning import hosts_by_address, unit_id
from controller.core.requests import find_host, unit_of
from controller.core.state import JobState
from controller.fabric.model import Host, Path, PortRef
from controller.jobs.collective import Flow
from controller.placement.certificate import Certificate
from controller.placement.explain import explain


class UnknownJob(Exception):
    """str() says which."""


class UnknownHost(Exception):
    """str() says which."""


class UnknownFlow(Exception):
    """str() says which, and what would make it known."""


@dataclass(frozen=True, slots=True)
class EndpointView:
    switch: str
    dpid: int
    port_no: int
    port_name: str


@dataclass(frozen=True, slots=True)
class SwitchView:
    dpid: int
    name: str
    role: str
    connected: bool
    in_sync: bool
    rules: int
    groups: int
    foreign_rules: int
    peer_address: str
    software: str


@dataclass(frozen=True, slots=True)
class LinkView:
    """Rates are None when unknown."""

    a: EndpointView
    b: EndpointView
    state: str
    capacity_bps: int
    a_to_b_bps: float | None
    b_to_a_bps: float | None
    a_to_b_flows: int
    b_to_a_flows: int


@dataclass(frozen=True, slots=True)
class HostView:
    name: str
    mac: str
    addresses: tuple[str, ...]
    port: EndpointView
    capacity_bps: int


@dataclass(frozen=True, slots=True)
class TopologyView:
    switches: tuple[SwitchView, ...]
    links: tuple[LinkView, ...]
    hosts: tuple[HostView, ...]
    alarms: tuple[str, ...]
    revision: int
    in_sync: bool


@dataclass(frozen=True, slots=True)
class HopView:
    switch: str
    dpid: int
    port_no: int
    port_name: str
    to: str


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


@dataclass(frozen=True, slots=True)
class PlanView:
    job_id: str
    revision: int
    certificate: Certificate
    flows: tuple[PlannedFlowView, ...]
    state: str
    notes: tuple[str, ...]


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


def _endpoint(core: Core, ref: PortRef) -> EndpointView:
    known = core.discovery.ports.get(ref)
    name = known.port.name if known else str(ref.port_no)
    return EndpointView(core.plan.name(ref.dpid), ref.dpid, ref.port_no, name)


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What every flow's view looks up, made once for all of them."""

    far: dict[PortRef, PortRef]
    hosts: dict[str, Host]

    @classmethod
    def of(cls, core: Core) -> "_Surroundings":
        far = {end: link.other(end) for link in core.state.view.links for end in (link.a, link.b)}
        return cls(far, hosts_by_address(core.state))

    def same_leaf(self, flow: Flow) -> bool:
        source, destination = self.hosts.get(flow.src_address), self.hosts.get(flow.dst_address)
        return source is not None and destination is not None and source.port.dpid == destination.port.dpid


def _hops(core: Core, path: Path, far: dict[PortRef, PortRef]) -> tuple[HopView, ...]:
    hops = []
    for ref in path:
        end = _endpoint(core, ref)
        there = core.plan.name(far[ref].dpid) if ref in far else "?"
        hops.append(HopView(end.switch, end.dpid, end.port_no, end.port_name, there))
    return tuple(hops)


def topology(core: Core, now_s: float) -> TopologyView:
    """Everything that is connected or was, with measured rates."""
    view = core.state.view
    switches = tuple(_switch(core, dpid) for dpid in sorted(view.switches))
    flows = Counter(hop for path in core.state.paths.values() for hop in path)
    links = [
        LinkView(
            _endpoint(core, link.a),
            _endpoint(core, link.b),
            "up",
            link.capacity_bps,
            core.rates.rate_bps(link.a),
            core.rates.rate_bps(link.b),
            flows[link.a],
            flows[link.b],
        )
        for link in view.links
    ]
    one_way = core.discovery.one_way_links(now_s)
    links += [_unusable(core, a, b, "one-way") for a, b in one_way]
    shown = {end for link in view.links for end in (link.a, link.b)} | {end for pair in one_way for end in pair}
    links += [_unusable(core, a, b, "down") for a, b in core.plan.links if a not in shown and b not in shown]
    hosts = tuple(HostView(h.name, h.mac, h.addresses, _endpoint(core, h.port), h.capacity_bps) for h in view.hosts)
    in_sync = bool(switches) and all(s.in_sync for s in switches)
    alarms = (*core.state.alarms.values(), *core.state.view_problems)
    return TopologyView(switches, tuple(links), hosts, alarms, core.revision, in_sync)


def _unusable(core: Core, a: PortRef, b: PortRef, state: str) -> LinkView:
    return LinkView(_endpoint(core, a), _endpoint(core, b), state, core.plan.rate_bps.get(a, 0), None, None, 0, 0)


def _switch(core: Core, dpid: int) -> SwitchView:
    switch, known = core.state.switches[dpid], core.state.view.switches[dpid]
    actual = switch.actual
    foreign = len(actual.foreign_rules()) if actual else 0
    return SwitchView(
        dpid=dpid,
        name=known.name,
        role=known.role.value,
        connected=switch.session_id is not None,
        in_sync=switch.ready and not switch.unsettled and not switch.in_flight,
        rules=len(actual.rules) - foreign if actual else 0,
        groups=len(actual.groups) if actual else 0,
        foreign_rules=foreign,
        peer_address=switch.peer_address,
        software=switch.software,
    )


def certificate(core: Core) -> Certificate:
    """Of everything placed at present."""
    placed = core.state.placement
    return placed.certificate if placed else Certificate(0.0, 0.0, 0.0, "nothing-to-place", True, 0.0)


def plans(core: Core, job_id: str) -> tuple[PlanView, ...]:
    """One job's plan, or all when `job_id` is empty. Raises UnknownJob."""
    if job_id and job_id not in core.state.jobs:
        raise UnknownJob(f"no job {job_id!r} is announced")
    chosen = [core.state.jobs[job_id]] if job_id else [core.state.jobs[j] for j in sorted(core.state.jobs)]
    about = _Surroundings.of(core)
    return tuple(_plan(core, job, about) for job in chosen)


def _plan(core: Core, job: JobState, about: "_Surroundings") -> PlanView:
    flows = tuple(_flow(core, flow, about) for flow in job.flows)
    states = {flow.state for flow in flows}
    state = "degraded" if "ecmp" in states else "placed" if "planned" in states else "local"
    return PlanView(job.collective.job_id, core.revision, certificate(core), flows, state, job.notes)


def _flow(core: Core, flow: Flow, about: "_Surroundings") -> PlannedFlowView:
    unit = unit_of(flow)
    path = core.state.paths.get(unit, ())
    return PlannedFlowView(
        flow.flow_id,
        flow.src_host,
        flow.dst_host,
        flow.src_address,
        flow.dst_address,
        flow.size_bytes,
        flow.queue_pairs,
        flow.udp_source_port,
        _hops(core, path, about.far),
        "planned" if path else ("local" if about.same_leaf(flow) else "ecmp"),
    )


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
    about = _Surroundings.of(core)
    return tuple(_explained(core, job, flow, about) for job, flow in found)


def _explained(core: Core, job: JobState, flow: Flow, about: _Surroundings) -> ExplainedFlowView:
    shown = _flow(core, flow, about)
    candidates: Sequence[CandidateView] = ()
    if shown.state == "planned" and core.state.placement is not None:
        rows = explain(core.state.problem, core.state.placement, unit_id(unit_of(flow)))
        candidates = [
            CandidateView(_hops(core, r.path, about.far), r.load_without_s, r.load_with_s, r.background_bps, r.chosen)
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
