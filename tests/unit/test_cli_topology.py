"""`heddle topology`: tables, JSON, pictures, watching."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_fakes import Fake, endpoint, serving, topology
from heddle.v1 import fabric_pb2

from controller.cli import watching
from controller.cli.client import Controller
from controller.cli.errors import CommandError, ExitCode
from controller.cli.fabric_picture import describe
from controller.cli.main import invoke
from controller.cli.picture import LinkState
from controller.cli.watching import follow

ROOT = Path(__file__).resolve().parents[2]


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["topology", "--controller", fake.address]) == 0
    captured = capsys.readouterr()
    assert "92.5 Gb/s" in captured.out
    assert "02:00:0a:00:02:02" in captured.out
    assert captured.err == ""


def test_json_is_alone_on_standard_output(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with serving(Fake()) as fake:
        assert invoke(["topology", "--json", "--png", str(tmp_path / "fabric.png"), "--controller", fake.address]) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert {
        "switches",
        "links",
        "hosts",
        "alarms",
        "revision",
        "in_sync",
        "neighbours",
        "packet_counts",
    } == answer.keys()
    assert answer["links"][0]["a"] == {"switch": "leaf1", "dpid": 1, "port_no": 1, "port_name": "leaf1-eth1"}
    assert captured.err == f"drew 4 links to {tmp_path / 'fabric.png'}\n"
    assert (tmp_path / "fabric.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_picture_that_cannot_be_written_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "no" / "folder" / "fabric.png"
    with serving(Fake()) as fake:
        assert invoke(["topology", "--png", str(file), "--controller", fake.address]) == 1
    assert capsys.readouterr().err == f"heddle: cannot write {file}: No such file or directory\n"


def test_watching_and_drawing_exclude_each_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert invoke(["topology", "--watch", "--png", str(tmp_path / "fabric.png")]) == 2
    assert "use one of them" in capsys.readouterr().err


def test_the_description_of_a_picture_has_loads_as_shares() -> None:
    answer = topology()
    answer.links[1].state = "down"
    answer.links[2].state, answer.links[2].cause = "suspect", "one-way"
    answer.switches[0].connected = False
    picture = describe(answer)
    assert picture.links[0].a_to_b == 0.925
    assert picture.links[0].b_to_a == 0.0
    assert (picture.links[3].a_to_b, picture.links[3].b_to_a) == (None, None)
    assert [link.state for link in picture.links[:3]] == [LinkState.UP, LinkState.DOWN, LinkState.ONE_WAY]
    assert [switch.connected for switch in picture.switches] == [False, True, True, True]
    assert picture.subtitle == "2 of 4 links up; 100 Gb/s each; fullest: leaf1 → spine1, 92 %"


def test_a_link_without_capacity_has_no_share() -> None:
    answer = topology()
    answer.links[0].capacity_bps = 0
    assert describe(answer).links[0].a_to_b is None


def test_switches_that_only_links_know_are_drawn_too() -> None:
    answer = fabric_pb2.GetTopologyResponse()
    answer.links.add(a=endpoint("leaf1", 1), b=fabric_pb2.Endpoint(dpid=0xAB, port_no=1), state="up")
    picture = describe(answer)
    assert [(switch.name, switch.connected) for switch in picture.switches] == [("ab", False), ("leaf1", False)]


class Enough(Exception):
    """Ends a watch, which would go on for ever."""


def test_watching_shows_each_change_once_and_outlives_a_restart() -> None:
    """The second answer equals the first; then the connection is lost once; then there is something new."""
    revisions = iter([1, 1, None, 2, Enough])
    slept: list[float] = []

    def ask(controller: Controller, previous: fabric_pb2.GetTopologyResponse | None) -> fabric_pb2.GetTopologyResponse:
        seen.append(previous.revision if previous else None)
        revision = next(revisions)
        if revision is Enough:
            raise Enough
        if revision is None:
            raise CommandError("gone", ExitCode.NO_CONTROLLER)
        return fabric_pb2.GetTopologyResponse(revision=revision)

    seen: list[int | None] = []
    shown: list[int] = []
    with serving(Fake()) as fake, pytest.raises(Enough):
        shown.extend(answer.revision for answer in follow(fake.address, ask, sleep=slept.append))
    assert shown == [1, 2]
    assert seen == [None, 1, 1, None, 2]  # After the loss nothing is known of revisions.
    assert slept == [watching.RETRY_S]


def test_watching_ends_when_the_controller_refuses() -> None:
    def ask(controller: Controller, previous: object) -> fabric_pb2.GetTopologyResponse:
        raise CommandError("no job 'x'", ExitCode.BAD_INPUT)

    with serving(Fake()) as fake, pytest.raises(CommandError, match="no job"):
        next(follow(fake.address, ask))


def test_watched_json_is_one_line_per_answer(capsys: pytest.CaptureFixture[str]) -> None:
    from controller.cli.tables import topology_view

    answers = [topology(), topology(1, 1)]
    watching.show(answers, topology_view, as_json=True)
    lines = capsys.readouterr().out.splitlines()
    assert [len(json.loads(line)["links"]) for line in lines] == [4, 1]


@pytest.mark.parametrize("terminal", [False, True])
def test_ctrl_c_ends_a_watch_with_success(terminal: bool) -> None:
    """A terminal of 24 lines shows the first links; what does not fit is cut."""
    controlling, standard_output = os.openpty() if terminal else os.pipe()
    with serving(Fake()) as fake:
        command = [sys.executable, "-m", "controller.cli.main", "topology", "--watch", "--controller", fake.address]
        process = subprocess.Popen(command, stdout=standard_output, stderr=subprocess.PIPE, cwd=ROOT)
        os.close(standard_output)
        try:
            seen = b""
            while b"leaf1:1" not in seen:
                seen += os.read(controlling, 65536)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)
        finally:
            process.kill()
    os.close(controlling)
    assert (process.returncode, error) == (0, b"")
