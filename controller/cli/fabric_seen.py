"""Turns the controller's topology answer into what is seen and what was meant, for the cabling verdict and exports.

It decides whose word on a rate counts: the ports' own, where they say one, else what the controller reckons with.
"""

from typing import TYPE_CHECKING

from controller.cli.tables import AVOIDED
from controller.fabric.cabling import (
    Cable,
    CabledSwitch,
    CableEnd,
    CablingPlan,
    SeenCable,
    SeenEnd,
    SeenFabric,
    SeenNeighbour,
    SeenSwitch,
    nic_port,
)
from controller.fabric.model import Role

if TYPE_CHECKING:
    from heddle.v1 import fabric_pb2

_ROLES = {role.value: role for role in Role}


def seen_fabric(topology: "fabric_pb2.GetTopologyResponse") -> SeenFabric:
    """Switches, cables between them and to hosts, each with its state and rate."""
    switches = tuple(
        SeenSwitch(s.name or f"{s.dpid:x}", _role(s.role), s.connected, tuple(s.rails)) for s in topology.switches
    )
    cables = [_cable(link) for link in topology.links]
    hosts: dict[str, tuple[str, ...]] = {}
    for host in topology.hosts:
        hosts[host.name] = (*hosts.get(host.name, ()), *host.addresses)
        rate, source = _rate([host.speed_bps], host.capacity_bps)
        # A number that the host's own LLDP suggests is no part of its name, which is its address.
        port = nic_port(host.nic) if host.server == host.name else ""
        cables.append(SeenCable(SeenEnd(host.name, None, port), _end(host.port), "up", rate, source))
    taken = {(h.port.dpid, h.port.port_no) for h in topology.hosts}
    taken |= {(end.dpid, end.port_no) for link in topology.links for end in (link.a, link.b) if link.state != "down"}
    neighbours = (n for n in topology.neighbours if (n.port.dpid, n.port.port_no) not in taken)
    return SeenFabric(switches, hosts, tuple(cables), tuple(map(_neighbour, neighbours)))


def meant_plan(plan: "fabric_pb2.CablingPlan") -> CablingPlan:
    """What the controller's topology file says."""
    cables = [Cable(_planned(k.a), _planned(k.b), k.rate_bps or None) for k in plan.links]
    cables += [Cable(CableEnd(h.name, nic_port(h.nic)), _planned(h.port), h.rate_bps or None) for h in plan.hosts]
    return CablingPlan(
        plan.name,
        "controller",
        tuple(CabledSwitch(s.name, _role(s.role), s.dpid) for s in plan.switches),
        tuple(dict.fromkeys(h.name for h in plan.hosts)),
        tuple(cables),
    )


def _cable(link: "fabric_pb2.Link") -> SeenCable:
    rate, source = _rate([link.a_speed_bps, link.b_speed_bps], link.capacity_bps)
    return SeenCable(_end(link.a), _end(link.b), _state(link), rate, source)


def _neighbour(said: "fabric_pb2.Neighbour") -> SeenNeighbour:
    cable = SeenCable(SeenEnd(said.name, None, said.port_name), _end(said.port))
    return SeenNeighbour(cable, said.kind, said.summary)


def _state(link: "fabric_pb2.Link") -> str:
    """In the words of cabling: a suspect link is what made it suspect, one that is not known of yet is not there."""
    if link.state == "suspect":
        return link.cause
    if link.state in AVOIDED:
        # How it is cabled has nothing to do with that.
        return "up"
    return "down" if link.state == "unknown" else link.state


def _rate(speeds_bps: list[int], capacity_bps: int) -> tuple[int | None, str]:
    said = [speed for speed in speeds_bps if speed]
    if said:
        return min(said), "say the ports"
    return (capacity_bps, "reckons the controller") if capacity_bps else (None, "")


def _end(endpoint: "fabric_pb2.Endpoint") -> SeenEnd:
    return SeenEnd(endpoint.switch or f"{endpoint.dpid:x}", endpoint.port_no, endpoint.port_name)


def _planned(endpoint: "fabric_pb2.Endpoint") -> CableEnd:
    return CableEnd(endpoint.switch or f"{endpoint.dpid:x}", str(endpoint.port_no))


def _role(text: str) -> Role:
    return _ROLES.get(text, Role.UNKNOWN)
