"""What several views share: ends of links, hops of paths, hosts by name, and the ways to ask for what is not there."""

from collections.abc import Callable
from dataclasses import dataclass

from controller.core.machine import Core
from controller.core.naming import find_hosts
from controller.core.planning import hosts_by_address
from controller.fabric.model import Host, Path, PortRef
from controller.jobs.collective import Flow
from controller.pipeline.cookies import Kind, cookie
from controller.placement.certificate import Certificate


class UnknownJob(Exception):
    """str() says which."""


class UnknownHost(Exception):
    """str() says which."""


class UnknownSwitch(Exception):
    """str() says which."""


class UnknownLink(Exception):
    """str() says which."""


@dataclass(frozen=True, slots=True)
class EndpointView:
    switch: str
    dpid: int
    port_no: int
    port_name: str


@dataclass(frozen=True, slots=True)
class HopView:
    switch: str
    dpid: int
    port_no: int
    port_name: str
    to: str


def endpoint(core: Core, ref: PortRef) -> EndpointView:
    known = core.discovery.ports.get(ref)
    name = known.port.name if known else str(ref.port_no)
    return EndpointView(core.plan.name(ref.dpid), ref.dpid, ref.port_no, name)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every flow's view looks up, made once for all of them."""

    far: dict[PortRef, PortRef]
    hosts: dict[str, Host]

    @classmethod
    def of(cls, core: Core) -> "Surroundings":
        far = {end: link.other(end) for link in core.state.reduced.whole.links for end in (link.a, link.b)}
        return cls(far, hosts_by_address(core.state))

    def label(self, name: str, address: str) -> str:
        """What to call the end of a flow: the interface, where its host has several."""
        host = self.hosts.get(address)
        return host.label if host is not None and host.name == name else name

    def same_leaf(self, flow: Flow) -> bool:
        source, destination = self.hosts.get(flow.src_address), self.hosts.get(flow.dst_address)
        return source is not None and destination is not None and source.leaf == destination.leaf


def hops(core: Core, path: Path, far: dict[PortRef, PortRef]) -> tuple[HopView, ...]:
    found = []
    for ref in path:
        end = endpoint(core, ref)
        there = core.plan.name(far[ref].dpid) if ref in far else "?"
        found.append(HopView(end.switch, end.dpid, end.port_no, end.port_name, there))
    return tuple(found)


def owners(core: Core) -> dict[int, str]:
    """The jobs of steering rules by the cookies that their rules bear; a cookie holds but a digest of the name."""
    return {cookie(Kind.STEER, job_id): job_id for job_id in core.state.jobs}


def known_hosts(core: Core, *names: str) -> tuple[Host, ...]:
    """The hosts with these names, addresses or aliases. Raises UnknownHost with one line for each that is not there."""
    found, missing = find_hosts(core.state, names)
    if missing:
        raise UnknownHost("\n".join(missing))
    return tuple(found)


def find_switches(core: Core, name: str) -> frozenset[int]:
    """The switch of this name or hexadecimal datapath id; all when the name is empty. Raises UnknownSwitch."""
    if not name:
        return frozenset(core.state.switches)
    wanted = name.lower().removeprefix("0x").lstrip("0")
    found = {dpid for dpid in core.state.switches if core.plan.name(dpid) == name or f"{dpid:x}" == wanted}
    if not found:
        raise UnknownSwitch(f"no switch {name!r} has connected to this controller")
    return frozenset(found)


def port_namer(core: Core, dpid: int) -> Callable[[int], str]:
    """What a port of this switch is called: "port 1 (spine1)", by what is at its other end."""
    far = {
        end.port_no: link.other(end)
        for link in core.state.reduced.whole.links
        for end in (link.a, link.b)
        if end.dpid == dpid
    }
    hosts = {host.port.port_no: host.label for host in core.state.view.hosts if host.port.dpid == dpid}

    def words(port_no: int) -> str:
        name = core.plan.name(far[port_no].dpid) if port_no in far else hosts.get(port_no, "")
        return f"port {port_no} ({name})" if name else f"port {port_no}"

    return words


def seconds_text(value_s: float) -> str:
    """Three digits, and no power of ten where people would write the number: "12.9 s", "1611 s"."""
    return f"{value_s:.3g} s" if value_s < 1000 else f"{value_s:.0f} s"


def certificate(core: Core) -> Certificate:
    """Of everything placed at present."""
    placed = core.state.placement
    return placed.certificate if placed else Certificate(0.0, 0.0, 0.0, "nothing-to-place", True, 0.0)
