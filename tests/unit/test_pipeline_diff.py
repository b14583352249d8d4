"""Whatever a switch holds, the stages bring it to what it should hold, in a safe order, and leave what is not ours."""

from fabrics import leaf, plan, spine, view
from hypothesis import given
from hypothesis import strategies as st

from controller.fabric.model import PortRef
from controller.pipeline.compile import compile_base, merged
from controller.pipeline.diff import ActualTables, Stage, is_steering, opens_way, stages
from controller.pipeline.outstanding import Outstanding
from controller.pipeline.rules import (
    AddGroup,
    AddRule,
    Barrier,
    DeleteGroup,
    DeleteRule,
    Modification,
    ModifyGroup,
    Output,
    Rule,
    SwitchTables,
    ToGroup,
    match,
)
from controller.pipeline.steering import SteeredFlow, compile_steering
from controller.qos.classes import QosSettings

FABRIC = view(plan(leaves=3, spines=3))
PATHS = [(PortRef(leaf(1), j), PortRef(spine(j), 2)) for j in (1, 2, 3)]
UPLINKS = frozenset({1, 2, 3})
FOREIGN = Rule(3, 50, match(eth_type=0x800), 0xF00, (Output(1),))


def tables(spines: tuple[int, ...]) -> SwitchTables:
    """leaf1 with one steered flow per given spine."""
    flows = [SteeredFlow(f"10.0.1.{n}", "10.0.2.1", 0, PATHS[s], "job") for n, s in enumerate(spines, start=1)]
    return merged(compile_base(FABRIC, QosSettings(), 500), compile_steering(FABRIC, flows))[leaf(1)]


def run(desired: SwitchTables, actual: ActualTables) -> list[Modification]:
    """All stages one after the other, each derived anew."""
    done: list[Modification] = []
    while found := stages(desired, actual, is_steering):
        for modification in found[min(found)]:
            actual.apply(modification)
            done.append(modification)
        assert len(done) < 1000
    return done


@given(st.lists(st.integers(0, 2), max_size=6), st.lists(st.integers(0, 2), max_size=6))
def test_stages_lead_from_anything_to_the_desired(before: list[int], after: list[int]) -> None:
    actual = ActualTables.of(tables(tuple(before)))
    actual.apply(AddRule(FOREIGN))
    desired = tables(tuple(after))
    run(desired, actual)
    assert set(actual.rules.values()) == desired.rules | {FOREIGN}
    assert set(actual.groups.values()) == desired.groups
    assert stages(desired, actual, is_steering) == {}


@given(st.lists(st.integers(0, 2), max_size=6), st.lists(st.integers(0, 2), max_size=6))
def test_no_rule_ever_names_a_group_that_is_not_there(before: list[int], after: list[int]) -> None:
    actual = ActualTables.of(tables(tuple(before)))
    groups = set(actual.groups)
    settled = set(groups)
    for modification in run(tables(tuple(after)), actual):
        match modification:
            case AddGroup(group) | ModifyGroup(group):
                groups.add(group.group_id)
            case DeleteGroup(group_id):
                groups.discard(group_id)
                settled.discard(group_id)
                in_use = {a.group_id for r in actual.rules.values() for a in r.actions if isinstance(a, ToGroup)}
                assert group_id not in in_use
            case Barrier():
                settled |= groups
            case AddRule(rule):
                used = {a.group_id for a in rule.actions if isinstance(a, ToGroup)}
                # A barrier stands between a group and the first rule that uses it.
                assert used <= settled


def test_order_of_stages_for_an_empty_switch() -> None:
    found = stages(tables((0,)), ActualTables(), is_steering)
    assert list(found) == [Stage.PREPARE, Stage.SWITCH]
    prepared = [m.rule.table_id for m in found[Stage.PREPARE] if isinstance(m, AddRule)]
    assert prepared == sorted(prepared, reverse=True)
    assert all(isinstance(m, AddRule) and is_steering(m.rule) for m in found[Stage.SWITCH])


def test_a_move_adds_before_it_removes() -> None:
    actual = ActualTables.of(tables((0,)))
    found = stages(tables((1,)), actual, is_steering)
    assert list(found) == [Stage.PREPARE, Stage.SWITCH, Stage.REMOVE]
    assert not any(isinstance(m, DeleteRule) for m in found[Stage.REMOVE])
    assert any(isinstance(m, DeleteGroup) for m in found[Stage.REMOVE])


def test_nothing_to_do_is_nothing() -> None:
    assert stages(tables((0, 1)), ActualTables.of(tables((0, 1))), is_steering) == {}


CHOICES = st.lists(st.integers(0, 2), max_size=4).map(tuple)


@given(st.lists(st.tuples(st.sampled_from(["want", "read", "carry out", "meddle"]), CHOICES), max_size=8))
def test_what_is_outstanding_change_by_change_is_what_a_look_at_everything_finds(
    happenings: list[tuple[str, tuple[int, ...]]],
) -> None:
    outstanding, desired, actual = Outstanding(lambda rule: rule == FOREIGN), SwitchTables(), ActualTables()
    for what, spines in happenings:
        match what:
            case "want":
                desired = tables(spines)
            case "read":
                actual = ActualTables.of(tables(spines))
            case "meddle":
                actual.apply(AddRule(FOREIGN))
            case _:
                # A switch may refuse some of it.
                found = outstanding.stages(desired, actual, UPLINKS)
                for modification in list(found[min(found)] if found else ())[: 1 + 3 * len(spines)]:
                    actual.apply(modification)

        def is_ingress(rule: Rule, wanted: SwitchTables = desired, held: ActualTables = actual) -> bool:
            return is_steering(rule) or opens_way(rule, wanted, held, UPLINKS)

        expected = stages(desired, actual, is_ingress, lambda rule: rule == FOREIGN)
        assert outstanding.stages(desired, actual, UPLINKS) == expected
        assert outstanding.stages(desired, actual, UPLINKS) == expected
