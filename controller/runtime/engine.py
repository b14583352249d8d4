"""The one place where events meet the core: in order, stamped with the loop's time, their commands carried out.

`submit` works at once, in the caller's turn of the event loop. A queue with a task of its own was the other choice; it
would let an agent pile up events faster than the core takes them, whereas here the reader of that agent's socket waits
and the socket pushes back. Events that arise while commands are carried out queue behind the one at hand.

The engine is crash-only. After an exception in the core its state may be half changed, so the engine takes no further
event and `failure` resolves: the process then ends with status 1 and whoever started it starts it again. The switches
keep forwarding meanwhile. The exception that does not stop it is one in a *request handler* of the gRPC services:
those only read frozen views, cannot have touched the state, and answer INTERNAL.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import structlog

from controller.core.commands import Command
from controller.core.events import Event, Tick
from controller.core.history import Entry

# A core that names a deadline in the past would otherwise spin the loop.
_SHORTEST_TIMER_S = 0.001
_LOG_LIMIT_CHARACTERS = 2000


class CoreMachine(Protocol):
    """What the engine needs of `controller.core.machine.Core`."""

    @property
    def revision(self) -> int: ...

    @property
    def last_event(self) -> int: ...

    def events_after(self, number: int) -> tuple[list[Entry], int]: ...

    def handle(self, event: Event, now_s: float) -> list[Command]: ...

    def next_deadline_s(self) -> float | None: ...


Performer = Callable[[Any], Iterable[Event]]


class EngineStopped(Exception):
    """The engine takes no more events: it has failed before or is stopping."""


class EngineFailed(EngineStopped):
    """The core failed on the event just submitted, or on one that followed from it."""


class Engine:
    """Feeds `core`. Performers carry out commands by type and may return events that follow from doing so at once.

    `performers` must cover every type of command. `on_revision` is called after the revision has grown, `on_event`
    after the core has written down that something happened.
    """

    def __init__(
        self, core: CoreMachine, on_revision: Callable[[], None], on_event: Callable[[], None] = lambda: None
    ) -> None:
        self.core = core
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._on_revision = on_revision
        self._on_event = on_event
        self._performers: Mapping[type[Any], Performer] = {}
        self._waiting: deque[Event] = deque()
        self._draining = False
        self._running = True
        self._timer: asyncio.TimerHandle | None = None
        self._log = structlog.get_logger("engine")

    def start(self, performers: Mapping[type[Any], Performer]) -> None:
        self._performers = performers
        self._set_timer()

    def now_s(self) -> float:
        """The core's time: monotonic seconds."""
        return self._loop.time()

    def submit(self, *events: Event) -> None:
        """Handles `events` in order before it returns, unless called from within a performer: then right after.

        Raises EngineStopped, or EngineFailed when handling these very events ended the engine.
        """
        if not self._running:
            raise EngineStopped
        self._waiting.extend(events)
        if not self._draining:
            self._drain()
        if not self._running:
            raise EngineFailed

    def stop(self) -> None:
        """Takes no more events and cancels the timer."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()

    def _drain(self) -> None:
        revision, last_event = self.core.revision, self.core.last_event
        self._draining = True
        try:
            while self._waiting and self._running:
                self._handle(self._waiting.popleft())
        finally:
            self._draining = False
        if not self._running:
            return
        self._set_timer()
        if self.core.revision != revision:
            self._on_revision()
        if self.core.last_event != last_event:
            self._on_event()

    def _handle(self, event: Event) -> None:
        command: Command | None = None
        try:
            for command in self.core.handle(event, self.now_s()):
                self._waiting.extend(self._performers[type(command)](command))
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the controller
            self._fail(event, command, error)

    def fail(self, error: BaseException) -> None:
        """An exception in what a performer does beside the loop's turns ends the engine like any other."""
        if self._running:
            self._fail(None, None, error)

    def _fail(self, event: Event | None, command: Command | None, error: BaseException) -> None:
        self._log.critical(
            "an unexpected error ends the controller; switches keep their rules until it is started again",
            event_at_hand=_shortened(event) if event is not None else "none",
            command_at_hand=_shortened(command) if command is not None else "none",
            exc_info=error,
        )
        self.stop()
        self._waiting.clear()
        if not self.failure.done():
            self.failure.set_exception(error)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_s = self.core.next_deadline_s()
        if deadline_s is not None and self._running:
            self._timer = self._loop.call_at(max(deadline_s, self.now_s() + _SHORTEST_TIMER_S), self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._running:
            self._waiting.append(Tick())
            self._drain()


def _shortened(value: object) -> str:
    text = repr(value)
    if len(text) <= _LOG_LIMIT_CHARACTERS:
        return text
    return f"{text[:_LOG_LIMIT_CHARACTERS]}... ({len(text)} characters)"
