"""`heddle fabric` and `heddle demo`: what they check, and what they hand over to."""

import os
import sys
from pathlib import Path

import pytest

from controller.cli import repository
from controller.cli.main import invoke
from controller.cli.repository import root

TOPOLOGY = str(root() / "topologies" / "leafspine-2x2.yaml")


class Exec:
    """Stands for os.execv, which would replace the test."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []

    def __call__(self, path: str, arguments: list[str]) -> None:
        assert path == arguments[0] == sys.executable
        self.commands.append([str(Path(arguments[1]).relative_to(root())), *arguments[2:]])


@pytest.fixture
def execs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Exec:
    """Scripts that are there, whatever the tree holds; nothing is run."""
    replacement = Exec()
    monkeypatch.setattr(os, "execv", replacement)
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    return replacement


def as_user(monkeypatch: pytest.MonkeyPatch, user_id: int) -> None:
    monkeypatch.setattr(repository, "effective_user_id", lambda: user_id)


def test_root_gets_the_scripts_with_all_arguments(execs: Exec, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, 0)
    invoke(["fabric", TOPOLOGY, "--no-qos", "-x"])
    invoke(["demo", "--ranks", "8", "--json"])
    assert execs.commands == [
        ["mininet/lab.py", TOPOLOGY, "--no-qos", "-x"],
        ["mininet/demo.py", "--ranks", "8", "--json"],
    ]


@pytest.mark.parametrize("command", [["fabric", TOPOLOGY], ["demo", "--json"]])
def test_an_unprivileged_user_gets_one_sentence(
    command: list[str], execs: Exec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_user(monkeypatch, 1000)
    assert invoke(command) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "needs root, because it makes network namespaces, virtual links and Open vSwitch bridges" in error
    assert f"run it as sudo ./heddle {' '.join(command)}" in error
    assert execs.commands == []


@pytest.mark.parametrize(("command", "script"), [("fabric", "mininet/lab.py"), ("demo", "mininet/demo.py")])
def test_help_is_the_scripts_own_and_needs_no_root(
    command: str, script: str, execs: Exec, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 1000)
    invoke([command, "--help"])
    assert execs.commands == [[script, "--help"]]


def test_a_wrong_topology_is_shown_before_anything_is_built(
    execs: Exec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_user(monkeypatch, 0)
    file = tmp_path / "wrong.yaml"
    file.write_text("name: x\nrate: fast\nleaf_spine: {leaves: 0, spines: 2, hosts_per_leaf: 2}\n")
    assert invoke(["fabric", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[2] for line in lines] == ["2", "3"]
    assert execs.commands == []


def test_a_fabric_needs_a_topology(execs: Exec, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["fabric"]) == 2
    assert "say which topology: heddle fabric FILE" in capsys.readouterr().err


def test_without_the_source_tree_the_scripts_are_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_user(monkeypatch, 0)
    monkeypatch.setattr(repository, "root", lambda: tmp_path)
    assert invoke(["demo"]) == 1
    assert "are part of the source tree" in capsys.readouterr().err
