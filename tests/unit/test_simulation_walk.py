"""Walks through tables, and the checks built on them."""

import pytest
from fabrics import leaf, plan
from test_simulation_network import TinyCore, routes

from controller.core.commands import SendBatch
from controller.fabric.plan import FabricPlan
from controller.pipeline.packet import ETH_IPV4, ip_value
from controller.pipeline.rules import (
    OFPP_CONTROLLER,
    AddRule,
    Barrier,
    DeleteRule,
    MatchField,
    Modification,
    Output,
    Rule,
    SetQueue,
    match,
)
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import Reachability, Wrong, check_delivery, roce_probes, walk
from controller.simulation.watch import DeliveryWatch

HIGH = 50


def ready(fabric: FabricPlan | None = None) -> ModelNetwork:
    """A network with static routes."""
    fabric = fabric or plan()
    net = ModelNetwork(fabric, TinyCore(routes(fabric)))
    net.run_until_quiet(20)
    return net


def add(net: ModelNetwork, switch: str, host: str, *actions: Output | SetQueue) -> None:
    """Overrides the route of one switch to one host."""
    to = match(eth_type=ETH_IPV4, ipv4_dst=net.hosts[host].ipv4)
    assert net.switch(switch).execute([AddRule(Rule(0, HIGH, to, 0, actions))]) == ()


def send(net: ModelNetwork, switch: str, *modifications: Modification) -> None:
    """As one batch of the controller's."""
    session = net.session(switch)
    assert session is not None
    session.accept(SendBatch(net.switch(switch).dpid, session.session_id, 1, modifications))
    net.run_for(0.1)


def wrongs(net: ModelNetwork) -> set[tuple[Wrong, str, str]]:
    return {(v.wrong, v.source, v.destination) for v in check_delivery(net)}


def test_a_walk_names_switches_ports_and_queues() -> None:
    net = ready()
    add(net, "leaf1", "h21", SetQueue(3), Output(2))
    source, destination = net.hosts["h11"], net.hosts["h21"]
    result = walk(net, roce_probes(source, destination)[0], "h11")
    assert result.ports == (("leaf1", 2), ("spine2", 2), ("leaf2", 3))
    assert result.hops[0].queues == (3,)
    assert (result.delivered, result.drops, result.looped) == (("h21",), (), False)
    assert result.arrivals[0].get("ipv4_dst") == ip_value("10.0.2.1")
    assert "leaf1 (in 3" in result.explain()
    assert result.explain().endswith("delivered to h21")


def test_a_walk_changes_nothing() -> None:
    net = ready()
    assert check_delivery(net) == []
    assert {entry.packets for entry in net.switch("leaf1").entries() if entry.rule.priority == 5} == {0}
    assert net.hosts["h11"].received_packets == 0


def test_an_unknown_host_is_named() -> None:
    net = ready()
    with pytest.raises(KeyError, match="h99"):
        walk(net, roce_probes(net.hosts["h11"], net.hosts["h21"])[0], "h99")


def test_black_holes_are_found() -> None:
    net = ready()
    add(net, "spine1", "h21")
    assert wrongs(net) == {(Wrong.LOST, host, "h21") for host in ("h11", "h12")}


def test_duplicates_are_found() -> None:
    net = ready()
    add(net, "leaf1", "h21", Output(1), Output(2))
    assert wrongs(net) == {(Wrong.DUPLICATED, host, "h21") for host in ("h11", "h12")}


def test_misdeliveries_are_found() -> None:
    net = ready()
    add(net, "leaf2", "h21", Output(3), Output(4))
    # Port 4 is h22's own: nothing goes back to it.
    assert wrongs(net) == {(Wrong.MISDELIVERED, host, "h21") for host in ("h11", "h12")}


def test_loops_are_found() -> None:
    net = ready()
    # Leaf 1 -> spine 1 -> leaf 2 -> spine 2 -> leaf 1 -> ...
    for switch, port in (("leaf1", 1), ("spine1", 2), ("leaf2", 2), ("spine2", 1)):
        add(net, switch, "h21", Output(port))
    found = wrongs(net)
    assert (Wrong.LOOPED, "h11", "h21") in found
    assert {wrong for wrong, *_ in found} == {Wrong.LOOPED}


def test_punts_instead_of_deliveries_are_found() -> None:
    net = ready()
    add(net, "leaf2", "h21", Output(OFPP_CONTROLLER, 128))
    assert (Wrong.PUNTED, "h11", "h21") in wrongs(net)


def test_nothing_is_owed_where_no_path_exists() -> None:
    net = ready()
    for spine_name in ("spine1", "spine2"):
        net.cut(net.cable("leaf1", spine_name))
    net.run_for(0.1)
    assert check_delivery(net) == []
    net.cut(net.cable("leaf2", "h21"))
    net.run_for(0.1)
    assert check_delivery(net) == []


def test_a_one_way_cable_is_no_path() -> None:
    net = ready()
    net.fail_silently(net.cable("leaf1", "spine1"), sender="leaf1")
    reach = Reachability(net)
    assert reach.connected("h11", "h21")
    net.cut(net.cable("leaf1", "spine2"))
    assert not Reachability(net).connected("h11", "h21")


def test_path_lengths_count_switches() -> None:
    fabric = plan(leaves=3)
    net = ready(fabric)
    reach = Reachability(net)
    assert reach.connected("h11", "h12", 1)
    assert reach.connected("h11", "h21", 3)
    assert not reach.connected("h11", "h21", 2)
    # Without a common spine the only way is up and down twice.
    net.cut(net.cable("leaf1", "spine1"))
    net.cut(net.cable("leaf2", "spine2"))
    assert not Reachability(net).connected("h11", "h21", 3)
    assert Reachability(net).connected("h11", "h21", 5)


def test_a_switch_that_is_off_connects_nothing() -> None:
    net = ready()
    net.power_off("leaf1")
    assert not Reachability(net).connected("h11", "h12")
    assert leaf(1) == net.switch("leaf1").dpid


def test_a_gap_between_two_right_states_is_seen() -> None:
    net = ready()
    to_host = MatchField("ipv4_dst", ip_value("10.0.2.1"))
    (route,) = [entry.rule for entry in net.switch("spine1").entries() if to_host in entry.rule.match]
    watch = DeliveryWatch(net)
    send(net, "spine1", DeleteRule(route), Barrier(), AddRule(route))
    assert check_delivery(net) == []
    assert {(v.wrong, v.destination) for _, v in watch.violations} == {(Wrong.LOST, "h21")}
    watch.stop()
    seen = len(watch.violations)
    send(net, "spine1", DeleteRule(route))
    assert (len(check_delivery(net)), len(watch.violations)) == (6, seen)
