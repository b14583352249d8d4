"""However much is said to be lost, and wherever, every switch keeps half of its links upwards, the least lossy ones."""

from dataclasses import replace
from pathlib import Path

import pytest
from fabrics import plan, spine

from controller.core.avoidance import Origin
from controller.core.events import DrainWanted
from controller.core.gray_limits import Fabric, kept
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.core.views.link_condition import link_condition
from controller.fabric.discovery import Cable, cable_of
from controller.fabric.model import PortRef, Role
from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink, PlannedSwitch
from controller.formats.topology_file import load
from controller.simulation import cables
from controller.simulation.network import ModelNetwork

TOPOLOGIES = Path(__file__).parents[2] / "topologies"


def started(of: FabricPlan, *, planned: bool = True) -> tuple[Core, ModelNetwork]:
    core = Core(CoreSettings(b"k" * 32, of if planned else None, heartbeat_period_s=0.25))
    network = ModelNetwork(of, core, seed=1)
    network.background.packets_per_second = 500.0
    network.announce_hosts()
    network.run_for(20.0)
    assert len(core.state.view.links) == len(of.links)
    return core, network


def everywhere_lossy(network: ModelNetwork, share: float = 0.02) -> None:
    for cable in network.wiring.cables:
        if ends_of(cable) is not None:
            network.make_lossy(cable, share, broken=True)


def ends_of(cable: cables.Cable) -> Cable | None:
    a, b = cable.a, cable.b
    return cable_of(a, b) if isinstance(a, PortRef) and isinstance(b, PortRef) else None


def between(network: ModelNetwork, a: str, b: str) -> Cable:
    ends = ends_of(network.cable(a, b))
    assert ends is not None
    return ends


def avoided(core: Core) -> set[object]:
    return set(core.state.avoided.of(Origin.GRAY))


def used(core: Core, name: str) -> list[Role]:
    """What the links are to that paths of a switch may use."""
    switches = core.state.view.switches
    found = []
    for link in core.state.view.links:
        for here, there in ((link.a, link.b), (link.b, link.a)):
            if switches[here.dpid].name == name:
                found.append(switches[there.dpid].role)
    return found


def test_a_leaf_keeps_half_of_its_links() -> None:
    core, network = started(plan(leaves=2, spines=4))
    for name, share in {"spine1": 0.01, "spine2": 0.03, "spine3": 0.02, "spine4": 0.04}.items():
        network.make_lossy(network.cable("leaf1", name), share)
    network.run_for(30.0)
    assert len(core.watch.gray.links.gray) == 4
    assert len(avoided(core)) == 2
    assert len(core.state.view.links) == 6
    (ends, *_) = core.watch.gray.kept
    condition = link_condition(core, ends, network.now_s)
    assert condition[0] == "gray"
    assert condition[2].endswith("used all the same: of the 4 links upwards of leaf1 2 are avoided already")
    messages = [entry.message for entry in core.chronicle.history.entries]
    assert sum("is used all the same" in message for message in messages) == 2
    # Mended, it is told that they are kept no longer.
    for name in ("spine1", "spine2", "spine3", "spine4"):
        network.restore(network.cable("leaf1", name))
    network.run_for(150.0)
    assert not core.watch.gray.links.gray
    assert not core.state.avoided
    messages = [entry.message for entry in core.chronicle.history.entries]
    assert sum("has been clean for long" in message for message in messages) == 2


def test_a_worn_spine_is_avoided_on_all_its_links() -> None:
    core, network = started(plan(leaves=4, spines=2))
    for number in range(1, 5):
        network.make_lossy(network.cable(f"leaf{number}", "spine2"), 0.02)
    network.run_for(20.0)
    assert len(avoided(core)) == 4
    assert not core.watch.gray.kept


def test_a_far_worse_link_takes_the_place_of_a_better_one() -> None:
    core, network = started(plan(leaves=2, spines=4))
    for name in ("spine1", "spine2"):
        network.make_lossy(network.cable("leaf1", name), 0.005)
    network.run_for(60.0)
    assert avoided(core) == {between(network, "leaf1", name) for name in ("spine1", "spine2")}
    network.make_lossy(network.cable("leaf1", "spine3"), 0.4)
    network.run_for(30.0)
    assert between(network, "leaf1", "spine3") in avoided(core)
    assert len(avoided(core)) == 2


def test_a_kept_link_that_becomes_worse_is_known_for_it() -> None:
    core, network = started(plan(leaves=2, spines=2))
    network.make_lossy(network.cable("leaf1", "spine1"), 0.01)
    network.run_for(20.0)
    network.make_lossy(network.cable("leaf1", "spine2"), 0.008)
    network.run_for(40.0)
    assert set(core.watch.gray.kept) == {between(network, "leaf1", "spine2")}
    network.make_lossy(network.cable("leaf1", "spine2"), 0.2)
    network.run_for(30.0)
    assert avoided(core) == {between(network, "leaf1", "spine2")}
    assert set(core.watch.gray.kept) == {between(network, "leaf1", "spine1")}


def test_a_link_that_was_pulled_uses_up_nothing() -> None:
    core, network = started(plan(leaves=3, spines=4))
    for name in ("spine1", "spine3"):
        network.make_lossy(network.cable("leaf1", name), 0.03)
        network.run_for(30.0)
        network.cut(network.cable("leaf1", name))
    network.run_for(10.0)
    network.make_lossy(network.cable("leaf1", "spine2"), 0.03)
    network.run_for(40.0)
    assert between(network, "leaf1", "spine2") in avoided(core)
    assert used(core, "leaf1") == [Role.SPINE]


def test_when_good_links_die_the_least_lossy_are_used_again() -> None:
    core, network = started(plan(leaves=2, spines=4))
    for name in ("spine1", "spine2"):
        network.make_lossy(network.cable("leaf1", name), 0.02)
    network.run_for(30.0)
    assert len(avoided(core)) == 2
    network.cut(network.cable("leaf1", "spine3"))
    network.run_for(10.0)
    assert len(avoided(core)) == 1
    assert len(used(core, "leaf1")) == 2


def test_what_an_operator_has_drained_counts() -> None:
    core, network = started(plan(leaves=3, spines=4))
    network.inject(DrainWanted(1, (spine(1), spine(2)), "firmware"))
    network.run_for(5.0)
    everywhere_lossy(network)
    network.run_for(40.0)
    assert all(len(used(core, f"leaf{number}")) == 2 for number in (1, 2, 3))
    for number in (1, 2, 3):
        assert link_condition(core, between(network, f"leaf{number}", "spine1"), network.now_s)[0] != "up"
        assert between(network, f"leaf{number}", "spine1") not in core.watch.gray.kept


def test_in_three_tiers_spines_keep_half_of_their_links_too() -> None:
    core, network = started(load(TOPOLOGIES / "threetier-2x2x2.yaml"))
    whole = [switch.name for switch in core.state.view.switches.values() if switch.role is Role.SPINE]
    before = {name: used(core, name).count(Role.CORE) for name in whole}
    everywhere_lossy(network)
    network.run_for(40.0)
    assert all(2 * used(core, name).count(Role.CORE) >= count > 1 for name, count in before.items())


def test_links_to_what_is_below_a_leaf_do_not_count() -> None:
    """Neither as links that it has, nor as such that are avoided."""
    core, network = started(with_dpus(4))
    everywhere_lossy(network)
    network.run_for(40.0)
    assert used(core, "leaf1").count(Role.SPINE) >= 1
    up = [c for c in core.watch.gray.kept if core.state.view.switches[c[1].dpid].role is Role.SPINE]
    assert up


def with_dpus(count: int) -> FabricPlan:
    of = plan(leaves=2, spines=2)
    switches = [PlannedSwitch(f"dpu{k}", 0x400 + k, Role.EDGE) for k in range(1, count + 1)]
    links = [PlannedLink(f"dpu{k}", 1, "leaf1", 20 + k, 10**7) for k in range(1, count + 1)]
    hosts = [
        PlannedHost(f"v{k}", f"dpu{k}", 2, f"02:00:00:01:{k:02x}:01", f"10.1.{k}.1", 8, 10**7)
        for k in range(1, count + 1)
    ]
    return replace(
        of,
        switches=(*of.switches, *switches),
        links=(*of.links, *links),
        hosts=(*of.hosts, *hosts),
    )


def test_where_roles_are_unknown_something_is_left_all_the_same() -> None:
    lone = replace(plan(leaves=2, spines=2), hosts=())
    core, network = started(lone, planned=False)
    everywhere_lossy(network)
    network.run_for(40.0)
    assert len(core.state.view.links) >= 2


def leaf_spine(leaves: int, spines: int) -> tuple[list[Cable], dict[int, Role]]:
    links = [(PortRef(i, j), PortRef(1000 + j, i)) for i in range(1, leaves + 1) for j in range(1, spines + 1)]
    roles = dict.fromkeys(range(1, leaves + 1), Role.LEAF) | dict.fromkeys(range(1001, 1001 + spines), Role.SPINE)
    return links, roles


@pytest.mark.parametrize("spines", range(1, 9))
def test_least_lossy_first_and_never_more_than_half(spines: int) -> None:
    links, roles = leaf_spine(1, spines)
    lost = {cable: 0.01 * cable[0].port_no for cable in links}
    found = kept(lost, (), Fabric(links, (), roles), str)
    assert len(found) == spines - max(1, spines // 2)
    assert set(found) == set(links[: len(found)])


@pytest.mark.parametrize("steady", [True, False])
def test_nothing_changes_over_without_need(steady: bool) -> None:
    links, roles = leaf_spine(1, 4)
    lost = dict.fromkeys(links, 0.01) | {links[2]: 0.02 if steady else 0.05}
    found = kept(lost, links[:2], Fabric(links, (), roles), str)
    assert (links[2] in found) == steady
    again = kept(lost, lost.keys() - found.keys(), Fabric(links, (), roles), str)
    assert again == found


def test_nothing_is_worked_out_again_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of gray links each event would take a second."""
    core, network = started(plan(leaves=4, spines=4))
    everywhere_lossy(network)
    network.run_for(30.0)
    assert core.watch.gray.kept
    calls = []
    decide = core.watch.gray._decide
    monkeypatch.setattr(core.watch.gray, "_decide", lambda up: calls.append(network.now_s) or decide(up))
    events = []
    handle = core.handle
    monkeypatch.setattr(core, "handle", lambda event, now_s: events.append(now_s) or handle(event, now_s))
    network.run_for(10.0)
    assert len(events) > 200
    assert len(calls) <= 25
