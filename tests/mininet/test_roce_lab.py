"""RoCE-shaped traffic over a real fabric: it completes, links keep their rate, classes protect it.

Rates are shares with wide margins: the machine may be busy, and nothing here is a benchmark.
"""

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

# ruff: noqa: E402 - what is imported below needs Mininet, which is looked for first
pytest.importorskip("mininet.net", reason="Mininet is not installed")
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ovs-vswitchd") is None or shutil.which("mnexec") is None,
    reason="needs root, Open vSwitch and Mininet",
)

sys.path.append(str(Path(__file__).parents[2] / "mininet"))

from lab_fabric import FabricLab
from lab_rules import lay_static_rules
from roce_background import Background
from roce_headers import OVERHEAD_BYTES
from roce_probe import RunningProbe
from roce_traffic import Connection, RunningTraffic, ideal_ring_s, ring_all_reduce, run_traffic

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink, PlannedSwitch

LAB = f"test-roce-{os.getpid()}"
WIRE = (1024 + OVERHEAD_BYTES) / 1024


def two_racks(link_bps: int, host_bps: tuple[int, ...], spines: int = 1) -> FabricPlan:
    """Hosts a1, a2, ... on leaf1 and b1, b2, ... on leaf2, with these rates; `spines` paths between the racks."""
    switches = [PlannedSwitch(f"leaf{i}", i, Role.LEAF) for i in (1, 2)]
    switches += [PlannedSwitch(f"spine{j}", 0x100 + j, Role.SPINE) for j in range(1, spines + 1)]
    links = [PlannedLink(f"leaf{i}", 10 + j, f"spine{j}", i, link_bps) for i in (1, 2) for j in range(1, spines + 1)]
    hosts = [
        PlannedHost(f"{rack}{k}", f"leaf{i}", k, f"02:00:00:00:0{i}:0{k}", f"10.0.{i}.{k}", 24, rate)
        for i, rack in ((1, "a"), (2, "b"))
        for k, rate in enumerate(host_bps, 1)
    ]
    return FabricPlan(LAB, tuple(switches), tuple(links), tuple(hosts))


def test_a_transfer_completes_at_the_rate_of_the_link_and_not_above() -> None:
    rate = 8_000_000
    with FabricLab(two_racks(rate, (20_000_000,))) as lab:
        lay_static_rules(lab)
        result = run_traffic(lab, [Connection("a1", "b1", 2_000_000, (50001, 50002))], timeout_s=30.0)
        assert result.complete
        on_the_wire = result.connections[0].goodput_bps * WIRE
        assert 0.9 * rate < on_the_wire < 1.1 * rate
        assert result.connections[0].size_bytes == 2_000_896


def test_a_host_sends_no_faster_than_its_interface() -> None:
    with FabricLab(two_racks(20_000_000, (4_000_000,))) as lab:
        lay_static_rules(lab)
        with Background(lab, "a1", "b1", 20_000_000) as background:
            before = lab.counters()["leaf1-eth1"].rx_bytes
            time.sleep(2.0)
            received = lab.counters()["leaf1-eth1"].rx_bytes - before
        assert 0.9 * 4_000_000 < received * 8 / 2.0 < 1.1 * 4_000_000
        assert background.received_bytes > 0


def test_two_connections_share_a_link_fairly() -> None:
    with FabricLab(two_racks(8_000_000, (8_000_000, 8_000_000))) as lab:
        lay_static_rules(lab)
        pair = [Connection("a1", "b1", 1_000_000, (50001,)), Connection("a2", "b2", 1_000_000, (50002,))]
        result = run_traffic(lab, pair, timeout_s=30.0)
        assert result.completion_s is not None
        first, second = (c.goodput_bps for c in result.connections)
        assert min(first, second) / max(first, second) > 0.75
        assert (first + second) * WIRE > 0.85 * 8_000_000


def test_a_ring_takes_the_time_that_its_links_allow() -> None:
    rate, size, ranks = 8_000_000, 1_000_000, ["a1", "b1", "a2", "b2"]
    with FabricLab(two_racks(rate, (rate, rate), spines=2)) as lab:
        lay_static_rules(lab, {("a1", "b1"): "spine1", ("a2", "b2"): "spine2"} | back(("b1", "a2"), ("b2", "a1")))
        result = run_traffic(lab, ring_all_reduce(ranks, size, queue_pairs=2), timeout_s=30.0)
    assert result.completion_s is not None
    ideal = ideal_ring_s(4, size, rate)
    assert 0.98 * ideal < result.completion_s < 1.25 * ideal


def back(first: tuple[str, str], second: tuple[str, str]) -> dict[tuple[str, str], str]:
    """The ring's two steps from the second rack to the first, on different spines."""
    return {first: "spine1", second: "spine2"}


def test_a_transfer_survives_packets_that_are_dropped() -> None:
    with FabricLab(two_racks(8_000_000, (8_000_000,))) as lab:
        lay_static_rules(lab)
        drop = "priority=999,udp,tp_dst=4791,actions=drop"
        with RunningTraffic(lab, [Connection("a1", "b1", 1_000_000, (50001,))], timeout_s=60.0) as running:
            running.start()
            for _ in range(3):
                time.sleep(0.3)
                lab.ovs.ofctl("add-flow", "spine1", drop)
                time.sleep(0.05)
                lab.ovs.ofctl("--strict", "del-flows", "spine1", "priority=999,udp,tp_dst=4791")
            result = running.wait()
    assert result.complete
    assert result.retransmissions > 0


def test_a_transfer_survives_a_cut_and_the_probe_measures_it() -> None:
    with FabricLab(two_racks(8_000_000, (8_000_000, 8_000_000))) as lab:
        lay_static_rules(lab)
        with (
            RunningTraffic(lab, [Connection("a1", "b1", 1_000_000, (50001, 50002))], timeout_s=60.0) as running,
            RunningProbe(lab, "a2", "b2", packets_per_second=200, duration_s=1.5) as probe,
        ):
            running.start()
            time.sleep(0.4)
            lab.cut_link("leaf1", "spine1")
            time.sleep(0.4)
            lab.restore_link("leaf1", "spine1")
            seen, result = probe.wait(), running.wait()
    assert result.complete
    assert result.retransmissions > 0
    assert max(result.connections[0].longest_gaps_s) > 0.35
    assert seen.sent == 300
    assert seen.lost >= 40
    assert seen.longest_gap_s > 0.3
    assert seen.received > 0


def test_a_transfer_over_a_dead_path_ends_with_the_timeout_and_says_so() -> None:
    with FabricLab(two_racks(8_000_000, (8_000_000,))) as lab:
        # No rules: nothing is forwarded.
        lab.teach_neighbours()
        started = time.monotonic()
        result = run_traffic(lab, [Connection("a1", "b1", 100_000, (50001,))], timeout_s=1.5)
    assert not result.complete
    assert result.completion_s is None
    assert result.connections[0].timeouts > 0
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("classified", [True, False])
def test_classes_protect_a_collective_from_background(classified: bool) -> None:
    """18 of 20 Mbit/s of RoCE against 40 Mbit/s of best effort. The mechanism here is u32 filters on HTB classes."""
    with FabricLab(two_racks(20_000_000, (18_000_000, 40_000_000))) as lab:
        lay_static_rules(lab)
        lab.classify(on=classified)
        with Background(lab, "a2", "b2", 40_000_000):
            time.sleep(0.5)
            with RunningTraffic(lab, [Connection("a1", "b1", 50_000_000, (50001, 50002))], timeout_s=4.0) as running:
                running.start()
                result = running.wait()
    on_the_wire = result.connections[0].goodput_bps * WIRE
    if classified:
        assert on_the_wire > 0.8 * 18_000_000
    else:
        assert on_the_wire < 0.6 * 18_000_000
