"""Starts the controllers that the demo compares, one after the other, inside the lab's namespace.

Each is an ordinary `ryu-manager` run; what it says goes to a log file, since standard output belongs to the result.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from demo_northbound import Controller
from lab_fabric import FabricLab
from lab_namespace import LabError, die_with_parent, stop_process

ROOT = Path(__file__).resolve().parent.parent
OPENFLOW = "tcp:127.0.0.1:6653"
_CONNECT_S = 180.0
_STOP_S = 10.0


@contextmanager
def ryu_manager(
    application: str, log: Path, environment: Mapping[str, str], wait_connected: Callable[[float], object]
) -> Iterator[subprocess.Popen[bytes]]:
    """`ryu-manager APPLICATION` until the block ends; inside it every switch is connected.

    `wait_connected` takes seconds and raises LabError when that was not long enough. Raises LabError, with the last
    lines of the log, when it ends or no switch connects.
    """
    command = [str(Path(sys.executable).with_name("ryu-manager")), application]
    with open(log, "wb") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=said, stderr=said, env={**os.environ, **environment}, preexec_fn=die_with_parent
        )
        try:
            try:
                wait_connected(_CONNECT_S)
            except LabError as error:
                lines = log.read_text(errors="replace").splitlines()[-8:]
                raise LabError("\n".join([str(error), f"{application} said last ({log}):", *lines])) from error
            yield process
        finally:
            stop_process(process, _STOP_S)


@contextmanager
def ecmp(lab: FabricLab, topology: Path, logs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Static ECMP that hashes UDP ports, and nothing else; yields its process. Its rules are gone after the block."""
    environment = {"HEDDLE_TOPOLOGY": str(topology)}
    with ryu_manager("apps/ecmp.py", logs / "ecmp.log", environment, lab.wait_connected) as process:
        yield process
    for switch in lab.plan.switches:
        lab.ovs.ofctl("del-flows", switch.name)
        lab.ovs.ofctl("del-groups", switch.name)


@contextmanager
def heddle(lab: FabricLab, topology: Path, logs: Path) -> Iterator[str]:
    """The agent and the controller it starts; yields where the controller answers gRPC.

    That is a Unix socket: it can be reached from any network namespace, and from threads that gRPC keeps in another.
    """
    with tempfile.TemporaryDirectory(prefix="heddle-") as private:
        address = f"unix:{private}/grpc.sock"
        environment = {
            "HEDDLE_TOPOLOGY": str(topology),
            "HEDDLE_SOUTHBOUND": f"unix:{private}/controller.sock",
            "HEDDLE_GRPC": address,
            "HEDDLE_STATE": f"{private}/heddle.db",
            "HEDDLE_OVSDB": f"unix:{lab.ovs.database.removeprefix('unix:')}",
        }

        def wait_connected(timeout_s: float) -> None:
            # The controller knows at once; Open vSwitch's database says so up to five seconds later.
            with Controller(address) as controller:
                controller.wait_connected(len(lab.plan.switches), timeout_s)

        with ryu_manager("apps/fabric.py", logs / "heddle.log", environment, wait_connected):
            yield address
