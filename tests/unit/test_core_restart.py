"""Controllers that die and come back, against model switches: nobody on the network may notice."""

from dataclasses import replace

import pytest
from fabrics import leaf, plan

from controller.core.commands import Accepted, Command, Failure, Refused, Remember, Report, SendBatch
from controller.core.events import BatchAnswered, CollectiveAnnounced, CollectiveWithdrawn
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.plan import FabricPlan
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.pipeline.diff import is_steering
from controller.pipeline.rules import AddGroup
from controller.qos.classes import QosSettings, TrafficClass
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery
from controller.simulation.watch import DeliveryWatch

FABRIC = plan(leaves=4, spines=4, hosts=4)


def new_core(of: FabricPlan | None) -> Core:
    return Core(CoreSettings(beacon_key=b"k" * 32, plan=of))


def ring(job: str, *ranks: str, size: int = 16_000_000) -> Collective:
    return Collective(job, Operation.ALL_REDUCE, Algorithm.RING, ranks, size)


STAYS = ring("stays", "h11", "h21", "h31", "h41")
GOES = ring("goes", "h12", "h22", "h32", "h42")


def started(of: FabricPlan = FABRIC, *, with_plan: bool = True, seed: int = 1) -> ModelNetwork:
    net = ModelNetwork(of, new_core(of if with_plan else None), seed=seed)
    net.run_until_quiet(30)
    net.announce_hosts(within_s=1.0)
    net.run_until_quiet(30)
    return net


def ask(net: ModelNetwork, event: CollectiveAnnounced | CollectiveWithdrawn) -> Accepted | Refused:
    net.inject(event)
    net.run_until_quiet(60)
    answer = net.record.answer(event.request_id)
    assert answer is not None
    return answer


def core_of(net: ModelNetwork) -> Core:
    assert isinstance(net.core, Core)
    return net.core


def with_unusual_paths(**more: object) -> ModelNetwork:
    """Paths that a controller which only knew the job would not choose: another job was in the way."""
    net = started(**more)  # type: ignore[arg-type]
    ask(net, CollectiveAnnounced(1, GOES))
    ask(net, CollectiveAnnounced(2, STAYS))
    ask(net, CollectiveWithdrawn(3, "goes"))
    fresh = started()
    ask(fresh, CollectiveAnnounced(1, STAYS))
    assert core_of(net).state.paths != core_of(fresh).state.paths
    return net


def tables(net: ModelNetwork) -> dict[str, object]:
    return {name: switch.tables() for name, switch in net.wiring.switches.items()}


@pytest.mark.parametrize("with_plan", [True, False])
@pytest.mark.parametrize("down_s", [0.0, 1.0, 30.0])
def test_the_same_paths_come_back_and_no_switch_is_changed(with_plan: bool, down_s: float) -> None:
    net = with_unusual_paths(with_plan=with_plan)
    paths, before, since_s = dict(core_of(net).state.paths), tables(net), net.now_s
    watch = DeliveryWatch(net)
    again = new_core(FABRIC if with_plan else None)
    net.restart_controller(again, down_s=down_s)
    # Hosts that know one another say nothing by themselves.
    net.run_until_quiet(60, settle_s=20)
    assert again.state.paths == paths
    assert net.record.modifications(since_s=since_s) == []
    assert tables(net) == before
    assert {host.name for host in again.state.view.hosts} >= (
        {host.name for host in FABRIC.hosts} if with_plan else set()
    )
    assert len(again.state.view.hosts) == len(FABRIC.hosts)
    assert watch.violations == []


@pytest.mark.parametrize("with_plan", [True, False])
def test_a_switch_that_comes_back_late_finds_the_others_as_they_were(with_plan: bool) -> None:
    """Open vSwitch waits up to eight seconds between two tries."""
    net = with_unusual_paths(with_plan=with_plan)
    since_s = net.now_s
    net.stop_controller()
    net.run_for(1.0)
    again = new_core(FABRIC if with_plan else None)
    net.start_controller(again)
    net.run_for(0.05)
    for late in ("leaf2", "spine3"):
        net.lose_session(late, reconnect_after_s=8.0)
    net.run_until_quiet(60, settle_s=20)
    assert net.record.modifications(since_s=since_s) == []
    assert again.state.switches[leaf(2)].session_id


@pytest.mark.parametrize("factor", [500, 2000])
@pytest.mark.parametrize("with_plan", [True, False])
def test_however_slow_the_machine_is_nothing_is_decided_on_half_a_picture(with_plan: bool, factor: float) -> None:
    """A machine with six times more work than processors lost 16,459 packets when a clock ended the learning."""
    net = with_unusual_paths(with_plan=with_plan)
    since_s = net.now_s
    for name in ("leaf1", "leaf2", "spine1"):
        net.slow_down(name, factor)
    net.restart_controller(new_core(FABRIC if with_plan else None))
    net.run_for(100)
    assert net.record.modifications(since_s=since_s) == []
    assert core_of(net).state.switches.keys() == {switch.dpid for switch in FABRIC.switches}


def test_crash_upon_crash_forgets_nothing() -> None:
    net = with_unusual_paths()
    paths, since_s = dict(core_of(net).state.paths), net.now_s
    for down_s in (0.1, 0.7, 1.3, 0.3, 2.0):
        net.restart_controller(new_core(FABRIC), down_s=down_s)
        net.run_for(down_s)
    net.run_until_quiet(60)
    assert core_of(net).state.paths == paths
    assert net.record.modifications(since_s=since_s) == []


@pytest.mark.parametrize("away_s", [2.0, 10.0, 60.0])
def test_an_agent_that_dies_and_comes_back_costs_nothing(away_s: float) -> None:
    net = with_unusual_paths()
    since_s = net.now_s
    for name in net.wiring.switches:
        net.lose_session(name, reconnect_after_s=away_s + net.random.uniform(0.0, 2.0))
    net.run_until_quiet(120, settle_s=8)
    assert net.record.modifications(since_s=since_s) == []


def test_a_job_withdrawn_just_before_the_crash_is_gone_after_it() -> None:
    """B22: the ended job's rules go, those of the others are not even touched."""
    net = started()
    ask(net, CollectiveAnnounced(1, GOES))
    ask(net, CollectiveAnnounced(2, STAYS))
    watch, since_s = DeliveryWatch(net), net.now_s
    net.inject(CollectiveWithdrawn(3, "goes"))
    again = new_core(FABRIC)
    net.restart_controller(again, down_s=1.0)
    net.run_until_quiet(60)
    touched = {m.rule.cookie for m in net.record.modifications(since_s=since_s) if hasattr(m, "rule")}
    alone = started()
    ask(alone, CollectiveAnnounced(1, STAYS))
    kept = {rule for switch in net.wiring.switches.values() for rule in switch.tables().rules if is_steering(rule)}
    assert list(again.state.jobs) == ["stays"]
    assert len(kept) == sum(is_steering(r) for s in alone.wiring.switches.values() for r in s.tables().rules)
    assert touched.isdisjoint(rule.cookie for rule in kept)
    assert touched
    assert watch.violations == []


def test_what_broke_meanwhile_moves_and_nothing_else() -> None:
    net = with_unusual_paths()
    before = dict(core_of(net).state.paths)
    unit, path = next(iter(before.items()))
    cable = next(c for c in net.wiring.cables if path[0] in (c.a, c.b))
    net.stop_controller()
    net.cut(cable)
    again = new_core(FABRIC)
    net.start_controller(again)
    net.run_until_quiet(60, settle_s=8)
    ends = {cable.a, cable.b}
    assert again.state.paths.keys() == before.keys()
    assert {u for u, p in again.state.paths.items() if p != before[u]} == {
        u for u, p in before.items() if ends & set(p)
    }
    assert again.state.paths[unit] != path
    assert check_delivery(net) == []


def test_another_fabric_is_not_taken_for_the_remembered_one() -> None:
    """The file is from a fabric that had other hosts: only what is seen counts in the end."""
    net = with_unusual_paths()
    other = plan(leaves=2, spines=2, hosts=1)
    again = ModelNetwork(other, new_core(None), seed=2)
    again.stop_controller()
    again.journal = net.journal
    again.start_controller(new_core(None))
    again.run_until_quiet(60, settle_s=25)
    again.announce_hosts()
    again.run_until_quiet(60)
    assert len(core_of(again).state.view.hosts) == len(other.hosts)
    assert again.journal.switches == {switch.dpid for switch in other.switches}
    assert check_delivery(again) == []


# --- dying at every step ----------------------------------------------------------------------------------


class _Killed(Exception):
    """The controller died just before it carried out a command."""


class _Doomed(ModelNetwork):
    """Kills its controller before the `steps`-th command that matters, counted from when it is set."""

    steps: int | None = None

    def _carry_out(self, command: Command) -> None:
        if self.steps is not None and isinstance(command, SendBatch | Remember | Accepted):
            if self.steps == 0:
                self.record.commands.pop()
                raise _Killed
            self.steps -= 1
        super()._carry_out(command)


def _killed_at(step: int, event: CollectiveAnnounced | CollectiveWithdrawn) -> tuple[_Doomed, bool]:
    """A network whose controller dies in the middle of a request, and whether it got that far."""
    net = _Doomed(FABRIC, new_core(FABRIC), seed=step)
    net.run_until_quiet(30)
    ask(net, CollectiveAnnounced(1, STAYS))
    if isinstance(event, CollectiveWithdrawn):
        ask(net, CollectiveAnnounced(2, GOES))
    net.steps = step
    try:
        net.inject(event)
        net.run_until_quiet(30)
    except _Killed:
        net.steps = None
        net.stop_controller()
        return net, True
    return net, False


@pytest.mark.parametrize(
    "event", [CollectiveAnnounced(9, GOES), CollectiveWithdrawn(9, "goes")], ids=lambda e: type(e).__name__
)
def test_dying_at_any_step_leaves_all_of_a_request_or_nothing(event: CollectiveAnnounced | CollectiveWithdrawn) -> None:
    announced = isinstance(event, CollectiveAnnounced)
    step, outcomes = 0, set()
    while True:
        net, killed = _killed_at(step, event)
        if not killed:
            break
        told = isinstance(net.record.answer(9), Accepted)
        written = ("goes" in net.journal.jobs) == announced
        assert written or not told
        outcomes.add(written)
        again = new_core(FABRIC)
        net.start_controller(again)
        net.run_until_quiet(60)
        assert ("goes" in again.state.jobs) == (written == announced)
        assert check_delivery(net) == []
        for name, switch in net.wiring.switches.items():
            assert switch.tables() == again.state.desired[switch.dpid], name
        # Whoever was not told asks again, and gets what would have been.
        repeated = replace(event, request_id=10)
        answer = ask(net, repeated)
        if announced or not written:
            assert isinstance(answer, Accepted)
        assert ("goes" in again.state.jobs) == announced
        step += 1
    assert outcomes == {True, False}
    assert step > 5


# --- a store that cannot be written -----------------------------------------------------------------------


def test_nobody_is_told_that_a_request_is_carried_out_while_nothing_can_be_written() -> None:
    net = started()
    net.journal.problem = "disk full"
    answer = ask(net, CollectiveAnnounced(1, STAYS))
    assert isinstance(answer, Refused)
    assert answer.failure == Failure.UNAVAILABLE
    assert "disk full" in answer.problems[0]
    assert any("disk full" in alarm for alarm in core_of(net).state.alarms.values())
    assert len([r for r in net.record.commands_of(Report) if "disk full" in r.message]) == 1
    net.journal.problem = ""
    net.run_for(10)
    assert "stays" in net.journal.jobs
    assert core_of(net).state.alarms == {}
    assert ask(net, CollectiveAnnounced(2, STAYS)) == Accepted(2, "stays", 0)


def test_a_problem_that_is_over_holds_up_nobody() -> None:
    net = started()
    net.journal.problem = "disk full"
    ask(net, CollectiveAnnounced(1, STAYS))
    ask(net, CollectiveWithdrawn(2, "stays"))
    net.journal.problem = ""
    net.run_for(10)
    assert net.journal.jobs == {}
    assert core_of(net).state.alarms == {}
    assert isinstance(ask(net, CollectiveAnnounced(3, STAYS)), Accepted)


# --- just after the start -----------------------------------------------------------------------------------


def test_while_the_fabric_is_not_known_a_host_may_still_turn_up() -> None:
    net = started()
    net.stop_controller()
    net.core = new_core(FABRIC)
    net.inject(CollectiveAnnounced(5, STAYS))
    answer = net.record.answer(5)
    assert isinstance(answer, Refused)
    assert answer.failure == Failure.UNAVAILABLE


def test_a_job_that_was_carried_over_is_known_before_its_hosts_are() -> None:
    net = with_unusual_paths()
    net.restart_controller(new_core(FABRIC))
    net.inject(CollectiveAnnounced(5, STAYS))
    net.run_until_quiet(60)
    assert net.record.answer(5) == Accepted(5, "stays", 0)


def test_a_remembered_job_that_makes_no_sense_any_more_is_dropped_and_named() -> None:
    net = with_unusual_paths()
    held = net.journal.jobs["stays"]
    net.journal.jobs["stays"] = replace(held, collective=replace(held.collective, size_bytes=-1))
    net.restart_controller(new_core(FABRIC))
    net.run_until_quiet(60)
    assert core_of(net).state.jobs == {}
    assert net.journal.jobs == {}
    (said,) = [r for r in net.record.commands_of(Report) if "'stays'" in r.message]
    assert "size_bytes" in dict(said.fields)["problems"]


# --- what changes while somebody is away ------------------------------------------------------------------


def test_settings_that_change_while_a_switch_is_away_are_there_when_it_is_back() -> None:
    """B23."""
    net = started()
    net.lose_session("leaf1", reconnect_after_s=40.0)
    net.run_for(1.0)
    other = QosSettings(control_dscps=(46,)).with_shares({TrafficClass.COLLECTIVE: 0.5, TrafficClass.BEST_EFFORT: 0.45})
    net.stop_controller()
    again = Core(CoreSettings(beacon_key=b"k" * 32, plan=FABRIC, qos=other))
    net.core = again
    for name in net.wiring.switches.keys() - {"leaf1"}:
        net._connect_later(name, 0.5)
    before = net.queues[leaf(1)]
    net.run_until_quiet(120, settle_s=30)
    assert again.state.switches[leaf(1)].session_id
    assert net.switch("leaf1").tables() == again.state.desired[leaf(1)]
    assert net.queues[leaf(1)] != before
    shares = {queue.queue_id: queue.min_rate_bps / queue.max_rate_bps for queue in net.queues[leaf(1)][0].queues}
    assert shares == {0: 0.45, 1: 0.5, 2: 0.05}


def test_a_group_that_is_there_already_is_put_right() -> None:
    """B25: somebody adds a group of our number between our look and our change."""
    net = started()
    ask(net, CollectiveAnnounced(1, STAYS))
    wanted = min(net.switch("leaf1").tables().groups, key=lambda group: group.group_id)
    ask(net, CollectiveWithdrawn(2, "stays"))
    net.switch("leaf1").execute((AddGroup(replace(wanted, buckets=wanted.buckets[:1])),))
    ask(net, CollectiveAnnounced(3, STAYS))
    refusals = [r.name for e in net.record.events_of(BatchAnswered) for r in e.refusals]
    assert "OFPET_GROUP_MOD_FAILED/OFPGMFC_GROUP_EXISTS" in refusals
    net.run_for(15)
    net.run_until_quiet(30)
    assert isinstance(ask(net, CollectiveAnnounced(4, STAYS)), Accepted)
    assert wanted in net.switch("leaf1").tables().groups
    assert check_delivery(net) == []


def test_a_restart_with_groups_in_place_is_refused_nothing() -> None:
    """B25 as reported: a controller that adds what is there."""
    net = with_unusual_paths()
    net.restart_controller(new_core(FABRIC))
    since_s = net.now_s
    net.run_until_quiet(60)
    assert [e for e in net.record.events_of(BatchAnswered, since_s=since_s) if e.refusals] == []
