"""The whole core on three tiers, and with edge switches below leaves, against model switches."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from core_model import KEY, all_to_all, ask, half_paths, started
from fabrics import plan as two_tiers

from controller.core import views
from controller.core.commands import Accepted
from controller.core.events import CollectiveAnnounced
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.model import PortRef, Role
from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink, PlannedSwitch
from controller.fabric.three_tiers import fabric_paths
from controller.formats.topology_file import load
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.simulation.admission import Limits
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import Wrong, check_delivery, roce_probes, walk

THREE_TIERS = load(Path(__file__).parents[2] / "topologies" / "threetier-2x2x2.yaml")
RATE_BPS = 8_000_000
TO_AND_FROM_EDGE = Collective("job", Operation.ALL_TO_ALL, Algorithm.DIRECT, ("v1", "v2", "v3", "v4", "h31"), 1 << 30)


def edge_fabric(leaves_of_edge: tuple[str, ...] = ("leaf1",), hosts: int = 1) -> FabricPlan:
    """Three leaves, two spines, a host on each leaf, and an edge switch with hosts below some leaves."""
    of = two_tiers(leaves=3, spines=2, hosts=1)
    edge = PlannedSwitch("dpu1", 0x401, Role.EDGE)
    links = tuple(PlannedLink("dpu1", 1 + i, name, 9, RATE_BPS) for i, name in enumerate(leaves_of_edge))
    below = tuple(
        PlannedHost(f"v{n}", "dpu1", 8 + n, f"02:00:00:00:99:{n:02x}", f"10.0.9.{n}", 8, RATE_BPS)
        for n in range(1, hosts + 1)
    )
    return replace(of, switches=(*of.switches, edge), links=(*of.links, *links), hosts=(*of.hosts, *below))


def faults(network: ModelNetwork) -> list[str]:
    return [str(v) for v in check_delivery(network)] + half_paths(network) + network.record.ordering_problems()


def without_a_plan(of: FabricPlan) -> tuple[Core, ModelNetwork]:
    """Every host has spoken once everything is connected."""
    core, network = started(of, settings=CoreSettings(beacon_key=KEY))
    network.announce_hosts()
    network.run_until_quiet(60)
    return core, network


@pytest.mark.parametrize("with_plan", [True, False])
def test_every_pair_of_hosts_is_joined_over_three_tiers(with_plan: bool) -> None:
    core, network = started(THREE_TIERS) if with_plan else without_a_plan(THREE_TIERS)
    assert len(core.state.view.links) == len(THREE_TIERS.links)
    assert {d: s.role for d, s in core.state.view.switches.items()} == {s.dpid: s.role for s in THREE_TIERS.switches}
    assert faults(network) == []


def test_planned_paths_cross_three_tiers_and_each_packet_takes_them() -> None:
    core, network = started(THREE_TIERS)
    assert isinstance(ask(network, CollectiveAnnounced(1, all_to_all(THREE_TIERS, ports=2))), Accepted)
    hops = sorted({len(path) for path in core.state.paths.values()})
    assert hops == [2, 4]
    assert not core.state.placement.unplaced  # type: ignore[union-attr]
    (shown,) = views.plans(core, "job")
    assert shown.state == "placed"
    assert faults(network) == []


@pytest.mark.parametrize("cut", [("spine1", "core1"), ("leaf1", "spine1"), ("spine3", "core2")])
def test_a_lost_cable_moves_what_crossed_it_and_no_packet_circles(cut: tuple[str, str]) -> None:
    _core, network = started(THREE_TIERS)
    ask(network, CollectiveAnnounced(1, all_to_all(THREE_TIERS)))
    network.cut(network.cable(*cut))
    network.run_for(0.002)
    # Before the controller has acted, packets may be lost; going in circles they must never.
    assert [v for v in check_delivery(network) if v.wrong is Wrong.LOOPED] == []
    network.run_until_quiet(60)
    assert faults(network) == []
    network.restore(network.cable(*cut))
    network.run_until_quiet(60)
    assert faults(network) == []


def test_a_core_that_is_switched_off_is_gone_round_and_comes_back() -> None:
    _core, network = started(THREE_TIERS)
    ask(network, CollectiveAnnounced(1, all_to_all(THREE_TIERS)))
    network.power_off("core1")
    network.run_until_quiet(60)
    assert faults(network) == []
    network.power_on("core1")
    network.run_until_quiet(60)
    assert faults(network) == []


def test_a_silent_core_gets_no_new_flows() -> None:
    core, network = started(THREE_TIERS)
    network.freeze("core1")
    network.run_for(10)
    ask(network, CollectiveAnnounced(1, all_to_all(THREE_TIERS)))
    used = {hop.dpid for path in core.state.paths.values() for hop in path}
    assert network.switch("core1").dpid not in used
    assert network.switch("core2").dpid in used


def test_hosts_below_an_edge_switch_are_reached_and_planned_from_their_leaf_on() -> None:
    of = edge_fabric()
    core, network = started(of)
    assert isinstance(ask(network, CollectiveAnnounced(1, all_to_all(of))), Accepted)
    leaf1 = network.switch("leaf1").dpid
    assert {path[0].dpid for unit, path in core.state.paths.items() if unit[0] == "10.0.9.1"} == {leaf1}
    assert not core.state.placement.unplaced  # type: ignore[union-attr]
    assert faults(network) == []


def test_paths_begin_and_end_at_an_edge_switch_that_has_a_choice_of_leaves() -> None:
    of = edge_fabric(("leaf1", "leaf2"), hosts=4)
    core, network = started(of)
    assert isinstance(ask(network, CollectiveAnnounced(1, TO_AND_FROM_EDGE)), Accepted)
    paths = {unit: path for unit, path in core.state.paths.items() if "10.0.3.1" in unit}
    assert Counter(path[0] for unit, path in paths.items() if unit[1] == "10.0.3.1") == {
        PortRef(0x401, 1): 2,
        PortRef(0x401, 2): 2,
    }
    assert Counter(path[-1].dpid for unit, path in paths.items() if unit[0] == "10.0.3.1") == {0x101: 2, 0x102: 2}
    # Leaf 3 must send to and hear from four hosts over two links each way: nothing can be better.
    found = core.state.placement.certificate  # type: ignore[union-attr]
    assert found.proven_optimal
    assert faults(network) == []
    assert views.topology(core, network.now_s).alarms == ()


def test_a_cut_below_the_leaves_moves_what_crossed_it_alone() -> None:
    core, network = started(edge_fabric(("leaf1", "leaf2"), hosts=4))
    ask(network, CollectiveAnnounced(1, TO_AND_FROM_EDGE))
    before = dict(core.state.paths)
    network.cut(network.cable("dpu1", "leaf1"))
    network.run_until_quiet(60)
    assert faults(network) == []
    gone, left = {PortRef(0x401, 1), PortRef(0x101, 9)}, {PortRef(0x401, 2), PortRef(0x102, 9)}
    stayed = {unit for unit, path in before.items() if gone.isdisjoint(path)}
    assert len(stayed) == 4
    # With one leaf left there is no choice below it, and paths begin there.
    assert all(core.state.paths[u] == tuple(hop for hop in before[u] if hop not in left) for u in stayed)
    assert stayed.isdisjoint(core.state.moves)
    moved = dict(core.state.moves)
    network.restore(network.cable("dpu1", "leaf1"))
    network.run_for(0.5)
    assert core.state.moves == moved
    assert {path[0].dpid for unit, path in core.state.paths.items() if unit[1] == "10.0.3.1"} == {0x401}
    network.run_until_quiet(60)
    assert faults(network) == []


def test_a_leaf_without_hosts_of_its_own_may_carry_an_edge_switch_over_parallel_cables() -> None:
    """What is planned ends at the leaf then, where nothing is attached."""
    of = two_tiers(leaves=2, spines=1, hosts=1, parallel=2)
    edge = PlannedSwitch("dpu1", 0x401, Role.EDGE)
    link = PlannedLink("dpu1", 1, "leaf1", 9, RATE_BPS)
    below = PlannedHost("v1", "dpu1", 9, "02:00:00:00:99:01", "10.0.9.1", 8, RATE_BPS)
    hosts = tuple(host for host in of.hosts if host.switch != "leaf1")
    of = replace(of, switches=(*of.switches, edge), links=(*of.links, link), hosts=(*hosts, below))
    core, network = started(of)
    assert isinstance(ask(network, CollectiveAnnounced(1, all_to_all(of))), Accepted)
    assert len(core.state.paths) == 2
    assert faults(network) == []


def test_a_leaf_that_does_not_answer_is_gone_round_by_an_edge_switch() -> None:
    of = edge_fabric(("leaf1", "leaf2"), hosts=4)
    core, network = started(of)
    network.freeze("leaf1")
    network.run_for(10)
    assert isinstance(ask(network, CollectiveAnnounced(1, TO_AND_FROM_EDGE)), Accepted)
    assert {hop.dpid for path in core.state.paths.values() for hop in path}.isdisjoint({0x101})
    assert len(core.state.paths) == 8


def test_an_edge_switch_with_two_leaves_never_carries_others() -> None:
    of = edge_fabric(("leaf1", "leaf2"))
    _core, network = started(of)
    ask(network, CollectiveAnnounced(1, all_to_all(of)))
    assert faults(network) == []
    # Leaf 1 loses its spines: its way out must not become the edge switch.
    for spine in ("spine1", "spine2"):
        network.cut(network.cable("leaf1", spine))
    network.run_until_quiet(60)
    between = [("h11", "h31"), ("h31", "h11")]
    assert [v for v in check_delivery(network, between, longest_path=3) if v.wrong is Wrong.LOOPED] == []
    assert check_delivery(network, [("v1", "h31"), ("h31", "v1"), ("h11", "v1")]) == []
    assert half_paths(network) == []


def test_an_edge_switch_without_a_leaf_is_named() -> None:
    core, network = started(edge_fabric())
    network.cut(network.cable("dpu1", "leaf1"))
    network.run_until_quiet(60)
    assert any("edge switch dpu1 hangs on no leaf" in alarm for alarm in views.topology(core, network.now_s).alarms)


def test_without_a_plan_an_edge_switch_is_told_from_a_spine() -> None:
    of = edge_fabric()
    core, network = without_a_plan(of)
    assert core.state.view_problems == ()
    assert {d: s.role for d, s in core.state.view.switches.items()} == {s.dpid: s.role for s in of.switches}
    assert check_delivery(network) == []


def test_new_tiers_do_not_outlive_a_restart_badly() -> None:
    """Restarted, the controller finds three tiers as it left them and changes nothing."""
    _core, network = started(THREE_TIERS)
    ask(network, CollectiveAnnounced(1, all_to_all(THREE_TIERS)))
    before = {name: switch.tables() for name, switch in network.wiring.switches.items()}
    network.restart_controller(Core(CoreSettings(beacon_key=KEY, plan=THREE_TIERS)), down_s=1.0)
    network.run_until_quiet(60)
    assert {name: switch.tables() for name, switch in network.wiring.switches.items()} == before


@pytest.mark.parametrize("with_plan", [True, False])
def test_pods_are_shown_by_the_plans_names_or_by_number(with_plan: bool) -> None:
    core, network = started(THREE_TIERS) if with_plan else without_a_plan(THREE_TIERS)
    shown = {s.dpid: (s.role, s.pod) for s in views.topology(core, network.now_s).switches}
    assert shown == {s.dpid: (s.role.value, s.pod) for s in THREE_TIERS.switches}


@pytest.mark.parametrize("seed", range(3))
def test_any_cuts_leave_exactly_the_pairs_reached_that_a_way_up_and_down_joins(seed: int) -> None:
    """Cables fail and come back with a job in place; some are missing from the start, some are parallel."""
    random = Random(seed)
    links = tuple(link for link in THREE_TIERS.links if random.random() > 0.08)
    doubled = tuple(replace(k, a_port=k.a_port + 20, b_port=k.b_port + 20) for k in links if random.random() < 0.2)
    of = replace(THREE_TIERS, links=links + doubled)
    core, network = started(of, seed)
    ask(network, CollectiveAnnounced(1, all_to_all(of)))
    dpid = {s.name: s.dpid for s in of.switches}
    cables = [network.wiring.cable_at(PortRef(dpid[k.a], k.a_port)) for k in of.links]
    for _ in range(3):
        cut = random.sample(cables, random.randint(1, 5))
        for cable in cut:
            network.cut(cable)  # type: ignore[arg-type]
        network.run_for(random.uniform(0.0, 0.02))
        assert [v for v in check_delivery(network) if v.wrong is Wrong.LOOPED] == []
        network.run_until_quiet(60)
        assert wrongly_reached(core, network) == []
        assert half_paths(network) + network.record.ordering_problems() == []
        for cable in random.sample(cut, len(cut) // 2):
            network.restore(cable)  # type: ignore[arg-type]
        network.run_until_quiet(60)
        assert wrongly_reached(core, network) == []


def wrongly_reached(core: Core, network: ModelNetwork) -> list[str]:
    """Pairs of hosts that are reached although no path joins their leaves, or the other way round."""
    paths = fabric_paths(core.state.view)
    found = []
    for source in network.hosts.values():
        for destination in network.hosts.values():
            leaves = (source.port.dpid, destination.port.dpid)
            joined = leaves[0] == leaves[1] or paths.joins(leaves)
            for packet in roce_probes(source, destination) if source is not destination else ():
                result = walk(network, packet, source.name)
                if result.delivered != ((destination.name,) if joined else ()) or result.looped:
                    found.append(result.explain())
    return found


def test_switches_short_of_rules_route_three_tiers_by_prefix_and_leave_flows_to_ecmp() -> None:
    _core, roomy = started(THREE_TIERS)
    core = Core(CoreSettings(beacon_key=KEY, plan=THREE_TIERS))
    network = ModelNetwork(THREE_TIERS, core, seed=3)
    for name, switch in network.wiring.switches.items():
        switch.limits = Limits(rules=len(roomy.switch(name).tables().rules) - 6)
    network.announce_hosts()
    network.run_until_quiet(120)
    assert any(room.prefixes for room in core.state.rooms.values())
    ask(network, CollectiveAnnounced(1, all_to_all(THREE_TIERS)))
    assert faults(network) == []
