"""The fabric that was meant, as the controller's topology file says it; what is really there is `topology`'s."""

from dataclasses import dataclass

from controller.core.machine import Core
from controller.core.views.common import EndpointView, endpoint
from controller.fabric.model import PortRef


@dataclass(frozen=True, slots=True)
class PlannedSwitchView:
    dpid: int
    name: str
    role: str


@dataclass(frozen=True, slots=True)
class PlannedLinkView:
    a: EndpointView
    b: EndpointView
    rate_bps: int


@dataclass(frozen=True, slots=True)
class PlannedHostView:
    """One interface of a host."""

    name: str
    addresses: tuple[str, ...]
    port: EndpointView
    rate_bps: int
    nic: int = 0


@dataclass(frozen=True, slots=True)
class CablingPlanView:
    name: str
    switches: tuple[PlannedSwitchView, ...]
    links: tuple[PlannedLinkView, ...]
    hosts: tuple[PlannedHostView, ...]


def cabling_plan(core: Core) -> CablingPlanView | None:
    """None when the controller has no topology file."""
    plan = core.settings.plan
    if plan is None:
        return None
    dpids = {switch.name: switch.dpid for switch in plan.switches}

    def end(switch: str, port: int) -> EndpointView:
        return endpoint(core, PortRef(dpids[switch], port))

    return CablingPlanView(
        plan.name,
        tuple(PlannedSwitchView(s.dpid, s.name, s.role.value) for s in plan.switches),
        tuple(PlannedLinkView(end(k.a, k.a_port), end(k.b, k.b_port), k.rate_bps) for k in plan.links),
        tuple(PlannedHostView(h.name, (h.ipv4,), end(h.switch, h.port), h.rate_bps, h.nic) for h in plan.hosts),
    )
