"""What may be said at the start, and how what is wrong is answered."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from runtime_fakes import FakeAgent

from controller.runtime.addresses import (
    AddressTaken,
    TcpAddress,
    UnixAddress,
    UnixSocketClaim,
    check_port_free,
    parse_address,
)
from controller.runtime.settings import SettingsError, read_settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/heddle/controller.sock", UnixAddress("/run/heddle/controller.sock")),
        ("tcp:10.0.0.1:6699", TcpAddress("10.0.0.1", 6699)),
        ("127.0.0.1:50051", TcpAddress("127.0.0.1", 50051)),
        ("tcp:[::1]:0", TcpAddress("::1", 0)),
    ],
)
def test_addresses(text: str, address: object) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "unix:", "50051", ":50051", "host:", "host:65536", "host:-1", "host:x", "a:²"])
def test_wrong_addresses_say_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"for example|whole number"):
        parse_address(text)


def test_defaults_and_precedence() -> None:
    settings = read_settings({"HEDDLE_QOS": "off", "HEDDLE_LOG": "", "HEDDLE_GRPC": "a:1"}, {"HEDDLE_GRPC": "b:2"})
    assert settings.southbound == UnixAddress("/run/heddle/controller.sock")
    assert settings.grpc == TcpAddress("b", 2)
    assert settings.ovsdb == "auto"
    assert settings.topology is None
    assert settings.qos is False
    assert settings.log == "console"
    assert [name for name, _ in settings.open_to_the_network()] == ["HEDDLE_GRPC"]


def test_database_endpoints() -> None:
    settings = read_settings({"HEDDLE_OVSDB": "unix:/a/db.sock, tcp:10.0.0.1:6640"}, {})
    assert settings.ovsdb == ("unix:/a/db.sock", "tcp:10.0.0.1:6640")


def test_everything_that_is_wrong_is_said_at_once() -> None:
    environment = {
        "HEDDLE_SOUTHBOUND": "unix:",
        "HEDDLE_GRPC": "50051",
        "HEDDLE_OVSDB": "/run/db.sock",
        "HEDDLE_QOS": "yes",
        "HEDDLE_LOG": "xml",
        "HEDDLE_LOG_LEVEL": "loud",
    }
    with pytest.raises(SettingsError) as caught:
        read_settings(environment, {})
    assert [problem.partition(":")[0] for problem in caught.value.problems] == list(environment)


def test_stale_socket_is_replaced_and_a_live_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "c.sock"
    first = UnixSocketClaim(str(path))
    first.take()
    listener = first.listen()
    assert path.stat().st_mode & 0o007 == 0
    with pytest.raises(AddressTaken, match=f"another controller answers on {path}"):
        UnixSocketClaim(str(path)).take()
    listener.close()
    first.release()
    assert not path.exists()

    with socket.socket(socket.AF_UNIX) as crashed:
        crashed.bind(str(path))  # closed without unlink, as a killed process leaves it
    again = UnixSocketClaim(str(path))
    again.take()
    assert not path.exists()
    again.release()


def test_somebody_elses_listener_and_a_plain_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(str(path))
        foreign.listen()
        with pytest.raises(AddressTaken, match="another controller answers"):
            UnixSocketClaim(str(path)).take()
    path.unlink()
    path.write_text("precious")
    with pytest.raises(AddressTaken, match="no socket"):
        UnixSocketClaim(str(path)).take()
    assert path.read_text() == "precious"


@contextmanager
def nobody() -> Iterator[None]:
    """Root may write everywhere; everybody else is unprivileged already."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize("path", ["c.sock", "deeper/c.sock"])
def test_an_unprivileged_user_is_told_what_needs_root(path: str) -> None:
    # Not pytest's own folder, which only its owner may even look into.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)  # noqa: S103 - to be looked into and not written to
        with nobody(), pytest.raises(AddressTaken, match=r"may not listen on .*root.*HEDDLE_SOUTHBOUND=unix:"):
            UnixSocketClaim(f"{folder}/{path}").take()


def test_taken_port_names_its_owner() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(AddressTaken, match=rf"port {port} is taken by .*pid {os.getpid()}.*HEDDLE_GRPC"):
            check_port_free(TcpAddress("127.0.0.1", port), "HEDDLE_GRPC")
    check_port_free(TcpAddress("127.0.0.1", port), "HEDDLE_GRPC")
    with pytest.raises(AddressTaken, match="cannot be resolved"):
        check_port_free(TcpAddress("no such host", 1), "HEDDLE_GRPC")


class Process:
    """The real program, with its own socket and a free port."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        stdin: int = subprocess.PIPE,
        program: tuple[str, ...] = ("-m", "controller.runtime"),
        **environment: str,
    ) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEDDLE_")}
        own = {
            "HEDDLE_SOUTHBOUND": f"unix:{folder}/c.sock",
            "HEDDLE_GRPC": "127.0.0.1:0",
            "HEDDLE_OVSDB": f"unix:{folder}/none.sock",
            "HEDDLE_STATE": f"{folder}/heddle.db",
        }
        self.process = subprocess.Popen(
            [sys.executable, *program, *flags],
            env={**inherited, **own, **environment},
            cwd=ROOT,
            stdin=stdin,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def first_line(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def ends(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_process_says_where_it_is_and_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with Process(tmp_path) as controller:
        line = controller.first_line()
        assert "heddle" in line
        assert f"southbound=unix:{tmp_path}/c.sock" in line
        assert "grpc=127.0.0.1:" in line
        with Process(tmp_path) as second:
            assert second.ends() == (
                4,
                f"heddle: another controller answers on {tmp_path}/c.sock: stop it, or choose another path\n",
            )
        controller.process.send_signal(number)
        status, said = controller.ends()
        assert (status, said) == (0, "")
        assert not (tmp_path / "c.sock").exists()


def test_process_ends_with_its_parent_only_when_asked(tmp_path: Path) -> None:
    with Process(tmp_path, "--exit-with-parent") as child:
        child.first_line()
        assert child.ends() == (0, "")  # communicate() closes standard input
    with Process(tmp_path, stdin=subprocess.DEVNULL) as free:
        free.first_line()
        with pytest.raises(subprocess.TimeoutExpired):
            free.process.wait(0.5)


def test_wrong_settings_end_the_process_with_status_2(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("name: [")
    with Process(tmp_path, "--qos", "maybe", HEDDLE_GRPC="nowhere") as wrong:
        status, said = wrong.ends()
        assert status == 2
        assert "HEDDLE_QOS: 'maybe' is neither on nor off" in said
        assert "HEDDLE_GRPC: 'nowhere' is no address" in said
        assert "Traceback" not in said
    with Process(tmp_path, HEDDLE_TOPOLOGY=str(tmp_path / "t.yaml")) as wrong:
        status, said = wrong.ends()
        assert status == 2
        assert "t.yaml" in said
        assert "Traceback" not in said


_FAILING_CORE = """
import os, sys
from runtime_fakes import FakeCore
from controller.core.events import SwitchConnected
from controller.runtime import process

def fail(event):
    raise ZeroDivisionError("of the core")

process.make_core = lambda settings, plan: FakeCore(replies={SwitchConnected: fail})
sys.exit(process.run(os.environ, {}, exit_with_parent=False))
"""


def test_exception_in_the_core_ends_the_process_with_status_1_and_names_the_event(tmp_path: Path) -> None:
    async def agent() -> None:
        link = await FakeAgent.connect(f"{tmp_path}/c.sock")
        await link.hello()
        await link.switch_up(0xAB, "the-session")
        assert await link.closed_by_controller()

    with Process(tmp_path, program=("-c", _FAILING_CORE), PYTHONPATH=str(Path(__file__).parent)) as controller:
        controller.first_line()
        asyncio.run(agent())
        status, said = controller.ends()
    assert status == 1
    assert "an unexpected error ends the controller" in said
    assert "SwitchConnected(dpid=171, session_id='the-session'" in said
    assert "ZeroDivisionError: of the core" in said
    assert not (tmp_path / "c.sock").exists()


def test_json_log_is_one_object_a_line(tmp_path: Path) -> None:
    with Process(tmp_path, "--log", "json") as controller:
        line = json.loads(controller.first_line())
    assert line["level"] == "info"
    assert line["southbound"] == f"unix:{tmp_path}/c.sock"


def test_taken_grpc_port_ends_the_process_with_status_2(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with Process(tmp_path, HEDDLE_GRPC=f"127.0.0.1:{port}") as refused:
            status, said = refused.ends()
    assert status == 2
    assert f"port {port} is taken by" in said
    assert f"pid {os.getpid()}" in said
    assert "HEDDLE_GRPC" in said
    assert len(said.splitlines()) == 1
