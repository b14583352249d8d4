"""The controller as a child of the agent, so that `ryu-manager apps/fabric.py` alone brings up everything.

The child must never outlive the agent, not even one that is killed: it holds the reading end of a pipe on its standard
input, which ends with the agent, and Linux is told to signal it when its parent dies. It is started again when it dies,
ever more slowly; exit status 2 means that its configuration is wrong, which another start does not cure. Status 4 means
that another controller has come first: it is used when it answers, and replaced when it was only just ending.
"""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from ryu.lib import hub

LOG = logging.getLogger("heddle.agent.supervisor")

CONFIGURATION_ERROR = 2
ANOTHER_RUNS = 4
_FIRST_PAUSE_S = 0.5
_LAST_PAUSE_S = 30.0
# A child that lived this long was all right: the next pause is short again.
_HEALTHY_S = 60.0
_POLL_S = 0.1
_STOP_TIMEOUT_S = 5.0
_PR_SET_PDEATHSIG = 1


class Supervisor:
    """`command` is run with `environment`; `on_configuration_error` is called once, when it gives up.

    `has_controller` tells whether the agent is linked to one.
    """

    def __init__(
        self,
        command: list[str],
        environment: Mapping[str, str],
        on_configuration_error: Callable[[str], None],
        has_controller: Callable[[], bool],
    ) -> None:
        self._command = command
        self._environment = dict(environment)
        self._on_configuration_error = on_configuration_error
        self._has_controller = has_controller
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> None:
        """Keeps the child running until `stop`. Runs in a greenlet of its own."""
        pause_s = _FIRST_PAUSE_S
        while not self._stopping:
            started_s = time.monotonic()
            status = self._run_once()
            if self._stopping:
                return
            if status == CONFIGURATION_ERROR:
                self._on_configuration_error("the controller's configuration is wrong; its message is above")
                return
            if time.monotonic() - started_s > _HEALTHY_S:
                pause_s = _FIRST_PAUSE_S
            if status == ANOTHER_RUNS:
                hub.sleep(pause_s)
                if self._has_controller():
                    LOG.info("another controller was started at the same time: it is used")
                    return
            else:
                LOG.error("the controller ended with %s; starting it again in %.1f s", _describe(status), pause_s)
                hub.sleep(pause_s)
            pause_s = min(pause_s * 2, _LAST_PAUSE_S)

    def stop(self) -> None:
        """Asks the child to end, and ends it when it does not."""
        self._stopping = True
        child = self._child
        if child is None or child.poll() is not None:
            return
        child.terminate()
        if child.stdin is not None:
            child.stdin.close()
        deadline_s = time.monotonic() + _STOP_TIMEOUT_S
        while child.poll() is None:
            if time.monotonic() > deadline_s:
                child.kill()
                child.wait()
            hub.sleep(0.02)

    def _run_once(self) -> int:
        """Starts the child and waits for its end; returns its exit status, negative for a signal."""
        self._child = child = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            # Ctrl-C in a terminal reaches only the agent, which then ends both in order.
            start_new_session=True,
            preexec_fn=_die_with_parent(os.getpid()),
        )
        LOG.info("started the controller: %s (pid %d)", " ".join(self._command), child.pid)
        while child.poll() is None:
            hub.sleep(_POLL_S)
        if child.stdin is not None:
            child.stdin.close()
        return child.returncode


def controller_command() -> list[str]:
    return [sys.executable, "-m", "controller.runtime", "--exit-with-parent"]


def _die_with_parent(parent: int) -> Callable[[], None]:
    """What the child does before it becomes the controller (prctl(2), PR_SET_PDEATHSIG)."""
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        # The agent may have died before the call above; then no signal will ever come.
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _describe(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
