"""Drives a controller core through simulated time: hands it events, wakes it at its deadlines, records its commands.

What carries out the commands is decided by the subclass. The core is only asked for `handle(event, now_s)` and
`next_deadline_s()`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from controller.core.commands import Accepted, Command, Refused, SendBatch
from controller.core.events import (
    BatchAnswered,
    CollectiveAnnounced,
    CollectiveWithdrawn,
    Event,
    PortChanged,
    SwitchConnected,
    SwitchDisconnected,
    Tick,
)
from controller.simulation.agenda import Action, Agenda
from controller.simulation.record import Record

# A core that asks to be woken this often without time passing will never let it pass.
_MAX_TICKS_AT_ONCE = 1000
# What keeps a network from being quiet; beacons, statistics and answers to reads do not.
_EVENTS_OF_CHANGE = (
    SwitchConnected,
    SwitchDisconnected,
    PortChanged,
    BatchAnswered,
    CollectiveAnnounced,
    CollectiveWithdrawn,
)
_COMMANDS_OF_CHANGE = (SendBatch, Accepted, Refused)


class Core(Protocol):
    """What a driver needs of a controller."""

    def handle(self, event: Event, now_s: float) -> Sequence[Command]: ...
    def next_deadline_s(self) -> float | None: ...


class StuckClockError(RuntimeError):
    """The core's deadline does not move although it has been handled."""


class NotQuietError(TimeoutError):
    """The network was still busy when the time was up; the message says with what."""


class CoreDriver(ABC):
    """A simulated clock with a core. `core` is None while no controller runs."""

    def __init__(self, core: "Core | None") -> None:
        self.core = core
        self.agenda = Agenda()
        self.record = Record()
        self._planned_changes = 0
        self._last_activity_s = 0.0
        self._ticks_at_once = 0
        # The core's deadline as of its latest event: only events change it, and asking costs a core a look round.
        self._asked: tuple[Core | None, float | None] = (None, None)

    @property
    def now_s(self) -> float:
        return self.agenda.now_s

    @abstractmethod
    def _carry_out(self, command: Command) -> None:
        """Does what the core commands."""

    @abstractmethod
    def _answers_owed(self) -> str:
        """Who still owes the core an answer, in words; empty when nobody does."""

    # --- time ---------------------------------------------------------------------------------------------

    def run_until(self, time_s: float) -> None:
        """Lets everything happen that is due up to this time, inclusive."""
        while True:
            due_s = self._next_s()
            if due_s is None or due_s > time_s:
                break
            self._step(due_s)
        self.agenda.jump(time_s)

    def run_for(self, seconds: float) -> None:
        self.run_until(self.now_s + seconds)

    def run_until_quiet(self, max_s: float, *, settle_s: float = 3.0) -> float:
        """Runs until only beacons, statistics and the like have passed for `settle_s`; the time at which that is so.

        Silent failures show after some missed beacons only: choose `settle_s` longer than the core needs to notice.
        Raises NotQuietError when `max_s` more seconds are not enough.
        """
        end_s = self.now_s + max_s
        while True:
            quiet_s = self._last_activity_s + settle_s
            due_s = self._next_s()
            if (due_s is None or due_s > quiet_s) and quiet_s <= end_s and not self._busy():
                self.agenda.jump(quiet_s)
                return self.now_s
            if due_s is None or due_s > end_s:
                self.agenda.jump(end_s)
                reason = self._busy() or f"something changed {end_s - self._last_activity_s:.3f} s ago"
                raise NotQuietError(f"not quiet after {max_s} s: {reason}")
            self._step(due_s)

    def _next_s(self) -> float | None:
        next_s, deadline_s = self.agenda.next_s(), self._deadline_s()
        if next_s is None or deadline_s is None:
            return deadline_s if next_s is None else next_s
        return min(next_s, deadline_s)

    def _deadline_s(self) -> float | None:
        if self.core is None:
            return None
        if self._asked[0] is not self.core:
            self._asked = (self.core, self.core.next_deadline_s())
        deadline_s = self._asked[1]
        return None if deadline_s is None else max(deadline_s, self.now_s)

    def _step(self, due_s: float) -> None:
        """Does what is due at `due_s`: the core's wake-up first."""
        deadline_s = self._deadline_s()
        if deadline_s is None or due_s < deadline_s:
            self.agenda.run_next()
            return
        self._ticks_at_once = self._ticks_at_once + 1 if deadline_s == self.now_s else 0
        if self._ticks_at_once > _MAX_TICKS_AT_ONCE:
            raise StuckClockError(
                f"the core still asks for a tick at {deadline_s} s after {self._ticks_at_once} of them"
            )
        self.agenda.jump(deadline_s)
        self.inject(Tick())

    # --- the core -----------------------------------------------------------------------------------------

    def inject(self, event: Event) -> Sequence[Command]:
        """Hands the core an event now, and carries out what it commands."""
        if self.core is None:
            return ()
        now_s = self.now_s
        if isinstance(event, _EVENTS_OF_CHANGE):
            self._last_activity_s = now_s
        if not isinstance(event, Tick):
            self.record.events.append((now_s, event))
        commands = self.core.handle(event, now_s)
        self._asked = (None, None)
        for command in commands:
            self.record.commands.append((now_s, command))
            if isinstance(command, _COMMANDS_OF_CHANGE):
                self._last_activity_s = now_s
            self._carry_out(command)
        return commands

    def later(self, delay_s: float, action: Action) -> None:
        """Schedules a change that keeps the network from being quiet until it has happened."""
        self._planned_changes += 1

        def change() -> None:
            self._planned_changes -= 1
            self._last_activity_s = self.now_s
            action()

        self.agenda.after(delay_s, change)

    def _busy(self) -> str:
        if self._planned_changes:
            return f"{self._planned_changes} planned changes have not happened yet"
        return self._answers_owed()
