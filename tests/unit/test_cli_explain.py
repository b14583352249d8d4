"""`heddle explain flow`, `link` and `job`."""

import json

import grpc
import pytest
from cli_fakes import LARGE_DPID, Fake, explained_job, explained_link, serving, trace

from controller.cli.explain import FLOWS_SHOWN
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


def test_a_pair_that_another_flows_rules_cover_is_not_said_to_be_routed(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(explained=[], trace=trace())) as fake:
        assert invoke(["explain", "flow", "h2_1", "h1_1", "--controller", fake.address]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "nothing is announced from h2_1 to h1_1, but a rule of job llama steers it" in said
    assert "routing decides" not in said


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


def test_a_link_shows_rates_flows_and_what_bounds_it(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["explain", "link", "leaf1", "spine1", "--controller", fake.address]) == 0
    out = capsys.readouterr().out
    assert "leaf1:1 → spine1:2: up, 100 Gb/s" in out
    assert "measured now: 90 Gb/s; background: 20 Gb/s; placement counts on 80 Gb/s" in out
    assert "2 flows placed here need 12.9 ms" in out
    assert "bound: what leaves leaf1 over 2 uplinks takes at least 12.9 ms (4 flows, 1 GiB)" in out
    assert [line.split() for line in out.splitlines() if line.startswith(" 0-1")] == [
        ["0-1", "llama", "h1_1", "h2_0", "512", "MiB", "6.45", "ms"]
    ]
    assert "spine1:2 → leaf1:1: down, rate not known" in out
    assert "measured now: not known; placement does not use this link" in out
    assert "no announced flow is placed here" in out
    assert "all jobs together: fullest link 12.9 ms" in out
    assert (fake.requests[0].a, fake.requests[0].b) == ("leaf1", "spine1")


def test_a_link_as_json_leaves_out_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["explain", "link", "leaf1", "spine1", "--json", "--controller", fake.address]) == 0
    up, down = json.loads(capsys.readouterr().out)["directions"]
    assert up["measured_bps"] == 9e10
    assert up["bound"]["size_bytes"] == 1 << 30
    assert {"measured_bps", "background_bps", "bound"}.isdisjoint(down)


def test_many_flows_on_a_link_are_cut_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(link=explained_link(FLOWS_SHOWN + 2))) as fake:
        assert invoke(["explain", "link", "leaf1", "spine1", "--controller", fake.address]) == 0
        assert "… and 2 more flows: --all shows them" in capsys.readouterr().out
        assert invoke(["explain", "link", "leaf1", "spine1", "--all", "--controller", fake.address]) == 0
    assert f"{FLOWS_SHOWN + 1}-{FLOWS_SHOWN + 2}" in capsys.readouterr().out


def test_a_job_shows_what_is_full_what_bounds_it_and_what_has_no_path(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["explain", "job", "llama", "--controller", fake.address]) == 0
    out = capsys.readouterr().out
    assert "job llama: 3 flows planned, 0 local, 1 without a path" in out
    assert "No placement needs less than 0.0129 s." in out
    (full,) = [line.split() for line in out.splitlines() if line.startswith(" leaf1:1")]
    assert full == ["leaf1:1", "spine1", "12.9", "ms", "6.45", "ms", "2", "1"]
    assert "  what enters leaf2 over 2 downlinks takes at least 12.9 ms (4 flows, 1 GiB)" in out
    assert "leaf1 has no room for its rule" in out
    assert fake.requests[0].job_id == "llama"


def test_many_flows_without_a_path_are_cut_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(job=explained_job(FLOWS_SHOWN + 3))) as fake:
        assert invoke(["explain", "job", "llama", "--controller", fake.address]) == 0
        assert "… and 3 more: --all shows them" in capsys.readouterr().out
        assert invoke(["explain", "job", "llama", "--json", "--controller", fake.address]) == 0
    assert len(json.loads(capsys.readouterr().out)["unplaced"]) == FLOWS_SHOWN + 3


def test_a_job_that_is_not_announced_is_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(refusal=(grpc.StatusCode.NOT_FOUND, ["job_id: no job 'x' is announced"]))) as fake:
        assert invoke(["explain", "job", "x", "--controller", fake.address]) == 2
    assert capsys.readouterr().err == "heddle: job_id: no job 'x' is announced\n"
