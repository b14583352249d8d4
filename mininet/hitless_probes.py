"""Probes that together cross every pair of leaves and every cable between switches in both directions.

Which way a probe goes is not guessed: Open vSwitch itself is asked, switch by switch (`ofproto/trace`). Source ports
are tried until every direction of every cable has a probe.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from lab_bridges import switch_ports
from lab_checks import interface_name
from lab_fabric import FabricLab
from lab_namespace import LabError
from roce_headers import DSCP_DATA, UDP_PORT, type_of_service
from roce_probe import ProbeResult, RunningProbe

from controller.fabric.model import Role

FIRST_PORT = 50_000
# Source ports tried for one pair of hosts; with four uplinks all of them show up within a dozen.
_PORTS_TRIED = 64
_DSCP_BITS = 0xFC

# A direction of a cable: the interface that sends into it.
Direction = str


@dataclass(frozen=True, slots=True)
class ProbeFlow:
    """`crosses` are the cable directions on its way, in order."""

    source: str
    target: str
    udp_source_port: int
    crosses: tuple[Direction, ...] = ()


class Router:
    """Asks where packets go; the datapath's port numbers are read once."""

    def __init__(self, lab: FabricLab) -> None:
        self._lab = lab
        self._hosts = {host.label: host for host in lab.plan.hosts}
        named = {interface_name(s, port): (s, port) for s, ports in switch_ports(lab.plan).items() for port in ports}
        shown = re.findall(r"(\S+) \d+/(\d+):", lab.ovs.appctl("dpif/show"))
        self._port = {number: named[name] for name, number in shown if name in named}
        ends = [((link.a, link.a_port), (link.b, link.b_port)) for link in lab.plan.links]
        self._far = {here: there for a, b in ends for here, there in ((a, b), (b, a))}

    def route(self, source: str, target: str, udp_source_port: int) -> tuple[Direction, ...]:
        """The cable directions that such a packet takes now. Raises LabError when it does not arrive."""
        begin, end = self._hosts[source], self._hosts[target]
        flow = (
            f"udp,dl_src={begin.mac},dl_dst={end.mac},nw_src={begin.ipv4},nw_dst={end.ipv4},nw_ttl=64,"
            f"nw_tos={type_of_service(DSCP_DATA) & _DSCP_BITS},udp_src={udp_source_port},udp_dst={UDP_PORT}"
        )
        switch, port = begin.switch, begin.port
        crossed: list[Direction] = []
        for _ in self._lab.plan.switches:
            said = self._lab.trace(switch, port, flow).strip()
            number = re.search(r"Datapath actions:.*?(\d+)$", said)
            out = self._port.get(number[1]) if number else None
            if out is None:
                raise LabError(f"{switch} drops {source} -> {target} from UDP port {udp_source_port}: {said[-200:]}")
            if out == (end.switch, end.port):
                return tuple(crossed)
            crossed.append(interface_name(*out))
            switch, port = self._far[out]
        raise LabError(f"{source} -> {target} from UDP port {udp_source_port} goes in circles: {crossed}")


def covering(lab: FabricLab, avoid: Iterable[str] = ()) -> list[ProbeFlow]:
    """One probe for every ordered pair of leaves, and as many more as every cable direction takes.

    Hosts in `avoid` are left for others. Raises LabError when some direction cannot be covered.
    """
    spared = set(avoid)
    hosts: dict[str, list[str]] = {s.name: [] for s in lab.plan.switches if s.role == Role.LEAF}
    for host in lab.plan.hosts:
        if host.name not in spared:
            hosts[host.switch].append(host.name)
    router, missing = Router(lab), set(lab.uplink_interfaces())
    chosen: list[ProbeFlow] = []
    pairs = list(itertools.permutations(hosts, 2))
    for a, b in pairs:
        chosen.append(_best(router, hosts[a], hosts[b], missing, chosen))
        missing -= set(chosen[-1].crosses)
    for a, b in itertools.cycle(pairs):
        if not missing:
            return chosen
        more = _best(router, hosts[a], hosts[b], missing, chosen)
        if missing.isdisjoint(more.crosses):
            pairs.remove((a, b))
            if not pairs:
                raise LabError(f"no probe crosses {', '.join(sorted(missing))}")
            continue
        chosen.append(more)
        missing -= set(more.crosses)
    return chosen


def _best(
    router: Router, sources: list[str], targets: list[str], missing: set[Direction], chosen: list[ProbeFlow]
) -> ProbeFlow:
    """Of the flows between two leaves the one that crosses most of what is missing; hosts take turns."""
    source, target = sources[len(chosen) % len(sources)], targets[len(chosen) % len(targets)]
    taken = {flow.udp_source_port for flow in chosen}
    best: ProbeFlow | None = None
    for port in itertools.islice((p for p in itertools.count(FIRST_PORT) if p not in taken), _PORTS_TRIED):
        flow = ProbeFlow(source, target, port, router.route(source, target, port))
        if best is None or len(missing & set(flow.crosses)) > len(missing & set(best.crosses)):
            best = flow
        if missing.issuperset(flow.crosses):
            break
    if best is None:
        raise LabError(f"no UDP source port is left for a probe from {source} to {target}")
    return best


@contextmanager
def running(lab: FabricLab, flows: Iterable[ProbeFlow], packets_per_second: float) -> Iterator[list[RunningProbe]]:
    """All probes at once, until `finish` or the end of the block."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                RunningProbe(
                    lab,
                    flow.source,
                    flow.target,
                    packets_per_second=packets_per_second,
                    duration_s=None,
                    udp_source_port=flow.udp_source_port,
                )
            )
            for flow in flows
        ]


def finish(probes: Iterable[RunningProbe]) -> list[ProbeResult]:
    """Stops all, and what each of them saw."""
    every = list(probes)
    stop_together(every)
    return [probe.wait() for probe in every]


def stop_together(probes: Sequence[RunningProbe]) -> None:
    """So that they wait for their last packets together and not one after the other."""
    for probe in probes:
        probe.stop_sending()
    for probe in probes:
        probe.last_sent()
