"""Callers that wait for the next revision of plan and topology.

Not an `asyncio.Condition`: to notify one needs its lock, hence an `await`, and the engine works without awaiting. An
event that is replaced on every change wakes the same callers, costs nothing while they wait (one future each), and a
caller that goes away leaves nothing behind.
"""

import asyncio
from collections.abc import Callable


class Revisions:
    """`current` reads the core's revision."""

    def __init__(self, current: Callable[[], int]) -> None:
        self.current = current
        self.stopped = False
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Wakes everybody who waits."""
        self._changed.set()
        self._changed = asyncio.Event()

    def stop(self) -> None:
        """Lets everybody go and lets nobody wait any more."""
        self.stopped = True
        self.changed()

    async def wait_for_newer(self, than: int, wait_s: float) -> None:
        """Returns when the revision is above `than`, after `wait_s`, or when the controller stops."""
        try:
            async with asyncio.timeout(wait_s):
                while self.current() <= than and not self.stopped:
                    await self._changed.wait()
        except TimeoutError:
            pass
