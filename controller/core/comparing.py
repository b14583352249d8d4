"""Compares what switches should hold with what they hold: at once, or with tables that are read for the purpose.

A table that is read anew is compared in the very step in which it is read, before the core puts anything right, so that
what others changed shows even where it does not last. What differs is decided in `pipeline.difference`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.core.commands import Command, Compared
from controller.core.events import ComparisonWanted, TablesRead
from controller.core.state import State, SwitchState
from controller.pipeline.difference import SwitchComparison, compare

# Longer than a read may take, and than the batch before it that it waits for; shorter than callers wait.
PATIENCE_S = 20.0


def compare_switch(state: State, dpid: int) -> SwitchComparison:
    """With the tables as last read and acknowledged. KeyError when no such switch was ever connected."""
    switch, desired = state.switches[dpid], state.desired.get(dpid)
    if switch.session_id is None:
        return SwitchComparison(dpid, unknown="the switch is not connected")
    if switch.actual is None:
        return SwitchComparison(dpid, unknown="the switch's tables have not been read yet, or are being read again")
    if desired is None:
        return SwitchComparison(dpid, unknown="the switch has just connected: nothing is decided for it yet")
    return compare(dpid, desired, switch.actual)


@dataclass(slots=True)
class _Pending:
    """`stale` holds the reads that were under way when the question came: too old to answer it."""

    request_id: int
    deadline_s: float
    waiting: set[int]
    stale: dict[int, int]
    found: dict[int, SwitchComparison] = field(default_factory=dict)

    def note(self, comparison: SwitchComparison) -> None:
        self.waiting.discard(comparison.dpid)
        self.found[comparison.dpid] = comparison


@dataclass(slots=True)
class Comparisons:
    """Questions that wait for tables to be read. Mutable; owned by the core."""

    state: State
    _pending: list[_Pending] = field(default_factory=list)

    def ask(self, event: ComparisonWanted, now_s: float) -> list[Command]:
        """Has the tables of the switches read; answered by `Compared` once all have been, or could not be."""
        known = {dpid: self.state.switches[dpid] for dpid in event.dpids if dpid in self.state.switches}
        stale = {dpid: switch.reading[0] for dpid, switch in known.items() if switch.reading}
        self._pending.append(_Pending(event.request_id, now_s + PATIENCE_S, set(known), stale))
        for switch in known.values():
            _read_soon(switch, now_s)
        return self.give_up(now_s)

    def take(self, event: TablesRead, now_s: float, *, taken: bool) -> list[Command]:
        """To be told of every read after the reconciler was; `taken` when what was read is what the switch holds."""
        for pending in self._pending:
            if event.dpid not in pending.waiting:
                continue
            fresh = pending.stale.get(event.dpid) != event.request_id
            if fresh and taken:
                pending.note(compare_switch(self.state, event.dpid))
            elif fresh and event.tables is None:
                pending.note(SwitchComparison(event.dpid, unknown="the switch did not answer the read"))
            else:
                _read_soon(self.state.switches[event.dpid], now_s)
        return self._answers()

    def give_up(self, now_s: float) -> list[Command]:
        """Answers for switches that are gone or take too long."""
        for pending in self._pending:
            for dpid in sorted(pending.waiting):
                if self.state.switches[dpid].session_id is None:
                    pending.note(SwitchComparison(dpid, unknown="the switch is not connected"))
                elif now_s >= pending.deadline_s:
                    late = f"the switch's tables could not be read within {PATIENCE_S:g} s"
                    pending.note(SwitchComparison(dpid, unknown=late))
        return self._answers()

    def _answers(self) -> list[Command]:
        done = [pending for pending in self._pending if not pending.waiting]
        self._pending = [pending for pending in self._pending if pending.waiting]
        return [Compared(p.request_id, tuple(p.found[dpid] for dpid in sorted(p.found))) for p in done]

    def deadlines(self) -> Iterable[float]:
        return (pending.deadline_s for pending in self._pending)


def _read_soon(switch: SwitchState, now_s: float) -> None:
    if switch.session_id is not None:
        switch.read_due_s = now_s
