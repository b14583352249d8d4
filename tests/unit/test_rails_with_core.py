"""The whole core on rail-optimised fabrics against model switches: roles, rails, jobs and advice."""

from dataclasses import replace
from pathlib import Path

import pytest
from core_model import KEY, ask, half_paths, started
from test_rails import agent_frame

from controller.core import views
from controller.core.commands import Accepted, Refused
from controller.core.events import CollectiveAnnounced, PacketReceived
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.core.views.advice import advise_placement
from controller.fabric.plan import FabricPlan
from controller.formats.topology_file import load, load_text
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery

RAILS = load(Path(__file__).parents[2] / "topologies" / "rails-4x2.yaml")
POD = load_text("name: pod\nrate: 8M\nleaf_spine: {leaves: 8, spines: 2, hosts_per_leaf: 2, rails: 4}\n")


def rails_shown(core: Core) -> dict[str, tuple[int, ...]]:
    return {switch.name: switch.rails for switch in views.topology(core, 0.0).switches if switch.rails}


def job(ranks: str, *, algorithm: Algorithm = Algorithm.HIERARCHICAL, together: int = 2) -> Collective:
    return Collective("job", Operation.ALL_REDUCE, algorithm, tuple(ranks.split(",")), 1 << 24, ranks_per_host=together)


def faults(network: ModelNetwork) -> list[str]:
    return [str(v) for v in check_delivery(network)] + half_paths(network)


def test_rails_and_interfaces_are_shown_and_every_interface_is_reached() -> None:
    core, network = started(POD)
    assert rails_shown(core) == {f"leaf{leaf}": ((leaf - 1) % 4 + 1,) for leaf in range(1, 9)}
    shown = {(h.name, h.nic, h.server, h.port.switch) for h in views.topology(core, 0.0).hosts}
    assert ("h2_1", 3, "h2_1", "leaf7") in shown
    assert views.topology(core, 0.0).alarms == ()
    assert faults(network) == []


def test_each_rank_sends_from_the_interface_of_its_gpu_and_a_rail_stays_on_its_leaf() -> None:
    core, network = started(RAILS)
    assert isinstance(ask(network, CollectiveAnnounced(1, job("h1_1,h1_1,h1_2,h1_2"))), Accepted)
    flows = core.state.jobs["job"].flows
    assert {(flow.src_address, flow.dst_address) for flow in flows} == {
        ("10.0.1.1", "10.0.1.2"),
        ("10.0.1.2", "10.0.1.1"),
        ("10.0.2.1", "10.0.2.2"),
        ("10.0.2.2", "10.0.2.1"),
    }
    (plan,) = views.plans(core, "job")
    assert plan.state == "local"
    assert ("h1_1:2", "h1_2:2") in {(flow.src_host, flow.dst_host) for flow in plan.flows}


def test_between_groups_each_rail_crosses_from_its_own_leaf() -> None:
    core, network = started(RAILS)
    assert isinstance(ask(network, CollectiveAnnounced(1, job("h1_1,h1_1,h2_1,h2_1"))), Accepted)
    crossing = {(unit[0], core.plan.name(path[0].dpid)) for unit, path in core.state.paths.items()}
    assert crossing == {("10.0.1.1", "leaf1"), ("10.0.2.1", "leaf2"), ("10.0.3.1", "leaf3"), ("10.0.4.1", "leaf4")}
    assert faults(network) == []


@pytest.mark.parametrize("ranks", ["h1_1:2,h1_2:2", "10.0.2.1,h1_2:2"])
def test_one_interface_can_be_meant(ranks: str) -> None:
    core, network = started(RAILS)
    assert isinstance(ask(network, CollectiveAnnounced(1, job(ranks, algorithm=Algorithm.RING, together=1))), Accepted)
    assert {unit.src_address for unit in core.state.jobs["job"].flows} == {"10.0.2.1", "10.0.2.2"}
    assert views.explain_flow(core, "h1_1:2", "h1_2:2", 0).flows


def test_an_interface_that_is_not_there_is_named() -> None:
    _core, network = started(RAILS)
    answer = ask(network, CollectiveAnnounced(1, job("h1_1:3,h1_2:2", algorithm=Algorithm.RING, together=1)))
    assert isinstance(answer, Refused)
    assert answer.problems == ("ranks[0]: h1_1's NIC 3 is not seen on this fabric; those seen: 1, 2",)


def test_what_two_interfaces_of_one_server_say_never_meets_the_fabric() -> None:
    core, network = started(RAILS)
    ring = job("h1_1:1,h1_1:2,h2_1:1,h2_1:2", algorithm=Algorithm.RING, together=1)
    answer = ask(network, CollectiveAnnounced(1, ring))
    # Two ranks of one server, and the caller did not say so: more likely a slip.
    assert isinstance(answer, Refused)
    assert isinstance(ask(network, CollectiveAnnounced(2, replace(ring, ranks_per_host=2))), Accepted)
    assert len(core.state.jobs["job"].flows) == 2


def test_advice_keeps_rails_on_their_leaves() -> None:
    core, _ = started(RAILS)
    candidates = ["h1_1", "h1_1", "h1_2", "h1_2", "h2_1", "h2_1"]
    advice = advise_placement(core, job("h1_1,h1_1,h2_1,h2_1"), candidates)
    assert advice.ranks == ("h1_1", "h1_1", "h1_2", "h1_2")
    assert (advice.given.crossing_flows, advice.advised.crossing_flows) == (4, 0)


def test_advice_says_what_going_by_rail_is_worth() -> None:
    core, _ = started(RAILS)
    advice = advise_placement(core, job("h1_1,h1_1,h1_2,h1_2", algorithm=Algorithm.RING), [])
    # A ring leaves a server by its last interface and enters the next one by its first.
    assert advice.given.crossing_flows == 2
    assert any("rail by rail (algorithm hierarchical)" in s and " 0 bytes cross" in s for s in advice.sentences)


def swapped(of: FabricPlan, server: str) -> FabricPlan:
    """The plugs of a server's first two interfaces, each in the other's port."""
    first, second = (host for host in of.hosts if host.name == server and host.nic in (1, 2))
    new = {
        first.label: replace(first, switch=second.switch, port=second.port),
        second.label: replace(second, switch=first.switch, port=first.port),
    }
    return replace(of, hosts=tuple(new.get(host.label, host) for host in of.hosts))


def test_swapped_plugs_break_the_rail_and_are_told() -> None:
    core = Core(CoreSettings(beacon_key=KEY, plan=POD))
    network = ModelNetwork(swapped(POD, "h1_2"), core, seed=1)
    for _ in range(3):
        network.announce_hosts()
        network.run_for(2.0)
    network.run_until_quiet(60)
    assert [a for a in views.topology(core, network.now_s).alarms if "NIC" in a] == [
        "h1_2's NIC 1 is on leaf2, rail 2; rail 1 is leaf1",
        "h1_2's NIC 2 is on leaf1, rail 1; rail 2 is leaf2",
    ]


def test_without_a_plan_servers_that_speak_lldp_show_the_rails() -> None:
    core, network = started(POD, settings=CoreSettings(beacon_key=KEY))
    network.announce_hosts()
    network.run_until_quiet(60)
    assert rails_shown(core) == {}
    for number, name in enumerate(sorted({host.name for host in POD.hosts}), 1):
        for host in (host for host in POD.hosts if host.name == name):
            at = network.hosts[host.label].port
            session = core.state.switches[at.dpid].session_id
            assert session is not None
            network.inject(PacketReceived(at.dpid, session, at.port_no, agent_frame(number, name, f"eth{host.nic}")))
    network.run_for(20)
    assert rails_shown(core) == {f"s{0x100 + leaf:x}": ((leaf - 1) % 4 + 1,) for leaf in range(1, 9)}
    shown = {(h.name, h.nic, h.server) for h in views.topology(core, 0.0).hosts}
    assert ("10.0.7.1", 3, "h2_1") in shown
