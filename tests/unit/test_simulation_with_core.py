"""The whole core against model switches: small fabrics, one trouble at a time, checked at the quiet point after it."""

from collections.abc import Callable

import pytest
from fabrics import plan

from controller.core.commands import Accepted, Refused
from controller.core.events import BatchAnswered, BatchStatus, CollectiveAnnounced, CollectiveWithdrawn
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.plan import FabricPlan
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.pipeline.detour import is_detour_rule
from controller.pipeline.packet import udp
from controller.simulation.admission import Limits
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery, walk
from controller.simulation.watch import DeliveryWatch

KEY = bytes(range(32))
SEEDS = range(5)
# Longer than the core waits for missing beacons before it gives a silent link up.
SETTLE_S = 8.0

Trouble = Callable[[ModelNetwork], object]


def new_core(fabric: FabricPlan) -> Core:
    return Core(CoreSettings(beacon_key=KEY, plan=fabric))


def started(fabric: FabricPlan, seed: int) -> ModelNetwork:
    net = ModelNetwork(fabric, new_core(fabric), seed=seed)
    net.reorders_between_barriers = True
    net.announce_hosts()
    net.run_until_quiet(60, settle_s=SETTLE_S)
    return net


def faults(net: ModelNetwork) -> list[str]:
    """Everything that must not be so at a quiet point."""
    found = [str(violation) for violation in check_delivery(net)] + net.record.ordering_problems()
    refusals = [answer for answer in net.record.events_of(BatchAnswered) if answer.status is BatchStatus.REFUSED]
    return found + [str(answer.refusals) for answer in refusals]


@pytest.mark.parametrize("seed", SEEDS)
def test_discovery_completes_and_every_pair_of_hosts_is_connected(seed: int) -> None:
    fabric = plan()
    net = started(fabric, seed)
    core = net.core
    assert isinstance(core, Core)
    assert len(core.state.view.links) == len(fabric.links)
    assert {host.name for host in core.state.view.hosts} == {host.name for host in fabric.hosts}
    assert faults(net) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_quiet_network_stays_quiet(seed: int) -> None:
    net = started(plan(), seed)
    since_s = net.now_s
    net.run_for(20)
    assert net.record.modifications(since_s=since_s) == []


def spine_alone(net: ModelNetwork) -> None:
    for name in ("leaf1", "leaf2"):
        net.cut(net.cable(name, "spine1"))


def slow_repair(net: ModelNetwork) -> None:
    net.slow_down("spine1", 20)
    net.cut(net.cable("leaf1", "spine2"))


def tables_wiped(net: ModelNetwork) -> None:
    """By somebody else, without a reboot; a new session shows it."""
    net.switch("leaf1").reboot()
    net.lose_session("leaf1")


TROUBLES: dict[str, Trouble] = {
    "cut": lambda net: net.cut(net.cable("leaf1", "spine1")),
    "one-way": lambda net: net.fail_silently(net.cable("leaf1", "spine1"), sender="leaf1"),
    "one-way back": lambda net: net.fail_silently(net.cable("leaf1", "spine1"), sender="spine1"),
    "silent": lambda net: net.fail_silently(net.cable("leaf2", "spine1")),
    "two cuts": spine_alone,
    "spine reboot": lambda net: net.reboot("spine2"),
    "leaf reboot": lambda net: net.reboot("leaf1"),
    "spine off": lambda net: net.power_off("spine2"),
    "session lost": lambda net: net.lose_session("leaf2"),
    "slow switch": slow_repair,
    "controller restart": lambda net: net.restart_controller(new_core(net.plan), down_s=2),
    "tables wiped": tables_wiped,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES.keys())
def test_the_core_repairs(trouble: Trouble, seed: int) -> None:
    net = started(plan(), seed)
    trouble(net)
    net.run_until_quiet(120, settle_s=SETTLE_S)
    assert faults(net) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_repaired_cables_are_used_again(seed: int) -> None:
    net = started(plan(), seed)
    whole = {name: switch.tables() for name, switch in net.wiring.switches.items()}
    cable = net.cable("leaf1", "spine1")
    net.cut(cable)
    net.run_until_quiet(60, settle_s=SETTLE_S)
    assert {name: switch.tables() for name, switch in net.wiring.switches.items()} != whole
    net.restore(cable)
    net.run_until_quiet(60, settle_s=SETTLE_S)
    assert {name: switch.tables() for name, switch in net.wiring.switches.items()} == whole
    assert faults(net) == []


# --- announced collectives --------------------------------------------------------------------------------

RANKS = ("h11", "h21", "h12", "h22", "h31", "h32")
RING = Collective("job", Operation.ALL_REDUCE, Algorithm.RING, RANKS, 1 << 30)


def off_plan(net: ModelNetwork) -> list[str]:
    """Planned flows whose packets do not take the planned path, or do not get there by one path alone."""
    assert isinstance(net.core, Core)
    names = {host.ipv4_text: name for name, host in net.hosts.items()}
    found = []
    for (source, destination, port), path in net.core.state.paths.items():
        ends = net.hosts[names[source]], net.hosts[names[destination]]
        packet = udp(source, destination, ends[0].mac_text, ends[1].mac_text, port or 50123)
        result = walk(net, packet, ends[0].name)
        planned = tuple((net.wiring.by_dpid[hop.dpid].name, hop.port_no) for hop in path)
        # The last hop, from the leaf to the host, is not part of a path.
        if result.delivered != (ends[1].name,) or result.ports[:-1] != planned:
            found.append(f"{planned} planned: {result.explain()}")
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_announced_flows_take_their_planned_paths_also_after_a_cut(seed: int) -> None:
    net = started(plan(leaves=3), seed)
    core = net.core
    assert isinstance(core, Core)
    net.inject(CollectiveAnnounced(1, RING))
    net.run_until_quiet(60, settle_s=SETTLE_S)
    assert isinstance(net.record.answer(1), Accepted)
    assert len(core.state.paths) == 5  # h31 and h32 share a leaf
    assert off_plan(net) + faults(net) == []
    net.cut(net.cable("leaf1", "spine1"))
    net.run_until_quiet(60, settle_s=SETTLE_S)
    assert off_plan(net) + faults(net) == []


def test_announcing_twice_changes_nothing_and_withdrawing_undoes() -> None:
    net = started(plan(leaves=3), 1)
    before = {name: switch.tables() for name, switch in net.wiring.switches.items()}
    net.inject(CollectiveAnnounced(1, RING))
    net.run_until_quiet(60)
    assert {name: switch.tables() for name, switch in net.wiring.switches.items()} != before
    since_s = net.now_s
    net.inject(CollectiveAnnounced(2, RING))
    net.run_until_quiet(60)
    assert isinstance(net.record.answer(2), Accepted)
    assert net.record.modifications(since_s=since_s) == []
    net.inject(CollectiveWithdrawn(3, RING.job_id))
    net.run_until_quiet(60)
    assert {name: switch.tables() for name, switch in net.wiring.switches.items()} == before


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_while_paths_are_laid_and_taken_up(seed: int) -> None:
    net = started(plan(leaves=3), seed)
    watch = DeliveryWatch(net)
    for event in (CollectiveAnnounced(1, RING), CollectiveWithdrawn(2, RING.job_id)):
        net.inject(event)
        net.run_until_quiet(60)
    assert [str(violation) for _, violation in watch.violations] == []
    assert net.record.modifications(since_s=3) != []


@pytest.mark.parametrize("room_left", [0, 1, 2])
def test_full_tables_leave_no_half_laid_path(room_left: int) -> None:
    net = started(plan(leaves=3), 2)
    for switch in net.wiring.switches.values():
        # Detours make room first, so they are not counted.
        switch.limits = Limits(rules=sum(not is_detour_rule(e.rule) for e in switch.entries()) + room_left)
    net.inject(CollectiveAnnounced(1, RING))
    net.run_until_quiet(120, settle_s=SETTLE_S)
    assert isinstance(net.record.answer(1), Accepted if room_left == 2 else Refused)
    assert [str(violation) for violation in check_delivery(net)] + off_plan(net) == []


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> list[object]:
        net = started(plan(), 3)
        net.reboot("spine1")
        net.run_until_quiet(60)
        return [*net.record.commands, *net.record.events]

    assert run() == run()
