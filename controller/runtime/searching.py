"""Carries out searches for a better plan in a thread, so that the loop goes on serving everybody.

The thread works on frozen values only and shares the interpreter with the loop, which waits for it some milliseconds
at a time and not for the whole of it. Decides nothing: what is found goes to the core as an event, and of what is asked
while a search runs the latest question alone is answered after it.
"""

import asyncio
import threading
from collections.abc import Callable

from controller.core.commands import SearchPlan
from controller.core.events import Event, PlanFound
from controller.placement.moves import replan


class PlanSearcher:
    """Performer of SearchPlan. `tell` takes what was found, `fail` an exception, which is a programming error."""

    def __init__(self, tell: Callable[[Event], None], fail: Callable[[BaseException], None]) -> None:
        self._tell, self._fail = tell, fail
        self._running = False
        self._waiting: SearchPlan | None = None

    def perform(self, command: SearchPlan) -> tuple[Event, ...]:
        """Nothing follows at once."""
        self._waiting = command
        self._next()
        return ()

    def _next(self) -> None:
        if self._running or self._waiting is None:
            return
        command, self._waiting, self._running = self._waiting, None, True
        loop = asyncio.get_running_loop()
        # A daemon, because a controller that ends need not know any more what would have been better.
        threading.Thread(target=self._search, args=(command, loop), name="plan search", daemon=True).start()

    def _search(self, command: SearchPlan, loop: asyncio.AbstractEventLoop) -> None:
        try:
            found = PlanFound(command.search_id, replan(command.problem, group_of=command.group_of))
        except BaseException as error:  # noqa: BLE001 - the loop's thread decides what becomes of it
            self._call(loop, self._fail, error)
        else:
            self._call(loop, self._done, found)

    def _call(self, loop: asyncio.AbstractEventLoop, then: Callable[..., None], value: object) -> None:
        # The loop may have ended meanwhile, and the controller with it.
        if not loop.is_closed():
            loop.call_soon_threadsafe(then, value)

    def _done(self, found: PlanFound) -> None:
        self._running = False
        self._tell(found)
        self._next()
