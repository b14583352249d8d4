"""Puts ports, links, hosts and the plan together into the one FabricView that placement and compilation use."""

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from controller.fabric import rails, roles
from controller.fabric.hosts import UNKNOWN_MAC, HostTable
from controller.fabric.model import FabricView, Host, Link, Port, PortRef, Role, Switch
from controller.fabric.plan import FabricPlan
from controller.fabric.rails import Nic
from controller.fabric.servers import ServerNic
from controller.fabric.tiers import below_leaves


@dataclass(frozen=True, slots=True)
class PlanIndex:
    """The plan by identity; empty where there is none."""

    names: Mapping[int, str]
    roles: Mapping[int, Role]
    rate_bps: Mapping[PortRef, int]
    links: tuple[tuple[PortRef, PortRef], ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    # Of the switches whose pod the plan names.
    pods: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: FabricPlan | None) -> "PlanIndex":
        if plan is None:
            return cls({}, {}, {}, ())
        dpid = {s.name: s.dpid for s in plan.switches}
        rates = {PortRef(dpid[h.switch], h.port): h.rate_bps for h in plan.hosts}
        links = []
        for link in plan.links:
            ends = sorted((PortRef(dpid[link.a], link.a_port), PortRef(dpid[link.b], link.b_port)))
            rates |= dict.fromkeys(ends, link.rate_bps)
            links.append((ends[0], ends[1]))
        names, meant = {s.dpid: s.name for s in plan.switches}, {s.dpid: s.role for s in plan.switches}
        pods = {s.dpid: s.pod for s in plan.switches if s.pod}
        return cls(names, meant, rates, tuple(links), dict(plan.aliases), pods)

    def name(self, dpid: int) -> str:
        return self.names.get(dpid) or f"s{dpid:x}"

    def port_name(self, port: PortRef) -> str:
        return f"{self.name(port.dpid)}:{port.port_no}"


@dataclass(frozen=True, slots=True)
class SwitchFacts:
    """What the view needs of a switch's session."""

    connected: bool
    nicira: bool


def build(
    switches: Mapping[int, SwitchFacts],
    ports: Mapping[PortRef, Port],
    links: Iterable[tuple[PortRef, PortRef]],
    hosts: HostTable,
    plan: PlanIndex,
    default_rate_bps: int,
    servers: Mapping[PortRef, ServerNic] | None = None,
) -> tuple[FabricView, tuple[str, ...]]:
    """The view, and sentences about what could not be understood. `servers` are what hosts say of themselves."""
    cables = list(links)
    at_switch = {end for cable in cables for end in cable}
    edge_ports = Counter(ref.dpid for ref, port in ports.items() if port.up and ref not in at_switch)
    host_ports = [host.port for host in hosts.seen.values()]
    names = {dpid: plan.name(dpid) for dpid in switches}
    found = roles.infer(switches.keys(), cables, host_ports, edge_ports, plan.roles, names)

    def rate(ref: PortRef) -> int:
        # The plan knows better than the switch: virtual ports claim 10 Gbit/s whatever they carry.
        return plan.rate_bps.get(ref) or (ports[ref].speed_bps if ref in ports else 0) or default_rate_bps

    view = FabricView(
        switches={
            dpid: Switch(dpid, names[dpid], found.of[dpid], facts.connected, facts.nicira)
            for dpid, facts in switches.items()
        },
        links=tuple(Link(a, b, min(rate(a), rate(b))) for a, b in cables),
        hosts=tuple(_hosts(hosts, switches.keys(), rate, servers or {})),
        aliases=plan.aliases,
    )
    view, on_edges = below_leaves(view)
    seen = (Nic(host.server or host.name, host.nic, host.leaf) for host in view.hosts if host.nic)
    meant = (Nic(host.name, host.nic, port.dpid) for host, port in hosts.planned.values() if host.nic)
    railed = rails.infer(seen, plan.name, meant)
    return replace(view, rails=railed.of_leaf), (*found.problems, *on_edges, *railed.problems)


def _hosts(
    hosts: HostTable, known: Iterable[int], rate: Callable[[PortRef], int], servers: Mapping[PortRef, ServerNic]
) -> list[Host]:
    """One for each network interface, that is for each name or MAC at a port, with all addresses that it has there."""
    here = set(known)
    interfaces: dict[tuple[PortRef, str, str], list[str]] = {}
    names = {
        (host.port, host.mac): hosts.name_of(host.address) for host in hosts.seen.values() if hosts.is_planned(host)
    }
    for seen in sorted(hosts.seen.values(), key=lambda s: (s.port, _rank(s.address))):
        if seen.port.dpid in here:
            # What the plan says nothing of (IPv6) belongs to the planned interface of the same MAC.
            planned = hosts.name_of(seen.address) if hosts.is_planned(seen) else names.get((seen.port, seen.mac), "")
            alone = seen.address if seen.mac == UNKNOWN_MAC else ""
            interfaces.setdefault((seen.port, seen.mac, planned or alone), []).append(seen.address)
    result = []
    for (port, mac, name), addresses in interfaces.items():
        host = Host(name or addresses[0], mac, tuple(addresses), port, rate(port))
        if name:
            host = replace(host, nic=hosts.nic_of(addresses))
        elif (said := servers.get(port)) is not None:
            host = replace(host, nic=said.number, server=said.server)
        result.append(host)
    return result


def _rank(address: str) -> tuple[int, str]:
    """The main address comes first: one that others know, IPv4 before IPv6, before one that only holds on a link."""
    ip = ipaddress.ip_address(address)
    return (2 if ip.is_link_local else int(ip.version == _IPV6), address)


_IPV6 = 6
