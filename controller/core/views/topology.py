"""The fabric as it is: switches, links with their rates, hosts, alarms."""

from collections import Counter
from dataclasses import dataclass

from controller.core.machine import Core
from controller.core.views.common import EndpointView, endpoint
from controller.core.views.link_condition import link_condition, port_alarms, unused_links
from controller.core.views.neighbours import NeighbourView, neighbours
from controller.core.views.packet_counts import PacketCountView, packet_counts
from controller.core.views.port_sizes import mtu_alarms
from controller.fabric.discovery import Cable
from controller.fabric.model import PortRef, Role
from controller.fabric.tiers import pods

# Open vSwitch says this of every virtual port; where a real port says it, not knowing does no harm.
_VIRTUAL_PORT_BPS = 10_000_000_000


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
    pod: str = ""
    rails: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkView:
    """Rates are None when unknown."""

    a: EndpointView
    b: EndpointView
    state: str
    cause: str
    reason: str
    capacity_bps: int
    a_to_b_bps: float | None
    b_to_a_bps: float | None
    a_to_b_flows: int
    b_to_a_flows: int
    # What the ports claim, 0 when they do not say.
    a_speed_bps: int = 0
    b_speed_bps: int = 0


@dataclass(frozen=True, slots=True)
class HostView:
    name: str
    mac: str
    addresses: tuple[str, ...]
    port: EndpointView
    capacity_bps: int
    speed_bps: int = 0
    # Which of the server's interfaces it is, from 1; 0: its only one, as far as is known.
    nic: int = 0
    server: str = ""


@dataclass(frozen=True, slots=True)
class TopologyView:
    switches: tuple[SwitchView, ...]
    links: tuple[LinkView, ...]
    hosts: tuple[HostView, ...]
    alarms: tuple[str, ...]
    revision: int
    in_sync: bool
    neighbours: tuple[NeighbourView, ...] = ()
    packet_counts: tuple[PacketCountView, ...] = ()


def topology(core: Core, now_s: float) -> TopologyView:
    """Everything that is connected or was, with measured rates."""
    view = core.state.view
    pod_of = {} if not any(s.role == Role.CORE for s in view.switches.values()) else pods(view)
    switches = tuple(_switch(core, dpid, pod_of.get(dpid)) for dpid in sorted(view.switches))
    flows = Counter(hop for path in core.state.paths.values() for hop in path)
    links = [
        LinkView(
            endpoint(core, link.a),
            endpoint(core, link.b),
            *link_condition(core, (link.a, link.b), now_s),
            link.capacity_bps,
            core.rates.rate_bps(link.a),
            core.rates.rate_bps(link.b),
            flows[link.a],
            flows[link.b],
            _speed_bps(core, link.a),
            _speed_bps(core, link.b),
        )
        for link in core.state.reduced.whole.links
    ]
    links += [_unusable(core, cable, now_s) for cable in unused_links(core)]
    hosts = tuple(
        HostView(
            h.name,
            h.mac,
            h.addresses,
            endpoint(core, h.port),
            h.capacity_bps,
            _speed_bps(core, h.port),
            h.nic,
            h.server or (h.name if h.nic else ""),
        )
        for h in view.hosts
    )
    in_sync = bool(switches) and all(s.in_sync for s in switches)
    passing = [sentence for sentence, until_s in core.packets.passing_alarms.values() if until_s > now_s]
    of_ports = (*port_alarms(core, now_s), *mtu_alarms(core))
    alarms = (*core.state.alarms.values(), *passing, *core.state.view_problems, *of_ports)
    others, odd = neighbours(core, now_s), packet_counts(core)
    return TopologyView(switches, tuple(links), hosts, alarms, core.revision, in_sync, others, odd)


def _speed_bps(core: Core, ref: PortRef) -> int:
    known, switch = core.discovery.ports.get(ref), core.state.view.switches.get(ref.dpid)
    if known is None or (switch is not None and switch.nicira and known.port.speed_bps == _VIRTUAL_PORT_BPS):
        return 0
    return known.port.speed_bps


def _unusable(core: Core, cable: Cable, now_s: float) -> LinkView:
    a, b = cable
    condition = link_condition(core, cable, now_s)
    return LinkView(endpoint(core, a), endpoint(core, b), *condition, core.plan.rate_bps.get(a, 0), None, None, 0, 0)


def _switch(core: Core, dpid: int, pod: int | None) -> SwitchView:
    switch, known = core.state.switches[dpid], core.state.view.switches[dpid]
    actual = switch.actual
    foreign = len(actual.foreign_rules()) if actual else 0
    return SwitchView(
        dpid=dpid,
        name=known.name,
        role=known.role.value,
        rails=core.state.view.rails.get(dpid, ()),
        pod=core.plan.pods.get(dpid) or (f"pod{pod}" if pod else ""),
        connected=switch.session_id is not None,
        in_sync=switch.ready and not switch.unsettled and not switch.in_flight,
        rules=len(actual.rules) - foreign if actual else 0,
        groups=len(actual.groups) if actual else 0,
        foreign_rules=foreign,
        peer_address=switch.peer_address,
        software=switch.software,
    )
