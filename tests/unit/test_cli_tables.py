"""What people see: tables that hold together on narrow terminals."""

import io

import pytest
from cli_fakes import endpoint, explained, flow, path, plan, topology
from heddle.v1 import collective_pb2
from rich.console import Console, RenderableType

from controller.cli.paths_text import path_text
from controller.cli.tables import explained_view, plan_view, plans_view, topology_view


def shown(view: RenderableType, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def lines(view: RenderableType, width: int) -> list[str]:
    text = shown(view, width).splitlines()
    assert max(map(len, text)) <= width
    return text


def row(view: RenderableType, start: str, width: int = 120) -> str:
    return next(line for line in shown(view, width).splitlines() if line.strip().startswith(start))


def test_links_that_are_not_up_say_why_and_what_needs_a_person_comes_first() -> None:
    answer = topology(4, 4)
    for number, link in enumerate(answer.links):
        link.state, link.cause, link.reason = "down", "no-carrier", f"no carrier at {link.a.switch}:{link.a.port_no}"
        if number == 15:
            link.state, link.cause, link.reason = "held", "flapping", "it flapped 4 times; back in 31 s"
    text = shown(topology_view(answer))
    said = [line for line in text.splitlines() if " - " in line]
    assert "held, it flapped 4 times; back in 31 s" in said[0]
    assert len(said) == 10
    assert "6 more links that are not up" in text


def test_topology_names_everything_once() -> None:
    answer = topology()
    answer.alarms.append("leaf1:3 expected spine1:1, found spine2:4")
    text = shown(topology_view(answer))
    assert "4 of 4 switches connected, 4 of 4 links up, 4 hosts, in sync, 1 alarm (revision 7)" in text
    assert row(topology_view(answer), "leaf1 ").split() == [
        "leaf1",
        "ffffffffffffff01",
        "leaf",
        "yes",
        "yes",
        "24",
        "6",
    ]
    assert row(topology_view(answer), "leaf1:1").split() == (
        ["leaf1:1", "spine1:1", "up", "100", "Gb/s", "92.5", "Gb/s", "0", "b/s", "2", "0"]
    )
    assert row(topology_view(answer), "h2_2").split() == (
        ["h2_2", "10.0.2.2", "02:00:0a:00:02:02", "leaf2:4", "100", "Gb/s"]
    )
    assert "! leaf1:3 expected spine1:1, found spine2:4" in text


def test_unknown_rates_are_question_marks_not_zeros() -> None:
    assert row(topology_view(topology()), "leaf2:2").split()[5:7] == ["?", "?"]


def test_foreign_rules_get_a_column_only_when_there_are_any() -> None:
    answer = topology()
    assert "foreign" not in shown(topology_view(answer))
    answer.switches[1].foreign_rules = 3
    assert row(topology_view(answer), "leaf2 ").split()[-1] == "3"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_keep_within_the_terminal(width: int) -> None:
    for view in (topology_view(topology(4, 4)), plan_view(plan(flows=4)), explained_view([explained()])):
        lines(view, width)


def test_a_topology_at_80_columns_breaks_no_row() -> None:
    text = lines(topology_view(topology(4, 4)), 80)
    for start in ("leaf1:1", "leaf4:4", "h4_2", "spine4 "):
        assert sum(line.strip().startswith(start) for line in text) == 1


def test_paths_are_written_in_full_where_there_is_room_and_shorter_where_not() -> None:
    assert "leaf1:1 → spine1:2 → leaf2" in row(plan_view(plan()), "0-1:49152", 120)
    assert "leaf1 → spine1 → leaf2" in row(plan_view(plan()), "0-1:49152", 70)
    assert "via spine1" in row(plan_view(plan()), "0-1:49152", 60)


def test_long_host_names_fold_and_stay_readable_in_whole() -> None:
    long_plan = plan(flows=1)
    long_plan.flows[0].src_host = "gpu-node-0001.rack17.cluster.local"
    text = lines(plan_view(long_plan), 80)
    column = text[1].index("from") if "from" in text[1] else text[2].index("from")
    end = next(line for line in text if "from" in line).index("to ")
    folded = "".join(line[column:end].strip() for line in text if line.strip() and not line.startswith(("job", "note")))
    assert "gpu-node-0001.rack17.cluster.local" in folded.replace("─", "").replace("from", "")


def test_spellings_of_paths() -> None:
    assert path_text(path(1, 2, 1)).spellings == ("leaf1:1 → spine1:2 → leaf2", "leaf1 → spine1 → leaf2", "via spine1")
    assert path_text([]).spellings == ("within the leaf",)
    three_tiers = [
        collective_pb2.Hop(switch=name, port_no=1, to=to)
        for name, to in [("leaf1", "spine1"), ("spine1", "core1"), ("core1", "spine3"), ("spine3", "leaf3")]
    ]
    assert path_text(three_tiers).spellings[-1] == "via spine1 … spine3"


def test_flows_on_ecmp_and_within_a_leaf_say_so() -> None:
    answer = plan(flows=0)
    answer.flows.extend([flow(0, state="ecmp"), flow(1, state="local")])
    assert row(plan_view(answer), "0-1").split()[-3:] == ["ecmp", "by", "hash"]
    assert row(plan_view(answer), "1-2").split()[-4:] == ["local", "within", "the", "leaf"]


def test_the_certificate_says_load_bound_gap_method_and_is_printed_once() -> None:
    text = " ".join(shown(plans_view([plan("a"), plan("b")]), 200).split())
    certificate = (
        "all jobs together: fullest link 12.9 ms, lower bound 12.9 ms, gap 0 %, proven optimal (edge-colouring); "
        "no run can finish in less than 25.8 ms"
    )
    assert text.count(certificate) == 1
    assert "job a: placed, 2 flows (revision 7)" in text
    assert "job b: placed" in text


def test_moved_flows_are_named_by_reason_the_latest_first() -> None:
    answer = plan(flows=4)
    for number, (revision, reason) in enumerate(
        [(5, "its path is gone"), (9, "with 2 moves ..."), (9, "with 2 moves ...")]
    ):
        moved = answer.flows[number]
        moved.moved_because, moved.moved_revision = reason, revision
        moved.path_before.extend(path(1, 2, 2))
    said = [line for line in shown(plan_view(answer), 200).splitlines() if line.startswith("moved")]
    assert said == [
        "moved at revision 9, with 2 moves ...: 1-2:49152 (was via spine2), 2-3:49152 (was via spine2)",
        "moved at revision 5, its path is gone: 0-1:49152 (was via spine2)",
    ]
    many = plan(flows=12)
    for moved in many.flows:
        moved.moved_because = "its path is gone"
    (line,) = [line for line in shown(plan_view(many), 500).splitlines() if line.startswith("moved")]
    assert line.endswith(" and 4 more")


def test_a_bound_is_named_where_it_is_known() -> None:
    answer = plan()
    answer.certificate.bound = "leaf uplinks"
    assert "proven optimal (edge-colouring; by leaf uplinks)" in " ".join(shown(plan_view(answer), 200).split())


def test_an_unproven_plan_says_so() -> None:
    answer = plan()
    answer.certificate.proven_optimal = False
    answer.certificate.gap = 0.0312
    answer.certificate.method = "least-loaded"
    assert "gap 3.12 %, not proven optimal (least-loaded)" in " ".join(shown(plan_view(answer), 200).split())


def test_a_plan_without_load_claims_nothing() -> None:
    answer = plan()
    answer.certificate.CopyFrom(collective_pb2.Certificate(method="nothing-to-place", proven_optimal=True))
    assert "nothing crosses the spine: there is nothing to place" in shown(plan_view(answer))


def test_flows_beyond_the_limit_are_counted() -> None:
    text = shown(plan_view(plan(flows=50), limit=40))
    assert "… and 10 more flows: --all shows them" in text
    assert "39-40:49152" in text
    assert "40-41:49152" not in text


def test_notes_are_shown_in_whole() -> None:
    note = "3 of 4 queue pairs share a 5-tuple: give each its own UDP source port to steer it alone"
    assert note in " ".join(shown(plan_view(plan()), 80).split())


def test_no_jobs_is_said_with_the_way_on() -> None:
    assert "no job is announced" in shown(plans_view([]))


def test_an_explanation_marks_the_chosen_path_and_shows_all_loads() -> None:
    view = explained_view([explained()])
    assert row(view, "chosen").split() == (
        ["chosen", "leaf1:1", "→", "spine1:2", "→", "leaf2", "0", "s", "12.9", "ms", "2.5", "Gb/s"]
    )
    assert row(view, "leaf1:2").split()[-6:] == ["12.9", "ms", "25.8", "ms", "2.5", "Gb/s"]
    assert "why: Its fullest link needs 0.0129 s on spine1 and 0.0258 s on spine2." in shown(view)


def test_names_with_brackets_are_not_markup() -> None:
    answer = plan("run[7]")
    answer.notes.append("rank [red] has no host")
    text = shown(plan_view(answer))
    assert "job run[7]: placed" in text
    assert "rank [red] has no host" in text


def test_rails_and_interfaces_get_columns_only_when_there_are_any() -> None:
    plain = topology()
    railed = topology()
    railed.switches[0].rails.append(3)
    railed.hosts[0].nic, railed.hosts[0].server = 3, railed.hosts[0].name
    assert "rail" not in shown(topology_view(plain)).split()
    words = shown(topology_view(railed)).split()
    assert "rail" in words
    assert "NIC" in words
    assert "server" not in words
    railed.hosts[0].server = "gpu-1"
    assert "gpu-1" in shown(topology_view(railed)).split()


def test_odd_packets_are_shown_and_everyday_ones_only_in_json() -> None:
    answer = topology()
    answer.packet_counts.add(kind="lldp_foreign", port=endpoint("leaf1", 3), packets=9, meaning="LLDP of hosts")
    assert "odd packets" not in shown(topology_view(answer))
    answer.packet_counts.add(kind="roce_v1", port=endpoint("leaf2", 4), packets=7, meaning="RoCEv1, not routed")
    text = shown(topology_view(answer))
    assert "odd packets" in text
    assert ["leaf2:4", "7", "RoCEv1,", "not", "routed"] in [line.split() for line in text.splitlines()]
    assert "LLDP of hosts" not in text
