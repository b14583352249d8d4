"""Switches that are full: no half path, the rest on ECMP, the caller told, and an alarm for as long as it is so."""

from collections import Counter

import pytest
from core_model import KEY, all_to_all, ask, quiet_faults, sent, started, steer_rules
from fabrics import leaf, plan, spine

from controller.core import capacity, views
from controller.core.commands import Accepted, Failure, Refused, Report, Severity
from controller.core.events import CollectiveAnnounced, CollectiveWithdrawn
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.plan import FabricPlan
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.pipeline.cookies import Kind, cookie
from controller.pipeline.detour import has_detours, is_detour_rule
from controller.pipeline.groups import is_detour
from controller.pipeline.rules import AddRule, Group, Rule, match
from controller.simulation import admission
from controller.simulation.admission import Limits
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery

LEAVES = ("leaf1", "leaf2", "leaf3")


def held(network: ModelNetwork) -> dict[str, Counter[int]]:
    """Rules by table, without detours, which go first where room is short."""
    return {
        name: Counter(rule.table_id for rule in switch.tables().rules if not is_detour_rule(rule))
        for name, switch in network.wiring.switches.items()
    }


def alarms(core: Core, network: ModelNetwork) -> tuple[str, ...]:
    return views.topology(core, network.now_s).alarms


@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize("room", [0, 1, 3, 7])
def test_what_does_not_fit_uses_ecmp_and_the_rest_its_paths(room: int, parallel: int) -> None:
    fabric = plan(leaves=3, spines=2, hosts=3, parallel=parallel)
    core, network = started(fabric)
    for name, tables in held(network).items():
        network.switch(name).limits = Limits(rules=tables.total() + room)
    answer = ask(network, CollectiveAnnounced(1, all_to_all(fabric)))
    assert isinstance(answer, Refused)
    assert answer.failure == Failure.RESOURCE_EXHAUSTED
    assert quiet_faults(network) == []
    assert len(core.state.paths) + len(core.state.refused_units) == 54
    assert f"{len(core.state.paths)} placed" in answer.problems[0]
    # With parallel links a path needs room on a spine as well, of which there are fewer than leaves.
    assert len(core.state.paths) >= (3 if parallel == 1 else 2) * room
    assert all(switch.ready for switch in core.state.switches.values())
    assert any("is full" in alarm and "use ECMP" in alarm for alarm in alarms(core, network))
    ask(network, CollectiveWithdrawn(2, "job"))
    assert alarms(core, network) == ()
    assert [rule for name in LEAVES for rule in steer_rules(network, name)] == []


def test_an_earlier_job_keeps_its_rules_when_a_later_one_finds_the_switches_full() -> None:
    fabric = plan(leaves=3, spines=2, hosts=3)
    core, network = started(fabric)
    ring = Collective(
        "early", Operation.ALL_REDUCE, Algorithm.RING, ("h11", "h21", "h31", "h12", "h22", "h32"), 1 << 20
    )
    assert isinstance(ask(network, CollectiveAnnounced(1, ring)), Accepted)
    early = dict(core.state.paths)
    for name, tables in held(network).items():
        network.switch(name).limits = Limits(rules=tables.total() + 1)
    answer = ask(network, CollectiveAnnounced(2, all_to_all(fabric, "late")))
    assert isinstance(answer, Refused)
    assert early.items() <= core.state.paths.items()
    assert quiet_faults(network) == []
    assert views.plans(core, "early")[0].state == "placed"
    assert views.plans(core, "late")[0].state == "degraded"


def test_withdrawing_one_job_makes_room_for_what_another_had_to_give_up() -> None:
    fabric = plan(leaves=2, spines=2, hosts=4)
    core, network = started(fabric)
    for name in ("leaf1", "leaf2"):
        network.switch(name).limits = Limits(rules=held(network)[name].total() + 2)
    first = Collective("first", Operation.ALL_REDUCE, Algorithm.RING, ("h11", "h21", "h12", "h22"), 1 << 20)
    second = Collective("second", Operation.ALL_REDUCE, Algorithm.RING, ("h13", "h23", "h14", "h24"), 1 << 20)
    assert isinstance(ask(network, CollectiveAnnounced(1, first)), Accepted)
    assert isinstance(ask(network, CollectiveAnnounced(2, second)), Refused)
    assert alarms(core, network) != ()
    ask(network, CollectiveWithdrawn(3, "first"))
    assert core.state.refused_units == set()
    assert views.plans(core, "second")[0].state == "placed"
    assert alarms(core, network) == ()
    assert quiet_faults(network) == []


@pytest.mark.parametrize("groups", [0, 1, 2, 3])
@pytest.mark.parametrize("parallel", [1, 2])
def test_groups_run_out_like_rules(groups: int, parallel: int) -> None:
    fabric = plan(leaves=3, spines=2, hosts=3, parallel=parallel)
    core, network = started(fabric)
    for switch in network.wiring.switches.values():
        switch.limits = Limits(groups=groups)
    answer = ask(network, CollectiveAnnounced(1, all_to_all(fabric)))
    assert quiet_faults(network) == []
    assert all(switch.ready for switch in core.state.switches.values())
    # Destinations that are reached by the same ports share a group: one for each uplink is enough at a leaf.
    enough = groups >= 2 * parallel
    assert isinstance(answer, Accepted) == enough or parallel == 2
    assert bool(core.state.paths) == (groups > 0) or parallel == 2
    if not enough:
        assert any(f"no more than {groups} groups" in alarm for alarm in alarms(core, network))


def host_routes(fabric: FabricPlan) -> int:
    """Rules of table 3 on the switch that needs most of them: two for each host, one for each uplink of a leaf."""
    return 2 * len(fabric.hosts) + sum(link.a == "leaf1" for link in fabric.links)


def test_routes_become_prefixes_where_there_is_no_room_for_each_host() -> None:
    fabric = plan(leaves=4, spines=2, hosts=4)
    core = Core(CoreSettings(beacon_key=KEY, plan=fabric))
    # A leaf needs 8 rules for its own hosts, 2 for its uplinks and 2 for each other leaf; a spine 2 for each leaf.
    network = ModelNetwork(fabric, core, seed=1, limits=Limits(rules_per_table=18))
    network.announce_hosts()
    network.run_until_quiet(60)
    assert host_routes(fabric) > 18
    assert [str(v) for v in check_delivery(network)] == []
    assert alarms(core, network) == ()
    assert held(network)["leaf1"][3] == 16
    assert held(network)["spine1"][3] == 8
    network.run_for(60)
    assert sent(network, network.now_s - 60) == 0


@pytest.mark.parametrize("spare", [0, 1])
def test_room_that_somebody_else_has_taken_is_used_again_once_that_has_gone(spare: int) -> None:
    """A route is refused because of a rule that bears our mark and is not ours (seed 285 of `heddle fuzz`)."""
    fabric = plan(leaves=2, spines=1, hosts=1)
    core, network = started(fabric, settings=CoreSettings(beacon_key=KEY, plan=fabric, audit_period_s=5.0))
    leaf = network.switch("leaf2")
    leaf.limits = Limits(rules=held(network)["leaf2"].total() + spare)
    (cable,) = network.wiring.cables_between("leaf2", "spine1")
    network.cut(cable)
    network.run_for(2.0)
    stale = [Rule(2, 200, match(eth_type=0x0800, ipv4_dst=n), cookie(Kind.STEER, "gone")) for n in range(1 + spare)]
    leaf.execute([AddRule(rule) for rule in stale])
    network.restore(cable)
    network.run_for(3.0)
    assert check_delivery(network)
    network.run_for(core.settings.audit_period_s + 1.0)
    assert check_delivery(network) == []
    assert alarms(core, network) == ()


def test_a_refused_route_is_an_alarm_and_is_tried_again_ever_more_rarely() -> None:
    fabric = plan(leaves=3, spines=2, hosts=3)
    core = Core(CoreSettings(beacon_key=KEY, plan=fabric))
    network = ModelNetwork(fabric, core, seed=1)
    network.switch("spine1").limits = Limits(rules_per_table=5)
    network.announce_hosts()
    network.run_until_quiet(60)
    assert all(switch.ready for switch in core.state.switches.values())
    (alarm,) = alarms(core, network)
    assert "spine1 is full" in alarm
    assert "route" in alarm
    since_s = network.now_s
    network.run_for(capacity.FIRST_RETRY_S * 15)
    tries = [r for r in network.record.commands_of(Report, since_s=since_s) if "refused" in r.message]
    assert 2 <= len(tries) <= 6
    network.switch("spine1").limits = Limits()
    network.run_for(capacity.LONGEST_RETRY_S + 5)
    assert alarms(core, network) == ()
    assert [str(v) for v in check_delivery(network)] == []
    over = [r.message for r in network.record.commands_of(Report) if r.severity == Severity.INFO]
    assert any(message.startswith("over: spine1 is full") for message in over)


def test_steering_makes_way_for_routes_where_tables_share_their_memory() -> None:
    fabric = plan(leaves=2, spines=2, hosts=4)
    core, network = started(fabric)
    assert isinstance(ask(network, CollectiveAnnounced(1, all_to_all(fabric))), Accepted)
    switch = network.switch("leaf1")
    gone = network.hosts["h24"]
    network.cut(network.cable("leaf2", "h24"))
    network.run_until_quiet(60)
    switch.limits = Limits(rules=len(switch.tables().rules))
    assert gone.ipv4_text not in {address for host in core.state.view.hosts for address in host.addresses}
    network.restore(network.cable("leaf2", "h24"))
    network.announce_hosts()
    network.run_until_quiet(60)
    assert quiet_faults(network) == []
    assert not core.state.rooms[leaf(1)].withheld


def test_a_spine_without_select_groups_still_reaches_every_leaf() -> None:
    fabric = plan(leaves=2, spines=2, hosts=2, parallel=2)
    core = Core(CoreSettings(beacon_key=KEY, plan=fabric))
    network = ModelNetwork(fabric, core, seed=1, limits=Limits(groups=0))
    for switch in network.wiring.switches.values():
        switch.nicira = False
    network.announce_hosts()
    network.run_until_quiet(60)
    assert [str(v) for v in check_delivery(network)] == []
    assert core.state.rooms[spine(1)].unspread
    assert any("no group left" in alarm for alarm in alarms(core, network))


@pytest.mark.parametrize("refused", [admission.INVALID_GROUP, "OFPET_BAD_ACTION/OFPBAC_BAD_SET_TYPE"])
def test_a_switch_that_has_something_against_detours_goes_without(
    monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """Whatever it answers: routing does not depend on them, and the switch is not suspected of anything."""
    fabric = plan(leaves=3, spines=2, hosts=2)
    core = Core(CoreSettings(beacon_key=KEY, plan=fabric))
    network = ModelNetwork(fabric, core, seed=1)
    usual = admission.group_error

    def error(group: Group) -> str | None:
        return refused if is_detour(group.group_id) else usual(group)

    monkeypatch.setattr(admission, "group_error", error)
    network.announce_hosts()
    network.run_until_quiet(60)
    assert quiet_faults(network) == []
    assert core.state.rooms[spine(1)].without_detours
    assert not any(has_detours(network.switch(name).tables()) for name in ("spine1", "spine2"))
    assert all(switch.ready for switch in core.state.switches.values())
    assert alarms(core, network) == ()
    network.run_for(60)
    assert sent(network, network.now_s - 60) == 0


def test_a_new_session_is_a_new_chance() -> None:
    fabric = plan(leaves=3, spines=2, hosts=3)
    core, network = started(fabric)
    switch = network.switch("leaf1")
    switch.limits = Limits(rules=len(switch.tables().rules) + 2)
    assert isinstance(ask(network, CollectiveAnnounced(1, all_to_all(fabric))), Refused)
    switch.limits = Limits()
    network.lose_session("leaf1")
    network.run_until_quiet(60)
    assert core.state.refused_units == set()
    assert alarms(core, network) == ()
    assert quiet_faults(network) == []
