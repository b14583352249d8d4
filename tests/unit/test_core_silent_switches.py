"""Switches that do not answer: flows go round them, what is laid stays, and on their return they are repaired."""

import pytest
from core_model import KEY, all_to_all, ask, half_paths, quiet_faults, sent, started, steer_rules
from fabrics import leaf, plan, spine

from controller.core import views
from controller.core.commands import Accepted, Failure, Refused, SendBatch
from controller.core.events import CollectiveAnnounced, CollectiveWithdrawn
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.plan import FabricPlan
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.pipeline.rules import Barrier, DeleteRule
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery

SETTINGS = CoreSettings(beacon_key=KEY)
# A few changes, and the other switches' own work.
TIMEOUT_S = SETTINGS.batch_timeout_s + 0.5


def ring(fabric: FabricPlan, job: str = "job", size: int = 1 << 30) -> Collective:
    ranks = [h.name for h in sorted(fabric.hosts, key=lambda h: (h.port, h.switch))]
    return Collective(job, Operation.ALL_REDUCE, Algorithm.RING, tuple(ranks), size)


def answered_within(network: ModelNetwork, event: CollectiveAnnounced, seconds: float) -> Accepted | Refused:
    network.inject(event)
    network.run_for(seconds)
    answer = network.record.answer(event.request_id)
    assert answer is not None
    return answer


def alarms(core: Core, network: ModelNetwork) -> tuple[str, ...]:
    return views.topology(core, network.now_s).alarms


def over(core: Core, number: int) -> int:
    return sum(any(hop.dpid == spine(number) for hop in path) for path in core.state.paths.values())


@pytest.mark.parametrize("seed", range(3))
def test_an_announcement_under_way_goes_round_spines_that_froze(seed: int) -> None:
    """Parallel links make the spines take part in steering, so that the announcement must wait for them."""
    fabric = plan(leaves=3, spines=4, hosts=4, parallel=2)
    core, network = started(fabric, seed)
    network.freeze("spine2")
    network.freeze("spine3")
    answer = answered_within(network, CollectiveAnnounced(1, ring(fabric)), TIMEOUT_S)
    assert isinstance(answer, Accepted)
    assert len(core.state.paths) == 12
    assert over(core, 2) == over(core, 3) == 0
    assert half_paths(network) == []
    assert {a.split(" ")[0] for a in alarms(core, network)} == {"spine2", "spine3"}
    network.thaw("spine2")
    network.thaw("spine3")
    before = dict(core.state.paths)
    network.run_until_quiet(120)
    assert core.state.paths == before
    assert alarms(core, network) == ()
    assert quiet_faults(network) == []
    assert isinstance(ask(network, CollectiveAnnounced(2, all_to_all(fabric, "next"))), Accepted)
    assert over(core, 2) > 0
    assert over(core, 3) > 0


def test_what_is_laid_across_a_spine_stays_when_it_freezes() -> None:
    fabric = plan(leaves=3, spines=3, hosts=3, parallel=2)
    core, network = started(fabric)
    ask(network, CollectiveAnnounced(1, ring(fabric, "laid")))
    laid = dict(core.state.paths)
    assert over(core, 2) > 0
    network.freeze("spine2")
    answer = answered_within(network, CollectiveAnnounced(2, all_to_all(fabric, "late")), 2 * TIMEOUT_S)
    assert isinstance(answer, Accepted)
    assert laid.items() <= core.state.paths.items()
    late = {unit: path for unit, path in core.state.paths.items() if unit not in laid}
    assert not any(hop.dpid == spine(2) for path in late.values() for hop in path)
    assert half_paths(network) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_spine_that_freezes_during_a_move_is_gone_round(seed: int) -> None:
    """Open-kilda#3128: the switch on the new path did not answer, and the flow stayed down though others were free."""
    fabric = plan(leaves=2, spines=3, hosts=2)
    core, network = started(fabric, seed)
    ask(network, CollectiveAnnounced(1, ring(fabric)))
    network.freeze("spine2")
    network.cut(network.cable("leaf1", "spine1"))
    network.run_for(TIMEOUT_S)
    from_leaf1 = {path[0].port_no for path in core.state.paths.values() if path[0].dpid == leaf(1)}
    assert 1 not in from_leaf1
    assert half_paths(network) == []
    network.run_for(SETTINGS.statistics_period_s)
    assert any(alarm.startswith("spine2 does not answer") for alarm in alarms(core, network))
    network.thaw("spine2")
    network.run_until_quiet(120)
    assert quiet_faults(network) == []


def test_a_frozen_leaf_keeps_its_flows_on_ecmp_and_the_caller_is_told() -> None:
    fabric = plan(leaves=3, spines=2, hosts=2)
    core, network = started(fabric)
    network.freeze("leaf2")
    answer = answered_within(network, CollectiveAnnounced(1, ring(fabric)), TIMEOUT_S)
    assert isinstance(answer, Refused)
    assert answer.failure == Failure.UNAVAILABLE
    assert "leaf2 does not answer" in answer.problems[0]
    assert "2 of 6 flows: 4 placed" in answer.problems[0]
    assert half_paths(network) == []
    assert [str(v) for v in check_delivery(network)] == []
    (alarm,) = alarms(core, network)
    assert "2 flows that enter there use ECMP" in alarm
    network.thaw("leaf2")
    network.run_until_quiet(120)
    assert views.plans(core, "job")[0].state == "placed"
    assert alarms(core, network) == ()
    assert quiet_faults(network) == []


def test_a_leaf_that_froze_after_its_flows_were_laid_keeps_them() -> None:
    fabric = plan(leaves=3, spines=2, hosts=2)
    core, network = started(fabric)
    ask(network, CollectiveAnnounced(1, ring(fabric)))
    before = dict(core.state.paths)
    network.freeze("leaf2")
    answered_within(network, CollectiveAnnounced(2, all_to_all(fabric, "late")), TIMEOUT_S)
    assert before.items() <= core.state.paths.items()
    assert isinstance(ask(network, CollectiveAnnounced(3, ring(fabric))), Accepted)
    network.thaw("leaf2")
    network.run_until_quiet(120)
    assert before.items() <= core.state.paths.items()
    assert quiet_faults(network) == []


def test_every_switch_frozen_at_once_still_is_an_answer() -> None:
    fabric = plan(leaves=2, spines=2, hosts=2)
    core, network = started(fabric)
    for switch in fabric.switches:
        network.freeze(switch.name)
    answer = answered_within(network, CollectiveAnnounced(1, ring(fabric)), TIMEOUT_S)
    assert isinstance(answer, Refused)
    assert answer.failure == Failure.UNAVAILABLE
    for switch in fabric.switches:
        network.thaw(switch.name)
    network.run_until_quiet(120)
    assert views.plans(core, "job")[0].state == "placed"
    assert quiet_faults(network) == []


def test_a_switch_is_repaired_when_it_returns_and_nothing_else_is_touched() -> None:
    fabric = plan(leaves=3, spines=2, hosts=2, parallel=2)
    # A better plan for the flows that come together then is another matter.
    core, network = started(fabric, settings=CoreSettings(beacon_key=KEY, plan=fabric, calm_s=1e6))
    ask(network, CollectiveAnnounced(1, ring(fabric)))
    network.freeze("leaf1")
    ask(network, CollectiveAnnounced(2, all_to_all(fabric, "late")))
    victim = steer_rules(network, "leaf1")[0]
    network.switch("leaf1").execute((DeleteRule(victim),))
    since_s = network.now_s
    network.thaw("leaf1")
    network.run_until_quiet(120)
    assert network.switch("leaf1").tables().rules == core.state.desired[leaf(1)].rules
    deleted = [
        m
        for batch in network.record.commands_of(SendBatch, since_s=since_s)
        for m in batch.modifications
        if isinstance(m, DeleteRule)
    ]
    assert deleted == []
    assert core.state.waiting == {}
    assert quiet_faults(network) == []


def test_a_slow_switch_is_given_time_for_every_change() -> None:
    fabric = plan(leaves=2, spines=2, hosts=8)
    _, network = started(fabric)
    # 200 changes a second, as slow hardware does.
    network.slow_down("leaf1", 0.9 * SETTINGS.change_timeout_s / network.timing.modification_s)
    answer = ask(network, CollectiveAnnounced(1, all_to_all(fabric)))
    assert isinstance(answer, Accepted)
    assert quiet_faults(network) == []


def test_the_rules_of_a_path_go_together_when_its_link_fails() -> None:
    """Floodlight#692: rules upstream of a failure stayed and fed the dead end."""
    fabric = plan(leaves=2, spines=2, hosts=2, parallel=2)
    core, network = started(fabric)
    ask(network, CollectiveAnnounced(1, ring(fabric)))
    for index in (0, 1):
        network.cut(network.cable("spine1", "leaf2", index))
    network.run_for(1.0)
    assert half_paths(network) == []
    wanted = {name: core.state.desired[switch.dpid].rules for name, switch in network.wiring.switches.items()}
    assert {name: switch.tables().rules for name, switch in network.wiring.switches.items()} == wanted
    assert not steer_rules(network, "spine1")


@pytest.mark.parametrize("seed", range(3))
def test_old_rules_stay_until_packets_under_way_have_passed(seed: int) -> None:
    fabric = plan(leaves=3, spines=2, hosts=2, parallel=2)
    core, network = started(fabric, seed)
    ask(network, CollectiveAnnounced(1, ring(fabric)))
    since_s = network.now_s
    network.cut(network.cable("leaf1", "spine1", 0))
    network.run_until_quiet(60)
    times: dict[bool, list[float]] = {True: [], False: []}
    for time_s, command in network.record.commands:
        if isinstance(command, SendBatch) and time_s >= since_s:
            kinds = {isinstance(m, DeleteRule) for m in command.modifications if not isinstance(m, Barrier)}
            times[kinds == {True}].append(time_s)
    assert times[False]
    assert all(removed >= max(times[False]) + core.settings.drain_s for removed in times[True])


def test_a_withdrawn_job_leaves_no_rule_behind_on_a_switch_that_was_away() -> None:
    fabric = plan(leaves=3, spines=2, hosts=2)
    core, network = started(fabric)
    ask(network, CollectiveAnnounced(1, ring(fabric)))
    network.freeze("leaf1")
    network.inject(CollectiveWithdrawn(2, "job"))
    network.run_for(TIMEOUT_S + 1)
    assert isinstance(network.record.answer(2), Accepted)
    assert steer_rules(network, "leaf1") != []
    network.thaw("leaf1")
    network.run_until_quiet(120)
    assert [rule for name in ("leaf1", "leaf2", "leaf3") for rule in steer_rules(network, name)] == []
    assert core.state.paths == {}
    assert sent(network, network.now_s) == 0
