"""How late the process's one loop is: a greenlet that wants to wake at fixed times and notes by how much it is not."""

import time

from ryu.lib import hub

_PERIOD_S = 0.1


class LoopDelay:
    """`take` returns the largest delay in seconds since it was last called."""

    def __init__(self) -> None:
        self._worst_s = 0.0

    def run(self) -> None:
        while True:
            before_s = time.monotonic()
            hub.sleep(_PERIOD_S)
            self._worst_s = max(self._worst_s, time.monotonic() - before_s - _PERIOD_S)

    def take(self) -> float:
        worst_s, self._worst_s = self._worst_s, 0.0
        return worst_s
