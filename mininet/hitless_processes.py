"""The controller and the agent as two processes of their own, each of which can be killed and started alone.

`demo_controllers` lets the agent start the controller, as users do; here somebody else would, as under systemd. Both
live in the lab's namespace and keep their sockets and the journal in a private folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from demo_controllers import ROOT
from demo_northbound import Controller
from lab_fabric import FabricLab
from lab_namespace import LabError, die_with_parent, stop_process

_READY_S = 90.0


@dataclass(slots=True)
class Processes:
    """`environment` is what both are told; changes of it count from the next start on."""

    lab: FabricLab
    environment: dict[str, str]
    log: Path
    # How Python is told to run the controller; benchmarks run others in its place.
    program: Sequence[str] = ("-m", "controller.runtime")
    controller: subprocess.Popen[bytes] | None = None
    agent: subprocess.Popen[bytes] | None = None
    _python: Path = field(default_factory=lambda: Path(sys.executable))

    @property
    def grpc(self) -> str:
        return self.environment["HEDDLE_GRPC"]

    def start_controller(self) -> None:
        self.controller = self._start([str(self._python), *self.program])

    def start_agent(self) -> None:
        self.agent = self._start([str(self._python.with_name("ryu-manager")), "apps/fabric.py"])

    def kill_controller(self) -> None:
        _kill(self.controller)

    def kill_agent(self) -> None:
        _kill(self.agent)

    def wait_ready(self) -> float:
        """Until every switch, link and host of the plan is found and in sync; seconds it took. Raises LabError."""
        plan = self.lab.plan
        with Controller(self.grpc) as controller:
            return controller.wait_for(len(plan.links), len(plan.hosts), timeout_s=_READY_S)

    def wait_listening(self) -> None:
        """Until the controller's socket is there: an agent that finds none starts a controller of its own."""
        socket = Path(self.environment["HEDDLE_SOUTHBOUND"].removeprefix("unix:"))
        deadline = time.monotonic() + _READY_S
        while not socket.exists():
            if time.monotonic() > deadline or (self.controller is not None and self.controller.poll() is not None):
                raise LabError(f"the controller does not come up; its log is {self.log}")
            time.sleep(0.05)

    def stop(self) -> None:
        for process in (self.agent, self.controller):
            if process is not None:
                stop_process(process)

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.log, "ab") as said:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, **self.environment},
                preexec_fn=die_with_parent,
            )


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    """SIGKILL: nothing is said, nothing is written any more."""
    if process is not None:
        process.send_signal(signal.SIGKILL)
        process.wait()


@contextmanager
def processes(
    lab: FabricLab,
    topology: Path,
    log: Path,
    more: Mapping[str, str] | None = None,
    program: Sequence[str] | None = None,
) -> Iterator[Processes]:
    """Both running and the fabric found; they end with the block. `program` runs in the controller's place."""
    with tempfile.TemporaryDirectory(prefix="heddle-") as private:
        environment = {
            "HEDDLE_TOPOLOGY": str(topology),
            "HEDDLE_SOUTHBOUND": f"unix:{private}/controller.sock",
            "HEDDLE_GRPC": f"unix:{private}/grpc.sock",
            "HEDDLE_OVSDB": f"unix:{lab.ovs.database.removeprefix('unix:')}",
            "HEDDLE_STATE": f"{private}/heddle.db",
            **(more or {}),
        }
        running = Processes(lab, environment, log)
        running.program = program or running.program
        try:
            running.start_controller()
            running.wait_listening()
            running.start_agent()
            lab.wait_connected(_READY_S)
            lab.announce_hosts()
            running.wait_ready()
            yield running
        finally:
            running.stop()
