"""The whole controller on a real Open vSwitch: started by the agent, it sets queues from the plan and places a job."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from heddle.v1 import collective_pb2 as pb
from heddle.v1 import collective_pb2_grpc, fabric_pb2, fabric_pb2_grpc

from controller.formats.topology_file import load
from tests.openvswitch.agent_harness import RyuApp, wait_until
from tests.openvswitch.private_ovs import PrivateOvs, in_namespace

_TOPOLOGY = Path(__file__).resolve().parents[2] / "topologies" / "leafspine-2x2.yaml"


def build(ovs: PrivateOvs) -> None:
    """The topology file's fabric: bridges, patch cables, and a veth for each host, whose far end answers ARP."""
    plan = load(_TOPOLOGY)
    for switch in plan.switches:
        ovs.add_bridge(switch.name, switch.dpid, "tcp:127.0.0.1:6653")
    for link in plan.links:
        ovs.add_patch(link.a, link.a_port, link.b, link.b_port)
    for number, host in enumerate(plan.hosts):
        ovs.add_veth(host.switch, f"v{number}", host.port, f"p{number}")
        subprocess.run(["ip", "link", "set", f"p{number}", "address", host.mac], check=True)
        subprocess.run(["ip", "address", "add", f"{host.ipv4}/32", "dev", f"p{number}"], check=True)


@contextmanager
def fabric(database: str, folder: Path) -> Iterator[tuple[RyuApp, grpc.Channel]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    environment = {
        "HEDDLE_SOUTHBOUND": f"unix:{folder}/c.sock",
        "HEDDLE_GRPC": address,
        "HEDDLE_TOPOLOGY": str(_TOPOLOGY),
        "HEDDLE_OVSDB": database,
    }
    options = [("grpc.enable_http_proxy", 0)]
    with RyuApp("fabric", folder, **environment) as agent, grpc.insecure_channel(address, options=options) as channel:
        yield agent, channel


def topology(channel: grpc.Channel) -> Any:
    try:
        return fabric_pb2_grpc.FabricServiceStub(channel).GetTopology(fabric_pb2.GetTopologyRequest(), timeout=5)
    except grpc.RpcError:
        return fabric_pb2.GetTopologyResponse()


def is_complete(seen: Any) -> bool:
    plan = load(_TOPOLOGY)
    return (
        seen.in_sync
        and len(seen.switches) == len(plan.switches)
        and len(seen.hosts) == len(plan.hosts)
        and sum(link.state == "up" for link in seen.links) == len(plan.links)
    )


def queue_rows(ovs: PrivateOvs) -> str:
    return ovs.vsctl("--columns=_uuid,external_ids,other_config", "list", "queue")


@in_namespace
def test_agent_alone_brings_up_a_controller_that_sets_queues_and_places_a_job(tmp_path: Path) -> None:
    with PrivateOvs() as ovs:
        build(ovs)
        with fabric(ovs.database, tmp_path) as (agent, channel):
            wait_until(lambda: is_complete(topology(channel)), f"a complete fabric in sync; log:\n{agent.log}", 90)
            ports = sum(len(ovs.vsctl("list-ports", s.name).split()) for s in load(_TOPOLOGY).switches)
            wait_until(lambda: len(ovs.vsctl("--bare", "--columns=_uuid", "list", "qos").split()) == ports, "queues")
            assert 'min-rate="6800000"' in queue_rows(ovs), "85 % of 8 Mbit/s for collectives"

            hosts = [host.name for host in topology(channel).hosts]
            collective = pb.Collective(
                job_id="job-1", operation=pb.OPERATION_ALL_REDUCE, ranks=hosts, size_bytes=1 << 30
            )
            stub = collective_pb2_grpc.CollectiveServiceStub(channel)
            answer = stub.AnnounceCollective(pb.AnnounceCollectiveRequest(collective=collective), timeout=30)
            assert answer.plan.state == "placed"
            assert answer.rules_changed > 0
            again = stub.AnnounceCollective(pb.AnnounceCollectiveRequest(collective=collective), timeout=30)
            assert again.rules_changed == 0
            before = queue_rows(ovs)

        # A controller that starts anew finds everything as it wants it.
        with fabric(ovs.database, tmp_path) as (agent, channel):
            wait_until(lambda: is_complete(topology(channel)), f"a complete fabric again; log:\n{agent.log}", 90)
            wait_until(
                lambda: agent.log.count("queues are set") == 4, f"four switches looked at; log:\n{agent.log}", 30
            )
            assert queue_rows(ovs) == before
            assert "Traceback" not in agent.log


@in_namespace
def test_frozen_database_holds_up_nobody(tmp_path: Path) -> None:
    """A database that accepts connections and then says nothing."""
    with PrivateOvs() as ovs, socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "mute.sock"))
        mute.listen()
        build(ovs)
        with fabric(f"unix:{tmp_path}/mute.sock", tmp_path) as (agent, channel):
            wait_until(lambda: is_complete(topology(channel)), f"a complete fabric; log:\n{agent.log}", 90)
            wait_until(lambda: agent.log.count("queues are not set") == 4, f"a warning each; log:\n{agent.log}", 60)
            time.sleep(3)  # it tries again meanwhile
            assert agent.log.count("queues are not set") == 4
            assert "Traceback" not in agent.log
