"""Real Open vSwitch that is full, or whose OpenFlow session is frozen: B26, B29 and what the caller is told."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.cli.client import connect
from tests.mininet.end_to_end import Product, needs_root, product
from tests.mininet.test_explain_matches_ovs import Bridges, disagreements

pytestmark = needs_root

_LIMIT = 50
_RELAY = Path(__file__).with_name("session_relay.py")
_RELAY_PORT = 16_653
_WAIT_S = 60.0


@contextmanager
def stubs(running: Product) -> Iterator[tuple]:  # type: ignore[type-arg]
    import grpc
    from heddle.v1 import collective_pb2_grpc, fabric_pb2_grpc

    with grpc.insecure_channel(running.address) as channel:
        yield collective_pb2_grpc.CollectiveServiceStub(channel), fabric_pb2_grpc.FabricServiceStub(channel)


def alarms(fabric) -> tuple[str, ...]:  # type: ignore[no-untyped-def]
    from heddle.v1 import fabric_pb2

    return tuple(fabric.GetTopology(fabric_pb2.GetTopologyRequest(), timeout=30).alarms)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {_WAIT_S} s: {what}"
        time.sleep(0.1)


def limit_tables(running: Product) -> None:
    """Every table of every switch refuses more than 50 rules."""
    for switch in running.lab.plan.switches:
        tables = ",".join(f"{table}=@limit" for table in range(4))
        running.lab.ovs.vsctl(
            "--id=@limit",
            "create",
            "Flow_Table",
            f"flow_limit={_LIMIT}",
            "overflow_policy=refuse",
            "--",
            "set",
            "Bridge",
            switch.name,
            f"flow_tables={{{tables}}}",
        )


# Hosts faster than an uplink: the queue pairs of one pair of hosts must part, so that no one rule serves them all.
_FAST_HOSTS = """
name: {name}
rate: 2M
leaf_spine: {{leaves: 2, spines: 4, hosts_per_leaf: 2, host_rate: 8M, links_per_pair: {parallel}}}
"""


def strays(running: Product, controller, flows) -> list[str]:  # type: ignore[no-untyped-def]
    """Flows that do not take all of the path they have, or that are steered although they have none."""
    bridges = Bridges(running)
    found = []
    for flow in flows:
        trace = controller.explain_flow(flow.src_host, flow.dst_host, flow.udp_source_port).trace
        found += disagreements(bridges, trace)
        taken = [(s.dpid, output.port_no) for s in trace.switches[:-1] for output in s.outputs]
        planned = [(hop.dpid, hop.port_no) for hop in flow.path]
        hashed = any(output.by_hash for output in trace.switches[0].outputs)
        if taken != planned if flow.state == "planned" else not hashed:
            found.append(f"{flow.flow_id} ({flow.state}): planned {planned}, takes {taken}")
    return found


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_hundred_flows_meet_tables_of_fifty(parallel: int, tmp_path: Path) -> None:
    import grpc
    from heddle.v1 import collective_pb2

    topology = tmp_path / "fast.yaml"
    topology.write_text(_FAST_HOSTS.format(name=f"fast{parallel}", parallel=parallel))
    with (
        product(topology, tmp_path) as running,
        stubs(running) as (collectives, fabric),
        connect(running.address) as controller,
    ):
        limit_tables(running)
        ports = range(50_000, 50_100)
        request = collective_pb2.Collective(
            job_id="hundred",
            operation=collective_pb2.OPERATION_BROADCAST,
            ranks=["h1_1", "h2_1"],
            size_bytes=1_000_000,
            queue_pairs=len(ports),
            ports=[collective_pb2.QueuePairPorts(src_rank=0, dst_rank=1, udp_source_ports=ports)],
        )
        with pytest.raises(grpc.RpcError) as refused:
            collectives.AnnounceCollective(
                collective_pb2.AnnounceCollectiveRequest(collective=request), timeout=_WAIT_S
            )
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        plan = collectives.GetPlan(collective_pb2.GetPlanRequest(job_id="hundred"), timeout=30).plans[0]
        placed = sum(flow.state == "planned" for flow in plan.flows)
        assert f"no room for {len(plan.flows) - placed} of {len(plan.flows)} flows: {placed} placed" in str(
            refused.value.details()
        )
        # One rule of the table leads on to routing; each other carries a flow.
        assert placed == _LIMIT - 1
        # No half path: a flow is steered wherever it has a choice, or nowhere.
        assert strays(running, controller, plan.flows) == []
        # With parallel links the spines may fill up too.
        said = [re.fullmatch(r"\w+ is full: (\d+) flows use ECMP.*", alarm) for alarm in alarms(fabric)]
        assert sum(int(alarm[1]) for alarm in said if alarm) == len(plan.flows) - placed
        assert None not in running.lab.ping_pairs(timeout_s=5.0).values()
        running.controller.withdraw("hundred")
        wait_for(lambda: alarms(fabric) == (), "the alarm is over")
        assert running.lab.ovs.ofctl("dump-flows", "leaf1", "table=2").count("udp") == 0


def session(fabric, switch: str) -> str:  # type: ignore[no-untyped-def]
    """Where a switch's session comes from; empty unless the switch is connected and in sync."""
    from heddle.v1 import fabric_pb2

    found = fabric.GetTopology(fabric_pb2.GetTopologyRequest(), timeout=30)
    return next((s.peer_address for s in found.switches if s.name == switch and s.connected and s.in_sync), "")


@contextmanager
def relayed(running: Product, fabric, switch: str) -> Iterator[subprocess.Popen[bytes]]:  # type: ignore[no-untyped-def]
    """A switch's session through a process that can be stopped."""
    from demo_controllers import OPENFLOW

    direct = session(fabric, switch)
    assert direct
    command = [sys.executable, str(_RELAY), str(_RELAY_PORT), OPENFLOW.rpartition(":")[2]]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as relay:
        try:
            assert relay.stdout is not None
            assert relay.stdout.readline() == b"listening\n"
            target = f"tcp:127.0.0.1:{_RELAY_PORT}"
            arguments = ["set-controller", switch, target, "--", "set", "controller", switch, "max_backoff=1000"]
            running.lab.ovs.vsctl(*arguments)
            # The links outlive the old session for a moment, so that they do not show that the new one carries.
            wait_for(lambda: session(fabric, switch) not in {"", direct}, f"{switch} comes through the relay")
            lab = running.lab.plan
            running.controller.wait_for(len(lab.links), len(lab.hosts), timeout_s=_WAIT_S)
            yield relay
        finally:
            relay.kill()


def ring(running: Product):  # type: ignore[no-untyped-def]
    from demo_job import RingJob, crossing_order

    hosts = crossing_order(running.lab.plan)
    return RingJob(hosts, (tuple(range(len(hosts))),), 1_000_000, "test")


def crossed(plan) -> set[str]:  # type: ignore[no-untyped-def]
    return {hop.switch for flow in plan.flows for hop in flow.path}


def test_flows_go_round_a_frozen_spine_which_is_used_again_when_it_returns(tmp_path: Path) -> None:
    with (
        product("parallel-unequal.yaml", tmp_path) as running,
        stubs(running) as (_, fabric),
        relayed(running, fabric, "spine1") as relay,
    ):
        os.kill(relay.pid, signal.SIGSTOP)
        started_s = time.monotonic()
        plan = running.controller.announce("ring", ring(running)).plan
        print(f"answered after {time.monotonic() - started_s:.2f} s")
        assert "degraded" not in plan.state
        assert "spine1" not in crossed(plan)
        assert any(alarm.startswith("spine1 does not answer") for alarm in alarms(fabric))
        os.kill(relay.pid, signal.SIGCONT)
        wait_for(lambda: alarms(fabric) == (), "spine1 answers")
        # It is repaired, and nothing moves back.
        found = running.lab.plan
        running.controller.wait_for(len(found.links), len(found.hosts), timeout_s=_WAIT_S)
        assert [f.path for f in running.controller.plan("ring").flows] == [f.path for f in plan.flows]
        running.controller.withdraw("ring")
        assert "spine1" in crossed(running.controller.announce("again", ring(running)).plan)


def test_the_flows_of_a_frozen_leaf_wait_on_ecmp_and_the_caller_knows(tmp_path: Path) -> None:
    import grpc

    with (
        product("leafspine-2x2.yaml", tmp_path) as running,
        stubs(running) as (_, fabric),
        relayed(running, fabric, "leaf2") as relay,
    ):
        # Hosts that know one another need no controller.
        assert None not in running.lab.ping_pairs(timeout_s=5.0).values()
        os.kill(relay.pid, signal.SIGSTOP)
        with pytest.raises(grpc.RpcError) as refused:
            running.controller.announce("ring", ring(running))
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "leaf2 does not answer" in refused.value.details()
        assert None not in running.lab.ping_pairs(timeout_s=5.0).values()
        os.kill(relay.pid, signal.SIGCONT)
        wait_for(lambda: alarms(fabric) == (), "leaf2 answers")
        wait_for(lambda: running.controller.plan("ring").state == "placed", "the flows have their paths")
