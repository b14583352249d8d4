"""Ending ryu-manager in order: on SIGINT and SIGTERM, and with an exit status when something makes going on pointless.

Ryu waits in its main greenlet and swallows what happens in others, and a signal handler runs in whichever greenlet is
current. So every end goes the same way: the exception is thrown into the main greenlet, whose `finally` closes all
applications.
"""

import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

import eventlet
import eventlet.hubs
from ryu.lib import hub

# Closing takes milliseconds; a greenlet that does not let go must not keep a stopped controller alive.
_LAST_RESORT_S = 10.0


class Lifetime:
    """To be made in ryu-manager's main greenlet, that is in an application's constructor."""

    def __init__(self) -> None:
        self._main = eventlet.getcurrent()
        self._ending = False

    def install_signal_handlers(self) -> None:
        """SIGINT and SIGTERM end the program with status 0."""

        def end(_signal: int, _frame: FrameType | None) -> None:
            self.end(0)

        signal.signal(signal.SIGINT, end)
        signal.signal(signal.SIGTERM, end)

    @staticmethod
    def refuse_to_start(problem: str) -> NoReturn:
        """Ends the program with status 2 before anything runs. Only in an application's constructor."""
        print(f"heddle: {problem}", file=sys.stderr, flush=True)
        raise SystemExit(2)

    def end(self, status: int, message: str = "") -> None:
        """Ends ryu-manager with this exit status, `message` last on standard error. Safe to call from anywhere."""
        if self._ending:
            return
        self._ending = True
        if message:
            print(f"heddle: {message}", file=sys.stderr, flush=True)
        timers: Any = eventlet.hubs.get_hub()
        timers.schedule_call_global(0, self._main.throw, SystemExit(status))
        hub.spawn_after(_LAST_RESORT_S, os._exit, status)
