"""A link that loses packets is found out whatever the delays are, and one that loses none never is."""

from dataclasses import dataclass, replace
from random import Random

import pytest
from fabrics import leaf, plan, spine

from controller.core.avoidance import Origin
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.core.views.link_condition import link_condition
from controller.fabric.discovery import cable_of
from controller.fabric.model import PortRef
from controller.fabric.plan import FabricPlan
from controller.health.evidence import LEAST_SHARE, Evidence
from controller.health.gray import LEAST_SENT, GrayLinks
from controller.simulation.cables import Cable
from controller.simulation.network import ModelNetwork
from controller.simulation.timing import Timing

A, B = PortRef(leaf(1), 1), PortRef(spine(1), 1)
CABLE = (A, B)


@dataclass
class Counted:
    """A port's counters; None as a switch says it that does not know."""

    rx_packets: int | None = 0
    tx_packets: int | None = 0
    tx_dropped: int | None = 0
    rx_errors: int | None = 0
    tx_errors: int | None = 0


class Bench:
    """Two ports of which A sends at a rate that changes at random and B little, read in turns with random delays."""

    def __init__(self, seed: int, share: float, rate: float = 1000.0, slowest_s: float = 0.02) -> None:
        self.random = Random(seed)
        self.share, self.rate, self.slowest_s = share, rate, slowest_s
        self.links = GrayLinks()
        self.at = {A: Counted(), B: Counted()}
        self.now_s = 0.0
        self.round = 0
        # B's switch updates what it shows so seldom.
        self.lag_s = 0.0
        self.shown = Counted()
        self.shown_s = 0.0

    def pass_time(self, seconds: float) -> None:
        packets = round(seconds * self.rate * self.random.uniform(0.2, 1.8))
        lost = sum(self.random.random() < self.share for _ in range(packets))
        sender, receiver = self.at[A], self.at[B]
        if sender.tx_packets is not None and receiver.rx_packets is not None:
            sender.tx_packets += packets
            receiver.rx_packets += packets - lost
        if sender.rx_packets is not None and receiver.tx_packets is not None:
            receiver.tx_packets += 1
            sender.rx_packets += 1
        self.now_s += seconds

    def read(self, end: PortRef) -> None:
        asked_s = self.now_s
        self.pass_time(self.random.uniform(0.0, self.slowest_s))
        now = self.at[end]
        seen = replace(now)
        if end == B and self.lag_s:
            if self.now_s >= self.shown_s + self.lag_s:
                self.shown, self.shown_s = seen, self.now_s
            seen = self.shown
        self.pass_time(self.random.uniform(0.0, self.slowest_s))
        self.links.take(end.dpid, {end.port_no: seen}, [CABLE], asked_s, self.now_s)

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.round += 1
            for end in (A, B) if self.round % 2 else (B, A):
                self.read(end)
            self.pass_time(0.25)

    @property
    def evidence(self) -> Evidence | None:
        gray = self.links.gray.get(CABLE)
        return None if gray is None else gray.evidence


@pytest.mark.parametrize("slowest_s", [0.002, 0.02, 0.5])
@pytest.mark.parametrize("seed", range(8))
def test_a_link_that_loses_nothing_is_never_gray(seed: int, slowest_s: float) -> None:
    bench = Bench(seed, 0.0, slowest_s=slowest_s)
    bench.run(60.0)
    assert bench.evidence is None


@pytest.mark.parametrize("seed", range(4))
def test_one_percent_at_a_thousand_packets_a_second_shows_within_half_a_minute(seed: int) -> None:
    bench = Bench(seed, 0.01, slowest_s=0.005)
    bench.run(30.0)
    evidence = bench.evidence
    assert evidence is not None
    assert (evidence.sender, evidence.receiver) == CABLE
    # Never more than was lost, apart from chance.
    assert LEAST_SHARE <= evidence.share < 0.015
    assert evidence.sent >= LEAST_SENT


def test_on_a_slow_machine_it_takes_longer_and_shows_all_the_same() -> None:
    bench = Bench(1, 0.2, slowest_s=0.2)
    bench.run(60.0)
    assert bench.evidence is not None


def test_few_packets_are_no_evidence() -> None:
    bench = Bench(2, 0.5, rate=10.0)
    bench.run(60.0)
    assert bench.evidence is None


def test_one_burst_is_no_evidence() -> None:
    bench = Bench(3, 0.0)
    bench.run(10.0)
    bench.share = 1.0
    bench.pass_time(0.1)
    bench.share = 0.0
    bench.run(60.0)
    assert bench.evidence is None


def test_one_outage_is_no_evidence_where_a_round_of_readings_is_missing() -> None:
    """As when the agent dies and the cable is mended in the same second (fuzzing, seed 40960)."""
    bench = Bench(3, 0.0, slowest_s=0.002)

    def read(*ends: PortRef) -> None:
        for end in ends:
            bench.read(end)

    for _ in range(2):
        read(B, A)
        bench.pass_time(1.0)
        read(A, B)
        bench.pass_time(1.0)
    read(B, A)
    bench.pass_time(0.01)
    bench.share = 1.0
    bench.pass_time(1.0)
    read(A, B)
    bench.share = 0.0
    bench.pass_time(2.0)
    read(A, B)
    bench.pass_time(1.0)
    read(B, A)
    bench.pass_time(1.0)
    read(A, B)
    assert bench.evidence is None


def test_what_the_sender_dropped_itself_was_never_sent() -> None:
    bench = Bench(4, 0.02)
    dropped = bench.at[A]

    def note() -> None:
        sent, arrived = bench.at[A].tx_packets, bench.at[B].rx_packets
        assert sent is not None
        assert arrived is not None
        dropped.tx_dropped = sent - arrived

    for _ in range(300):
        bench.run(0.1)
        note()
    assert bench.evidence is None


@pytest.mark.parametrize("kind", ["unknown", "again"])
def test_counters_that_tell_nothing_begin_anew(kind: str) -> None:
    """In each case more than enough is missing by the figures."""
    bench = Bench(5, 0.0)
    for _ in range(30):
        bench.run(1.0)
        sent, arrived = bench.at[A].tx_packets, bench.at[B].rx_packets
        assert sent is not None
        assert arrived is not None
        if kind == "unknown":
            bench.at[B].rx_packets = None
            bench.read(B)
            bench.at[B].rx_packets = arrived - 200
        else:
            bench.at[B].rx_packets = 0
    assert bench.evidence is None


@pytest.mark.parametrize("lag_s", [0.1, 0.2, 0.4, 0.7, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_counters_that_a_switch_updates_now_and_then_tell_nothing(seed: int, lag_s: float) -> None:
    bench = Bench(seed, 0.0, slowest_s=0.005)
    bench.lag_s = lag_s
    bench.links.late_s[B.dpid] = 0.27
    bench.run(240.0)
    assert bench.evidence is None


def test_counters_that_may_be_late_show_a_loss_that_is_larger_than_what_they_owe() -> None:
    bench = Bench(7, 0.02, slowest_s=0.005)
    bench.lag_s = 0.2
    bench.links.late_s[B.dpid] = 0.27
    bench.run(60.0)
    assert bench.evidence is not None
    assert bench.evidence.share < 0.02


def test_a_gray_link_is_released_when_it_has_been_clean_and_later_each_time() -> None:
    bench = Bench(6, 0.05, slowest_s=0.005)
    bench.run(20.0)
    first = bench.links.gray[CABLE]
    bench.run(70.0)
    assert bench.links.release(bench.now_s) == []
    bench.share = 0.0
    # The far end sends enough to be judged as well.
    taken_s = bench.now_s
    while not bench.links.release(bench.now_s):
        bench.run(1.0)
        far, near = bench.at[B].tx_packets, bench.at[A].rx_packets
        assert far is not None
        assert near is not None
        bench.at[B].tx_packets, bench.at[A].rx_packets = far + 100, near + 100
        assert bench.now_s < taken_s + 200
    assert bench.now_s >= taken_s + first.hold_s
    bench.share = 0.05
    bench.run(30.0)
    assert bench.links.gray[CABLE].hold_s == 2 * first.hold_s


def test_errors_that_a_port_counts_are_enough_where_the_far_end_tells_nothing() -> None:
    bench = Bench(8, 0.0, rate=20.0)
    bench.at[A].tx_packets = None
    bench.run(10.0)
    received = bench.at[B]
    for _ in range(12):
        bench.run(1.0)
        assert received.rx_packets is not None
        assert received.rx_errors is not None
        received.rx_packets += 20
        received.rx_errors += 2
    evidence = bench.evidence
    assert evidence is not None
    assert (evidence.sender, evidence.receiver, evidence.counted_by) == (A, B, B)
    assert 0.05 < evidence.share < 0.15
    # Clean again, and enough is received to be sure.
    begun_s = bench.now_s
    while not bench.links.release(bench.now_s):
        bench.run(1.0)
        assert received.rx_packets is not None
        assert bench.at[A].rx_packets is not None
        received.rx_packets += 100
        bench.at[A].rx_packets += 100
        assert bench.now_s < begun_s + 100
    assert bench.now_s > begun_s + 55


def test_frames_that_could_not_be_sent_are_the_senders_errors() -> None:
    bench = Bench(9, 0.0)
    for _ in range(12):
        bench.run(1.0)
        assert bench.at[A].tx_errors is not None
        bench.at[A].tx_errors += 20
    evidence = bench.evidence
    assert evidence is not None
    assert (evidence.sender, evidence.receiver, evidence.counted_by) == (A, B, A)


@pytest.mark.parametrize("kind", ["one burst", "few", "rare", "unknown", "begun again"])
def test_errors_that_prove_nothing(kind: str) -> None:
    bench = Bench(10, 0.0)
    errors = {"one burst": 0, "few": 2, "rare": 1, "unknown": 50, "begun again": 50}[kind]
    for second in range(60):
        bench.run(1.0)
        received = bench.at[B]
        if kind == "one burst" and second == 30:
            received.rx_errors = 500
        elif (kind == "few" and second in (10, 20, 30, 40)) or (kind == "rare" and second % 3 == 0):
            received.rx_errors = (received.rx_errors or 0) + errors
        elif kind == "unknown":
            received.rx_errors = None if second % 2 else (second + 1) * errors
        elif kind == "begun again":
            received.rx_errors = (second % 3) * errors
    assert bench.evidence is None


# --- in the core ---------------------------------------------------------------------------------------------------


def started(of: FabricPlan, seed: int = 1, timing: Timing | None = None) -> tuple[Core, ModelNetwork]:
    core = Core(CoreSettings(b"k" * 32, of, heartbeat_period_s=0.25))
    network = ModelNetwork(of, core, seed=seed, timing=timing)
    network.background.packets_per_second = 500.0
    network.announce_hosts()
    network.run_for(6.0)
    assert len(core.state.view.links) == len(of.links)
    return core, network


def test_a_lossy_cable_is_avoided_with_its_evidence_and_comes_back_when_it_is_mended() -> None:
    sender = "spine2"
    core, network = started(plan(leaves=2, spines=2))
    cable = network.cable("leaf1", "spine2")
    network.make_lossy(cable, 0.02, sender=sender)
    network.run_for(15.0)
    a, b = (end for end in (cable.a, cable.b) if isinstance(end, PortRef))
    ends = cable_of(a, b)
    assert list(core.state.avoided.of(Origin.GRAY)) == [ends]
    reason = core.state.avoided.of(Origin.GRAY)[ends].reason
    assert f"{sender}:" in reason.partition(" -> ")[0]
    assert "packets" in reason
    assert len(core.state.view.links) == 3
    condition = link_condition(core, ends, network.now_s)
    assert condition[:2] == ("gray", "lossy")
    assert condition[2].startswith(reason)
    assert any(reason in entry.message for entry in core.chronicle.history.entries)
    network.run_for(60.0)
    assert len(core.state.view.links) == 3
    network.restore(cable)
    network.run_for(100.0)
    assert not core.state.avoided
    assert len(core.state.view.links) == 4


def found_by_errors() -> tuple[Core, ModelNetwork, Cable]:
    """The switch that sends them has no counters, so that there is nothing to compare with."""
    core, network = started(plan(leaves=2, spines=2))
    network.switch("spine2").knows_counters = False
    network.run_for(10.0)
    assert not core.state.avoided
    cable = network.cable("leaf1", "spine2")
    network.make_lossy(cable, 0.02, sender="spine2", broken=True)
    network.run_for(10.0)
    assert core.state.avoided
    return core, network, cable


def test_broken_frames_are_found_by_the_port_that_counts_them() -> None:
    core, *_ = found_by_errors()
    (avoidance,) = core.state.avoided.of(Origin.GRAY).values()
    assert avoidance.reason.startswith("spine2:1 -> leaf1:2 lost ")
    assert avoidance.reason.endswith("by the error counter of leaf1:2")
    assert len(core.state.view.links) == 3


def test_what_error_counters_found_is_given_back_although_the_far_end_has_none() -> None:
    core, network, cable = found_by_errors()
    network.restore(cable)
    network.run_for(150.0)
    assert not core.state.avoided
    assert len(core.state.view.links) == 4


def test_what_error_counters_found_is_given_back_although_the_switch_has_rebooted() -> None:
    """Its counters begin again at 0, and count nothing any more (fuzzing, seed 50250)."""
    core, network, cable = found_by_errors()
    network.restore(cable)
    network.reboot("leaf1", off_s=1.0)
    network.run_for(200.0)
    assert not core.state.avoided


def test_without_readings_nothing_is_given_back() -> None:
    core, network = started(plan(leaves=2, spines=2))
    network.make_lossy(network.cable("leaf1", "spine2"), 0.02)
    network.run_for(60.0)
    for name in network.wiring.switches:
        network.lose_session(name, reconnect_after_s=100.0)
    network.run_for(99.0)
    assert core.state.avoided


def test_one_slow_switch_hides_no_loss_between_others() -> None:
    core, network = started(plan(leaves=3, spines=3))
    network.slow_down("leaf3", 200)
    cable = network.cable("leaf1", "spine2")
    network.make_lossy(cable, 0.01)
    network.run_for(12.0)
    assert len(core.state.avoided.of(Origin.GRAY)) == 1


@pytest.mark.parametrize("latency_s", [(0.0005, 0.003), (0.05, 0.4)])
def test_in_a_healthy_fabric_nothing_is_gray(latency_s: tuple[float, float]) -> None:
    core, network = started(plan(leaves=3, spines=3), timing=Timing(control_latency_s=latency_s))
    network.run_for(60.0)
    assert not core.state.avoided


def test_outages_are_no_loss_of_a_link_that_is_up() -> None:
    core, network = started(plan(leaves=3, spines=3))
    cable = network.cable("leaf1", "spine2")
    for _ in range(4):
        # Lost before the link is down, too briefly for counters to stand still.
        network.fail_silently(cable)
        network.run_for(0.2)
        network.cut(cable)
        network.run_for(0.5)
        assert len(core.links.up) == 8
        network.restore(cable)
        while len(core.links.up) < 9:
            network.run_for(1.0)
        network.run_for(1.5)
    assert not core.state.avoided


def test_the_only_way_is_used_all_the_same() -> None:
    core, network = started(plan(leaves=2, spines=1))
    network.make_lossy(network.cable("leaf1", "spine1"), 0.05)
    network.run_for(20.0)
    assert core.state.avoided.of(Origin.GRAY)
    assert len(core.state.view.links) == 2
