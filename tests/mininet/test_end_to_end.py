"""The product as its users run it: `ryu-manager apps/fabric.py` against a Mininet fabric, asked over gRPC."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.mininet.end_to_end import needs_root, product

pytestmark = needs_root


@pytest.mark.parametrize("topology", ["leafspine-1x.yaml", "leafspine-2x2.yaml", "leafspine-2x4.yaml"])
def test_all_pairs_reach_one_another_at_one_two_and_four_spines(topology: str, tmp_path: Path) -> None:
    with product(topology, tmp_path) as running:
        names = [host.name for host in running.lab.plan.hosts]
        pairs = [(a, b) for a in names for b in names if a != b]
        for _ in range(3):
            # A host gives up asking for an address after three seconds; a busy machine may need longer than that.
            answers = running.lab.ping_pairs(pairs, timeout_s=5.0)
            pairs = [pair for pair, time_ms in answers.items() if time_ms is None]
        assert pairs == []


def test_announcing_twice_and_withdrawing_leave_no_trace(tmp_path: Path) -> None:
    from demo_job import RingJob, crossing_order

    with product("leafspine-2x2.yaml", tmp_path) as running:
        before = running.rules()
        hosts = crossing_order(running.lab.plan)
        job = RingJob(hosts, (tuple(range(len(hosts))),), 1_000_000, "test")
        first = running.controller.announce("twice", job)
        during = running.rules()
        assert first.rules_changed > 0
        assert during != before
        again = running.controller.announce("twice", job)
        assert again.rules_changed == 0
        assert running.rules() == during
        assert [f.path for f in again.plan.flows] == [f.path for f in first.plan.flows]
        running.controller.withdraw("twice")
        assert running.rules() == before


def test_parallel_and_unequal_links_carry_a_ring(tmp_path: Path) -> None:
    from demo_job import RingJob, crossing_order
    from roce_traffic import run_traffic

    with product("parallel-unequal.yaml", tmp_path) as running:
        hosts = crossing_order(running.lab.plan)
        job = RingJob(hosts, (tuple(range(len(hosts))),), 400_000, "test")
        plan = running.controller.announce("ring", job).plan
        assert {f.state for f in plan.flows} <= {"planned", "local"}
        result = run_traffic(running.lab, job.connections(1, 0), timeout_s=120)
        assert result.complete, result.faults


def test_a_fault_in_one_request_costs_no_other(tmp_path: Path) -> None:
    import grpc
    from demo_job import RingJob

    with product("leafspine-2x2.yaml", tmp_path) as running:
        with pytest.raises(grpc.RpcError) as refused:
            running.controller.announce("bad", RingJob(("nobody", "h1_1", "ghost"), ((0, 1, 2),), 10, "test"))
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
        assert "nobody" in refused.value.details()
        assert "ghost" in refused.value.details()
        with pytest.raises(grpc.RpcError) as wrong:
            running.controller.announce("bad", RingJob(("h1_1", "h2_1"), ((0, 1),), 0, "test"))
        assert wrong.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "size_bytes" in wrong.value.details()
        assert running.controller.announce("good", RingJob(("h1_1", "h2_1"), ((0, 1),), 10, "test")).plan.flows


def test_fifty_slow_requests_miss_no_echo(tmp_path: Path) -> None:
    """B19: switches that probe after one second of silence stay connected while 50 callers wait five seconds."""
    import grpc
    from heddle.v1 import collective_pb2, collective_pb2_grpc

    with product("leafspine-2x2.yaml", tmp_path) as running:
        for controller in running.lab.ovs.vsctl("--bare", "--columns=_uuid", "list", "controller").split():
            running.lab.ovs.vsctl("set", "controller", controller, "inactivity_probe=1000")
        connected_s = _youngest_session_s(running)
        channel = grpc.insecure_channel(running.address)
        stub = collective_pb2_grpc.CollectiveServiceStub(channel)

        def slow(_: int) -> float:
            started = time.monotonic()
            request = collective_pb2.GetPlanRequest(newer_than_revision=2**60, wait_s=5.0)
            stub.GetPlan(request, timeout=60)
            return time.monotonic() - started

        with ThreadPoolExecutor(50) as callers:
            waited = list(callers.map(slow, range(50)))
        channel.close()
        assert min(waited) >= 4.9
        # A session that was lost and made anew would be younger than before.
        time.sleep(6)
        assert _youngest_session_s(running) >= connected_s + 4
        log = (running.lab.directory / "ovs-vswitchd.log").read_text()
        assert "no response to inactivity probe" not in log


def _youngest_session_s(running) -> int:  # type: ignore[no-untyped-def]
    """Age of the youngest switch session. Open vSwitch writes it down every five seconds only."""
    key = "sec_since_connect="
    deadline_s = time.monotonic() + 60
    while True:
        said = running.lab.ovs.vsctl("--bare", "--columns=status", "list", "controller")
        ages = [int(word.removeprefix(key)) for word in said.split() if word.startswith(key)]
        if len(ages) == len(running.lab.plan.switches):
            return min(ages)
        assert time.monotonic() < deadline_s, said
        time.sleep(0.2)


def test_a_killed_controller_comes_back_and_nothing_is_lost(tmp_path: Path) -> None:
    with product("leafspine-2x2.yaml", tmp_path) as running:
        # Hosts know one another already; the controller answers only those who ask for the first time.
        assert None not in running.lab.ping_pairs(timeout_s=5.0).values()
        before = running.rules()
        said = running.log.read_text().splitlines()
        started = next(line for line in said if line.startswith("started the controller"))
        os.kill(int(started.rpartition("pid ")[2].rstrip(")")), signal.SIGKILL)
        answers = running.lab.ping_pairs(timeout_s=5.0)
        assert None not in answers.values()
        running.controller.wait_for(len(running.lab.plan.links), len(running.lab.plan.hosts), timeout_s=60)
        assert running.rules() == before
