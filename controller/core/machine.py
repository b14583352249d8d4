"""The core: one state machine that takes events and answers commands.

`handle(event, now_s)` is the only way in. It changes the state, then settles (`settling`): due beacons and reads are
asked for, paths are placed anew where the fabric or the jobs have changed, and the switches are brought one stage
nearer to what they should hold. It never waits, never looks at a clock and never fails on what the network sends it.
"""

from collections.abc import Mapping

from controller.core import absent, capacity, drains, planning, requests
from controller.core.commands import Command, ConfigureQueues, Report, Severity
from controller.core.events import (
    BatchAnswered,
    BfdRead,
    CollectiveAnnounced,
    CollectiveWithdrawn,
    ComparisonWanted,
    DrainWanted,
    Event,
    MtusRead,
    PacketReceived,
    PlanFound,
    PortChanged,
    PortStatisticsRead,
    Remembered,
    Restored,
    SwitchConnected,
    SwitchDisconnected,
    SwitchRefused,
    TablesRead,
    Tick,
    UndrainWanted,
)
from controller.core.history import Entry
from controller.core.link_watch import SETTLE_S
from controller.core.settings import CoreSettings
from controller.core.settling import Settling
from controller.core.state import SwitchState
from controller.fabric.model import PortRef
from controller.pipeline.compile import BEACON_PUNT
from controller.pipeline.rules import SwitchTables
from controller.qos.queues import port_queues

# What does not by itself call for a look at every switch.
_CALM_EVENTS = (Tick, PacketReceived, PortStatisticsRead)


class Core(Settling):
    """See the module. `revision` grows with every change of plan or topology."""

    def __init__(self, settings: CoreSettings) -> None:
        super().__init__(settings)
        # Switches that are known to punt beacons, in their present session.
        self._listening: set[int] = set()
        # When the shell was asked to come back at the latest, and when that is for more than beacons.
        self._wanted_s: float | None = None
        self._settle_due_s: float | None = None

    @property
    def revision(self) -> int:
        return self.state.revision

    @property
    def last_event(self) -> int:
        """The number of the latest entry of the history."""
        return self.chronicle.history.last

    def events_after(self, number: int) -> tuple[list[Entry], int]:
        """The later entries of the history that are left, oldest first, and how many are not."""
        return self.chronicle.history.after(number)

    @property
    def base(self) -> Mapping[int, SwitchTables]:
        """What the switches should hold beside steering."""
        return self.survey.base

    def handle(self, event: Event, now_s: float) -> list[Command]:
        if self._wanted_s is not None and now_s > self._wanted_s:
            # We come late ourselves, busy or starved: the answers of that time are still to be read.
            self.reconciler.forgive(now_s - self._wanted_s)
        self.chronicle.history.stamp(now_s)
        # Whether all that is there has been seen shows in answers.
        awaited = self.reconciler.holding and not isinstance(event, PacketReceived)
        self._stirred = awaited or not isinstance(event, _CALM_EVENTS)
        commands = self._reduce(event, now_s) + self._listen(now_s)
        # Most events are beacons that bring nothing new; looking at every switch at each would cost the square of them.
        if self._stirred or (self._settle_due_s is not None and now_s >= self._settle_due_s):
            commands += self._settle(now_s)
            self._settle_due_s = now_s if self.chronicle.history.stamp_wanted else self._next_settling_s()
        found = (self._settle_due_s, self.watch.next_deadline_s())
        self._wanted_s = min((due_s for due_s in found if due_s is not None), default=None)
        return commands

    def next_deadline_s(self) -> float | None:
        """When `Tick` is wanted at the latest; None only while no switch has ever connected."""
        return self._wanted_s

    # --- events ----------------------------------------------------------------------------------------

    def _reduce(self, event: Event, now_s: float) -> list[Command]:
        match event:
            case Tick():
                return []
            case PacketReceived():
                return self._packet(event, now_s)
            case PlanFound():
                return self._plan_found(event, now_s)
            case BatchAnswered():
                return self._answered(event, now_s)
            case TablesRead():
                return self._tables_read(event, now_s)
            case PortStatisticsRead():
                self.watch.counted(self._current(event.dpid, event.session_id), event, now_s)
                return []
            case PortChanged():
                return self._port_changed(event, now_s)
            case SwitchConnected():
                return self._connected(event, now_s)
            case SwitchDisconnected():
                return self._disconnected(event, now_s)
            case SwitchRefused():
                return self._refused(event, now_s)
            case CollectiveAnnounced():
                return self._request(event, requests.announce(self.state, event), now_s)
            case CollectiveWithdrawn():
                return self._request(event, requests.withdraw(self.state, event), now_s)
            case DrainWanted():
                return self._request(event, drains.drain(self.state, event), now_s)
            case UndrainWanted():
                return self._request(event, drains.undrain(self.state, event), now_s)
            case ComparisonWanted():
                return self.comparisons.ask(event, now_s)
            case BfdRead():
                self.watch.bfd_read(event)
                return []
            case MtusRead():
                return self._mtus_read(event)
            case Restored():
                return self._restored(event, now_s)
            case Remembered():
                return self._remembered(event, now_s)

    def _mtus_read(self, event: MtusRead) -> list[Command]:
        known = {ref: mtu for ref, mtu in self.mtu_bytes.items() if ref.dpid != event.dpid}
        known |= {PortRef(event.dpid, port_no): mtu for port_no, mtu in event.mtu_bytes.items()}
        if known != self.mtu_bytes:
            self.mtu_bytes = known
            self.state.revision += 1
        return []

    def _restored(self, event: Restored, now_s: float) -> list[Command]:
        self.memory.restore(event.facts)
        absent.recall(self.state, self.discovery, event.facts, now_s)
        self.hosts.remembered = dict(event.facts.hosts)
        self.state.avoided.restore(event.facts.drains)
        if not self.plan.names:
            self.learning.expect(event.facts.switches)
        return requests.restore(self.state, event.facts)

    def _remembered(self, event: Remembered, now_s: float) -> list[Command]:
        commands = self.memory.take(event, now_s)
        self.state.alarms.pop("memory", None)
        if self.memory.alarm:
            self.state.alarms["memory"] = self.memory.alarm
        return commands

    def _current(self, dpid: int, session_id: str) -> SwitchState | None:
        """The switch, if this is its present session: late words of a dead session are ignored."""
        switch = self.state.switches.get(dpid)
        return switch if switch is not None and switch.session_id == session_id else None

    def _connected(self, event: SwitchConnected, now_s: float) -> list[Command]:
        switch = self.state.switches.setdefault(event.dpid, SwitchState(event.dpid))
        new = not switch.met
        until_s = self.learning.connected(event.dpid, now_s, first_time=new)
        if new:
            # We may be a restarted controller: what works is left alone until beacons have told what there is.
            self.reconciler.hold(until_s)
        switch.session_id, switch.peer_address = event.session_id, event.peer_address
        switch.nicira, switch.software = event.nicira, event.software
        self.reconciler.start_session(switch, now_s)
        switch.heard_s = now_s
        self.answers.start(event.dpid, now_s)
        capacity.start_session(self.state, event)
        present = {port.ref for port in event.ports}
        gone = [ref for ref in self.discovery.ports if ref.dpid == event.dpid and ref not in present]
        for ref in gone:
            self._remove_port(ref, now_s)
        for port in event.ports:
            self.discovery.set_port(port, now_s)
            if not port.up and self.hosts.forget_port(port.ref):
                self._fabric_changed(now_s)
        self.discovery.hold(event.dpid, now_s)
        self._listening.discard(event.dpid)
        self._fabric_changed(now_s + SETTLE_S)
        self._periodic_due_s = max(self._periodic_due_s, now_s)
        name = self.plan.name(event.dpid)
        self.chronicle.switch(event.dpid, f"{name} connected from {event.peer_address}", now_s)
        connected = Report(Severity.INFO, f"{name} connected from {event.peer_address}", (("dpid", f"{event.dpid:x}"),))
        return [connected, *self._queues(event), self.watch.greet(event.dpid)]

    def _queues(self, event: SwitchConnected) -> list[Command]:
        """Queues need the port's true rate, which only the plan tells."""
        if not self.settings.qos.enabled:
            return []
        ports = tuple(
            port_queues(port.ref.port_no, rate, self.settings.qos)
            for port in sorted(event.ports, key=lambda p: p.ref)
            if (rate := self.plan.rate_bps.get(port.ref))
        )
        return [ConfigureQueues(event.dpid, ports)] if ports else []

    def _disconnected(self, event: SwitchDisconnected, now_s: float) -> list[Command]:
        switch = self._current(event.dpid, event.session_id)
        if switch is None:
            return []
        # Its data plane very likely goes on: links stay until the neighbours' ports say otherwise.
        self.reconciler.end_session(switch)
        self.answers.end(event.dpid)
        self._fabric_changed(now_s + SETTLE_S)
        name = self.plan.name(event.dpid)
        self.chronicle.switch(event.dpid, f"{name} disconnected: {event.reason}", now_s)
        return [Report(Severity.WARNING, f"{name} disconnected: {event.reason}", (("dpid", f"{event.dpid:x}"),))]

    def _refused(self, event: SwitchRefused, now_s: float) -> list[Command]:
        message = (
            f"two switches use datapath id {event.dpid:x}: {event.kept_peer_address} is kept, "
            f"{event.peer_address} refused ({event.reason})"
        )
        return self.packets.alarm(f"refused {event.dpid:x}", message, now_s)

    def _port_changed(self, event: PortChanged, now_s: float) -> list[Command]:
        if self._current(event.dpid, event.session_id) is None:
            return []
        ref = event.port.ref
        if event.removed:
            self._remove_port(ref, now_s)
            return []
        self.discovery.set_port(event.port, now_s)
        lost_host = not event.port.up and self.hosts.forget_port(ref)
        if not event.port.up:
            self.packets.neighbours.forget_port(ref)
        if lost_host:
            self._fabric_changed(now_s)
        else:
            self._ports_changed(now_s + SETTLE_S)
        return []

    def _remove_port(self, ref: PortRef, now_s: float) -> None:
        self.discovery.remove_port(ref)
        self.packets.neighbours.forget_port(ref)
        self.hosts.forget_port(ref)
        self._fabric_changed(now_s)

    def _packet(self, event: PacketReceived, now_s: float) -> list[Command]:
        if self._current(event.dpid, event.session_id) is None:
            return []
        changed, commands = self.packets.receive(event, now_s)
        if changed:
            self._fabric_changed(now_s + SETTLE_S)
        return commands

    def _tables_read(self, event: TablesRead, now_s: float) -> list[Command]:
        switch = self.state.switches.get(event.dpid)
        before = switch.actual if switch else None
        commands = self.reconciler.take_tables(event, now_s)
        # Before anything is put right, or a comparison would show nothing.
        taken = switch is not None and switch.actual is not None and switch.actual is not before
        if taken and switch is not None and switch.actual is not None:
            capacity.look_again(self.state, event.dpid, before, switch.actual)
        commands += self._announce(event.dpid, now_s)
        return commands + self.comparisons.take(event, now_s, taken=taken)

    def _announce(self, dpid: int, now_s: float) -> list[Command]:
        """To be called whenever more is known of what a switch holds: once it punts what discovery needs, it is told to
        send beacons, and to ask for the hosts that should be there."""
        switch = self.state.switches.get(dpid)
        if switch is None or switch.actual is None or BEACON_PUNT.key not in switch.actual.rules:
            self._listening.discard(dpid)
        elif dpid not in self._listening:
            self._listening.add(dpid)
            self.discovery.announce(dpid, now_s)
            return self.packets.probe_planned({dpid})
        return []

    def _answered(self, event: BatchAnswered, now_s: float) -> list[Command]:
        commands = self.reconciler.take_answer(event, now_s) + self._announce(event.dpid, now_s)
        refused, self.reconciler.refused = self.reconciler.refused, []
        if refused:
            planning.refuse(self.state, refused)
            capacity.learn(self.state, refused, now_s)
            self._fabric_changed(now_s)
        return commands

    def _request(
        self,
        event: CollectiveAnnounced | CollectiveWithdrawn | DrainWanted | UndrainWanted,
        outcome: tuple[bool, list[Command]],
        now_s: float,
    ) -> list[Command]:
        must_place, commands = outcome
        if must_place:
            self.chronicle.request(event, now_s)
            self._jobs_changed(now_s)
        return commands

    def _plan_found(self, event: PlanFound, now_s: float) -> list[Command]:
        better = self.searches.take(event)
        if better is not None:
            self._replan(now_s, better=better)
            # What was found is the best that is known: it is looked at again when something changes.
            self.moves_due_s = None
        return []

    def _listen(self, now_s: float) -> list[Command]:
        """Sends the beacons that are due, and looks for those that stay out."""
        news = self.watch.follow(now_s)
        for verdict in news.gray:
            self.chronicle.gray(verdict, now_s)
        if news.due_s is not None:
            self._fabric_changed(news.due_s)
            self.chronicle.links(self.usable, now_s)
        unplanned = [end for end in news.came_up if not self.plan.rate_bps.get(end)]
        return [*news.commands, *self.packets.warn_of_speeds(unplanned), *self.watch.due(now_s)]
