"""`heddle fuzz`: what it prints, writes and answers with. What fuzzing finds is tested in tests/property."""

import json
from pathlib import Path

import pytest

from controller.cli.main import invoke
from controller.core.machine import Core


def test_seeds_that_pass_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["fuzz", "--seeds", "2", "--events", "3", "--jobs", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["seeds"], answer["events"], answer["failed"]) == (2, 6, [])


def test_a_failure_is_shrunk_shown_and_can_be_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "failure.json"

    def broken(self: Core, event: object, now_s: float) -> list[object]:
        raise ZeroDivisionError("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(Core, "handle", broken)
        assert invoke(["fuzz", "--seed", "3", "--events", "4", "--save", str(path)]) == 1
        assert "broken: exception ZeroDivisionError" in capsys.readouterr().err
        assert invoke(["fuzz", "--replay", str(path), "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["failure"]["invariant"] == "exception ZeroDivisionError"
    assert json.loads(path.read_bytes()).get("steps", []) == []
    assert invoke(["fuzz", "--replay", str(path)]) == 0


def test_a_file_that_is_no_recording_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["fuzz", "--replay", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
