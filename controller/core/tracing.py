"""Follows one packet through the tables that the switches are known to hold, over the links that are known to work.

Like `ofproto/trace`, for the whole fabric. Where a hash decides, every live choice is followed, since a switch's hash
is its own. Nothing is asked of a switch and nothing is changed; what a table does to a packet is decided in
`pipeline.forwarding`, how a trace is shown in `views.trace`.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address

from controller.core.state import SwitchState
from controller.fabric.discovery import Discovery
from controller.fabric.model import FabricView, Host, PortRef
from controller.pipeline.diff import ActualTables
from controller.pipeline.flow_table import Entry, FlowTable
from controller.pipeline.forwarding import forward_every_way
from controller.pipeline.outcome import Outcome, Sent
from controller.pipeline.packet import Packet
from controller.pipeline.rules import Group

# Far more switches than any path has; a packet that multiplies ends here too.
_MOST_VISITS = 4096


class EndKind(StrEnum):
    HOST = "host"
    DROPPED = "dropped"
    PUNTED = "punted"
    LOOPED = "looped"
    # The controller does not know what lies there, or what the switch holds.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class End:
    """Where one copy of the packet ended. `host` is set for EndKind.HOST alone; `reason` says why elsewhere."""

    kind: EndKind
    at: PortRef
    host: str = ""
    reason: str = ""
    packet: Packet | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """A switch that the packet entered at `at`. `before` is the position of the visit it came from, None for the first.

    `sent_to` says for each packet of `outcome.sent`, in order, where the port leads: a switch's port, a host's name, or
    None when that is not known.
    """

    at: PortRef
    packet: Packet
    before: int | None
    outcome: Outcome
    sent_to: tuple[PortRef | str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """Visits in breadth-first order, and all ends."""

    visits: tuple[Visit, ...]
    ends: tuple[End, ...]


class HeldTables:
    """A switch as its controller knows it, in the form that forwarding asks for (`pipeline.outcome.Tables`)."""

    hash_salt = 0

    def __init__(self, actual: ActualTables, up: Mapping[int, bool]) -> None:
        """`up` says of every port of the switch whether it is up."""
        self._actual = actual
        self._up = up
        self._tables: dict[int, FlowTable] = {}

    def _table(self, table_id: int) -> FlowTable:
        """Indexed when a packet first comes to it: a steering table may hold thousands of rules."""
        if table_id not in self._tables:
            table = self._tables[table_id] = FlowTable()
            for rule in self._actual.rules.values():
                if rule.table_id == table_id:
                    table.put(rule)
        return self._tables[table_id]

    def hit(self, table_id: int, headers: Mapping[str, int]) -> Entry | None:
        return self._table(table_id).lookup(headers)

    def rivals(self, table_id: int, headers: Mapping[str, int], winner: Entry) -> Sequence[Entry]:
        return self._table(table_id).rivals(headers, winner)

    def group(self, group_id: int) -> Group | None:
        return self._actual.groups.get(group_id)

    def conforms(self, _meter_id: int) -> bool:
        """One packet is within any rate."""
        return True

    def port_numbers(self) -> Sequence[int]:
        return tuple(self._up)

    def is_live(self, port_no: int) -> bool:
        return self._up.get(port_no, False)

    def count(self, entry: Entry, size_bytes: int) -> None:
        """A trace is not traffic."""


def trace(
    switches: Mapping[int, SwitchState], discovery: Discovery, view: FabricView, packet: Packet, source: Host
) -> Trace:
    """Everything that would become of `packet` if `source` sent it now."""
    tracer = _Tracer(switches, discovery, view)
    tracer.arrive(source.port, packet, None)
    while tracer.waiting and len(tracer.visits) < _MOST_VISITS:
        tracer.visit(*tracer.waiting.popleft())
    tracer.ends += (End(EndKind.LOOPED, at, reason="too many copies to follow") for at, _, _ in tracer.waiting)
    return Trace(tuple(tracer.visits), tuple(tracer.ends))


class _Tracer:
    def __init__(self, switches: Mapping[int, SwitchState], discovery: Discovery, view: FabricView) -> None:
        self._switches = switches
        self._discovery = discovery
        self._far = {end: link.other(end) for link in view.links for end in (link.a, link.b)}
        self._hosts: dict[PortRef, list[Host]] = {}
        for host in view.hosts:
            self._hosts.setdefault(host.port, []).append(host)
        self._tables: dict[int, HeldTables] = {}
        self._seen: set[tuple[PortRef, frozenset[tuple[str, int]]]] = set()
        self.waiting: deque[tuple[PortRef, Packet, int | None]] = deque()
        self.visits: list[Visit] = []
        self.ends: list[End] = []

    def arrive(self, at: PortRef, packet: Packet, before: int | None) -> None:
        """The packet comes in at a switch's port."""
        if self._loops(at, packet, before):
            self.ends.append(End(EndKind.LOOPED, at, reason="it was here before, unchanged"))
            return
        key = (at, frozenset(packet.headers.items()))
        if key not in self._seen:
            self._seen.add(key)
            self.waiting.append((at, packet, before))

    def _loops(self, at: PortRef, packet: Packet, before: int | None) -> bool:
        while before is not None:
            earlier = self.visits[before]
            if earlier.at == at and earlier.packet.headers == packet.headers:
                return True
            before = earlier.before
        return False

    def visit(self, at: PortRef, packet: Packet, before: int | None) -> None:
        tables = self._held(at.dpid)
        if tables is None:
            self.ends.append(End(EndKind.UNKNOWN, at, reason=_why_unknown(self._switches.get(at.dpid))))
            return
        if not tables.is_live(at.port_no):
            self.ends.append(End(EndKind.DROPPED, at, reason=f"port {at.port_no}, where it comes in, is down"))
            return
        outcome = forward_every_way(tables, packet, at.port_no)
        number = len(self.visits)
        sent_to = tuple(self._beyond(PortRef(at.dpid, sent.port_no), sent.packet) for sent in outcome.sent)
        self.visits.append(Visit(at, packet, before, outcome, sent_to))
        self.ends += (End(EndKind.DROPPED, at, reason=reason) for reason in outcome.drops)
        self.ends += (End(EndKind.PUNTED, at, reason=f"table {punt.table_id}") for punt in outcome.punts)
        for sent, there in zip(outcome.sent, sent_to, strict=True):
            self._cross(PortRef(at.dpid, sent.port_no), sent, there, number, up=tables.is_live(sent.port_no))

    def _held(self, dpid: int) -> HeldTables | None:
        switch = self._switches.get(dpid)
        if switch is None or switch.actual is None:
            return None
        if dpid not in self._tables:
            up = {ref.port_no: known.port.up for ref, known in self._discovery.ports.items() if ref.dpid == dpid}
            self._tables[dpid] = HeldTables(switch.actual, up)
        return self._tables[dpid]

    def _beyond(self, ref: PortRef, packet: Packet) -> PortRef | str | None:
        """What is at the other end: the host that the packet is for, if several share the port."""
        if ref in self._far:
            return self._far[ref]
        hosts = self._hosts.get(ref, [])
        address = packet.headers.get("ipv4_dst", packet.headers.get("ipv6_dst"))
        meant = [host for host in hosts if address is not None and _has(host, address)] or hosts
        return meant[0].label if meant else None

    def _cross(self, sender: PortRef, sent: Sent, there: PortRef | str | None, number: int, *, up: bool) -> None:
        match there:
            case _ if not up:
                self.ends.append(End(EndKind.DROPPED, sender, reason=f"port {sender.port_no} is down"))
            case PortRef():
                self.arrive(there, sent.packet, number)
            case str():
                self.ends.append(End(EndKind.HOST, sender, there, packet=sent.packet))
            case None:
                reason = f"port {sender.port_no} leads to no host and over no link that is heard in both directions"
                self.ends.append(End(EndKind.UNKNOWN, sender, reason=reason, packet=sent.packet))


def _has(host: Host, address: int) -> bool:
    return any(int(ip_address(text)) == address for text in host.addresses)


def _why_unknown(switch: SwitchState | None) -> str:
    if switch is None or switch.session_id is None:
        return "the switch is not connected: what it holds is not known"
    return "the switch's tables have not been read yet, or are being read again"
