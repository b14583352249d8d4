"""What is seen of a repair: the moment a switch reports a port, and what the controller says it has done and when.

Both come with the machine's wall clock, so that they can be held against the moment of the cut. What is cut, and what
would be right, is for those who call.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

# As in `demo_northbound`: links are cut by programs that are started meanwhile.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc
from demo_job import crossing_order
from heddle.v1 import collective_pb2, collective_pb2_grpc, events_pb2, events_pb2_grpc
from hitless_probes import ProbeFlow
from lab_namespace import LabError, die_with_parent, stop_process

from controller.fabric.plan import FabricPlan

_PATIENCE_S = 20.0
_FIRST_PORT = 49_200
RING = "ring"


def announce_ring(address: str, plan: FabricPlan, queue_pairs: int, size_bytes: int = 1 << 30) -> list[ProbeFlow]:
    """A ring over all hosts, every step of it from leaf to leaf, each connection with so many queue pairs, which are
    steered one by one; its flows."""
    hosts = crossing_order(plan)
    ports = [_FIRST_PORT + number for number in range(queue_pairs)]
    steps = [(rank, (rank + 1) % len(hosts)) for rank in range(len(hosts))]
    known = [collective_pb2.QueuePairPorts(src_rank=a, dst_rank=b, udp_source_ports=ports) for a, b in steps]
    collective = collective_pb2.Collective(
        job_id=RING,
        operation=collective_pb2.OPERATION_ALL_REDUCE,
        algorithm=collective_pb2.ALGORITHM_RING,
        ranks=hosts,
        size_bytes=size_bytes,
        queue_pairs=queue_pairs,
        ports=known,
    )
    with grpc.insecure_channel(address) as channel:
        stub = collective_pb2_grpc.CollectiveServiceStub(channel)
        stub.AnnounceCollective(collective_pb2.AnnounceCollectiveRequest(collective=collective), timeout=60)
    return [ProbeFlow(hosts[a], hosts[b], port) for a, b in steps for port in ports]


@dataclass(slots=True)
class Timed:
    """Things that came, with the time at which they did; grows in a thread of its own."""

    items: list[tuple[float, object]] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def add(self, item: object) -> None:
        with self._news:
            self.items.append((time.time(), item))
            self._news.notify_all()

    def first(
        self, fits: Callable[[object], bool], since: int, patience_s: float = _PATIENCE_S
    ) -> tuple[float, object]:
        """The first that fits of those from number `since` on; waits for it. Raises LabError."""
        deadline = time.monotonic() + patience_s
        with self._news:
            while True:
                for entry in self.items[since:]:
                    if fits(entry[1]):
                        return entry
                if not self._news.wait(deadline - time.monotonic()):
                    raise LabError(f"what was waited for did not come within {patience_s:.0f} s")


@contextmanager
def port_reports(switches: Sequence[str]) -> Iterator[dict[str, Timed]]:
    """Port-status messages of each switch, as a second controller would get them, as lines."""
    with ExitStack() as stack:
        found: dict[str, Timed] = {}
        for switch in switches:
            # A connection of this kind is told of ports only once it has asked for packets; one byte of each will do.
            # What it receives it prints to standard error, line by line.
            process = subprocess.Popen(
                ["ovs-ofctl", "-O", "OpenFlow13", "monitor", switch, "1"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=die_with_parent,
            )
            stack.callback(stop_process, process)
            found[switch] = Timed()
            threading.Thread(target=_read_lines, args=(process, found[switch]), daemon=True).start()
        time.sleep(0.5)
        yield found


def _read_lines(process: subprocess.Popen[str], into: Timed) -> None:
    for line in process.stderr or ():
        if "PORT_STATUS" in line:
            into.add(line)


@contextmanager
def events(address: str) -> Iterator[Timed]:
    """Everything that the controller writes down from now on, as `events_pb2.Event`."""
    into = Timed()
    with grpc.insecure_channel(address) as channel:
        watch = events_pb2_grpc.EventServiceStub(channel).WatchEvents
        known = [r.events[-1].sequence for r in watch(events_pb2.WatchEventsRequest(), timeout=_PATIENCE_S) if r.events]
        call = watch(events_pb2.WatchEventsRequest(after_sequence=known[-1] if known else 0, follow=True))
        threading.Thread(target=_read_events, args=(call, into), daemon=True).start()
        try:
            yield into
        finally:
            call.cancel()


def _read_events(call: grpc.Call, into: Timed) -> None:
    try:
        for response in call:
            for event in response.events:
                into.add(event)
    except grpc.RpcError:
        # The block is over, or the controller is: whoever waits hears that nothing comes.
        return
