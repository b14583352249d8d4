"""Turns the controller's topology answer into the plain description that `picture` draws."""

from typing import TYPE_CHECKING

from controller.cli.picture import FabricPicture, LinkState, PictureHost, PictureLink, PictureSwitch
from controller.cli.tables import AVOIDED, rail_text
from controller.cli.units import rate_text
from controller.fabric.model import nic_label

if TYPE_CHECKING:
    from heddle.v1 import fabric_pb2


def describe(topology: "fabric_pb2.GetTopologyResponse", *, title: str = "Heddle fabric") -> FabricPicture:
    """Loads are the measured rates over the links' capacities; unknown where either is."""
    switches = tuple(PictureSwitch(_switch(s), s.role, s.connected, rail_text(s.rails)) for s in topology.switches)
    known = {switch.name for switch in switches}
    # A cable or a host may still point to a switch that has gone from the list; it gets a place in the picture too.
    ends = [end for link in topology.links for end in (link.a, link.b)] + [host.port for host in topology.hosts]
    absent = sorted({_switch_of(end) for end in ends} - known)
    return FabricPicture(
        title,
        (*switches, *(PictureSwitch(name, "unknown", connected=False) for name in absent)),
        tuple(_link(link) for link in topology.links),
        tuple(PictureHost(_interface(host), _switch_of(host.port)) for host in topology.hosts),
        _subtitle(topology),
    )


def _switch(switch: "fabric_pb2.Switch") -> str:
    return switch.name or f"{switch.dpid:x}"


def _interface(host: "fabric_pb2.Host") -> str:
    return nic_label(host.name, host.nic) if host.server == host.name else host.name


def _switch_of(endpoint: "fabric_pb2.Endpoint") -> str:
    return endpoint.switch or f"{endpoint.dpid:x}"


def _link(link: "fabric_pb2.Link") -> PictureLink:
    return PictureLink(
        _switch_of(link.a),
        _switch_of(link.b),
        _share(link.a_to_b_bps, link.capacity_bps) if link.HasField("a_to_b_bps") else None,
        _share(link.b_to_a_bps, link.capacity_bps) if link.HasField("b_to_a_bps") else None,
        state=_state(link),
    )


def _state(link: "fabric_pb2.Link") -> LinkState:
    if link.cause == LinkState.ONE_WAY:
        return LinkState.ONE_WAY
    return LinkState.UP if link.state in (LinkState.UP, *AVOIDED) else LinkState.DOWN


def _share(rate_bps: float, capacity_bps: int) -> float | None:
    return rate_bps / capacity_bps if capacity_bps else None


def _subtitle(topology: "fabric_pb2.GetTopologyResponse") -> str:
    """The rate of the links when they share one, since the loads are shares of it; then what is wrong, if anything."""
    rates = {link.capacity_bps for link in topology.links if link.capacity_bps}
    up = sum(link.state == "up" for link in topology.links)
    parts = [f"{up} of {len(topology.links)} links up"]
    if len(rates) == 1:
        parts.append(f"{rate_text(rates.pop())} each")
    fullest = max(
        (
            (rate / link.capacity_bps, source.switch, target.switch)
            for link in topology.links
            if link.capacity_bps
            for rate, source, target in ((link.a_to_b_bps, link.a, link.b), (link.b_to_a_bps, link.b, link.a))
        ),
        default=None,
    )
    if fullest is not None and fullest[0] > 0:
        parts.append(f"fullest: {fullest[1]} → {fullest[2]}, {100 * fullest[0]:.0f} %")
    return "; ".join(parts)
