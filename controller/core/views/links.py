"""What is on the links between two switches: capacity, measured and background rates, placed flows, and the bound."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.core.machine import Core
from controller.core.requests import unit_of
from controller.core.views.bounds import BoundView, bound_view, present_cuts
from controller.core.views.common import (
    EndpointView,
    Surroundings,
    UnknownLink,
    UnknownSwitch,
    certificate,
    find_switches,
)
from controller.core.views.topology import LinkView, topology
from controller.fabric.model import PortRef
from controller.placement.bounds import Cut
from controller.placement.capacity import effective_bps
from controller.placement.certificate import Certificate


@dataclass(frozen=True, slots=True)
class LinkFlowView:
    flow_id: str
    job_id: str
    src_host: str
    dst_host: str
    size_bytes: int
    load_s: float


@dataclass(frozen=True, slots=True)
class LinkDirectionView:
    """Rates are None when unknown; `bound` is None when nothing announced has to cross here."""

    sender: EndpointView
    receiver: EndpointView
    state: str
    capacity_bps: int
    measured_bps: float | None
    background_bps: float | None
    left_bps: float
    load_s: float
    bound: BoundView | None
    flows: tuple[LinkFlowView, ...]


@dataclass(frozen=True, slots=True)
class LinkExplanationView:
    directions: tuple[LinkDirectionView, ...]
    certificate: Certificate


def explain_link(core: Core, a: str, b: str, now_s: float) -> LinkExplanationView:
    """Both directions of every link between switches `a` and `b`. Raises UnknownSwitch, UnknownLink."""
    first, second = _two_switches(core, a, b)
    between = [link for link in topology(core, now_s).links if {link.a.dpid, link.b.dpid} == {first, second}]
    if not between or first == second:
        raise UnknownLink(f"no link between {core.plan.name(first)} and {core.plan.name(second)} is known")
    found = present_cuts(core)
    directions = []
    for link in between:
        ends = [(link.a, link.b, link.a_to_b_bps), (link.b, link.a, link.b_to_a_bps)]
        # As it was asked for: from `a` to `b` first.
        ends.sort(key=lambda end: end[0].dpid != first)
        directions += [_direction(core, link, *end, found) for end in ends]
    return LinkExplanationView(tuple(directions), certificate(core))


def _two_switches(core: Core, *names: str) -> tuple[int, int]:
    """Raises UnknownSwitch with one line for each that is not there."""
    found, problems = [], []
    for name in names:
        try:
            found.append(min(find_switches(core, name)))
        except UnknownSwitch as error:
            problems.append(str(error))
    if problems:
        raise UnknownSwitch("\n".join(problems))
    return found[0], found[1]


def _direction(
    core: Core,
    link: LinkView,
    sender: EndpointView,
    receiver: EndpointView,
    measured_bps: float | None,
    found: Sequence[Cut],
) -> LinkDirectionView:
    port = PortRef(sender.dpid, sender.port_no)
    problem, placed = core.state.problem, core.state.placement
    counted = port in problem.capacity_bps
    background_bps = problem.background_bps.get(port, 0.0) if counted else None
    left_bps = float(effective_bps(problem.capacity_bps[port], background_bps or 0.0)) if counted else 0.0
    tightest = next((cut for cut in found if port in cut.links), None)
    return LinkDirectionView(
        sender=sender,
        receiver=receiver,
        state=link.state,
        capacity_bps=link.capacity_bps,
        measured_bps=measured_bps,
        background_bps=background_bps,
        left_bps=left_bps,
        load_s=placed.load_s.get(port, 0.0) if placed else 0.0,
        bound=bound_view(core, tightest) if tightest else None,
        flows=_flows(core, port, left_bps),
    )


def _flows(core: Core, port: PortRef, left_bps: float) -> tuple[LinkFlowView, ...]:
    """Largest first. Flows of several jobs that share one path are each named."""
    label = Surroundings.of(core).label
    found = [
        LinkFlowView(
            flow.flow_id,
            job_id,
            label(flow.src_host, flow.src_address),
            label(flow.dst_host, flow.dst_address),
            flow.size_bytes,
            8 * flow.size_bytes / left_bps,
        )
        for job_id, job in core.state.jobs.items()
        for flow in job.flows
        if port in core.state.paths.get(unit_of(flow), ())
    ]
    return tuple(sorted(found, key=lambda flow: (-flow.size_bytes, flow.job_id, flow.flow_id)))
