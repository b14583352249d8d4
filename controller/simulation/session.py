"""One OpenFlow session of a model switch: messages in order, each way, with latency.

It decides when a message arrives, in which order a switch works and what becomes of messages when the session ends.
What the messages do is decided by `switches`; who hears of events is decided by `network`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from controller.core.commands import ReadPortStatistics, ReadTables, SendBatch, SendPacket
from controller.core.events import (
    BatchAnswered,
    BatchStatus,
    Event,
    PortStatisticsRead,
    Refusal,
    SwitchConnected,
    SwitchDisconnected,
    TablesRead,
)
from controller.pipeline.rules import AddMeter, Barrier, DeleteGroup, DeleteMeter, Modification, ModifyMeter
from controller.simulation.agenda import Action, Agenda
from controller.simulation.switches import ModelSwitch
from controller.simulation.timing import Range, Timing

# The agent carries out batches with these change by change: Open vSwitch takes no meters into a bundle and cannot be
# trusted to undo the deletion of a group.
_NOT_IN_BUNDLES = (AddMeter, ModifyMeter, DeleteMeter, DeleteGroup)

ControlMessage = SendPacket | SendBatch | ReadTables | ReadPortStatistics


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a session shares with the rest of its network."""

    agenda: Agenda
    random: Random
    timing: Timing
    to_core: Callable[[Event], None]
    send_packet: Callable[[SendPacket], None]
    modified: Callable[[ModelSwitch, Modification], None]
    # To be called before counters are read.
    count_traffic: Callable[[], None]


class Session:
    """Opened by `connect`; ended separately at the switch and at the core, as a broken TCP connection is."""

    def __init__(self, switch: ModelSwitch, session_id: str, around: Surroundings) -> None:
        self.switch = switch
        self.session_id = session_id
        self.open_at_switch = True
        self.open_at_core = True
        # > 1: every message and every piece of work takes that much longer.
        self.slowness = 1.0
        # Modifications between two barriers may then be carried out in any order, as OpenFlow allows.
        self.reorders_between_barriers = False
        self.unanswered_batches: list[int] = []
        self.unanswered_reads: list[int] = []
        self._around = around
        self._frozen = False
        self._busy = False
        self._inbox: deque[tuple[float, Action]] = deque()
        self._held_events: list[Event] = []
        self._last_to_switch_s = 0.0
        self._last_to_core_s = 0.0

    # --- towards the core ---------------------------------------------------------------------------------

    def connect(self) -> None:
        ports = tuple(self.switch.ports.values())
        dpid = self.switch.dpid
        self.report(SwitchConnected(dpid, self.session_id, self.peer_address, ports, self.switch.nicira, "model"))

    @property
    def peer_address(self) -> str:
        return f"model:{self.switch.name}"

    def report(self, event: Event) -> None:
        """Sends an event to the core; it arrives after everything sent before."""
        if not self.open_at_switch:
            return
        if self._frozen:
            self._held_events.append(event)
            return
        arrival_s = max(self._last_to_core_s, self._around.agenda.now_s + self._draw(self._latency))
        self._last_to_core_s = arrival_s
        self._around.agenda.at(arrival_s, lambda: self._arrive_at_core(event))

    def _arrive_at_core(self, event: Event) -> None:
        if not self.open_at_core:
            return
        if isinstance(event, BatchAnswered) and event.batch_id in self.unanswered_batches:
            self.unanswered_batches.remove(event.batch_id)
        if isinstance(event, TablesRead) and event.request_id in self.unanswered_reads:
            self.unanswered_reads.remove(event.request_id)
        self._around.to_core(event)

    # --- towards the switch -------------------------------------------------------------------------------

    def accept(self, message: ControlMessage) -> None:
        """Takes a message of the core; the switch gets it after everything sent before."""
        if isinstance(message, SendBatch):
            self.unanswered_batches.append(message.batch_id)
        if isinstance(message, ReadTables):
            self.unanswered_reads.append(message.request_id)
        arrival_s = max(self._last_to_switch_s, self._around.agenda.now_s + self._draw(self._latency))
        self._last_to_switch_s = arrival_s
        self._around.agenda.at(arrival_s, lambda: self._arrive_at_switch(message))

    def _arrive_at_switch(self, message: ControlMessage) -> None:
        if not self.open_at_switch:
            return
        match message:
            case SendBatch():
                self._take_batch(message)
            case ReadTables():
                self._inbox.append((self._around.timing.table_read_s, lambda: self._answer_read(message)))
            case ReadPortStatistics():
                self._inbox.append((0.0, self._answer_statistics))
            case SendPacket():
                self._inbox.append((0.0, lambda: self._around.send_packet(message)))
        self._work()

    def _take_batch(self, batch: SendBatch) -> None:
        if batch.atomic and self.switch.atomic and not any(isinstance(m, _NOT_IN_BUNDLES) for m in batch.modifications):
            cost_s = self._around.timing.modification_s * len(batch.modifications)
            self._inbox.append((cost_s, lambda: self._carry_out_atomically(batch)))
            return
        refusals: list[Refusal] = []
        for index, modification in self._execution_order(batch.modifications):
            work = self._modification(index, modification, refusals)
            self._inbox.append((self._around.timing.modification_s, work))
        self._inbox.append((0.0, lambda: self._answer_batch(batch, refusals)))

    def _carry_out_atomically(self, batch: SendBatch) -> None:
        refusals = self.switch.execute_atomically(batch.modifications)
        for modification in () if refusals else batch.modifications:
            self._around.modified(self.switch, modification)
        status = BatchStatus.ROLLED_BACK if refusals else BatchStatus.DONE
        self.report(BatchAnswered(self.switch.dpid, self.session_id, batch.batch_id, status, refusals))

    def _execution_order(self, modifications: Sequence[Modification]) -> list[tuple[int, Modification]]:
        numbered = list(enumerate(modifications))
        if not self.reorders_between_barriers:
            return numbered
        order: list[tuple[int, Modification]] = []
        segment: list[tuple[int, Modification]] = []
        for index, modification in [*numbered, (len(numbered), Barrier())]:
            if isinstance(modification, Barrier):
                self._around.random.shuffle(segment)
                order += segment
                segment = []
            else:
                segment.append((index, modification))
        return order

    def _modification(self, index: int, modification: Modification, refusals: list[Refusal]) -> Action:
        def work() -> None:
            error = self.switch.apply(modification)
            if error is not None:
                refusals.append(Refusal(index, error))
            self._around.modified(self.switch, modification)

        return work

    def _answer_batch(self, batch: SendBatch, refusals: list[Refusal]) -> None:
        status = BatchStatus.REFUSED if refusals else BatchStatus.DONE
        in_order = tuple(sorted(refusals, key=lambda refusal: refusal.index))
        self.report(BatchAnswered(self.switch.dpid, self.session_id, batch.batch_id, status, in_order))

    def _answer_read(self, message: ReadTables) -> None:
        tables = self.switch.tables()
        self.report(TablesRead(self.switch.dpid, self.session_id, message.request_id, tables))

    def _answer_statistics(self) -> None:
        self.switch.now_s = self._around.agenda.now_s
        self._around.count_traffic()
        self.report(PortStatisticsRead(self.switch.dpid, self.session_id, self.switch.counters()))

    def _work(self) -> None:
        """The switch does one thing at a time, in order."""
        while self._inbox and not (self._busy or self._frozen) and self.open_at_switch:
            cost_s, action = self._inbox.popleft()
            if cost_s:
                self._busy = True
                self._around.agenda.after(cost_s * self.slowness, partial(self._finish, action))
                return
            action()

    def _finish(self, action: Action) -> None:
        self._busy = False
        if self._frozen:
            # The process stopped in the middle of it; it goes on where it was.
            self._inbox.appendleft((0.0, action))
        elif self.open_at_switch:
            action()
            self._work()

    # --- trouble ------------------------------------------------------------------------------------------

    @property
    def frozen(self) -> bool:
        return self._frozen

    def freeze(self) -> None:
        """The switch's OpenFlow side stops; its tables go on forwarding."""
        self._frozen = True

    def thaw(self) -> None:
        self._frozen = False
        held, self._held_events = self._held_events, []
        for event in held:
            self.report(event)
        self._work()

    def end_at_switch(self) -> None:
        """Whatever has not been worked on yet is lost; tables stay."""
        self.open_at_switch = False
        self._inbox.clear()

    def end_at_core(self, reason: str) -> None:
        """The core learns that the session is over, and that its unanswered messages stay so."""
        if not self.open_at_core:
            return
        self.open_at_core = False
        dpid, session_id = self.switch.dpid, self.session_id
        over: list[Event] = [BatchAnswered(dpid, session_id, i, BatchStatus.LOST) for i in self.unanswered_batches]
        over += [TablesRead(dpid, session_id, request_id, None) for request_id in self.unanswered_reads]
        self.unanswered_batches, self.unanswered_reads = [], []
        # The core must stand either order.
        over.insert(self._around.random.choice((0, len(over))), SwitchDisconnected(dpid, session_id, reason))
        for event in over:
            self._around.to_core(event)

    def forget(self) -> None:
        """The core is gone: it learns nothing any more."""
        self.open_at_core = False
        self.unanswered_batches, self.unanswered_reads = [], []

    @property
    def _latency(self) -> Range:
        return self._around.timing.control_latency_s

    def _draw(self, between: Range) -> float:
        return self._around.random.uniform(*between) * self.slowness
