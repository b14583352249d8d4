"""What is not ours on a switch: left alone unless policy says otherwise, and then removed one by one."""

import pytest
from fabrics import plan

from controller.core.commands import Report, Severity
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.pipeline.foreign import CookieMask, ForeignPolicy, describe
from controller.pipeline.rules import AddGroup, AddRule, Bucket, DeleteRule, Group, GroupKind, Output, Rule, match
from controller.runtime.settings import SettingsError, read_settings
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery

FABRIC = plan()
SPARED = Rule(3, 60, match(eth_type=0x86DD, ip_proto=58), 0x1234_0000_0000_0001, (Output(1),))
OTHERS = tuple(Rule(3, 50 + i, match(eth_type=0x86DD, ip_proto=i), 0xBEEF + i, (Output(1),)) for i in (6, 17))
GROUP = Group(7, GroupKind.ALL, (Bucket((Output(1),)),))


def network_with(policy: ForeignPolicy) -> ModelNetwork:
    net = ModelNetwork(FABRIC, Core(CoreSettings(beacon_key=b"k" * 32, plan=FABRIC, foreign=policy)), seed=1)
    net.run_until_quiet(30)
    net.switch("leaf1").execute((AddGroup(GROUP), *map(AddRule, (SPARED, *OTHERS))))
    net.run_for(12.0)
    net.run_until_quiet(30)
    return net


def said(net: ModelNetwork, words: str) -> list[str]:
    return [r.message for r in net.record.commands_of(Report) if words in r.message]


def test_foreign_rules_and_groups_are_counted_and_left() -> None:
    net = network_with(ForeignPolicy())
    held = net.switch("leaf1").tables()
    assert {SPARED, *OTHERS} <= held.rules
    assert GROUP in held.groups
    (report,) = said(net, "not ours")
    assert "3 rules and 1 groups" in report
    assert "left alone" in report


def test_by_policy_they_are_removed_one_by_one_and_named_but_for_the_exceptions() -> None:
    net = network_with(ForeignPolicy(remove=True, spared=(CookieMask(0x1234 << 48, 0xFFFF << 48),)))
    held = net.switch("leaf1").tables()
    assert SPARED in held.rules
    assert held.rules.isdisjoint(OTHERS)
    assert GROUP in held.groups
    removed = [m.rule for m in net.record.modifications() if isinstance(m, DeleteRule)]
    assert sorted(removed, key=lambda rule: rule.priority) == list(OTHERS)
    reports = said(net, "was not ours")
    assert len(reports) == len(OTHERS)
    for rule in OTHERS:
        assert any(describe(rule) in report for report in reports)
    assert {r.severity for r in net.record.commands_of(Report) if r.message in reports} == {Severity.WARNING}
    assert check_delivery(net) == []


def test_a_restarted_controller_holds_still_before_it_removes_what_others_laid() -> None:
    policy = ForeignPolicy(remove=True)
    net = network_with(ForeignPolicy())
    net.restart_controller(Core(CoreSettings(beacon_key=b"k" * 32, plan=FABRIC, foreign=policy)))
    net.run_for(0.2)
    assert set(OTHERS) <= net.switch("leaf1").tables().rules
    net.run_until_quiet(30)
    assert net.switch("leaf1").tables().rules.isdisjoint((SPARED, *OTHERS))


def test_a_rule_is_described_by_all_that_identifies_it() -> None:
    rule = Rule(2, 7, match(eth_type=0x800, ipv4_dst=(0x0A000000, 0xFF000000)), 0xBEEF)
    assert describe(rule) == "table=2,priority=7,cookie=0xbeef,eth_type=0x800,ipv4_dst=0xa000000/0xff000000"


# --- how it is set ----------------------------------------------------------------------------------------


def test_settings_say_keep_unless_told() -> None:
    settings = read_settings({}, {})
    assert settings.foreign_removed is False
    assert settings.foreign_spared == ()
    chosen = read_settings({"HEDDLE_FOREIGN": "remove", "HEDDLE_FOREIGN_EXCEPT": "0x1200/0xff00, 7"}, {})
    assert chosen.foreign_removed is True
    assert chosen.foreign_spared == (CookieMask(0x1200, 0xFF00), CookieMask(7, 2**64 - 1))
    assert [mask.covers(0x12FF) for mask in chosen.foreign_spared] == [True, False]


@pytest.mark.parametrize(
    ("variable", "value", "cure"),
    [
        ("HEDDLE_FOREIGN", "delete", "keep nor remove"),
        ("HEDDLE_FOREIGN_EXCEPT", "0x1/", "for example"),
        ("HEDDLE_FOREIGN_EXCEPT", "cookie", "for example"),
        ("HEDDLE_FOREIGN_EXCEPT", "-1", "for example"),
        ("HEDDLE_FOREIGN_EXCEPT", f"{2**64}", "for example"),
        ("HEDDLE_STATE", "heddle.db", "absolute path"),
        ("HEDDLE_QOS_SHARES", "control=5", "100 in all"),
        ("HEDDLE_QOS_SHARES", "control=5,collective=80,best-effort=10", "100 in all"),
        ("HEDDLE_QOS_SHARES", "control=5,collective=85,bulk=10", "each class once"),
        ("HEDDLE_QOS_SHARES", "control=5,control=5,collective=80,best-effort=10", "each class once"),
        ("HEDDLE_QOS_SHARES", "control=0,collective=90,best-effort=10", "1 percent"),
        ("HEDDLE_QOS_SHARES", "control=5.5,collective=84.5,best-effort=10", "whole percent"),
    ],
)
def test_what_cannot_be_meant_names_the_variable_and_the_cure(variable: str, value: str, cure: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({variable: value}, {})
    (problem,) = error.value.problems
    assert problem.startswith(f"{variable}: ")
    assert cure in problem


def test_shares_of_classes_are_set_in_percent() -> None:
    settings = read_settings({"HEDDLE_QOS_SHARES": "control=5, collective=60, best-effort=35"}, {})
    assert settings.qos_shares == {"control": 0.05, "collective": 0.60, "best-effort": 0.35}
    assert read_settings({}, {}).qos_shares is None
