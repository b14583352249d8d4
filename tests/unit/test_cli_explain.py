"""`heddle explain flow`, `link` and `job`."""

import json

import grpc
import pytest
from cli_fakes import LARGE_DPID, Fake, serving, trace

from controller.cli.main import invoke


def test_explaining_a_flow(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["explain", "flow", "h1_1", "h2_1", "--udp-port", "49152", "--controller", fake.address]) == 0
    out = capsys.readouterr().out
    assert "flow llama/0-1:49152: h1_1 → h2_1, 36 GiB, planned" in out
    assert "chosen" in out
    assert "why: Its fullest link needs" in out
    assert "gap 0 %" in out
    request = fake.requests[0]
    assert (request.src_host, request.dst_host, request.udp_source_port) == ("h1_1", "h2_1", 49152)


def test_an_explanation_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["explain", "flow", "h1_1", "h2_1", "--json", "--controller", fake.address]) == 0
    (flow,) = json.loads(capsys.readouterr().out)["flows"]
    assert flow.keys() == {"flow", "job_id", "certificate", "candidates", "reason"}
    assert [candidate["chosen"] for candidate in flow["candidates"]] == [True, False]


def test_a_pair_that_nobody_announced_is_answered_with_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(explained=[], trace=trace(spines=3))) as fake:
        assert invoke(["explain", "flow", "h1_1", "h2_1", "--dscp", "48", "--controller", fake.address]) == 0
    out = capsys.readouterr().out
    assert "nothing is announced from h1_1 to h2_1: routing decides" in out
    assert "out by one of: port 1 to spine1; port 2 to spine2; port 3 to spine3, queue 1, DSCP 26" in out
    assert out.count("to port 2 (spine2): one of these") == 1
    assert "spine1, in by port 1 from leaf1, if the hash takes this way (1 of 3 alike)" in out
    assert "likewise: spine2 by port 1 from leaf1, spine3 by port 1 from leaf1" in out
    assert "end: h2_1 receives it, by leaf2:3 (3 ways)" in out
    assert fake.requests[0].dscp == 48


def test_a_trace_shows_table_rule_owner_and_the_bucket_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["explain", "flow", "h1_1", "h2_1", "--controller", fake.address]) == 0
    out = capsys.readouterr().out
    _, _, shown = out.partition("packet: RoCEv2 over IPv4")
    assert "leaf1, in by port 3 from h1_1" in shown
    assert "classify  200  RoCEv2 over IPv4: DSCP 26, queue 1, → steer" in shown
    assert "RoCEv2 to 10.0.2.1: group 0x10" in shown
    assert "steer, job llama" in shown
    assert "group 0x10 (fast failover, the first live bucket):" in shown
    assert "  to port 1 (spine1): not live" in shown
    assert "▶ to port 2 (spine2): taken" in shown
    assert "end: h2_1 receives it, by leaf2:3" in shown


def test_what_goes_wrong_is_said_where_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = trace()
    wrong.switches[0].note = "changes are under way"
    wrong.switches[0].drops.append("table 3: no rule matches")
    wrong.switches[0].tables.add(table="route")
    foreign = wrong.switches[1].tables[0]
    foreign.rule.kind, foreign.rule.cookie = "foreign", 0xBEEF
    foreign.rivals.add(match="IPv4", kind="route")
    wrong.ClearField("ends")
    for kind, host in (("dropped", ""), ("punted", ""), ("looped", ""), ("unknown", ""), ("host", "h9_9")):
        wrong.ends.add(kind=kind, switch="leaf1", port_no=3, host=host, reason=f"why {kind}")
    with serving(Fake(trace=wrong)) as fake:
        assert invoke(["explain", "flow", "h1_1", "h2_1", "--controller", fake.address]) == 0
    out = capsys.readouterr().out
    for sentence in (
        "! changes are under way",
        "dropped: table 3: no rule matches",
        "no rule matches",
        "foreign, cookie 0xbeef",
        "! of the same priority: IPv4 (route); which applies is open",
        "end: leaf1 drops it: why dropped",
        "end: leaf1 hands it to the controller (why punted)",
        "end: it loops: leaf1, port 3: why looped",
        "end: not known beyond leaf1: why unknown",
        "end: h9_9 receives it, which is not h2_1, by leaf1:3",
    ):
        assert sentence in out


def test_a_trace_as_json_holds_every_table(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["explain", "flow", "h1_1", "h2_1", "--json", "--controller", fake.address]) == 0
    shown = json.loads(capsys.readouterr().out)["trace"]
    assert shown["switches"][0]["dpid"] == LARGE_DPID
    assert shown["switches"][0]["tables"][1]["choices"][0]["members"][1] == {
        "action": "to port 2 (spine2)",
        "weight": 0,
        "live": True,
        "taken": True,
    }
    assert shown["switches"][0]["outputs"][0]["queue_id"] == 1
    assert "queue_id" not in shown["switches"][1]["outputs"][0]


def test_unknown_hosts_are_all_listed(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = ["no host 'a' on this fabric", "no host 'b' on this fabric"]
    with serving(Fake(refusal=(grpc.StatusCode.NOT_FOUND, unknown))) as fake:
        assert invoke(["explain", "flow", "a", "b", "--controller", fake.address]) == 2
    assert capsys.readouterr().err.splitlines() == [f"heddle: {problem}" for problem in unknown]


def test_a_port_out_of_range_is_refused_before_asking() -> None:
    with serving(Fake()) as fake:
        assert invoke(["explain", "flow", "a", "b", "--udp-port", "65536", "--controller", fake.address]) == 2
    assert fake.requests == []
