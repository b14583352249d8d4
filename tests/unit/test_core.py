"""The whole core against model switches: what a user of the fabric would see."""

import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest
from core_model import most_rules
from fabrics import leaf, plan, spine

from controller.core import views
from controller.core.commands import Accepted, Failure, ReadTables, Refused, Report, SendBatch
from controller.core.events import (
    BatchAnswered,
    BatchStatus,
    CollectiveAnnounced,
    CollectiveWithdrawn,
    Event,
    PacketReceived,
    SwitchRefused,
    Tick,
)
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric import arp, beacon
from controller.fabric.model import PortRef, Role
from controller.fabric.plan import FabricPlan
from controller.jobs.collective import Algorithm, Collective, Operation, QueuePairPorts
from controller.pipeline import packet
from controller.pipeline.diff import ActualTables
from controller.pipeline.rules import AddRule, Barrier, DeleteRule, Output, Rule, match
from controller.simulation.admission import Limits
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery, walk
from controller.simulation.watch import DeliveryWatch


def core_for(of: FabricPlan | None, **more) -> Core:  # type: ignore[no-untyped-def]
    return Core(CoreSettings(beacon_key=b"k" * 32, plan=of, **more))


def settled(of: FabricPlan, seed: int = 1, limits: Limits | None = None) -> tuple[Core, ModelNetwork]:
    core = core_for(of)
    network = ModelNetwork(of, core, seed=seed, limits=limits)
    network.run_until_quiet(30)
    return core, network


def ring(of: FabricPlan, job: str = "job", size: int = 16_000_000) -> Collective:
    """Rank order such that every step goes to another leaf."""
    ranks = [h.name for h in sorted(of.hosts, key=lambda h: (h.port, h.switch))]
    return Collective(job, Operation.ALL_REDUCE, Algorithm.RING, tuple(ranks), size)


def ask(network: ModelNetwork, event: Event) -> Accepted | Refused:
    """The answer to a request, once everything it led to is done."""
    before = len(network.record.commands)
    network.inject(event)
    network.run_until_quiet(30)
    answers = [c for _, c in network.record.commands[before:] if isinstance(c, Accepted | Refused)]
    assert len(answers) == 1
    return answers[0]


def held(core: Core) -> dict[int, ActualTables]:
    return {dpid: copy.deepcopy(s.actual) for dpid, s in core.state.switches.items() if s.actual is not None}


def changes(batches: Sequence[SendBatch]) -> int:
    return sum(not isinstance(m, Barrier) for b in batches for m in b.modifications)


def batches(network: ModelNetwork) -> list[SendBatch]:
    return [c for _, c in network.record.commands if isinstance(c, SendBatch)]


@pytest.mark.parametrize("spines", [1, 2, 4])
@pytest.mark.parametrize("with_plan", [True, False])
def test_a_fabric_is_found_and_delivers(spines: int, with_plan: bool) -> None:
    of = plan(leaves=3, spines=spines)
    core = core_for(of if with_plan else None)
    network = ModelNetwork(of, core, seed=spines)
    # Without a plan a host is known once it has said something.
    network.run_until_quiet(30)
    network.announce_hosts(within_s=1.0)
    network.run_until_quiet(30)
    found = views.topology(core, network.now_s)
    assert len(found.links) == len(of.links)
    assert len(found.hosts) == len(of.hosts)
    assert found.in_sync
    assert {s.dpid: s.role for s in found.switches} == {s.dpid: s.role.value for s in of.switches}
    assert check_delivery(network) == []


def test_everything_is_known_within_five_seconds_of_the_last_connection() -> None:
    core = core_for(plan(4, 4, 4))
    network = ModelNetwork(plan(4, 4, 4), core, seed=3)
    network.run_until(5.0)
    found = views.topology(core, network.now_s)
    assert (len(found.links), len(found.hosts)) == (16, 16)


def test_an_announced_ring_gets_one_uplink_per_flow() -> None:
    of = plan(leaves=4, spines=4, hosts=4)
    core, network = settled(of)
    assert isinstance(ask(network, CollectiveAnnounced(1, ring(of))), Accepted)
    (shown,) = views.plans(core, "job")
    assert shown.state == "placed"
    assert shown.certificate.proven_optimal
    assert shown.certificate.gap == 0
    first_hops = [(f.path[0].dpid, f.path[0].port_no) for f in shown.flows]
    assert len(set(first_hops)) == len(shown.flows) == 16
    assert check_delivery(network) == []


def test_the_same_announcement_changes_nothing() -> None:
    of = plan(leaves=4, spines=4, hosts=4)
    _, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    before = len(batches(network))
    assert ask(network, CollectiveAnnounced(2, ring(of))) == Accepted(2, "job", 0)
    assert len(batches(network)) == before


def test_withdrawing_the_last_job_leaves_what_was_there_before_the_first() -> None:
    of = plan(leaves=4, spines=4, hosts=4)
    core, network = settled(of)
    before = held(core)
    ask(network, CollectiveAnnounced(1, ring(of, "one")))
    ask(network, CollectiveAnnounced(2, ring(of, "two", size=99)))
    assert held(core) != before
    assert isinstance(ask(network, CollectiveWithdrawn(3, "one")), Accepted)
    assert held(core) != before
    assert isinstance(ask(network, CollectiveWithdrawn(4, "two")), Accepted)
    assert held(core) == before


def test_two_jobs_that_share_a_flow_share_its_rule() -> None:
    of = plan(leaves=2, spines=2, hosts=1)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of, "one", size=1000)))
    rules = {d: len(t.rules) for d, t in held(core).items()}
    ask(network, CollectiveAnnounced(2, ring(of, "two", size=3000)))
    assert {d: len(t.rules) for d, t in held(core).items()} == rules
    assert sum(d.size_bytes for d in core.state.problem.demands) == 2 * 4000


def test_every_unknown_host_is_named() -> None:
    of = plan()
    _, network = settled(of)
    wrong = Collective("job", Operation.ALL_REDUCE, Algorithm.RING, ("h11", "nobody", "h21", "10.9.9.9"), 10)
    answer = ask(network, CollectiveAnnounced(1, wrong))
    assert isinstance(answer, Refused)
    assert answer.failure == Failure.NOT_FOUND
    assert len(answer.problems) == 2
    assert "nobody" in answer.problems[0]
    assert "10.9.9.9" in answer.problems[1]


@pytest.mark.parametrize(
    ("ranks", "size", "field"),
    [
        (("h11", "h21"), 0, "size_bytes"),
        (("h11", "h21"), -5, "size_bytes"),
        (("h11",), 10, "ranks"),
        (("h11", "h11", "h11"), 10, "ranks"),
        (("h11", "h21", "h11"), 10, "ranks: h11 is given as ranks 0, 2"),
        (("h11", "h21", "10.0.1.1"), 10, "ranks: h11 is given as ranks 0, 2"),
        (("h11", "10.0.1.1"), 10, "ranks"),
    ],
)
def test_bad_values_name_their_field(ranks: tuple[str, ...], size: int, field: str) -> None:
    of = plan()
    core, network = settled(of)
    wrong = Collective("job", Operation.ALL_REDUCE, Algorithm.RING, ranks, size)
    answer = ask(network, CollectiveAnnounced(1, wrong))
    assert isinstance(answer, Refused)
    assert answer.failure == Failure.INVALID_ARGUMENT
    assert any(field in problem for problem in answer.problems)
    assert core.state.jobs == {}


def test_several_ranks_on_one_host_are_one_flow_between_two_hosts() -> None:
    core, network = settled(plan())
    asked = Collective("job", Operation.ALL_REDUCE, Algorithm.RING, ("h11", "10.0.1.1", "h21", "h22"), 4000)
    asked = replace(asked, ranks_per_host=2)
    assert isinstance(ask(network, CollectiveAnnounced(1, asked)), Accepted)
    # Two servers of two ranks, one with an interface for both and one with two: what stays inside is no flow.
    assert [(f.src_host, f.dst_host) for f in core.state.jobs["job"].flows] == [
        ("h11", "h21"),
        ("h22", "h11"),
    ]


def test_withdrawing_what_was_never_announced_is_not_found() -> None:
    _, network = settled(plan())
    answer = ask(network, CollectiveWithdrawn(1, "ghost"))
    assert isinstance(answer, Refused)
    assert answer.failure == Failure.NOT_FOUND


def test_hosts_on_one_leaf_need_no_path() -> None:
    of = plan()
    core, network = settled(of)
    local = Collective("job", Operation.ALL_REDUCE, Algorithm.RING, ("h11", "h12"), 100)
    assert ask(network, CollectiveAnnounced(1, local)) == Accepted(1, "job", 0)
    assert views.plans(core, "job")[0].state == "local"


def test_a_cut_uplink_moves_only_the_flow_it_carried() -> None:
    of = plan(leaves=4, spines=4, hosts=4)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    before = dict(core.state.paths)
    network.cut(network.cable("leaf2", "spine3"))
    network.run_until_quiet(30)
    moved = {unit for unit, path in core.state.paths.items() if before[unit] != path}
    touched = {unit for unit, path in before.items() if any(p.dpid == leaf(2) and p.port_no == 3 for p in path)} | {
        unit for unit, path in before.items() if path[-1].dpid == spine(3) and path[-1].port_no == 2
    }
    assert moved == touched
    assert check_delivery(network) == []


def test_what_others_deleted_comes_back_and_what_others_added_stays() -> None:
    of = plan()
    core, network = settled(of)
    want = held(core)[leaf(1)]
    foreign = Rule(3, 50, match(eth_type=0x86DD), 0xBEEF, (Output(1),))
    switch = network.switch("leaf1")
    victim = next(r for r in want.rules.values() if r.table_id == 0 and r.priority == 1000)
    switch.execute((DeleteRule(victim), AddRule(foreign)))
    network.run_for(12.0)
    network.run_until_quiet(30)
    assert core.state.desired[leaf(1)].rules | {foreign} == set(held(core)[leaf(1)].rules.values())
    assert any("not ours" in c.message for _, c in network.record.commands if isinstance(c, Report))


def test_a_full_table_leaves_its_flows_on_ecmp_and_tells_the_caller() -> None:
    of = plan(leaves=4, spines=4, hosts=4)
    core, _ = settled(of)
    room = most_rules(core) + 2
    core, network = settled(of, limits=Limits(rules=room))
    answer = ask(network, CollectiveAnnounced(1, ring(of)))
    assert isinstance(answer, Refused)
    assert answer.failure == Failure.RESOURCE_EXHAUSTED
    (shown,) = views.plans(core, "job")
    assert shown.state == "degraded"
    assert 0 < sum(f.state == "planned" for f in shown.flows) < 16
    assert check_delivery(network) == []


def test_a_second_switch_with_a_used_id_is_one_alarm() -> None:
    of = plan()
    core, network = settled(of)
    twin = SwitchRefused(leaf(1), "10.1.1.1:5", "10.1.1.2:6", "other ports")
    first = network.inject(twin)
    assert [type(c) for c in first if isinstance(c, Report)] == [Report]
    assert not any(isinstance(c, Report) for c in network.inject(twin))
    assert any("10.1.1.1:5" in a and "10.1.1.2:6" in a for a in views.topology(core, network.now_s).alarms)


@pytest.mark.parametrize("with_plan", [True, False])
def test_a_restarted_controller_changes_nothing_on_the_switches(with_plan: bool) -> None:
    of = plan(leaves=3, spines=3)
    core = core_for(of if with_plan else None)
    network = ModelNetwork(of, core, seed=1)
    network.run_until_quiet(30)
    network.announce_hosts()
    network.run_until_quiet(30)
    before, count = held(core), len(batches(network))
    watch = DeliveryWatch(network)
    again = core_for(of if with_plan else None)
    network.restart_controller(again, down_s=1.0)
    network.later(2.0, network.announce_hosts)
    network.run_until_quiet(30)
    assert changes(batches(network)[count:]) == 0
    assert held(again) == before
    assert watch.violations == []


def test_a_lost_session_costs_nothing() -> None:
    of = plan(leaves=3, spines=3)
    core, network = settled(of)
    before, count = held(core), len(batches(network))
    watch = DeliveryWatch(network)
    network.lose_session("leaf2", reconnect_after_s=0.5)
    network.run_until_quiet(30)
    assert changes(batches(network)[count:]) == 0
    assert held(core) == before
    assert watch.violations == []


def test_a_restarted_controller_puts_right_what_is_wrong() -> None:
    of = plan(leaves=3, spines=3)
    core, network = settled(of)
    before = held(core)
    network.stop_controller()
    switch = network.switch("leaf1")
    switch.execute(tuple(DeleteRule(r) for r in before[leaf(1)].rules.values() if r.priority in (100, 1000)))
    again = core_for(of)
    network.restart_controller(again)
    network.run_until_quiet(30)
    assert held(again) == before
    assert check_delivery(network) == []


def test_flows_with_known_ports_are_steered_one_by_one() -> None:
    of = plan(leaves=2, spines=4, hosts=1)
    core, network = settled(of)
    four = QueuePairPorts(0, 1, (50_001, 50_002, 50_003, 50_004))
    spread = Collective(
        "job", Operation.SEND_RECV, Algorithm.DIRECT, ("h11", "h21"), 4_000, queue_pairs=4, ports=(four,)
    )
    answer = ask(network, CollectiveAnnounced(1, spread))
    assert isinstance(answer, Accepted)
    with_ports = [f for f in views.plans(core, "job")[0].flows if f.udp_source_port]
    assert len({f.path[0].port_no for f in with_ports}) == 4


def test_explain_names_what_the_path_was_compared_with() -> None:
    of = plan(leaves=4, spines=4, hosts=4)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    (found,) = views.explain_flow(core, "h11", "h21", 0).flows
    assert len(found.candidates) == 4
    assert sum(c.chosen for c in found.candidates) == 1
    assert min(found.candidates, key=lambda c: c.load_with_s).chosen
    with pytest.raises(views.UnknownHost, match="nobody"):
        views.explain_flow(core, "h11", "nobody", 0)


def test_roles_without_a_plan_come_from_cabling() -> None:
    of = plan(leaves=4, spines=2, hosts=1)
    core = core_for(None)
    network = ModelNetwork(of, core, seed=1)
    network.run_until_quiet(30)
    network.announce_hosts(within_s=1.0)
    network.run_until_quiet(30)
    assert core.state.view.switches[spine(1)].role == Role.SPINE
    assert core.state.view.switches[leaf(4)].role == Role.LEAF


def test_a_switch_that_never_answers_holds_nobody_up() -> None:
    of = plan(leaves=3, spines=2)
    core, network = settled(of)
    network.freeze("spine2")
    answer = ask(network, CollectiveAnnounced(1, ring(of)))
    assert isinstance(answer, Accepted)
    assert any(isinstance(c, ReadTables) for _, c in network.record.commands)
    assert core.state.switches[leaf(1)].ready


def test_a_planned_link_that_is_cut_is_shown_as_down() -> None:
    of = plan()
    core, network = settled(of)
    network.cut(network.cable("leaf1", "spine2"))
    network.run_until_quiet(30)
    shown = views.topology(core, network.now_s)
    down = [(link.a.switch, link.b.switch) for link in shown.links if link.state == "down"]
    assert down == [("leaf1", "spine2")]
    assert len(shown.links) == len(of.links)


def claim(network: ModelNetwork, switch: str, port: int, mac: str, address: str) -> None:
    """An unasked ARP reply, as a host sends it that wants to be taken for another."""
    frame = arp.encode(arp.Arp(arp.REPLY, mac, address, arp.BROADCAST, address), arp.BROADCAST)
    dpid = network.switch(switch).dpid
    session = network.session(switch)
    assert session is not None
    network.inject(PacketReceived(dpid, session.session_id, port, frame))


@pytest.mark.parametrize("with_plan", [True, False])
def test_an_address_is_not_taken_from_a_host_that_still_answers(with_plan: bool) -> None:
    of = plan()
    core = core_for(of if with_plan else None)
    network = ModelNetwork(of, core, seed=1)
    network.run_until_quiet(30)
    network.announce_hosts()
    network.run_until_quiet(30)
    before = core.hosts.seen["10.0.2.1"]
    for _ in range(5):
        claim(network, "leaf1", 3, "02:00:00:00:01:01", "10.0.2.1")
        network.run_for(1.5)
    assert core.hosts.seen["10.0.2.1"] == before
    assert any("claims 10.0.2.1" in alarm for alarm in views.topology(core, network.now_s).alarms)
    assert check_delivery(network) == []
    network.run_for(70)
    assert views.topology(core, network.now_s).alarms == ()


def test_a_host_that_left_without_a_word_may_come_back_elsewhere() -> None:
    of = plan()
    core = core_for(None)
    network = ModelNetwork(of, core, seed=1)
    network.run_until_quiet(30)
    network.announce_hosts()
    network.run_until_quiet(30)
    network.fail_silently(network.cable("leaf2", "h21"))
    for _ in range(3):
        claim(network, "leaf1", 3, "02:00:00:00:02:01", "10.0.2.1")
        network.run_for(1.5)
    assert core.hosts.seen["10.0.2.1"].port == PortRef(leaf(1), 3)


@pytest.mark.parametrize("with_plan", [True, False])
def test_hosts_that_relay_beacons_make_no_link(with_plan: bool) -> None:
    of = plan()
    core = core_for(of if with_plan else None)
    network = ModelNetwork(of, core, seed=1)
    network.run_until_quiet(30)
    network.announce_hosts()
    network.run_until_quiet(30)
    ends = (PortRef(leaf(1), 4), PortRef(leaf(2), 4))
    for sender, receiver in (ends, ends[::-1]):
        frame = beacon.encode(beacon.Beacon(sender, 99), "02:01:00:00:00:01", b"k" * 32)
        session = network.session(network.wiring.by_dpid[receiver.dpid].name)
        assert session is not None
        network.inject(PacketReceived(receiver.dpid, session.session_id, receiver.port_no, frame))
    network.run_for(1.0)
    shown = views.topology(core, network.now_s)
    assert len(shown.links) == len(of.links)
    assert any("relays" in alarm for alarm in shown.alarms)
    assert check_delivery(network) == []


def test_hosts_find_one_another_while_no_controller_answers() -> None:
    of = plan(leaves=3, spines=2)
    _, network = settled(of)
    network.stop_controller()
    asking, asked = network.hosts["h11"], network.hosts["h31"]
    question = packet.arp(packet.ARP_REQUEST, asking.mac, asking.ipv4, 0, asked.ipv4)
    assert walk(network, question, "h11").delivered == ("h31",)
    answer = packet.arp(packet.ARP_REPLY, asked.mac, asked.ipv4, asking.mac, asking.ipv4)
    assert walk(network, answer, "h31").delivered == ("h11",)
    nobody = packet.arp(packet.ARP_REQUEST, asking.mac, asking.ipv4, 0, asked.ipv4 + 77)
    assert walk(network, nobody, "h11").delivered == ()


def test_a_controller_that_was_busy_itself_does_not_blame_the_switches() -> None:
    of = plan(leaves=3, spines=2)
    core, network = settled(of)
    commands = core.handle(CollectiveAnnounced(1, ring(of)), network.now_s)
    sent = [c for c in commands if isinstance(c, SendBatch)]
    assert sent
    # Nothing was handled for a minute; then a clock tick comes first, and the answers after it.
    late_s = network.now_s + 60
    assert not any("did not answer" in c.message for c in core.handle(Tick(), late_s) if isinstance(c, Report))
    for batch in sent:
        core.handle(BatchAnswered(batch.dpid, batch.session_id, batch.batch_id, BatchStatus.DONE), late_s)
    assert all(switch.ready for switch in core.state.switches.values())
