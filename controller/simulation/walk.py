"""Follows one packet from a host through the tables as they stand at this moment, and checks that hosts are reached.

A walk takes no simulated time and changes no counter. It decides what *would* happen; moving frames through time is
decided in `dataplane`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from controller.fabric.model import PortRef
from controller.pipeline.outcome import Punt
from controller.pipeline.packet import Packet, udp
from controller.pipeline.rules import Rule
from controller.simulation.cables import End
from controller.simulation.dataplane import HOP_LIMIT
from controller.simulation.hosts import ModelHost
from controller.simulation.network import ModelNetwork


@dataclass(frozen=True, slots=True)
class Hop:
    """One switch that a copy of the packet crossed. `queues` has one entry per port of `out_ports`."""

    switch: str
    in_port: int
    out_ports: tuple[int, ...]
    queues: tuple[int | None, ...]
    rules: tuple[Rule, ...]
    # Rules of the same priority that matched too: OpenFlow leaves open which applies.
    rivals: tuple[Rule, ...] = ()

    def __str__(self) -> str:
        tables = ",".join(f"{rule.table_id}/{rule.priority}" for rule in self.rules)
        return f"{self.switch} (in {self.in_port}, rules {tables or 'none'}, out {list(self.out_ports)})"


@dataclass(frozen=True, slots=True)
class Walk:
    """All that became of one packet. `delivered` names a host once per copy; hops are in breadth-first order."""

    hops: tuple[Hop, ...]
    delivered: tuple[str, ...]
    arrivals: tuple[Packet, ...]
    drops: tuple[str, ...]
    punts: tuple[tuple[str, Punt], ...]
    looped: bool

    @property
    def switches(self) -> tuple[str, ...]:
        return tuple(hop.switch for hop in self.hops)

    @property
    def ports(self) -> tuple[tuple[str, int], ...]:
        """(switch, egress port) in the order crossed, the last one to the host included."""
        return tuple((hop.switch, port_no) for hop in self.hops for port_no in hop.out_ports)

    def explain(self) -> str:
        ends = [f"delivered to {name}" for name in self.delivered]
        ends += [f"dropped: {reason}" for reason in self.drops]
        ends += [f"punted by {switch} (port {punt.in_port})" for switch, punt in self.punts]
        ends += ["looped"] if self.looped else []
        return " -> ".join(str(hop) for hop in self.hops) + ": " + "; ".join(ends)


def walk(network: ModelNetwork, packet: Packet, from_host: str, *, hop_limit: int = HOP_LIMIT) -> Walk:
    """Follows every copy of the packet until it ends. Raises KeyError for an unknown host."""
    if from_host not in network.hosts:
        raise KeyError(f"no host {from_host!r} in the plan {network.plan.name!r}")
    walker = _Walker(network)
    walker.cross(from_host, packet)
    # The limit is on all copies together, so that copies that multiply end as well.
    while walker.copies and len(walker.hops) < hop_limit:
        walker.visit(*walker.copies.popleft())
    arrivals = tuple(walker.arrivals)
    delivered, drops, punts = tuple(walker.delivered), tuple(walker.drops), tuple(walker.punts)
    return Walk(tuple(walker.hops), delivered, arrivals, drops, punts, bool(walker.copies))


class _Walker:
    def __init__(self, network: ModelNetwork) -> None:
        self._network = network
        self._wiring = network.wiring
        self.copies: deque[tuple[PortRef, Packet]] = deque()
        self.hops: list[Hop] = []
        self.delivered: list[str] = []
        self.arrivals: list[Packet] = []
        self.drops: list[str] = []
        self.punts: list[tuple[str, Punt]] = []

    def cross(self, sender: End, packet: Packet) -> None:
        """Takes a copy over the cable at `sender`."""
        cable = self._wiring.cable_at(sender)
        if cable is None or not cable.carries(sender):
            self.drops.append(f"{self._wiring.describe((sender,))}: the cable does not carry")
            return
        receiver = cable.other(sender)
        if isinstance(receiver, str):
            self.delivered.append(receiver)
            self.arrivals.append(packet)
            return
        switch = self._wiring.by_dpid[receiver.dpid]
        if self._network.is_off(switch.name) or not switch.is_live(receiver.port_no):
            self.drops.append(f"{self._wiring.describe((receiver,))}: the port is down")
        else:
            self.copies.append((receiver, packet))

    def visit(self, at: PortRef, packet: Packet) -> None:
        """Lets one switch forward a copy that arrived at a port."""
        switch = self._wiring.by_dpid[at.dpid]
        outcome = switch.forward(packet, at.port_no, dry_run=True)
        out_ports, queues = tuple(sent.port_no for sent in outcome.sent), tuple(sent.queue_id for sent in outcome.sent)
        self.hops.append(Hop(switch.name, at.port_no, out_ports, queues, outcome.rules, outcome.rivals))
        self.drops += (f"{switch.name}: {reason}" for reason in outcome.drops)
        self.punts += ((switch.name, punt) for punt in outcome.punts)
        for sent in outcome.sent:
            if switch.is_live(sent.port_no):
                self.cross(PortRef(at.dpid, sent.port_no), sent.packet)
            else:
                self.drops.append(f"{switch.name}: sent out of port {sent.port_no}, which is down")


# --- whole fabrics ----------------------------------------------------------------------------------------


class Wrong(StrEnum):
    """What can be wrong with a delivery."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    MISDELIVERED = "misdelivered"
    LOOPED = "looped"
    PUNTED = "punted"


@dataclass(frozen=True, slots=True)
class Violation:
    wrong: Wrong
    source: str
    destination: str
    walk: Walk

    def __str__(self) -> str:
        return f"{self.source} -> {self.destination} {self.wrong}: {self.walk.explain()}"


# The packets to try between two hosts.
Probes = Callable[[ModelHost, ModelHost], Iterable[Packet]]

# RDMA queue pairs take their UDP source ports from this range on.
_PROBE_PORTS = (49152, 50001, 61003)


def roce_probes(source: ModelHost, destination: ModelHost) -> list[Packet]:
    """RoCEv2 packets with different UDP source ports, so that spreading takes several paths."""
    ends = (source.ipv4_text, destination.ipv4_text, source.mac_text, destination.mac_text)
    return [udp(*ends, port) for port in _PROBE_PORTS]


def check_delivery(
    network: ModelNetwork,
    pairs: Iterable[tuple[str, str]] | None = None,
    *,
    probes: Probes = roce_probes,
    longest_path: int | None = None,
) -> list[Violation]:
    """Everything wrong with sending between these pairs of hosts; all pairs by default.

    Not being delivered is only wrong where a path of cables that work both ways exists, of at most `longest_path`
    switches if that is given.
    """
    hosts = network.hosts
    chosen = [(a, b) for a in hosts for b in hosts if a != b] if pairs is None else pairs
    reach = Reachability(network)
    violations: list[Violation] = []
    for source, destination in chosen:
        connected = reach.connected(source, destination, longest_path)
        for packet in probes(hosts[source], hosts[destination]):
            result = walk(network, packet, source)
            found = _wrongs(result, destination, must_arrive=connected)
            violations += (Violation(wrong, source, destination, result) for wrong in found)
    return violations


def _wrongs(result: Walk, destination: str, *, must_arrive: bool) -> list[Wrong]:
    wrongs = []
    copies = result.delivered.count(destination)
    if result.looped:
        wrongs.append(Wrong.LOOPED)
    if copies > 1:
        wrongs.append(Wrong.DUPLICATED)
    if copies < len(result.delivered):
        wrongs.append(Wrong.MISDELIVERED)
    if must_arrive and not copies and not result.looped:
        wrongs.append(Wrong.PUNTED if result.punts else Wrong.LOST)
    return wrongs


class Reachability:
    """Which hosts the cables and switches that work connect, whatever the tables say. Edge switches carry nothing for
    others, and count for nothing in the length of a path."""

    def __init__(self, network: ModelNetwork) -> None:
        self._network = network
        self._distances: dict[str, dict[str, int]] = {}

    def connected(self, source: str, destination: str, longest_path: int | None = None) -> bool:
        """`longest_path` counts switches: 1 within a leaf, 3 across a spine."""
        start, end = self._switch_of(source), self._switch_of(destination)
        if start is None or end is None:
            return False
        if start not in self._distances:
            self._distances[start] = self._distances_from(start)
        distance = self._distances[start].get(end)
        return distance is not None and (longest_path is None or distance + 1 <= longest_path)

    def _switch_of(self, host: str) -> str | None:
        """The host's switch, if the cable to it works and the switch is on."""
        name = self._network.wiring.by_dpid[self._network.hosts[host].port.dpid].name
        return name if name in self._neighbours(host) else None

    def _neighbours(self, name: str) -> Sequence[str]:
        wiring = self._network.wiring
        working = [cable for cable in wiring.cables_of(name) if cable.works]
        names = {wiring.name_of(end) for cable in working for end in (cable.a, cable.b)} - {name}
        return [other for other in wiring.switches if other in names and not self._network.is_off(other)]

    def _distances_from(self, start: str) -> dict[str, int]:
        """Cables between `start` and every switch it reaches."""
        edges = self._network.wiring.edge_switches
        distances = {start: 0}
        queue = deque([start])
        while queue:
            name = queue.popleft()
            if name in edges and name != start:
                continue
            for neighbour in self._neighbours(name):
                if neighbour not in distances:
                    distances[neighbour] = distances[name] + (not {name, neighbour} & edges)
                    queue.append(neighbour)
        return distances
