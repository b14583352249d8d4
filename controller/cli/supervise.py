"""Keeps the fabric's processes: starts the agent, says when it is ready, stops everything on a signal.

The agent gets a session of its own, so that Ctrl-C reaches only us and we end it in order: asked first, killed after
a grace. Its output goes to standard error, which leaves standard output to --json. What is started is decided in
`run`.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from heddle.southbound.port_owner import port_owner

from controller.cli import output
from controller.cli.client import connect
from controller.cli.errors import CommandError, ExitCode

LOOK_PERIOD_S = 0.2
READY_TIMEOUT_S = 60.0
# The controller closes its journal and the agent its connections; switches keep their rules either way.
STOP_GRACE_S = 15.0
_STANDARD_ERROR = 2


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the started fabric must answer before it counts as ready."""

    openflow_port: int
    grpc: str

    def missing(self) -> list[str]:
        """What does not answer yet."""
        lacking = [] if port_owner(self.openflow_port) is not None else [f"OpenFlow on port {self.openflow_port}"]
        return lacking if self._controller_answers() else [*lacking, f"gRPC on {self.grpc}"]

    def _controller_answers(self) -> bool:
        try:
            with connect(self.grpc, timeout_s=1.0) as controller:
                controller.topology()
        except CommandError:
            return False
        return True


class _Signals:
    """Remembers the first signal that asked us to stop."""

    def __init__(self) -> None:
        self.received: int | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.received = self.received or number


@contextmanager
def _stop_signals() -> Iterator[_Signals]:
    """Ctrl-C, a service manager's TERM and a closed terminal all mean: stop in order."""
    signals = _Signals()
    before = {number: signal.signal(number, signals) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_until_stopped(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], endpoints: Endpoints, *, as_json: bool
) -> int:
    """Runs `command` in `folder` until it ends or a signal comes; the exit code to leave.

    CommandError when it cannot be started, ends by itself with an error, or is not ready within READY_TIMEOUT_S.
    """
    with _stop_signals() as signals:
        process = _start(command, folder, environment)
        try:
            _wait_until_ready(process, endpoints, lambda: signals.received is not None)
            if signals.received is None:
                _say_ready(process, endpoints, as_json=as_json)
            _wait_for_end(process, signals)
        finally:
            stop(process)
    if signals.received is not None:
        output.say("stopped; the switches keep their rules and go on forwarding")
    return ExitCode.OK


def _start(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    output.say(f"starting {' '.join([Path(command[0]).name, *command[1:]])}")
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=_STANDARD_ERROR,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandError(f"cannot start {command[0]}: {error.strerror}; './heddle setup' installs it") from error


def _wait_until_ready(process: "subprocess.Popen[bytes]", endpoints: Endpoints, stopping: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not stopping():
        _check_alive(process)
        missing = endpoints.missing()
        if not missing:
            return
        if time.monotonic() > deadline:
            raise CommandError(
                f"not ready after {READY_TIMEOUT_S:.0f} s ({', '.join(missing)}): its log is above; stopped"
            )
        time.sleep(LOOK_PERIOD_S)


def _wait_for_end(process: "subprocess.Popen[bytes]", signals: _Signals) -> None:
    while signals.received is None:
        _check_alive(process)
        time.sleep(LOOK_PERIOD_S)


def _check_alive(process: "subprocess.Popen[bytes]") -> None:
    end = _end(process)
    if end is None:
        return
    how = f"exit code {end.si_status}" if end.si_code == os.CLD_EXITED else signal.Signals(end.si_status).name
    # The agent's own exit code 2 means that its configuration is wrong, as ours does.
    code = ExitCode.BAD_INPUT if (end.si_code, end.si_status) == (os.CLD_EXITED, 2) else ExitCode.FAILED
    raise CommandError(f"the fabric's agent ended by itself ({how}): its log is above", code)


def _end(process: "subprocess.Popen[bytes]") -> os.waitid_result | None:
    """How the process ended, if it has. It stays a zombie: while it is one, nobody else can get its group's number."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def _say_ready(process: "subprocess.Popen[bytes]", endpoints: Endpoints, *, as_json: bool) -> None:
    output.say(f"ready: OpenFlow on port {endpoints.openflow_port}, gRPC on {endpoints.grpc}; Ctrl-C stops it")
    if as_json:
        ready = {"ready": True, "openflow_port": endpoints.openflow_port, "grpc": endpoints.grpc, "pid": process.pid}
        output.print_json(ready, compact=True)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Asks the process to end; after STOP_GRACE_S, or once it has, kills what is left of its session and reaps it."""
    if _end(process) is None:
        os.kill(process.pid, signal.SIGTERM)
        if not _ends_within(process, STOP_GRACE_S):
            output.say(f"still running after {STOP_GRACE_S:.0f} s: killing it")
    # The session is ours alone: its group holds the agent and the controller, its child.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ends_within(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _end(process) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_PERIOD_S / 4)
    return True
