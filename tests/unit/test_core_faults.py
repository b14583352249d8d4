"""Faults that fuzzing has found in the core, each as the shortest run that shows it (docs/fuzzing.md lists them)."""

import pytest
from fabrics import leaf, plan

from controller.core.events import CollectiveAnnounced, CollectiveWithdrawn, ComparisonWanted
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery
from controller.simulation.watch import DeliveryWatch

KEY = bytes(range(32))
SETTLE_S = 8.0
SHIFT = Collective("shift", Operation.ALL_TO_ALL, Algorithm.DIRECT, ("h11", "h21", "h31"), 1_000_000)


def started(seed: int, *, with_plan: bool = True, nicira: bool = True) -> ModelNetwork:
    fabric = plan(leaves=3)
    net = ModelNetwork(fabric, Core(CoreSettings(beacon_key=KEY, plan=fabric if with_plan else None)), seed=seed)
    for switch in net.wiring.switches.values():
        switch.nicira = nicira
    net.announce_hosts()
    net.run_until_quiet(60, settle_s=SETTLE_S)
    net.announce_hosts()
    net.run_until_quiet(60, settle_s=SETTLE_S)
    return net


@pytest.mark.parametrize("name", ["leaf1", "spine1"])
@pytest.mark.parametrize("away_s", [2.9, 4.0, 25.0])
def test_a_frozen_switch_keeps_its_links_because_its_tables_go_on_forwarding(name: str, away_s: float) -> None:
    net = started(1)
    watch = DeliveryWatch(net)
    links = net.core.state.view.links  # type: ignore[union-attr]
    net.freeze(name)
    net.later(away_s, lambda: net.thaw(name))
    net.run_until_quiet(120, settle_s=SETTLE_S)
    assert net.core.state.view.links == links  # type: ignore[union-attr]
    assert watch.violations == []


@pytest.mark.parametrize("name", ["leaf1", "spine1"])
def test_a_switch_without_a_session_keeps_its_links_because_its_tables_go_on_forwarding(name: str) -> None:
    net = started(2)
    watch = DeliveryWatch(net)
    net.lose_session(name, reconnect_after_s=12.0)
    net.run_until_quiet(120, settle_s=SETTLE_S)
    assert watch.violations == []


def test_a_cable_that_failed_silently_while_its_switch_was_frozen_is_found_afterwards() -> None:
    net = started(3)
    net.freeze("spine1")
    net.fail_silently(net.cable("leaf1", "spine1"), sender="spine1")
    net.later(10.0, lambda: net.thaw("spine1"))
    net.run_until_quiet(120, settle_s=SETTLE_S)
    assert check_delivery(net) == []


@pytest.mark.parametrize("nicira", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_a_repaired_cable_carries_only_once_both_its_ends_are_prepared(seed: int, nicira: bool) -> None:
    net = started(seed, nicira=nicira)
    cable = net.cable("leaf1", "spine1")
    net.fail_silently(cable)
    net.run_until_quiet(60, settle_s=SETTLE_S)
    watch = DeliveryWatch(net)
    net.slow_down("spine1", 20)
    net.restore(cable)
    net.run_until_quiet(60, settle_s=SETTLE_S)
    assert len(net.core.state.view.links) == 6  # type: ignore[union-attr]
    assert watch.violations == []


@pytest.mark.parametrize("seed", range(5))
def test_a_rebooted_spine_is_used_again_only_once_it_is_prepared(seed: int) -> None:
    net = started(seed)
    net.reboot("spine1", off_s=3.0)
    # Its neighbours have noticed and gone round it; from here on nothing may be lost.
    net.run_for(2.0)
    watch = DeliveryWatch(net)
    net.run_until_quiet(60, settle_s=SETTLE_S)
    assert len(net.core.state.view.links) == 6  # type: ignore[union-attr]
    assert watch.violations == []


def test_a_read_asked_for_before_a_batch_that_was_given_up_tells_nothing_of_it() -> None:
    """The switch freezes, is read, and is sent a batch; thawed, it answers the read first and then does the batch."""
    net = started(4)
    net.freeze("leaf1")
    net.inject(ComparisonWanted(1, (leaf(1),)))
    net.inject(CollectiveAnnounced(2, SHIFT))
    net.run_for(0.1)
    net.inject(CollectiveWithdrawn(3, SHIFT.job_id))
    net.run_for(5.0)
    net.thaw("leaf1")
    net.run_until_quiet(60, settle_s=1.0)
    core = net.core
    assert isinstance(core, Core)
    assert net.record.answer(3) is not None
    assert net.switch("leaf1").tables() == core.state.desired[leaf(1)]
