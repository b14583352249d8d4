"""What the demo asks of the controller, over the same gRPC API that a scheduler uses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

# The demo starts many processes; gRPC's own handling of forks breaks its poller then (seen with grpcio 1.85).
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc
from demo_job import RingJob
from heddle.v1 import collective_pb2, collective_pb2_grpc, fabric_pb2, fabric_pb2_grpc
from lab_namespace import LabError

_DEADLINE_S = 30.0


class Controller:
    """A client; a context manager."""

    def __init__(self, address: str) -> None:
        # It may be asked before the controller listens; gRPC's own pauses grow to seconds.
        self._channel = grpc.insecure_channel(address, options=(("grpc.max_reconnect_backoff_ms", 200),))
        self._collectives = collective_pb2_grpc.CollectiveServiceStub(self._channel)
        self._fabric = fabric_pb2_grpc.FabricServiceStub(self._channel)

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def wait_connected(self, switches: int, timeout_s: float = 20.0) -> float:
        """Waits until so many switches are connected; returns how long that took."""

        def connected(found: fabric_pb2.GetTopologyResponse) -> tuple[bool, str]:
            now = sum(switch.connected for switch in found.switches)
            return now == switches, f"{now} switches connected"

        return self._wait(connected, f"{switches} switches", timeout_s)

    def wait_for(self, links: int, hosts: int, timeout_s: float = 20.0) -> float:
        """Waits until all links and hosts are found and every switch is in sync; returns how long that took."""

        def complete(found: fabric_pb2.GetTopologyResponse) -> tuple[bool, str]:
            up = sum(link.state == "up" for link in found.links)
            seen = f"{up} links, {len(found.hosts)} hosts, in sync: {found.in_sync}"
            return up == links and len(found.hosts) == hosts and found.in_sync, seen

        return self._wait(complete, f"{links} links and {hosts} hosts", timeout_s)

    def _wait(
        self, judge: Callable[[fabric_pb2.GetTopologyResponse], tuple[bool, str]], wanted: str, timeout_s: float
    ) -> float:
        started = time.monotonic()
        seen = "nothing"
        while time.monotonic() - started < timeout_s:
            try:
                found = self._fabric.GetTopology(fabric_pb2.GetTopologyRequest(), timeout=_DEADLINE_S)
            except grpc.RpcError as error:
                seen = str(error.code())
            else:
                done, seen = judge(found)
                if done:
                    return time.monotonic() - started
            time.sleep(0.05)
        raise LabError(f"wanted {wanted} within {timeout_s:.0f} s; the controller sees {seen}")

    def announce(self, job_id: str, job: RingJob) -> collective_pb2.AnnounceCollectiveResponse:
        request = collective_pb2.Collective(
            job_id=job_id,
            operation=collective_pb2.OPERATION_ALL_REDUCE,
            algorithm=collective_pb2.ALGORITHM_RING,
            ranks=job.hosts,
            size_bytes=job.size_bytes,
            rings=[collective_pb2.Ring(ranks=ring) for ring in job.rings],
        )
        answer: collective_pb2.AnnounceCollectiveResponse = self._collectives.AnnounceCollective(
            collective_pb2.AnnounceCollectiveRequest(collective=request), timeout=_DEADLINE_S
        )
        return answer

    def withdraw(self, job_id: str) -> int:
        """Rules that were changed for it."""
        request = collective_pb2.WithdrawCollectiveRequest(job_id=job_id)
        return int(self._collectives.WithdrawCollective(request, timeout=_DEADLINE_S).rules_changed)

    def plan(self, job_id: str) -> collective_pb2.Plan:
        answer = self._collectives.GetPlan(collective_pb2.GetPlanRequest(job_id=job_id), timeout=_DEADLINE_S)
        plan: collective_pb2.Plan = answer.plans[0]
        return plan
