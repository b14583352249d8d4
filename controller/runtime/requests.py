"""Callers that wait for the core's answer to a request of theirs.

A caller that goes away takes its entry with it, so an answer that comes later finds nobody and is dropped. The request
itself stands: an announcement is state, not a subscription to it.
"""

import asyncio
from collections.abc import Callable, Iterable

from controller.core.commands import Accepted, Compared, Failure, Refused
from controller.core.events import (
    CollectiveAnnounced,
    CollectiveWithdrawn,
    ComparisonWanted,
    DrainWanted,
    Event,
    UndrainWanted,
)
from controller.runtime.engine import EngineFailed, EngineStopped

Request = CollectiveAnnounced | CollectiveWithdrawn | ComparisonWanted | DrainWanted | UndrainWanted
Answer = Accepted | Refused | Compared

STOPPING = "the controller is stopping: ask again when it is back"


class Requests:
    """Hands each answer of the core to the caller whose request_id it bears."""

    def __init__(self, submit: Callable[[Event], None]) -> None:
        self._submit = submit
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._last_id = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def ask(self, make: Callable[[int], Request]) -> Answer:
        """The core's answer to the event that `make(request_id)` builds, however long the switches take.

        The caller's own deadline bounds the wait: gRPC cancels the handler, and this with it. Refused as UNAVAILABLE
        when the controller stops first. Raises EngineFailed when this very request made the core fail: a caller that
        asked again would take the next controller down too, so it must not look like something to retry.
        """
        self._last_id += 1
        request_id = self._last_id
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        try:
            self._submit(make(request_id))
            return await answer
        except EngineFailed:
            raise
        except EngineStopped:
            return Refused(request_id, Failure.UNAVAILABLE, (STOPPING,))
        finally:
            del self._waiting[request_id]

    def answered(self, answer: Answer) -> Iterable[Event]:
        """Performer of Accepted, Refused and Compared."""
        waiting = self._waiting.get(answer.request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
        return ()

    def refuse_all(self) -> None:
        """Lets everybody go: the controller stops."""
        for request_id, waiting in self._waiting.items():
            if not waiting.done():
                waiting.set_result(Refused(request_id, Failure.UNAVAILABLE, (STOPPING,)))
