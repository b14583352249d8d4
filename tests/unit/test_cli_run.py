"""`heddle run`: what it checks, what it starts, how it stops. Stand-ins take the place of ryu-manager."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_fakes import Fake, free_port, serving
from heddle.southbound.port_owner import port_owner

from controller.cli import run as run_module
from controller.cli.main import invoke
from controller.cli.repository import root
from controller.cli.run import FabricSettings

TOPOLOGY = root() / "topologies" / "leafspine-2x2.yaml"
# Listens on the port it is told, as the agent does, with a child of its own, as the controller is; says what it sees.
AGENT = """\
import os, signal, socket, subprocess, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[2], "w") as seen:
    told = [os.environ.get("HEDDLE_TOPOLOGY"), os.environ.get("HEDDLE_QOS")]
    seen.write(f"{os.getpid()} {child.pid} {os.getcwd()} {told[0]} {told[1]}")
print("a word of the agent", flush=True)
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""
RUN = """\
import sys
from controller.cli import run, supervise
from controller.cli.main import invoke
supervise.STOP_GRACE_S = 1.0
run.FabricSettings.command = lambda settings: [sys.executable, *sys.argv[1].split("|")]
sys.exit(invoke(sys.argv[2:]))
"""


@pytest.fixture(autouse=True)
def _own_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No controller of this machine's is to be found."""
    monkeypatch.setenv("HEDDLE_SOUTHBOUND", f"unix:{tmp_path}/controller.sock")
    for name in ("HEDDLE_GRPC", "HEDDLE_TOPOLOGY", "HEDDLE_OVSDB", "HEDDLE_QOS"):
        monkeypatch.delenv(name, raising=False)


class Started:
    """`heddle run` in a process of its own, with a stand-in for the agent."""

    def __init__(self, folder: Path, port: int, grpc: str, *more: str) -> None:
        self.seen = folder / "seen"
        script = folder / "agent.py"
        script.write_text(AGENT)
        agent = "|".join([str(script), str(port), str(self.seen), *[word for word in more if word == "stubborn"]])
        options = [word for word in more if word != "stubborn"]
        command = [sys.executable, "-c", RUN, agent, "run", "--port", str(port), "--controller", grpc, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves nothing behind, also when a test fails halfway."""
        self.process.kill()
        self.process.wait()
        for pid in self.agents() if self.seen.exists() else ():
            if not gone(pid, within_s=0.1):
                os.kill(pid, signal.SIGKILL)

    def ready(self) -> dict[str, object]:
        assert self.process.stdout is not None
        answer: dict[str, object] = json.loads(self.process.stdout.readline())
        return answer

    def agents(self) -> list[int]:
        return [int(pid) for pid in self.seen.read_text().split()[:2]]

    def stop(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        _, error = self.process.communicate(timeout=60)
        return self.process.returncode, error


def gone(pid: int, within_s: float = 30) -> bool:
    """Whether the process ends, or is at most a zombie that waits for whoever adopted it."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def running_controller(tmp_path: Path) -> Iterator[Fake]:
    """A controller that runs already: then the agent starts none, and its ports are rightly taken."""
    with serving(Fake()) as fake, socket.socket(socket.AF_UNIX) as southbound:
        southbound.bind(f"{tmp_path}/controller.sock")
        southbound.listen()
        yield fake


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_says_when_it_is_ready_and_a_signal_stops_all(
    number: int, running_controller: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, grpc = free_port(), running_controller.address
    monkeypatch.setenv("HEDDLE_TOPOLOGY", str(TOPOLOGY))
    monkeypatch.setenv("HEDDLE_QOS", "off")
    with Started(tmp_path, port, grpc, "--json") as started:
        ready = started.ready()
        owner = port_owner(port)
        pids = started.agents()
        code, error = started.stop(number)
    assert ready == {"ready": True, "openflow_port": port, "grpc": grpc, "pid": pids[0]}
    assert owner is not None
    assert owner.pid == pids[0]
    assert started.seen.read_text().split()[2:] == [str(root()), str(TOPOLOGY), "off"]
    assert code == 0
    assert "a word of the agent" in error
    assert f"a controller runs already at unix:{tmp_path}/controller.sock: this agent joins it" in error
    assert f"ready: OpenFlow on port {port}, gRPC on {grpc}; Ctrl-C stops it" in error
    assert "stopped; the switches keep their rules" in error
    assert all(gone(pid) for pid in pids)


def test_an_agent_that_does_not_listen_to_reason_is_killed_with_its_child(
    running_controller: Fake, tmp_path: Path
) -> None:
    with Started(tmp_path, free_port(), running_controller.address, "stubborn", "--json") as started:
        started.ready()
        pids = started.agents()
        code, error = started.stop(signal.SIGINT)
    assert code == 0
    assert "still running after 1 s: killing it" in error
    assert all(gone(pid) for pid in pids)


@pytest.mark.parametrize(("status", "code"), [(2, 2), (1, 1), (7, 1), (0, 1)])
def test_an_agent_that_ends_by_itself_is_said_with_its_status(
    status: int, code: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ending = [sys.executable, "-c", f"import sys; print('its last words', file=sys.stderr); sys.exit({status})"]
    monkeypatch.setattr(FabricSettings, "command", lambda settings: ending)
    assert invoke(["run", "--port", str(free_port()), "--controller", f"127.0.0.1:{free_port()}"]) == code
    error = capfd.readouterr().err
    assert "its last words" in error
    assert f"the fabric's agent ended by itself (exit code {status}): its log is above" in error


def test_a_program_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(FabricSettings, "command", lambda settings: ["/nowhere/ryu-manager"])
    assert invoke(["run", "--port", str(free_port()), "--controller", f"127.0.0.1:{free_port()}"]) == 1
    assert "cannot start /nowhere/ryu-manager: No such file or directory" in capsys.readouterr().err


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> int:
        raise AssertionError("something was started")

    monkeypatch.setattr(run_module, "run_until_stopped", start)


@pytest.mark.usefixtures("nothing_starts")
def test_a_taken_port_is_said_with_its_process(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert invoke(["run", "--port", str(port), "--controller", f"127.0.0.1:{free_port()}"]) == 2
    taken, nothing = capsys.readouterr().err.splitlines()
    assert taken.startswith(f"heddle: port {port} is taken by ")
    assert f"(pid {os.getpid()}, user " in taken
    assert taken.endswith("stop it, or choose another with --port")
    assert nothing == "heddle: nothing was started"


@pytest.mark.usefixtures("nothing_starts")
def test_a_taken_grpc_port_is_a_problem_unless_a_controller_runs_already(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert invoke(["run", "--port", str(free_port()), "--controller", f"127.0.0.1:{port}"]) == 2
    assert f"port {port} is taken by " in capsys.readouterr().err


@pytest.mark.usefixtures("nothing_starts")
def test_a_controller_that_runs_already_is_not_told_other_settings(
    running_controller: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--port", str(free_port()), "--controller", running_controller.address]
    assert invoke(["run", *options, "--topology", str(TOPOLOGY), "--no-qos"]) == 2
    error = capsys.readouterr().err
    assert "controller.sock and would not heed --topology, --qos/--no-qos: leave that out to join it" in error
    assert "--southbound" in error


@pytest.mark.usefixtures("nothing_starts", "running_controller")
def test_a_controller_that_runs_already_elsewhere_is_no_puzzle(capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = f"127.0.0.1:{free_port()}"
    assert invoke(["run", "--port", str(free_port()), "--controller", elsewhere]) == 2
    assert f"but not with gRPC on {elsewhere}: say where with --controller" in capsys.readouterr().err


@pytest.mark.usefixtures("nothing_starts")
def test_everything_wrong_is_listed_and_nothing_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("name: x\nrate: fast\nleaf_spine: {leaves: 0, spines: 2, hosts_per_leaf: 2}\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert invoke(["run", "--topology", str(file), "--port", str(port), "--controller", "127.0.0.1:1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"heddle: {file}:2: ")
    assert lines[1].startswith(f"heddle: {file}:3: ")
    assert lines[2].startswith(f"heddle: port {port} is taken by ")
    assert lines[3:] == ["heddle: nothing was started"]


@pytest.mark.usefixtures("nothing_starts")
def test_settings_of_the_environment_are_checked_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEDDLE_QOS", "perhaps")
    assert invoke(["run", "--port", str(free_port()), "--southbound", "tcp:nowhere"]) == 2
    error = capsys.readouterr().err
    assert "HEDDLE_QOS: 'perhaps' is neither on nor off" in error
    assert "HEDDLE_SOUTHBOUND: " in error


def test_the_environment_holds_what_was_given_and_leaves_the_rest(tmp_path: Path) -> None:
    inherited = {"PATH": "/bin", "HEDDLE_QOS": "off", "HEDDLE_LOG": "json"}
    bare = FabricSettings(6653, "127.0.0.1:50051").environment(inherited)
    assert bare == {**inherited, "HEDDLE_GRPC": "127.0.0.1:50051"}
    full = FabricSettings(6653, "[::1]:7", Path("t.yaml"), "tcp:127.0.0.1:8", "tcp:127.0.0.1:6640", qos=True)
    assert full.environment(inherited) == {
        **inherited,
        "HEDDLE_TOPOLOGY": str(Path.cwd() / "t.yaml"),
        "HEDDLE_SOUTHBOUND": "tcp:127.0.0.1:8",
        "HEDDLE_GRPC": "[::1]:7",
        "HEDDLE_OVSDB": "tcp:127.0.0.1:6640",
        "HEDDLE_QOS": "on",
    }


def test_the_command_is_ryu_manager_of_this_environment() -> None:
    command = FabricSettings(6633, "127.0.0.1:50051").command()
    assert command == [
        str(Path(sys.executable).parent / "ryu-manager"),
        "--ofp-tcp-listen-port",
        "6633",
        "apps/fabric.py",
    ]
    assert (root() / command[-1]).is_file()
