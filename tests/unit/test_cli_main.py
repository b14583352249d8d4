"""The command as a whole: help, exit codes, how failures end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_fakes import Fake, free_port, serving

from controller.cli import main, topology
from controller.cli.main import invoke

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def unused_port() -> int:
    return free_port()


def in_a_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "controller.cli.main", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )


def test_help_lists_every_command_also_those_of_the_launcher(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in (
        "run",
        "topology",
        "advise",
        "announce",
        "plan",
        "withdraw",
        "explain",
        "fabric",
        "demo",
        "version",
    ):
        assert f" {command} " in shown
    for command in ("setup", "test", "bench"):
        assert f" {command} " in shown


def test_help_loads_nothing_heavy() -> None:
    """The reason why help is quick; the time itself depends on how busy the machine is."""
    code = (
        "import sys; from controller.cli.main import invoke; invoke(['--help']); "
        "print(sorted({'grpc', 'matplotlib', 'numpy', 'pydantic', 'google.protobuf', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", ["setup", "test", "bench"])
def test_launcher_commands_say_where_to_run_them(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([name, "-k", "word"]) == 2
    assert f"run ./heddle {name} -k word there" in capsys.readouterr().err


def test_no_controller_is_one_sentence_with_the_cure(capsys: pytest.CaptureFixture[str], unused_port: int) -> None:
    assert invoke(["--controller", f"127.0.0.1:{unused_port}", "topology"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"heddle: no controller answers at 127.0.0.1:{unused_port}: start one with 'heddle run', "
        "or say where it is with --controller HOST:PORT or HEDDLE_GRPC\n"
    )


@pytest.mark.parametrize(
    "command", [["plan"], ["withdraw", "x"], ["explain", "flow", "a", "b"], ["topology", "--watch"]]
)
def test_every_command_says_so(command: list[str], capsys: pytest.CaptureFixture[str], unused_port: int) -> None:
    assert invoke([*command, "--controller", f"127.0.0.1:{unused_port}"]) == 3
    assert "no controller answers" in capsys.readouterr().err


def test_the_environment_says_where_the_controller_is_and_the_option_wins(
    monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    with serving(Fake()) as fake:
        monkeypatch.setenv("HEDDLE_GRPC", fake.address)
        assert invoke(["topology", "--json"]) == 0
        monkeypatch.setenv("HEDDLE_GRPC", f"127.0.0.1:{unused_port}")
        assert invoke(["topology", "--json"]) == 3
        assert invoke(["--controller", fake.address, "topology", "--json"]) == 0
        assert (
            invoke(["--controller", f"127.0.0.1:{unused_port}", "topology", "--json", "--controller", fake.address])
            == 0
        )


@pytest.mark.parametrize("address", ["localhost", "host:port", "127.0.0.1:70000", ":50051"])
def test_an_address_that_is_none_is_said_with_the_right_form(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["topology", "--controller", address]) == 2
    error = capsys.readouterr().err
    assert error.startswith("heddle: the controller's address: ")
    assert error.count("\n") == 1


def test_a_bug_is_a_sentence_and_a_traceback_only_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("seven by nothing")

    monkeypatch.setattr(topology, "connect", broken)
    assert invoke(["topology"]) == 1
    assert capsys.readouterr().err == (
        "heddle: this is a bug in Heddle: ZeroDivisionError: seven by nothing (HEDDLE_DEBUG=1 shows where)\n"
    )
    monkeypatch.setenv("HEDDLE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        invoke(["topology"])


def test_wrong_options_exit_2_without_a_traceback() -> None:
    done = in_a_process("topology", "--colour")
    assert done.returncode == 2
    assert "No such option" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    with serving(Fake()) as fake:
        command = f"{sys.executable} -m controller.cli.main topology --json | true; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env={**os.environ, "HEDDLE_GRPC": fake.address},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stderr == ""
    assert done.returncode in (0, 1)  # 0 when all was written before the reader closed.


def test_version_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    assert invoke(["version", "--json"]) == 0
    versions = json.loads(capsys.readouterr().out)
    assert versions["heddle"] == "0.1.0"
    assert versions["ryu"] == "4.34"
    assert {"eventlet", "grpcio", "protobuf", "ovsdbapp", "python"} <= versions.keys()


def test_main_leaves_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["heddle", "test"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
