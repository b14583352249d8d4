"""The rules that a packet between two hosts meets, switch by switch: the trace of `core.tracing`, in words."""

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

from controller.core.machine import Core
from controller.core.tracing import End, Trace, Visit, trace
from controller.core.views.common import owners, port_namer
from controller.fabric.model import Host, PortRef
from controller.pipeline.marks import detour_words
from controller.pipeline.outcome import Choice, Outcome, Sent, Step
from controller.pipeline.packet import Packet, udp
from controller.pipeline.rules import Bundle, Group, GroupKind, Rule
from controller.pipeline.words import (
    action_words,
    bucket_words,
    cookie_kind,
    field_text,
    match_words,
    packet_words,
    table_name,
)

# The first of the ports that RDMA queue pairs take when nobody gives them one (RFC 6335: dynamic ports).
ANY_UDP_PORT = 49152


@dataclass(frozen=True, slots=True)
class TracedRuleView:
    priority: int
    match: str
    match_fields: tuple[str, ...]
    cookie: int
    kind: str
    job_id: str
    actions: tuple[str, ...]
    next_table: str
    meter_id: int


@dataclass(frozen=True, slots=True)
class TracedMemberView:
    action: str
    weight: int
    live: bool
    taken: bool


@dataclass(frozen=True, slots=True)
class TracedChoiceView:
    kind: str
    group_id: int
    members: tuple[TracedMemberView, ...]
    by_hash: bool


@dataclass(frozen=True, slots=True)
class TracedTableView:
    """`rule` is None when no rule of the table matches."""

    table_id: int
    table: str
    rule: TracedRuleView | None
    choices: tuple[TracedChoiceView, ...]
    rivals: tuple[TracedRuleView, ...]


@dataclass(frozen=True, slots=True)
class TracedOutputView:
    port_no: int
    port_name: str
    to: str
    queue_id: int | None
    dscp: int | None
    by_hash: bool


@dataclass(frozen=True, slots=True)
class TracedSwitchView:
    switch: str
    dpid: int
    in_port: int
    in_port_name: str
    sender: str
    by_hash: bool
    tables: tuple[TracedTableView, ...]
    outputs: tuple[TracedOutputView, ...]
    drops: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True)
class TraceEndView:
    kind: str
    switch: str
    port_no: int
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class PacketTraceView:
    packet: str
    udp_source_port: int
    dscp: int
    src_host: str
    dst_host: str
    switches: tuple[TracedSwitchView, ...]
    ends: tuple[TraceEndView, ...]


def trace_packet(core: Core, source: Host, destination: Host, udp_source_port: int, dscp: int) -> PacketTraceView:
    """What would become of a RoCEv2 packet that `source` sent to `destination` now. A port of 0 stands for any."""
    packet = roce_packet(source, destination, udp_source_port or ANY_UDP_PORT, dscp)
    found = trace(core.state.switches, core.discovery, core.state.reduced.whole, packet, source)
    shown = _Shown(core, found, source.label)
    return PacketTraceView(
        packet=packet_words(packet.headers),
        udp_source_port=packet.headers["udp_src"],
        dscp=dscp,
        src_host=source.label,
        dst_host=destination.label,
        switches=tuple(shown.switch(visit) for visit in found.visits),
        ends=tuple(shown.end(end) for end in found.ends),
    )


def roce_packet(source: Host, destination: Host, udp_source_port: int, dscp: int) -> Packet:
    """In the address family that both have, the source's main address first."""
    versions = {ip_address(address).version: address for address in reversed(destination.addresses)}
    common = [address for address in source.addresses if ip_address(address).version in versions]
    # A fabric whose hosts are learnt from ARP has no host without an IPv4 address.
    sender = common[0]
    receiver = versions[ip_address(sender).version]
    return udp(sender, receiver, source.mac, destination.mac, udp_source_port, dscp=dscp)


class _Shown:
    """One trace, with what its parts are called."""

    def __init__(self, core: Core, found: Trace, source: str) -> None:
        self._core = core
        self._visits = found.visits
        self._source = source
        self._namers: dict[int, Callable[[int], str]] = {}
        self._owners = owners(core)

    def switch(self, visit: Visit) -> TracedSwitchView:
        dpid, outcome = visit.at.dpid, visit.outcome
        leads_to = zip(outcome.sent, visit.sent_to, strict=True)
        return TracedSwitchView(
            switch=self._core.plan.name(dpid),
            dpid=dpid,
            in_port=visit.at.port_no,
            in_port_name=self._port_name(visit.at),
            sender=self._source if visit.before is None else self._core.plan.name(self._visits[visit.before].at.dpid),
            by_hash=self._by_hash(visit),
            tables=tuple(self._table(dpid, step, outcome) for step in outcome.steps),
            outputs=tuple(self._output(dpid, sent, there) for sent, there in leads_to),
            drops=outcome.drops,
            note="; ".join(filter(None, (self._note(dpid), _detour(visit)))),
        )

    def _by_hash(self, visit: Visit) -> bool:
        """Some hash on the way here, not only on the switch before, might choose otherwise."""
        while visit.before is not None:
            before = self._visits[visit.before]
            ways = zip(before.outcome.sent, before.sent_to, strict=True)
            if any(sent.by_hash for sent, there in ways if there == visit.at):
                return True
            visit = before
        return False

    def _note(self, dpid: int) -> str:
        switch = self._core.state.switches[dpid]
        if switch.in_flight:
            return "changes are under way that the switch has not acknowledged yet"
        return "the switch did not answer as it should: it is to be read again" if switch.suspect else ""

    def _table(self, dpid: int, step: Step, outcome: Outcome) -> TracedTableView:
        return TracedTableView(
            table_id=step.table_id,
            table=table_name(step.table_id),
            rule=self._rule(dpid, step.rule) if step.rule else None,
            choices=tuple(self._choice(dpid, choice) for choice in step.choices),
            rivals=tuple(self._rule(dpid, rule) for rule in outcome.rivals if rule.table_id == step.table_id),
        )

    def _rule(self, dpid: int, rule: Rule) -> TracedRuleView:
        actions = [action_words(action, self._port_words(dpid)) for action in rule.actions]
        return TracedRuleView(
            priority=rule.priority,
            match=match_words(rule.match),
            match_fields=tuple(field_text(field) for field in rule.match),
            cookie=rule.cookie,
            kind=cookie_kind(rule.cookie),
            job_id=self._owners.get(rule.cookie, ""),
            actions=tuple(actions) if actions or rule.goto_table is not None else ("drop",),
            next_table="" if rule.goto_table is None else table_name(rule.goto_table),
            meter_id=rule.meter_id or 0,
        )

    def _choice(self, dpid: int, choice: Choice) -> TracedChoiceView:
        words = self._port_words(dpid)
        if isinstance(choice.of, Bundle):
            return _bundle(choice, choice.of, words)
        return _group(choice, choice.of, words)

    def _output(self, dpid: int, sent: Sent, there: PortRef | str | None) -> TracedOutputView:
        return TracedOutputView(
            port_no=sent.port_no,
            port_name=self._port_name(PortRef(dpid, sent.port_no)),
            to=self._core.plan.name(there.dpid) if isinstance(there, PortRef) else there or "",
            queue_id=sent.queue_id,
            dscp=sent.packet.get("ip_dscp"),
            by_hash=sent.by_hash,
        )

    def end(self, end: End) -> TraceEndView:
        return TraceEndView(end.kind.value, self._core.plan.name(end.at.dpid), end.at.port_no, end.host, end.reason)

    def _port_name(self, ref: PortRef) -> str:
        known = self._core.discovery.ports.get(ref)
        return known.port.name if known else str(ref.port_no)

    def _port_words(self, dpid: int) -> Callable[[int], str]:
        if dpid not in self._namers:
            self._namers[dpid] = port_namer(self._core, dpid)
        return self._namers[dpid]


def _detour(visit: Visit) -> str | None:
    """What the switch does about a failed link, if it does anything about one."""
    came = visit.packet.headers["eth_src"]
    said = (detour_words(came, sent.packet.headers["eth_src"]) for sent in visit.outcome.sent)
    return next(filter(None, said), None)


def _bundle(choice: Choice, bundle: Bundle, port_words: Callable[[int], str]) -> TracedChoiceView:
    """Each port once; how often the bundle lists it is its weight."""
    live = {bundle.ports[position] for position in choice.live}
    taken = {bundle.ports[position] for position in choice.taken}
    members = tuple(
        TracedMemberView(f"to {port_words(port_no)}", bundle.ports.count(port_no), port_no in live, port_no in taken)
        for port_no in dict.fromkeys(bundle.ports)
    )
    return TracedChoiceView("bundle", 0, members, len(taken) > 1)


def _group(choice: Choice, group: Group, port_words: Callable[[int], str]) -> TracedChoiceView:
    members = tuple(
        TracedMemberView(
            bucket_words(bucket, port_words),
            bucket.weight,
            position in choice.live,
            position in choice.taken,
        )
        for position, bucket in enumerate(group.buckets)
    )
    by_hash = group.kind is GroupKind.SELECT and len(choice.taken) > 1
    return TracedChoiceView(group.kind.value, group.group_id, members, by_hash)
