"""`heddle diff`."""

import json

import grpc
import pytest
from cli_fakes import LARGE_DPID, Fake, diff, serving

from controller.cli.diff import DIFFERENCES_SHOWN
from controller.cli.main import invoke


def test_an_equal_fabric_is_one_line_a_switch_and_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["diff", "--controller", fake.address]) == 0
    assert capsys.readouterr().out.splitlines() == ["leaf1: equal (24 rules and 6 groups equal)"]
    (request,) = fake.requests
    assert (request.switch, request.read) == ("", False)


def test_differences_are_counted_and_shown_and_end_with_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(diff=diff(equal=False))) as fake:
        assert invoke(["diff", "--controller", fake.address]) == 1
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "leaf2: different: 1 different rule, 2 foreign rules, 1 missing rule, 1 superfluous group "
        "(20 rules and 5 groups equal)",
        "  missing      route  priority 300, IPv4 to 10.0.2.1: to port 3 (h2_1)",
        "  different    steer  should be priority 100: group 0x1 [job llama]",
        "                      is priority 100: drop",
        "  superfluous  group  group 0x2, select: no buckets",
        "  foreign      route  priority 1, every packet: drop, cookie 0xbeef",
        "  foreign      route  priority 2, every packet: drop, cookie 0xbeef",
        "spine1: unknown: the switch is not connected",
        "leaf1: equal (24 rules and 6 groups equal)",
    ]


def test_one_switch_read_anew(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["diff", "leaf1", "--read", "--controller", fake.address]) == 0
    (request,) = fake.requests
    assert (request.switch, request.read) == ("leaf1", True)


def test_json_carries_status_and_all_differences(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(diff=diff(equal=False))) as fake:
        assert invoke(["diff", "--json", "--controller", fake.address]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["equal"] is False
    assert answer["switches"][0]["dpid"] == LARGE_DPID
    assert [d["kind"] for d in answer["switches"][2]["differences"]] == [
        "missing",
        "different",
        "superfluous",
        "foreign",
        "foreign",
    ]


def test_many_differences_are_cut_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    many = diff(equal=False)
    for number in range(DIFFERENCES_SHOWN):
        many.switches[2].differences.add(kind="foreign", what="rule", table="route", actual=f"rule number {number}.")
    with serving(Fake(diff=many)) as fake:
        assert invoke(["diff", "--controller", fake.address]) == 1
        short = capsys.readouterr().out
        assert invoke(["diff", "--all", "--controller", fake.address]) == 1
    last = f"rule number {DIFFERENCES_SHOWN - 1}."
    assert "… and 5 more differences: --all shows them" in short
    assert last not in short
    assert last in capsys.readouterr().out


def test_no_switch_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = diff()
    nothing.ClearField("switches")
    nothing.equal = False
    with serving(Fake(diff=nothing)) as fake:
        assert invoke(["diff", "--controller", fake.address]) == 1
    assert "no switch has connected yet" in capsys.readouterr().out


def test_an_unknown_switch_is_wrong_input_not_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    problem = "switch: no switch 'leaf9' has connected to this controller"
    with serving(Fake(refusal=(grpc.StatusCode.NOT_FOUND, [problem]))) as fake:
        assert invoke(["diff", "leaf9", "--controller", fake.address]) == 2
    assert capsys.readouterr().err == f"heddle: {problem}\n"
