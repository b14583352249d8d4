"""Runs RoCE-shaped connections and collectives between hosts of a lab: orders, a common start, and the results.

What can be run is in `roce_collective` (its names are given on here); the packets are `roce_worker`'s, one process in
every host. Numbers on the wire, who starts when, and when it is over are decided here.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from lab_namespace import LabError, die_with_parent
from roce_collective import (
    Connection,
    ConnectionResult,
    TrafficResult,
    TrafficSettings,
    ideal_ring_s,
    packets_of,
    ring_all_reduce,
    source_ports,
)
from roce_headers import OVERHEAD_BYTES, PSN_MASK

__all__ = [
    "Connection",
    "ConnectionResult",
    "Hosts",
    "RunningTraffic",
    "TrafficResult",
    "TrafficSettings",
    "ideal_ring_s",
    "packets_of",
    "ring_all_reduce",
    "run_traffic",
    "source_ports",
]

_START_PATIENCE_S = 30.0
_WORKER = Path(__file__).with_name("roce_worker.py")


class Hosts(Protocol):
    """What is needed of a lab: a process id and an address for every host name."""

    def pid_of(self, host: str) -> int: ...
    def address_of(self, host: str) -> str: ...
    def rate_of(self, host: str) -> int: ...


class RunningTraffic:
    """Workers in all hosts concerned, ready and waiting. A context manager: they end with the block at the latest."""

    def __init__(
        self, hosts: Hosts, connections: Sequence[Connection], timeout_s: float, settings: TrafficSettings | None = None
    ) -> None:
        self._hosts = hosts
        self._connections = tuple(connections)
        self._settings = settings or TrafficSettings()
        self._timeout_s = timeout_s
        self._workers: dict[str, subprocess.Popen[str]] = {}
        self._started_s = 0.0

    def __enter__(self) -> RunningTraffic:
        try:
            self._start_workers()
        except BaseException:
            self._end_workers()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end_workers()

    def start(self, delay_s: float = 0.1) -> float:
        """Starts all at one moment, `delay_s` from now; returns it on the monotonic clock."""
        self._started_s = time.monotonic() + delay_s
        for worker in self._workers.values():
            assert worker.stdin is not None  # noqa: S101 - it was opened as a pipe
            worker.stdin.write(f"start {self._started_s!r}\n")
            worker.stdin.flush()
        return self._started_s

    def wait(self) -> TrafficResult:
        """Waits until all is received or the time is over, and gathers the results."""
        answers: dict[str, dict[str, Any]] = {}
        faults = []
        deadline = self._started_s + self._timeout_s + _START_PATIENCE_S
        for host, worker in self._workers.items():
            try:
                answers[host] = json.loads(_line(worker, deadline))
            except (LabError, json.JSONDecodeError) as error:
                faults.append(f"{host}: {error}")
        return self._gather(answers, faults)

    def _start_workers(self) -> None:
        names = sorted({c.source for c in self._connections} | {c.target for c in self._connections})
        orders = {name: self._orders(name) for name in names}
        for name in names:
            command = ["mnexec", "-a", str(self._hosts.pid_of(name)), sys.executable, "-S", "-E", str(_WORKER)]
            self._workers[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent
            )
        for name, worker in self._workers.items():
            assert worker.stdin is not None  # noqa: S101 - it was opened as a pipe
            worker.stdin.write(json.dumps(orders[name]) + "\n")
            worker.stdin.flush()
        ready_by = time.monotonic() + _START_PATIENCE_S
        for name, worker in self._workers.items():
            if (said := _line(worker, ready_by)) != "ready":
                raise LabError(f"the traffic process in {name} said {said!r} instead of `ready`")

    def _orders(self, host: str) -> dict[str, Any]:
        s = self._settings
        own = [c for c in self._connections if c.source == host]
        # With several connections out of one interface, each may fill it alone.
        packet_s = (s.payload_bytes + OVERHEAD_BYTES) * 8 / self._hosts.rate_of(host)
        queue_pairs = max((len(c.udp_source_ports) for c in own), default=1)
        return {
            "address": self._hosts.address_of(host),
            "payload_bytes": s.payload_bytes,
            "window_packets": s.share_packets(queue_pairs),
            "target_s": s.target_packets * packet_s,
            "ack_every": s.ack_every,
            "ack_delay_s": s.ack_delay_s,
            "tick_s": s.tick_s,
            "stripe_packets": s.stripe_packets,
            "dscp": s.dscp,
            "timeout_s": self._timeout_s,
            "outgoing": [self._order(i, c, c.target) for i, c in enumerate(self._connections) if c.source == host],
            "incoming": [self._order(i, c, c.source) for i, c in enumerate(self._connections) if c.target == host],
        }

    def _order(self, index: int, connection: Connection, peer: str) -> dict[str, Any]:
        payload = self._settings.payload_bytes
        numbers = _queue_pair_numbers(self._connections, index)
        return {
            "id": index,
            "peer": self._hosts.address_of(peer),
            "packets": packets_of(connection, payload),
            "head_start_packets": -(-connection.head_start_bytes // payload),
            "gate": connection.gate,
            "queue_pairs": [
                # Any start will do; different ones show that numbers wrap.
                {"number": number, "port": port, "start_psn": number * 7919 & PSN_MASK}
                for number, port in zip(numbers, connection.udp_source_ports, strict=True)
            ],
        }

    def _gather(self, answers: dict[str, dict[str, Any]], faults: list[str]) -> TrafficResult:
        results = []
        for index, connection in enumerate(self._connections):
            sent = _of(answers.get(connection.source), "outgoing", index)
            received = _of(answers.get(connection.target), "incoming", index)
            gaps = answers.get(connection.target, {}).get("longest_gaps_s", ())
            results.append(self._result(connection, sent, received, tuple(gaps)))
        cpu = sum(answer["cpu_s"] for answer in answers.values())
        return TrafficResult(tuple(results), self._started_s, cpu, tuple(faults))

    def _result(
        self, connection: Connection, sent: dict[str, Any], received: dict[str, Any], gaps: tuple[float, ...]
    ) -> ConnectionResult:
        payload = self._settings.payload_bytes
        finished = received.get("finished_s")
        completion = finished - self._started_s if finished else None
        elapsed = completion or self._timeout_s
        return ConnectionResult(
            connection.source,
            connection.target,
            packets_of(connection, payload) * payload,
            completion,
            received.get("in_order_packets", 0) * payload * 8 / elapsed,
            sent.get("transmissions", 0),
            sent.get("retransmissions", 0),
            sent.get("timeouts", 0),
            received.get("duplicates", 0),
            received.get("out_of_order", 0),
            sent.get("round_trip_s", 0.0),
            tuple(t - self._started_s if t else None for t in sent.get("queue_pair_finished_s", ())),
            gaps,
        )

    def _end_workers(self) -> None:
        for worker in self._workers.values():
            if worker.stdin is not None:
                with suppress(BrokenPipeError):
                    worker.stdin.close()
        for worker in self._workers.values():
            try:
                worker.wait(2.0)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()
        self._workers.clear()


def run_traffic(
    hosts: Hosts, connections: Sequence[Connection], timeout_s: float, settings: TrafficSettings | None = None
) -> TrafficResult:
    """Starts all at one moment and waits for all; `timeout_s` bounds it. Raises LabError at a failed start."""
    with RunningTraffic(hosts, connections, timeout_s, settings) as running:
        running.start()
        return running.wait()


def _queue_pair_numbers(connections: Sequence[Connection], index: int) -> range:
    """Queue pair numbers are unique in one run; 0 and 1 are reserved by the specification."""
    before = sum(len(c.udp_source_ports) for c in connections[:index])
    return range(0x11 + before, 0x11 + before + len(connections[index].udp_source_ports))


def _of(answer: dict[str, Any] | None, side: str, index: int) -> dict[str, Any]:
    for entry in (answer or {}).get(side, ()):
        if entry["id"] == index:
            return dict(entry)
    return {}


def _line(worker: subprocess.Popen[str], deadline_s: float) -> str:
    """The worker's next line. A worker never says two things unasked, so nothing is left in Python's buffer."""
    assert worker.stdout is not None  # noqa: S101 - it was opened as a pipe
    if not select.select([worker.stdout], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
        raise LabError("the traffic process did not answer in time")
    line = worker.stdout.readline()
    if not line:
        raise LabError(f"the traffic process ended with status {worker.wait()}")
    return line.strip()
