"""Desired against actual: what `heddle diff` says, at once and with tables read for the purpose."""

from collections.abc import Sequence

import pytest
from fabrics import leaf, plan, spine
from heddle.v1 import fabric_pb2
from test_core import ask, ring, settled

from controller.core import views
from controller.core.commands import Compared, SendBatch
from controller.core.comparing import PATIENCE_S, Comparisons
from controller.core.events import CollectiveAnnounced, ComparisonWanted, TablesRead
from controller.core.machine import Core
from controller.core.state import State, SwitchState
from controller.core.views.comparison import SwitchDiffView
from controller.pipeline.diff import ActualTables
from controller.pipeline.difference import DifferenceKind, SwitchComparison, compare
from controller.pipeline.rules import (
    AddGroup,
    AddRule,
    Bucket,
    DeleteRule,
    Group,
    GroupKind,
    Meter,
    ModifyGroup,
    Output,
    Rule,
    SwitchTables,
    ToGroup,
    match,
)
from controller.runtime.grpc_messages import to_message
from controller.simulation.network import ModelNetwork

FOREIGN = Rule(3, 50, match(eth_type=0x86DD), 0xBEEF, (Output(1),))


def kinds(view: SwitchDiffView) -> list[tuple[str, str]]:
    return [(difference.kind, difference.what) for difference in view.differences]


def of(view: views.DiffView, switch: str) -> SwitchDiffView:
    return next(s for s in view.switches if s.switch == switch)


def want(
    network: ModelNetwork, dpids: Sequence[int], request_id: int = 99, within_s: float = PATIENCE_S + 1
) -> Compared:
    """The core's answer to a comparison that is wanted now."""
    before = len(network.record.commands)
    network.inject(ComparisonWanted(request_id, frozenset(dpids)))
    end_s = network.now_s + within_s
    while network.now_s < end_s:
        for _, command in network.record.commands[before:]:
            if isinstance(command, Compared) and command.request_id == request_id:
                return command
        network.run_for(0.01)
    raise AssertionError("the core does not answer the comparison")


def with_job() -> tuple[Core, ModelNetwork]:
    wanted = plan(leaves=3, spines=3, hosts=3)
    core, network = settled(wanted)
    ask(network, CollectiveAnnounced(1, ring(wanted)))
    return core, network


def test_a_settled_fabric_is_equal() -> None:
    core, network = with_job()
    found = views.diff(core, "")
    assert found.equal
    assert {s.switch: s.state for s in found.switches} == {s.name: "equal" for s in network.plan.switches}
    held = core.state.switches[leaf(1)].actual
    assert held is not None
    first = of(found, "leaf1")
    assert (first.equal_rules, first.equal_groups) == (len(held.rules), len(held.groups))
    assert first.equal_groups > 0


def test_every_view_fits_its_message() -> None:
    core, _ = with_job()
    held = core.state.switches[leaf(1)].actual
    assert held is not None
    held.rules.popitem()
    view = views.diff(core, "")
    message = to_message(view, fabric_pb2.GetDiffResponse)
    assert [s.switch for s in message.switches] == [s.switch for s in view.switches]
    assert [(d.kind, d.desired) for d in message.switches[0].differences] == [
        (d.kind, d.desired) for d in view.switches[0].differences
    ]


def test_nothing_connected_is_nothing_known() -> None:
    core, _ = settled(plan())
    core.state.switches.clear()
    assert views.diff(core, "") == views.DiffView((), False)


@pytest.mark.parametrize("name", ["leaf1", "101", "0x101", "0000000000000101"])
def test_a_switch_is_found_by_name_and_by_datapath_id(name: str) -> None:
    core, _ = settled(plan())
    assert [s.dpid for s in views.diff(core, name).switches] == [leaf(1)]


def test_an_unknown_switch_is_named() -> None:
    core, _ = settled(plan())
    with pytest.raises(views.UnknownSwitch, match="leaf9"):
        views.find_switches(core, "leaf9")


def test_what_others_changed_shows_when_tables_are_read_for_it_and_is_then_put_right() -> None:
    core, network = with_job()
    switch = network.switch("leaf1")
    held = switch.tables()
    gone = next(r for r in held.rules if r.table_id == 3 and r.priority == 300)
    steer = next(r for r in held.rules if r.table_id == 2 and r.priority == 100)
    changed = Rule(steer.table_id, steer.priority, steer.match, steer.cookie, (), 3)
    group = min(held.groups, key=lambda g: g.group_id)
    reversed_group = Group(group.group_id, group.kind, group.buckets[::-1])
    extra = Rule(3, 70, match(eth_type=0x0806), gone.cookie, (Output(2),))
    our_group = Group(0x1FFF_0001, GroupKind.FAST_FAILOVER, (Bucket((Output(1),), watch_port=1),))
    theirs = Group(77, GroupKind.ALL, (Bucket((Output(1),)),))
    switch.execute(
        (
            DeleteRule(gone),
            AddRule(changed),
            ModifyGroup(reversed_group),
            AddRule(extra),
            AddGroup(our_group),
            AddRule(FOREIGN),
            AddGroup(theirs),
        )
    )
    # What the core last read says nothing of it.
    assert views.diff(core, "leaf1").equal
    answer = want(network, [leaf(1)])
    shown = views.diff_of(core, answer.comparisons)
    assert not shown.equal
    (view,) = shown.switches
    assert view.state == "different"
    assert sorted(kinds(view)) == sorted(
        [
            ("missing", "rule"),
            ("different", "rule"),
            ("superfluous", "rule"),
            ("different", "group"),
            ("superfluous", "group"),
            ("foreign", "rule"),
            ("foreign", "group"),
        ]
    )
    by_kind = {(d.kind, d.what): d for d in view.differences}
    missing = by_kind["missing", "rule"]
    assert (missing.table, missing.rule_kind, missing.actual) == ("route", "route", "")
    assert missing.desired.startswith("priority 300, ")
    different = by_kind["different", "rule"]
    assert (different.table, different.job_id) == ("steer", "job")
    assert ": group 0x" in different.desired
    assert different.actual.endswith(": go to route")
    assert by_kind["superfluous", "rule"].actual == "priority 70, ARP: to port 2 (spine2)"
    assert by_kind["foreign", "rule"].actual == "priority 50, IPv6: to port 1 (spine1), cookie 0xbeef"
    assert by_kind["foreign", "group"].actual == "group 0x4d, all: to port 1 (spine1)"
    network.run_until_quiet(30)
    after = views.diff(core, "leaf1")
    assert after.equal
    assert kinds(after.switches[0]) == [("foreign", "rule"), ("foreign", "group")]


def test_foreign_rules_alone_make_nothing_unequal() -> None:
    core, network = settled(plan())
    network.switch("leaf1").execute((AddRule(FOREIGN),))
    answer = want(network, [leaf(1), spine(1)])
    found = views.diff_of(core, answer.comparisons)
    assert found.equal
    assert [s.state for s in found.switches] == ["equal", "equal"]
    assert kinds(of(found, "leaf1")) == [("foreign", "rule")]


def test_a_read_under_way_is_too_old_to_answer() -> None:
    """The switch may have told what it holds before others changed it."""
    switch = SwitchState(leaf(1), session_id="s", actual=ActualTables(), reading=(5, 10.0))
    state = State(switches={leaf(1): switch}, desired={leaf(1): SwitchTables()})
    comparisons = Comparisons(state)
    assert comparisons.ask(ComparisonWanted(1, frozenset({leaf(1)})), 1.0) == []
    switch.read_due_s = 11.0  # The audit that follows a read.
    assert comparisons.take(TablesRead(leaf(1), "s", 5, SwitchTables()), 2.0, taken=True) == []
    assert switch.read_due_s == 2.0
    assert comparisons.take(TablesRead(leaf(1), "s", 6, SwitchTables()), 3.0, taken=True) == [
        Compared(1, (SwitchComparison(leaf(1)),))
    ]


def test_a_read_that_came_during_a_batch_is_asked_again() -> None:
    switch = SwitchState(leaf(1), session_id="s", actual=ActualTables())
    comparisons = Comparisons(State(switches={leaf(1): switch}, desired={leaf(1): SwitchTables()}))
    comparisons.ask(ComparisonWanted(1, frozenset({leaf(1)})), 1.0)
    assert comparisons.take(TablesRead(leaf(1), "s", 5, SwitchTables()), 2.0, taken=False) == []
    (answer,) = comparisons.take(TablesRead(leaf(1), "s", 6, None), 3.0, taken=False)
    assert isinstance(answer, Compared)
    assert answer.comparisons[0].unknown == "the switch did not answer the read"


def test_a_switch_that_is_away_or_does_not_answer_holds_up_no_other() -> None:
    core, network = settled(plan(leaves=3))
    network.lose_session("leaf1", reconnect_after_s=120.0)
    network.run_for(1.0)
    network.freeze("leaf2")
    answer = want(network, [leaf(1), leaf(2), leaf(3)])
    reasons = {c.dpid: c.unknown for c in answer.comparisons}
    assert "not connected" in reasons[leaf(1)]
    assert f"within {PATIENCE_S:g} s" in reasons[leaf(2)]
    assert reasons[leaf(3)] == ""
    found = views.diff_of(core, answer.comparisons)
    assert [s.state for s in found.switches] == ["unknown", "unknown", "equal"]
    assert not found.equal


def test_a_session_that_ends_meanwhile_is_answered() -> None:
    _, network = settled(plan())
    network.freeze("leaf1")
    network.later(0.5, lambda: network.lose_session("leaf1", reconnect_after_s=60.0))
    (comparison,) = want(network, [leaf(1)], within_s=5.0).comparisons
    assert "not connected" in comparison.unknown


def test_comparing_changes_nothing() -> None:
    _, network = with_job()
    before = len(network.record.commands_of(SendBatch))
    want(network, [leaf(1), leaf(2), spine(1)])
    network.run_until_quiet(30)
    assert len(network.record.commands_of(SendBatch)) == before


def test_two_questions_get_an_answer_each() -> None:
    _, network = settled(plan())
    network.inject(ComparisonWanted(7, frozenset({leaf(1)})))
    network.inject(ComparisonWanted(8, frozenset({leaf(1), leaf(2)})))
    network.run_for(1.0)
    answers = {c.request_id: [x.dpid for x in c.comparisons] for c in network.record.commands_of(Compared)}
    assert answers == {7: [leaf(1)], 8: [leaf(1), leaf(2)]}


def test_a_question_about_nobody_is_answered_at_once() -> None:
    _, network = settled(plan())
    assert network.inject(ComparisonWanted(5, frozenset()))[0] == Compared(5, ())


# --- the comparison itself ---------------------------------------------------------------------------------

A = Rule(3, 100, match(eth_type=0x0800), 0x4844 << 48 | 4 << 40, (Output(1),))
B = Rule(2, 100, match(eth_type=0x0800), 0x4844 << 48 | 3 << 40, (ToGroup(0x10000001),))
G = Group(0x10000001, GroupKind.FAST_FAILOVER, (Bucket((Output(1),), watch_port=1),))


def test_rules_come_first_by_table_then_groups_and_meters() -> None:
    wanted = SwitchTables(frozenset({A, B}), frozenset({G}), frozenset({Meter(1, 10, 10)}))
    found = compare(1, wanted, ActualTables())
    assert [d.desired for d in found.differences] == [B, A, G, Meter(1, 10, 10)]
    assert {d.kind for d in found.differences} == {DifferenceKind.MISSING}
    assert (found.equal_rules, found.equal_groups, found.equal) == (0, 0, False)


def test_a_rule_that_does_something_else_is_different_not_missing_and_superfluous() -> None:
    other = Rule(A.table_id, A.priority, A.match, A.cookie, (Output(2),))
    (found,) = compare(1, SwitchTables(frozenset({A})), ActualTables.of(SwitchTables(frozenset({other})))).differences
    assert (found.kind, found.desired, found.actual) == (DifferenceKind.DIFFERENT, A, other)


def test_a_meter_with_another_rate_is_different() -> None:
    wanted = SwitchTables(meters=frozenset({Meter(1, 10, 10)}))
    held = ActualTables(meters={1: Meter(1, 20, 10)})
    (found,) = compare(1, wanted, held).differences
    assert (found.kind, found.actual) == (DifferenceKind.DIFFERENT, Meter(1, 20, 10))
