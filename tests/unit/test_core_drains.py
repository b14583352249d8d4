"""Drains: traffic leaves links and switches that work, without loss, and comes back; the whole core on a model."""

import pytest
from core_model import KEY, all_to_all, ask, sent, started
from fabrics import leaf, plan, spine, view

from controller.core import views
from controller.core.avoidance import Avoided, Origin, reduced
from controller.core.commands import Accepted, Failure, Refused
from controller.core.events import CollectiveAnnounced, DrainWanted, UndrainWanted
from controller.core.machine import Core
from controller.core.remembered import Avoidance, Cable
from controller.core.settings import CoreSettings
from controller.fabric.model import PortRef
from controller.fabric.plan import FabricPlan
from controller.fabric.reach import without
from controller.simulation.fuzz_checks import probes
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery, walk
from controller.simulation.watch import DeliveryWatch


def loaded(of: FabricPlan) -> tuple[Core, ModelNetwork]:
    core, network = started(of)
    assert isinstance(ask(network, CollectiveAnnounced(1, all_to_all(of, ports=2))), Accepted)
    return core, network


def cable(core: Core, a: int, b: int, index: int = 0) -> Cable:
    found = [(k.a, k.b) for k in core.state.reduced.whole.links if {k.a.dpid, k.b.dpid} == {a, b}]
    return found[index]


def ports_in_use(network: ModelNetwork, core: Core) -> set[PortRef]:
    """Every port by which packets between hosts, steered or not, leave a switch."""
    tried = probes(core.state.paths)
    return {
        PortRef(network.switch(name).dpid, port_no)
        for source in network.hosts.values()
        for destination in network.hosts.values()
        if source is not destination
        for packet in tried(source, destination)
        for name, port_no in walk(network, packet, source.name).ports
    }


def test_a_drained_link_carries_nothing_in_either_direction_and_no_packet_is_lost_for_it() -> None:
    of = plan(leaves=3, spines=3, hosts=1)
    core, network = loaded(of)
    watch = DeliveryWatch(network)
    ends = cable(core, leaf(1), spine(1))
    assert isinstance(ask(network, DrainWanted(2, (ends,), "new optics")), Accepted)
    assert ports_in_use(network, core).isdisjoint(ends)
    assert all(set(ends).isdisjoint(path) for path in core.state.paths.values())
    moved = {unit: path for unit, path in core.state.paths.items() if core.state.moves.get(unit)}
    assert moved
    before = dict(core.state.paths)
    assert isinstance(ask(network, UndrainWanted(3, (ends,))), Accepted)
    # The link is back for routes; live flows stay where they are unless that gains enough.
    up = next(end for end in ends if end.dpid == leaf(1))
    members = {p for r in network.switch("leaf1").tables().rules for a in r.actions for p in getattr(a, "ports", ())}
    assert up.port_no in members
    needless = [u for u in before if core.state.paths[u] != before[u] and core.state.moves[u].move.forced]
    assert needless == []
    assert watch.violations == []
    assert check_delivery(network) == []


def test_a_drained_spine_carries_nothing_and_stays_so_over_its_reboot_and_the_controllers() -> None:
    of = plan(leaves=3, spines=3, hosts=1)
    core, network = loaded(of)
    watch = DeliveryWatch(network)
    assert isinstance(ask(network, DrainWanted(2, (spine(2),))), Accepted)
    ends = {end for link in core.state.reduced.left_out for end in link}
    assert len(ends) == 6
    assert ports_in_use(network, core).isdisjoint(ends)
    network.reboot("spine2")
    network.run_until_quiet(60)
    assert ports_in_use(network, core).isdisjoint(ends)
    fresh = Core(CoreSettings(beacon_key=KEY, plan=of))
    network.restart_controller(fresh)
    network.run_until_quiet(60)
    assert fresh.state.avoided.of(Origin.OPERATOR) == {spine(2): Avoidance()}
    assert ports_in_use(network, fresh).isdisjoint(ends)
    assert watch.violations == []


def test_draining_again_and_undraining_what_is_not_drained_changes_nothing() -> None:
    of = plan(leaves=2, spines=3)
    _, network = loaded(of)
    ask(network, DrainWanted(2, (spine(1),)))
    since_s = network.now_s
    assert ask(network, DrainWanted(3, (spine(1),), "another word")) == Accepted(3, "", 0)
    assert ask(network, UndrainWanted(4, (spine(3),))) == Accepted(4, "", 0)
    assert sent(network, since_s) == 0


def test_a_leaf_that_is_away_when_its_spine_is_drained_loses_nothing() -> None:
    """Found by fuzzing: it goes on sending to the spine, which took its routes away because nobody else used them."""
    of = plan(leaves=3, spines=2, hosts=1)
    core, network = loaded(of)
    watch = DeliveryWatch(network)
    network.lose_session("leaf1", reconnect_after_s=8.0)
    network.run_for(0.5)
    network.inject(DrainWanted(2, (spine(2),)))
    network.run_for(4.0)
    ends = {end for link in core.state.reduced.left_out for end in link}
    assert isinstance(network.record.answer(2), Accepted)
    assert check_delivery(network) == []
    # Everybody else has left the spine by then.
    assert {end.dpid for end in ports_in_use(network, core) & ends} == {leaf(1), spine(2)}
    network.run_until_quiet(60)
    assert ports_in_use(network, core).isdisjoint(ends)
    assert watch.violations == []


def test_who_would_be_cut_off_is_named_and_only_force_does_it() -> None:
    of = plan(leaves=3, spines=2)
    core, network = loaded(of)
    ask(network, DrainWanted(2, (spine(1),)))
    refused = ask(network, DrainWanted(3, (cable(core, leaf(2), spine(2)),)))
    assert isinstance(refused, Refused)
    assert refused.failure is Failure.FAILED_PRECONDITION
    assert refused.problems[0] == "this would cut off h21, h22 at leaf2 from all other hosts"
    assert "--force" in refused.problems[-1]
    assert ask(network, DrainWanted(4, (leaf(1),))).problems[0].startswith("this would cut off h11, h12 at leaf1")  # type: ignore[union-attr]
    assert check_delivery(network) == []
    assert isinstance(ask(network, DrainWanted(5, (leaf(1),), forced=True)), Accepted)
    lost = {(v.source, v.destination) for v in check_delivery(network)}
    assert lost == {
        (a.name, b.name) for a in of.hosts for b in of.hosts if (a.switch == "leaf1") != (b.switch == "leaf1")
    }
    assert isinstance(ask(network, UndrainWanted(6, (leaf(1),))), Accepted)
    assert check_delivery(network) == []


def test_a_drained_link_is_used_while_nothing_else_joins_its_leaves() -> None:
    of = plan(leaves=3, spines=2)
    core, network = loaded(of)
    ask(network, DrainWanted(2, (spine(1),)))
    network.cut(network.cable("leaf2", "spine2"))
    network.run_until_quiet(60)
    assert check_delivery(network) == []
    links = views.topology(core, network.now_s).links
    drained = [link for link in links if "spine1" in (link.a.switch, link.b.switch)]
    assert {(link.state, link.cause) for link in drained} == {("drained", "operator")}
    assert all(link.reason.endswith("nothing else joins the hosts beyond it") for link in drained)
    # Leaf 2 needs one other end for each of its peers, and nobody else uses the spine.
    assert {frozenset(e.dpid for e in c) for c in core.state.reduced.used} == {
        frozenset((leaf(n), spine(1))) for n in (1, 2, 3)
    }
    network.restore(network.cable("leaf2", "spine2"))
    network.run_until_quiet(60)
    assert core.state.reduced.used == {}
    assert ports_in_use(network, core).isdisjoint(e for c in core.state.reduced.left_out for e in c)
    assert check_delivery(network) == []


def test_a_lossy_link_is_left_before_a_drained_one_where_one_of_them_is_needed() -> None:
    whole = view(plan(leaves=2, spines=2))
    avoided = Avoided()
    avoided.avoid(spine(1), Origin.GRAY, Avoidance("lost 1 %"))
    (drained,) = [(k.a, k.b) for k in whole.links if {k.a.dpid, k.b.dpid} == {leaf(1), spine(2)}]
    avoided.avoid(drained, Origin.OPERATOR, Avoidance())
    assert reduced(whole, avoided).used.keys() == {drained}
    avoided.avoid(drained, Origin.OPERATOR, Avoidance(forced=True))
    assert {end.dpid for c in reduced(whole, avoided).used for end in c} == {leaf(1), leaf(2), spine(1)}


def test_no_more_avoided_links_are_used_than_are_needed() -> None:
    """Found by fuzzing: two leaves need the second spine, and then the first is not needed for the third."""
    whole = view(plan(leaves=3, spines=2))
    ends = {frozenset((k.a.dpid, k.b.dpid)): k for k in whole.links}
    dead = ends[frozenset((leaf(3), spine(1)))]
    avoided = Avoided()
    avoided.avoid(leaf(2), Origin.OPERATOR, Avoidance())
    used = reduced(without(whole, [dead]), avoided).used
    assert [{end.dpid for end in cable} for cable in used] == [{leaf(2), spine(2)}]


@pytest.mark.parametrize("parallel", [1, 2])
def test_one_of_two_parallel_links_can_be_drained(parallel: int) -> None:
    of = plan(leaves=2, spines=1, parallel=2)
    core, network = loaded(of)
    watch = DeliveryWatch(network)
    ends = cable(core, leaf(1), spine(1), parallel - 1)
    assert isinstance(ask(network, DrainWanted(2, (ends,))), Accepted)
    assert ports_in_use(network, core).isdisjoint(ends)
    assert watch.violations == []


def test_what_an_operator_drained_is_not_given_back_by_somebody_else() -> None:
    avoided = Avoided()
    avoided.avoid(spine(1), Origin.OPERATOR, Avoidance())
    assert avoided.avoid(spine(1), Origin.GRAY, Avoidance("lost 1 %"))
    assert not avoided.avoid(spine(1), Origin.GRAY, Avoidance("lost 1 %"))
    assert avoided.release(spine(1), Origin.GRAY)
    assert not avoided.release(spine(1), Origin.GRAY)
    assert [origin for origin, _, _ in avoided.concerning((PortRef(leaf(1), 1), PortRef(spine(1), 1)))] == [
        Origin.OPERATOR
    ]


def test_the_second_of_two_parallel_links_comes_and_goes_without_loss() -> None:
    """Found by fuzzing: the group behind a spine's routes to a leaf meant another thing with one link than with two."""
    of = plan(leaves=2, spines=2, hosts=1, parallel=2)
    core, network = loaded(of)
    watch = DeliveryWatch(network)
    ends = cable(core, leaf(1), spine(1))
    assert isinstance(ask(network, DrainWanted(2, (ends,))), Accepted)
    assert isinstance(ask(network, UndrainWanted(3, (ends,))), Accepted)
    assert watch.violations == []


def test_two_drains_in_a_row_take_the_last_steered_flow_off_before_anything_is_removed() -> None:
    """Found by fuzzing: with one uplink left a leaf needs no steering, and a slow one dropped it after its spine."""
    of = plan(leaves=2, spines=3, hosts=1)
    core, network = loaded(of)
    network.slow_down("leaf1", 10)
    watch = DeliveryWatch(network)
    network.inject(DrainWanted(2, (spine(1),)))
    network.run_for(0.003)
    assert isinstance(ask(network, DrainWanted(3, (spine(3),))), Accepted)
    ends = {end for link in core.state.reduced.left_out for end in link}
    assert ports_in_use(network, core).isdisjoint(ends)
    assert watch.violations == []


@pytest.mark.parametrize("noticed_s", [0.0, 0.2])
def test_a_spine_that_is_given_back_while_it_is_away_gets_nothing_before_it_knows_its_routes(noticed_s: float) -> None:
    """Found by fuzzing: drained it had lost them, and the leaves took it back at once."""
    of = plan(leaves=2, spines=2, hosts=1)
    core, network = loaded(of)
    ask(network, DrainWanted(2, (spine(1),)))
    watch = DeliveryWatch(network)
    network.lose_session("spine1", reconnect_after_s=3.0)
    network.run_for(noticed_s)
    ask(network, UndrainWanted(3, (spine(1),)))
    network.run_until_quiet(60)
    assert core.state.reduced.left_out == {}
    assert {end.dpid for end in ports_in_use(network, core)} >= {leaf(1), leaf(2), spine(1)}
    assert watch.violations == []


def test_a_controller_that_dies_right_after_an_undrain_costs_nothing() -> None:
    """Found by fuzzing: the next one knew of no drain and used the spine, slow as it was, before it had its routes."""
    of = plan(leaves=2, spines=2, hosts=1)
    _, network = loaded(of)
    ask(network, DrainWanted(2, (spine(1),)))
    watch = DeliveryWatch(network)
    network.slow_down("spine1", 100)
    network.inject(UndrainWanted(3, (spine(1),)))
    network.run_for(0.002)
    assert network.record.answer(3) is None
    fresh = Core(CoreSettings(beacon_key=KEY, plan=of))
    network.restart_controller(fresh)
    network.run_until_quiet(120)
    assert isinstance(ask(network, UndrainWanted(4, (spine(1),))), Accepted)
    assert network.journal.drains == {}
    assert watch.violations == []
