"""Hosts below an edge switch on two leaves, on real switches: planned from the edge on, failing over below the leaves,
and found by IPv6 neighbour discovery while no controller answers."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.mininet.end_to_end import Product, needs_root, product

pytestmark = needs_root


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with product("dpu-two-leaves.yaml", tmp_path_factory.mktemp("edge")) as found:
        yield found


def in_host(running: Product, host: str, command: str) -> subprocess.CompletedProcess[str]:
    entered = ["mnexec", "-a", str(running.lab.pid_of(host)), "sh", "-c", command]
    return subprocess.run(entered, capture_output=True, text=True, check=False)


def test_flows_take_a_leaf_each_and_outlive_a_cut_below_the_leaves(running: Product) -> None:
    from demo_job import RingJob
    from roce_traffic import run_traffic

    job = RingJob(("v1", "h1", "v2", "h2"), ((0, 1, 2, 3),), 400_000, "test")
    plan = running.controller.announce("ring", job).plan
    assert plan.state == "placed"
    assert plan.certificate.proven_optimal
    up = {f.path[0].to for f in plan.flows if f.path[0].switch == "dpu1"}
    down = {f.path[-1].switch for f in plan.flows if f.path[-1].to == "dpu1"}
    assert up == down == {"leaf1", "leaf2"}
    before = running.lab.counters()
    result = run_traffic(running.lab, job.connections(1, 0), timeout_s=120)
    assert result.complete, result.faults
    after = running.lab.counters()
    # Each cable below the leaves carries its own flow: half of what the ring sends over the edge.
    sent = [after[f"dpu1-eth{port}"].tx_bytes - before[f"dpu1-eth{port}"].tx_bytes for port in (1, 2)]
    assert max(sent) < 1.5 * min(sent)
    running.lab.cut_link("dpu1", "leaf1")
    again = run_traffic(running.lab, job.connections(1, 1), timeout_s=120)
    assert again.complete, again.faults
    running.lab.restore_link("dpu1", "leaf1")


def test_ipv6_neighbours_are_found_while_no_controller_answers(running: Product) -> None:
    """Last, since the switches have no controller afterwards."""
    for host, address in (("v1", "fd00::1:1"), ("h1", "fd00::3:1")):
        own = f"{host}-eth0"
        on = f"sysctl -q -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.{own}.disable_ipv6=0"
        assert in_host(running, host, f"{on} && ip address replace {address}/64 dev {own} nodad").returncode == 0
    ping = "ping -6 -n -c 1 -W 3 fd00::3:1"
    assert any(in_host(running, "v1", ping).returncode == 0 for _ in range(5))
    running.controller.wait_for(len(running.lab.plan.links), len(running.lab.plan.hosts), timeout_s=60)
    for switch in running.lab.plan.switches:
        # Without any controller Open vSwitch would forget its flows; at this port nobody listens.
        running.lab.ovs.vsctl("set-controller", switch.name, "tcp:127.0.0.1:9")
    for host in ("v1", "h1"):
        in_host(running, host, f"ip -6 neigh flush dev {host}-eth0")
    assert "fd00::3:1" not in in_host(running, "v1", "ip -6 neigh").stdout
    assert any(in_host(running, "v1", ping).returncode == 0 for _ in range(5))
