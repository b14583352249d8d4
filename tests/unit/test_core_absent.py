"""A controller restarted while a switch is frozen or away: that one goes on forwarding, and keeps what it has.

Where the absent switch has gone for good, or something else is where it was, what is there wins.
"""

import pytest
from fabrics import leaf, plan, spine

from controller.core.commands import Accepted
from controller.core.events import CollectiveAnnounced
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.model import PortRef
from controller.fabric.plan import FabricPlan
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery
from controller.simulation.watch import DeliveryWatch

FABRIC = plan(leaves=3, spines=2, hosts=2)
# Longer than a controller waits for switches that it expects.
LONG_S = 30.0
JOB = Collective("job", Operation.ALL_REDUCE, Algorithm.RING, ("10.0.1.1", "10.0.2.1", "10.0.3.1"), 16_000_000)


def new_core(of: FabricPlan | None) -> Core:
    return Core(CoreSettings(beacon_key=b"k" * 32, plan=of))


def started(with_plan: bool) -> ModelNetwork:
    net = ModelNetwork(FABRIC, new_core(FABRIC if with_plan else None), seed=1)
    net.run_until_quiet(30)
    net.announce_hosts()
    net.run_until_quiet(30)
    net.inject(CollectiveAnnounced(1, JOB))
    net.run_until_quiet(30)
    assert isinstance(net.record.answer(1), Accepted)
    return net


def restarted_without(net: ModelNetwork, name: str, with_plan: bool) -> Core:
    """The controller comes back, and the named switch does not, however often it is waited for."""
    net.stop_controller()
    net.run_for(0.1)
    again = new_core(FABRIC if with_plan else None)
    net.start_controller(again)
    net.run_for(0.01)
    net.lose_session(name, reconnect_after_s=2 * LONG_S)
    net._connect = _never(net, name)  # type: ignore[method-assign]
    return again


def _never(net: ModelNetwork, name: str):  # type: ignore[no-untyped-def]
    real = net._connect
    net.absent = True  # type: ignore[attr-defined]

    def connect(who: str) -> None:
        if who != name or not net.absent:  # type: ignore[attr-defined]
            real(who)

    return connect


def come_back(net: ModelNetwork, name: str) -> None:
    net.absent = False  # type: ignore[attr-defined]
    net._connect_later(name, 0.1)


@pytest.mark.parametrize("with_plan", [True, False])
@pytest.mark.parametrize("name", ["leaf1", "spine1"])
def test_what_leads_over_a_switch_that_is_away_stays(name: str, with_plan: bool) -> None:
    net = started(with_plan)
    before, since_s = net.core.state.paths, net.now_s  # type: ignore[union-attr]
    watch = DeliveryWatch(net)
    again = restarted_without(net, name, with_plan)
    net.run_for(LONG_S)
    assert not again.state.learning
    assert watch.violations == []
    assert net.record.modifications(since_s=since_s) == []
    assert again.state.paths == before
    come_back(net, name)
    net.run_for(LONG_S)
    assert all(switch.session_id for switch in again.state.switches.values())
    assert net.record.modifications(since_s=since_s) == []
    assert watch.violations == []


@pytest.mark.parametrize("with_plan", [True, False])
@pytest.mark.parametrize("name", ["leaf1", "spine1"])
def test_a_switch_that_came_back_for_a_moment_keeps_what_leads_over_it(name: str, with_plan: bool) -> None:
    """Too short for its hosts and cables to be heard; the fabric is thought to be known before it is there again."""
    net = started(with_plan)
    since_s = net.now_s
    watch = DeliveryWatch(net)
    net.stop_controller()
    net.slow_down(name, 100)
    again = new_core(FABRIC if with_plan else None)
    net.start_controller(again)
    dpid = net.switch(name).dpid
    while dpid not in again.state.switches or not again.state.switches[dpid].session_id:
        net.run_for(0.01)
    net.lose_session(name, reconnect_after_s=LONG_S + 10.0)
    net.run_for(LONG_S)
    assert not again.state.learning
    assert watch.violations == []
    assert net.record.modifications(since_s=since_s) == []


@pytest.mark.parametrize("with_plan", [True, False])
def test_what_happens_meanwhile_is_followed_all_the_same(with_plan: bool) -> None:
    """A third switch loses a cable; flows are placed anew while one switch is away."""
    net = started(with_plan)
    again = restarted_without(net, "spine1", with_plan)
    net.run_for(LONG_S)
    net.cut(net.cable("leaf2", "spine2"))
    net.run_for(5.0)
    assert check_delivery(net, longest_path=3) == []
    assert {PortRef(leaf(2), 1), PortRef(spine(1), 2)} <= {
        e for link in again.state.view.links for e in (link.a, link.b)
    }


@pytest.mark.parametrize("with_plan", [True, False])
def test_a_switch_that_was_switched_off_meanwhile_is_not_believed(with_plan: bool) -> None:
    net = started(with_plan)
    net.stop_controller()
    net.power_off("spine1")
    net.run_for(1.0)
    again = new_core(FABRIC if with_plan else None)
    net.start_controller(again)
    net.run_for(LONG_S)
    assert spine(1) not in again.state.switches
    assert check_delivery(net) == []
    assert spine(1) not in net.journal.switches
    assert not any(spine(1) in (a.dpid, b.dpid) for a, b in net.journal.cables)


@pytest.mark.parametrize("with_plan", [True, False])
def test_a_cable_cut_behind_the_controllers_back_is_not_believed(with_plan: bool) -> None:
    net = started(with_plan)
    net.stop_controller()
    net.cut(net.cable("leaf1", "spine1"))
    net.run_for(1.0)
    again = new_core(FABRIC if with_plan else None)
    net.start_controller(again)
    net.run_for(LONG_S)
    assert len(again.state.view.links) == 5
    assert check_delivery(net) == []


def test_a_cable_that_died_silently_meanwhile_is_found_by_its_silence() -> None:
    net = started(with_plan=True)
    net.stop_controller()
    net.fail_silently(net.cable("leaf1", "spine1"))
    again = new_core(FABRIC)
    net.start_controller(again)
    net.run_for(LONG_S)
    assert len(again.state.view.links) == 5
    assert check_delivery(net) == []


def test_a_host_where_a_switch_was_is_found() -> None:
    """Its port is up as ever, and the switch that was there will never come to say that it has gone."""
    net = started(with_plan=False)
    net.stop_controller()
    old = net.cable("leaf1", "spine1")
    host = net.cable("leaf1", "h11")
    net.power_off("spine1")
    net.run_for(1.0)
    net.unplug(old)
    net.unplug(host)
    net.hosts["h11"].port = PortRef(leaf(1), 1)
    net.wiring.plug(PortRef(leaf(1), 1), "h11", 10**9)
    net._see_carrier(PortRef(leaf(1), 1))
    again = new_core(None)
    net.start_controller(again)
    net.run_for(LONG_S)
    net.announce_hosts()
    net.run_for(10.0)
    assert {h.port for h in again.state.view.hosts if h.addresses == ("10.0.1.1",)} == {PortRef(leaf(1), 1)}
    assert check_delivery(net) == []
