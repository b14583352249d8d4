"""EventService: what has happened, to whoever wants to follow it.

Nothing is queued for a client. Each goes through the core's own list at its own pace, so a slow one costs nobody
anything; when entries it has not seen are gone, it is told how many and goes on with the oldest that are left.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
from heddle.v1 import events_pb2 as pb
from heddle.v1 import events_pb2_grpc

from controller.core.history import Entry
from controller.runtime.engine import Engine
from controller.runtime.grpc_messages import to_message
from controller.runtime.grpc_status_details import RequestRefused, abort
from controller.runtime.requests import STOPPING
from controller.runtime.revisions import Revisions

# Events in one message.
_MOST = 200
# A change is waited for so long at a time; nothing depends on it.
_PATIENCE_S = 60.0


class EventService(events_pb2_grpc.EventServiceServicer):  # type: ignore[misc]  # generated, untyped
    """`run_id` tells this run of the controller from others; `news` wakes whoever waits for events."""

    def __init__(self, engine: Engine, news: Revisions, run_id: str, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._news = news
        self._run_id = run_id
        self._clock = clock

    async def WatchEvents(
        self, request: pb.WatchEventsRequest, context: "grpc.aio.ServicerContext"
    ) -> AsyncIterator[pb.WatchEventsResponse]:
        last = request.after_sequence if request.run_id in ("", self._run_id) else 0
        first = True
        while not self._news.stopped:
            entries, missed = self._engine.core.events_after(last)
            for batch in _batches(entries):
                last, first = batch[-1].number, False
                yield self._response(batch, missed)
                missed = 0
            if first:
                # So that a caller learns at once which run it follows.
                first = False
                yield self._response((), 0)
            if not request.follow:
                return
            await self._news.wait_for_newer(last, _PATIENCE_S)
        refused = RequestRefused(grpc.StatusCode.UNAVAILABLE, [STOPPING])
        await abort(context, "WatchEvents", refused)

    def _response(self, entries: Sequence[Entry], missed: int) -> pb.WatchEventsResponse:
        # The core's seconds are not those of the world.
        since_1970_s = self._clock() - self._engine.now_s()
        return pb.WatchEventsResponse(
            run_id=self._run_id, missed=missed, events=[_event(entry, since_1970_s) for entry in entries]
        )


def _batches(entries: list[Entry]) -> list[list[Entry]]:
    return [entries[start : start + _MOST] for start in range(0, len(entries), _MOST)]


def _event(entry: Entry, since_1970_s: float) -> Any:
    outcome = None if entry.outcome is None else to_message(entry.outcome, pb.Outcome)
    return pb.Event(
        sequence=entry.number,
        time_s=entry.at_s + since_1970_s,
        topic=entry.topic.value,
        subject=entry.subject,
        message=entry.message,
        cause=entry.cause,
        outcome=outcome,
    )
