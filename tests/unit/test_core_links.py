"""Links as users of the fabric see them: flaps, reboots, moved cables, second neighbours; the whole core on a model."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from fabrics import leaf, plan, spine

from controller.core import views
from controller.core.commands import Report, SendBatch
from controller.core.events import PacketReceived
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric import beacon
from controller.fabric.model import PortRef
from controller.fabric.plan import FabricPlan
from controller.pipeline.detour import is_detour_rule
from controller.pipeline.packet import Packet
from controller.pipeline.rules import Bundle
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery, walk

KEY = b"k" * 32
HEARTBEAT = {"heartbeat_period_s": 0.25}


def started(of: FabricPlan, **settings: float) -> tuple[Core, ModelNetwork]:
    core = Core(CoreSettings(KEY, of, **settings))  # type: ignore[arg-type]
    network = ModelNetwork(of, core, seed=1)
    network.announce_hosts()
    network.run_until_quiet(30)
    return core, network


def state(core: Core, network: ModelNetwork, a: str, b: str) -> str:
    shown = views.topology(core, network.now_s).links
    return next(link.state for link in shown if {link.a.switch, link.b.switch} == {a, b})


class Seen:
    """The states that a user who looks all the time sees one link in."""

    def __init__(self, core: Core, network: ModelNetwork, a: str, b: str) -> None:
        self._look: Callable[[], str] = partial(state, core, network, a, b)
        self._network = network
        self.states = [self._look()]

    def run_for(self, seconds: float) -> None:
        end_s = self._network.now_s + seconds
        while self._network.now_s < end_s:
            self._network.run_for(min(0.1, end_s - self._network.now_s))
            if (now := self._look()) != self.states[-1]:
                self.states.append(now)


@pytest.mark.parametrize(("off_s", "on_s"), [(0.05, 0.1), (0.8, 1.2)])
def test_thirty_flaps_are_three_changes_for_everybody(off_s: float, on_s: float) -> None:
    core, network = started(plan(leaves=3, spines=3), **HEARTBEAT)
    seen = Seen(core, network, "leaf1", "spine1")
    cable = network.cable("leaf1", "spine1")
    before = len(network.record.commands_of(SendBatch))
    for _ in range(30):
        network.cut(cable)
        seen.run_for(off_s)
        network.restore(cable)
        seen.run_for(on_s)
    assert seen.states in (["up", "down", "held"], ["up", "down", "up", "held"])
    # Some batches for each of the few changes, and none for the other flaps.
    assert len(network.record.commands_of(SendBatch)) - before < 40
    (reason,) = [link.reason for link in views.topology(core, network.now_s).links if link.state == "held"]
    assert "flapped" in reason
    assert check_delivery(network) == []
    seen.run_for(90.0)
    assert seen.states[-2:] == ["held", "up"]
    assert check_delivery(network) == []


def test_a_flapping_link_is_used_where_nothing_else_joins_the_leaves() -> None:
    core, network = started(plan(leaves=2, spines=1))
    cable = network.cable("leaf1", "spine1")
    for _ in range(6):
        network.cut(cable)
        network.run_for(0.4)
        network.restore(cable)
        network.run_for(0.8)
    assert state(core, network, "leaf1", "spine1") == "held"
    assert len(core.state.view.links) == 2
    assert check_delivery(network) == []
    (reason,) = [link.reason for link in views.topology(core, network.now_s).links if link.state == "held"]
    assert "used all the same" in reason


def test_a_single_reboot_is_not_damped() -> None:
    core, network = started(plan(leaves=3, spines=2))
    network.reboot("spine1", off_s=6.0)
    network.run_for(4.5)
    assert {state(core, network, f"leaf{n}", "spine1") for n in (1, 2, 3)} == {"down"}
    while core.state.switches[spine(1)].session_id is None:
        network.run_for(0.05)
    network.run_for(2.0)
    assert {state(core, network, f"leaf{n}", "spine1") for n in (1, 2, 3)} == {"up"}
    assert check_delivery(network) == []


@pytest.mark.parametrize("silently", [False, True])
def test_a_cable_that_was_moved_is_one_link_gone_and_one_new(silently: bool) -> None:
    of = plan(leaves=2, spines=3)
    # The cable's other end is to go into a port that the plan knows nothing of.
    core, network = started(of)
    old = network.cable("leaf1", "spine1")
    at, new = PortRef(leaf(1), 1), PortRef(spine(2), 9)
    if silently:
        network.wiring.unplug(old)
        network.wiring.plug(at, new, old.rate_bps)
        switch = network.switch("spine2")
        network._report_port(PortRef(switch.dpid, 9))
    else:
        network.unplug(old)
        network.plug(at, new, old.rate_bps)
    network.run_for(2.0)
    shown = {
        (link.a.switch, link.a.port_no, link.b.switch, link.b.port_no): link.state for link in _links(core, network)
    }
    assert shown["leaf1", 1, "spine2", 9] == "up"
    assert shown.get(("leaf1", 1, "spine1", 1), "down") != "up"
    network.run_for(6.0)
    shown = {
        (link.a.switch, link.a.port_no, link.b.switch, link.b.port_no): link.state for link in _links(core, network)
    }
    assert ("leaf1", 1, "spine1", 1) not in shown
    assert len(shown) == len(of.links)


def _links(core: Core, network: ModelNetwork) -> tuple[views.LinkView, ...]:
    return views.topology(core, network.now_s).links


def test_two_neighbours_in_one_port_are_one_event_and_both_are_named() -> None:
    core, network = started(plan(leaves=2, spines=3))
    session = network.session("leaf1")
    assert session is not None
    seen = Seen(core, network, "leaf1", "spine1")
    other = PortRef(spine(3), 2)
    before = len(network.record.commands_of(Report))
    for number in range(60):
        # Over every other beacon of spine1's port comes one of spine3's: a hub, or a NIC that bridges.
        frame = beacon.encode(beacon.Beacon(other, 10**6 + number), "02:01:00:00:00:01", KEY)
        network.inject(PacketReceived(leaf(1), session.session_id, 1, frame))
        seen.run_for(0.5)
    assert seen.states == ["up", "suspect"]
    assert len(network.record.commands_of(Report)) - before <= 2
    (alarm,) = views.topology(core, network.now_s).alarms
    assert "leaf1:1 hears 2 neighbours (spine1:1, spine3:2)" in alarm
    assert not any(PortRef(leaf(1), 1) in (link.a, link.b) for link in core.state.view.links)
    assert check_delivery(network) == []
    seen.run_for(5.0)
    assert seen.states[-1] == "up"
    assert views.topology(core, network.now_s).alarms == ()


def test_a_link_that_is_added_at_run_time_is_found_and_shares_the_load() -> None:
    core, network = started(plan(leaves=2, spines=2))
    network.plug(PortRef(leaf(1), 9), PortRef(spine(1), 9), 10_000_000)
    network.run_for(2.0)
    assert len(core.state.view.links) == 5
    routes = [rule for rule in network.switch("leaf1").tables().rules if not is_detour_rule(rule)]
    spread = [action for rule in routes for action in rule.actions]
    assert {len(set(action.ports)) for action in spread if isinstance(action, Bundle)} == {3}


def test_a_loop_within_one_switch_is_named_and_not_fatal() -> None:
    core, network = started(plan(leaves=2, spines=2))
    network.plug(PortRef(leaf(1), 8), PortRef(leaf(1), 9), 10_000_000)
    network.run_for(5.0)
    (loop,) = [link for link in _links(core, network) if link.a.switch == link.b.switch]
    assert (loop.state, loop.cause, loop.reason) == ("suspect", "ambiguous", "both ends are in leaf1")
    assert {s.role for s in views.topology(core, network.now_s).switches} == {"leaf", "spine"}
    assert check_delivery(network) == []


def test_ports_that_say_no_speed_are_warned_of_once_and_carry_traffic() -> None:
    of = plan(leaves=2, spines=2)
    core = Core(CoreSettings(KEY, None))
    network = ModelNetwork(of, core, seed=1)
    for switch in network.wiring.switches.values():
        for number, port in list(switch.ports.items()):
            switch.ports[number] = replace(port, speed_bps=0)
    network.run_until_quiet(30)
    network.announce_hosts()
    network.run_until_quiet(30)
    assert check_delivery(network) == []
    assert {link.capacity_bps for link in core.state.view.links} == {core.settings.default_rate_bps}
    assert len([c for c in network.record.commands_of(Report) if "speed" in c.message]) == 1


def test_one_way_links_say_which_way() -> None:
    core, network = started(plan(leaves=2, spines=2), **HEARTBEAT)
    network.fail_silently(network.cable("leaf1", "spine1"), sender="spine1")
    network.run_for(1.0)
    (link,) = [link for link in _links(core, network) if link.state == "suspect"]
    assert (link.cause, link.reason) == ("one-way", "what spine1:1 sends does not arrive at leaf1:1")


def test_a_planned_link_of_a_switch_that_never_came_is_unknown() -> None:
    of = plan(leaves=2, spines=2)
    core = Core(CoreSettings(KEY, of))
    network = ModelNetwork(of, core, seed=1)
    network.power_off("spine2")
    network.run_for(30.0)
    unknown = [
        (link.state, link.reason) for link in _links(core, network) if "spine2" in (link.a.switch, link.b.switch)
    ]
    assert unknown == [("unknown", "spine2 not connected to the controller")] * 2


def test_lldp_of_a_host_goes_nowhere() -> None:
    core, network = started(plan(leaves=2, spines=1))
    frames = network.hosts["h21"].received_packets + network.hosts["h22"].received_packets
    lldp = Packet({"eth_dst": 0x0180C200000E, "eth_src": network.hosts["h11"].mac, "eth_type": 0x88CC})
    assert walk(network, lldp, "h11").delivered == ()
    network.send("h11", lldp)
    network.run_for(1.0)
    assert network.hosts["h21"].received_packets + network.hosts["h22"].received_packets == frames
    assert len(core.state.view.links) == 2
