"""Brings every switch to what it should hold, one stage at a time, and reads back what it holds.

There is no stored plan of steps. Whenever nothing is in flight, the next stage is derived anew from desired and
actual state, and it is the same stage on all switches: traffic is switched over only when every switch is prepared,
and nothing is removed before all traffic is switched over and has drained. So a change of mind, a lost switch or a
refused rule needs no special path: it only changes what the next look finds. Where no switch has to prepare what others
rely on, as after most failures, that and the switching over go out together: one batch for each switch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from controller.core.commands import Command, ReadTables, Report, SendBatch, Severity
from controller.core.events import BatchAnswered, BatchStatus, TablesRead
from controller.core.state import InFlight, State, SwitchState
from controller.fabric.model import FabricView, Role
from controller.pipeline.cookies import is_ours
from controller.pipeline.diff import (
    ActualTables,
    Stage,
    adds_no_rules,
    guard_only,
    only_adds,
)
from controller.pipeline.foreign import ForeignHoldings, ForeignPolicy, describe
from controller.pipeline.outstanding import Outstanding
from controller.pipeline.refusals import NoRoom, no_room
from controller.pipeline.room import make_room
from controller.pipeline.rules import Barrier, DeleteRule, Modification, SwitchTables

_READ_TIMEOUT_S = 10.0
_READ_AGAIN_S = 0.5
_SILENT_AGAIN_S = 2.0
_LONGEST_BACKOFF_S = 30.0
_NO_HOLD = float("-inf")
# A bundle costs a round trip more than messages one by one, and pays off by itself where they are many (measured with
# Open vSwitch 3.1: even at some 100 to a switch).
MOST_WITHOUT_BUNDLE = 64

Batches = list[tuple[SwitchState, tuple[Modification, ...]]]


@dataclass(slots=True)
class Reconciler:
    """Mutable; owned by the core. `audit_period_s` is how often a quiet switch is read again."""

    state: State
    batch_timeout_s: float
    audit_period_s: float
    # Packets that took the old path may be under way this long after the last one was sent along it.
    drain_s: float = 0.0
    # What the batch timeout grows by for each change in it: slow switches take some 200 a second.
    change_timeout_s: float = 0.0
    foreign: ForeignPolicy = field(default_factory=ForeignPolicy)
    # Until then, switches that an earlier run has programmed are not changed.
    hold_until_s: float = _NO_HOLD
    _next_id: int = 1
    # What switches had no room for, in the answers since the core last looked.
    refused: list[NoRoom] = field(default_factory=list)
    _drained_at_s: float = _NO_HOLD
    # Removals are all that is left to do, and wait for that.
    _draining: bool = False
    # What the latest look since the last change of mind found to be next; None: nothing.
    _stage: Stage | None = None
    _outstanding: dict[int, Outstanding] = field(default_factory=dict)
    # The leaves' ports to spines, in the view they were taken from.
    _uplinks: tuple[FabricView, Mapping[int, frozenset[int]]] = (FabricView(), MappingProxyType({}))

    def _id(self) -> int:
        self._next_id += 1
        return self._next_id

    # --- reading -------------------------------------------------------------------------------------

    def ask_tables(self, now_s: float) -> list[Command]:
        """Reads that are due."""
        result: list[Command] = []
        for switch in self.state.switches.values():
            if switch.reading and now_s >= switch.reading[1]:
                switch.reading = None
                self._read_later(switch, now_s)
            due = switch.read_due_s is not None and now_s >= switch.read_due_s
            if due and switch.session_id and not switch.reading and not switch.in_flight:
                switch.reading = (self._id(), now_s + _READ_TIMEOUT_S)
                switch.read_due_s = None
                result.append(ReadTables(switch.dpid, switch.session_id, switch.reading[0]))
        return result

    @staticmethod
    def _read_anew(switch: SwitchState, now_s: float) -> None:
        """A read that is under way was asked for before the batch whose fate is unknown, and tells nothing of it."""
        switch.reading, switch.read_due_s = None, now_s

    def _read_later(self, switch: SwitchState, now_s: float) -> None:
        switch.read_backoff_s = min(_LONGEST_BACKOFF_S, max(_READ_AGAIN_S, 2 * switch.read_backoff_s))
        switch.read_due_s = now_s + switch.read_backoff_s

    def take_tables(self, event: TablesRead, now_s: float) -> list[Command]:
        switch = self.state.switches.get(event.dpid)
        if switch is None or switch.reading is None or switch.reading[0] != event.request_id:
            return []
        switch.reading = None
        if event.tables is None:
            # The wait in vain took seconds already; a frozen switch is to be found soon after it is back.
            switch.read_due_s = now_s + _SILENT_AGAIN_S
            return []
        switch.heard_s = now_s
        if switch.in_flight:
            # A batch was sent meanwhile: what was read is neither before nor after it.
            switch.read_due_s = now_s + _READ_AGAIN_S
            return []
        before, actual = switch.actual, ActualTables.of(event.tables)
        switch.actual = actual
        switch.unsettled = True
        if switch.inherited is None:
            # A switch that an earlier run has programmed works: it is left alone until the fabric is known again.
            switch.inherited = actual.has_ours()
        if not switch.suspect:
            switch.read_backoff_s = 0.0
        switch.suspect = False
        switch.read_due_s = now_s + self.audit_period_s
        foreign = ForeignHoldings.of(actual, self.foreign)
        if foreign == ForeignHoldings.of(before, self.foreign):
            return []
        return [Report(Severity.INFO, f"{switch.dpid:x} {foreign.in_words()}")]

    # --- writing -------------------------------------------------------------------------------------

    def next_batches(self, now_s: float) -> list[Command]:
        """The next stage on every switch that has it; nothing while an earlier one is not answered."""
        self._draining = False
        if any(s.in_flight for s in self.state.switches.values()):
            return []
        wanted: dict[Stage, Batches] = {}
        for switch in self.state.switches.values():
            if not switch.ready or switch.actual is None or not switch.unsettled:
                continue
            held = bool(switch.inherited) and now_s < self.hold_until_s
            found = self._stages(switch.dpid, switch.actual, held)
            switch.unsettled = bool(found) or held or switch.dpid not in self.state.desired
            for stage, modifications in found.items():
                wanted.setdefault(stage, []).append((switch, modifications))
        if not wanted:
            self._stage = None
            return []
        stage = min(wanted)
        self._stage = stage
        self._draining = stage == Stage.REMOVE and now_s < self._drained_at_s
        if self._draining:
            return []
        batches = wanted[stage]
        if stage == Stage.PREPARE and all(self._concerns_itself(switch.dpid, m) for switch, m in batches):
            # Nothing that is prepared concerns another switch, so each prepares itself in the batch that switches over.
            batches = _at_once(batches, wanted.get(Stage.SWITCH, []))
        return [self._send(switch, stage, modifications, now_s) for switch, modifications in batches]

    def _concerns_itself(self, dpid: int, prepared: Sequence[Modification]) -> bool:
        """Whether no other switch has to wait for this. What a leaf prepares is how it sends and gives ways up; what it
        delivers to its hosts is asked for by routes of the same stage. A spine's rules are what others rely on."""
        return self._uplinks_of(dpid) is not None or adds_no_rules(prepared)

    def _stages(self, dpid: int, actual: ActualTables, held: bool) -> Mapping[Stage, tuple[Modification, ...]]:
        desired = self.state.desired.get(dpid)
        if desired is None:
            # Just connected: nothing is decided for it yet, which is not the same as "it should hold nothing".
            return {}
        if dpid not in self._outstanding:
            self._outstanding[dpid] = Outstanding(self.foreign.unwanted)
        found = self._outstanding[dpid].stages(desired, actual, self._uplinks_of(dpid))
        room = self.state.rooms.get(dpid)
        if room is not None and (first := make_room(room, found, actual)):
            return {Stage.PREPARE: first}
        return guard_only(found) if held else found

    def _uplinks_of(self, dpid: int) -> frozenset[int] | None:
        """None for a switch that is no leaf."""
        view = self.state.view
        if view is not self._uplinks[0]:
            ports: dict[int, set[int]] = {d: set() for d, s in view.switches.items() if s.role == Role.LEAF}
            for end in (end for link in view.links for end in (link.a, link.b) if end.dpid in ports):
                ports[end.dpid].add(end.port_no)
            self._uplinks = (view, {d: frozenset(found) for d, found in ports.items()})
        return self._uplinks[1].get(dpid)

    def _send(
        self, switch: SwitchState, stage: Stage, modifications: tuple[Modification, ...], now_s: float
    ) -> SendBatch:
        atomic = not switch.rolled_back and not self._is_small_addition(switch, modifications)
        batch = SendBatch(switch.dpid, switch.session_id or "", self._id(), modifications, atomic)
        timeout_s = self.batch_timeout_s + self.change_timeout_s * len(modifications)
        switch.in_flight = InFlight(batch, now_s + timeout_s, moves_traffic=stage != Stage.REMOVE)
        self.state.changes_sent += sum(not isinstance(m, Barrier) for m in modifications)
        return batch

    @staticmethod
    def _is_small_addition(switch: SwitchState, modifications: tuple[Modification, ...]) -> bool:
        """What only adds leaves nothing half changed: each flow is on its path or, as before, on ECMP."""
        few = len(modifications) <= MOST_WITHOUT_BUNDLE
        return few and switch.actual is not None and only_adds(modifications, switch.actual)

    def take_answer(self, event: BatchAnswered, now_s: float) -> list[Command]:
        switch = self.state.switches.get(event.dpid)
        if switch is None or switch.in_flight is None or switch.in_flight.batch.batch_id != event.batch_id:
            return []
        modifications = switch.in_flight.batch.modifications
        if event.status != BatchStatus.LOST:
            switch.heard_s = now_s
        if switch.in_flight.moves_traffic:
            self._drained_at_s = now_s + self.drain_s
        switch.in_flight = None
        if event.status == BatchStatus.LOST or switch.actual is None:
            switch.actual = None
            self._read_anew(switch, now_s)
            return []
        switch.rolled_back = event.status == BatchStatus.ROLLED_BACK
        if switch.rolled_back:
            # Nothing has changed and only the first refusal is told: change by change, all of them will be.
            self.state.changes_sent -= sum(not isinstance(m, Barrier) for m in modifications)
            return []
        refused = {r.index: r.name for r in event.refusals}
        done = [m for index, m in enumerate(modifications) if index not in refused]
        for modification in done:
            switch.actual.apply(modification)
        removed = [m.rule for m in done if isinstance(m, DeleteRule) and not is_ours(m.rule.cookie)]
        said = "removed a rule that was not ours, as HEDDLE_FOREIGN=remove asks"
        reports: list[Command] = [
            Report(Severity.WARNING, f"{switch.dpid:x} {said}: {describe(rule)}") for rule in removed
        ]
        return reports + (self._take_refusals(switch, modifications, refused, now_s) if refused else [])

    def _take_refusals(
        self, switch: SwitchState, modifications: tuple[Modification, ...], refused: dict[int, str], now_s: float
    ) -> list[Command]:
        """What there is no room for changes what is wanted; anything else means that we are wrong about the switch,
        which is then read again."""
        full = no_room(switch.dpid, modifications, refused)
        self.refused += full
        if len(full) < len(refused):
            switch.suspect = True
            self._read_later(switch, now_s)
        names = ", ".join(sorted(set(refused.values())))
        return [Report(Severity.ERROR, f"{switch.dpid:x} refused {len(refused)} changes: {names}")]

    def suspect(self, switch: SwitchState, now_s: float) -> None:
        """A switch that nothing was asked to change has stopped answering: it is read, once it does again."""
        if switch.ready and not switch.in_flight:
            switch.suspect, switch.read_due_s = True, now_s

    def forgive(self, late_s: float) -> None:
        """The controller's own lateness is not held against the switches."""
        for switch in self.state.switches.values():
            if switch.in_flight:
                switch.in_flight.deadline_s += late_s

    def give_up_late(self, now_s: float) -> list[Command]:
        """Switches that did not answer a batch in time are suspect until they are read again."""
        result: list[Command] = []
        for switch in self.state.switches.values():
            if switch.in_flight and now_s >= switch.in_flight.deadline_s:
                switch.in_flight, switch.actual, switch.suspect = None, None, True
                self._read_anew(switch, now_s)
                late = f"{switch.dpid:x} did not answer a batch in time: new flows go round it until it does"
                result.append(Report(Severity.WARNING, late))
        return result

    # --- sessions and looks ----------------------------------------------------------------------------

    def start_session(self, switch: SwitchState, now_s: float) -> None:
        switch.actual, switch.in_flight, switch.reading, switch.suspect = None, None, None, False
        switch.rolled_back = False
        switch.read_due_s, switch.read_backoff_s, switch.unsettled = now_s, 0.0, True

    def end_session(self, switch: SwitchState) -> None:
        switch.session_id, switch.actual, switch.in_flight, switch.reading = None, None, None, None
        switch.read_due_s = None

    def hold(self, until_s: float) -> None:
        """Switches that an earlier run has programmed are left as they are until then; replaces an earlier word."""
        self.hold_until_s = until_s

    @property
    def holding(self) -> bool:
        return self.hold_until_s != _NO_HOLD

    def hold_is_over(self, now_s: float) -> bool:
        return self.hold_until_s != _NO_HOLD and now_s >= self.hold_until_s

    def release(self) -> None:
        """The fabric is known: what was inherited is ours now, and a later hold for another switch spares it."""
        self.hold_until_s = _NO_HOLD
        for switch in self.state.switches.values():
            if switch.inherited:
                switch.inherited, switch.unsettled = False, True

    def set_desired(self, desired: dict[int, SwitchTables]) -> None:
        for dpid, switch in self.state.switches.items():
            before, now = self.state.desired.get(dpid), desired.get(dpid)
            if before is not now and before != now:
                switch.unsettled = True
        self.state.desired, self._stage = desired, Stage.PREPARE

    @property
    def switched_over(self) -> bool:
        """Every switch that answers treats traffic as it should; what nothing uses any more may still be there."""
        return self._stage in (None, Stage.REMOVE)

    @property
    def settled(self) -> bool:
        """Every switch that answers holds what it should."""
        return not any(s.in_flight or (s.ready and s.unsettled) for s in self.state.switches.values())

    def deadlines(self) -> Iterable[float]:
        if self.hold_until_s != _NO_HOLD:
            yield self.hold_until_s
        if self._draining:
            yield self._drained_at_s
        for switch in self.state.switches.values():
            if switch.in_flight:
                yield switch.in_flight.deadline_s
            elif switch.reading:
                yield switch.reading[1]
            elif switch.read_due_s is not None and switch.session_id:
                yield switch.read_due_s


def _at_once(preparing: Batches, switching: Batches) -> Batches:
    """One batch for each switch that has one of either; its own preparation comes first."""
    prepared = {switch.dpid: modifications for switch, modifications in preparing}
    batches = [(s, (*first, Barrier(), *m) if (first := prepared.pop(s.dpid, ())) else m) for s, m in switching]
    return batches + [(switch, modifications) for switch, modifications in preparing if switch.dpid in prepared]
