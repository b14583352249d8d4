"""Numbered packets at a steady rate from host to host: what a failover costs, in packets and in milliseconds.

Probes look like RoCE data (BTH, UDP/4791, DSCP 26, a chosen source port), so they take the path of the flow they stand
for. The receiver binds UDP/4791 for its own sender alone, so several probes may end in one host, but no `roce_worker`
can run there meanwhile. Run as a program it is one end (`send` or `receive`); as a module it starts both ends.
"""

from __future__ import annotations

import itertools
import json
import math
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab_namespace import LabError, die_with_parent
from lab_priority import NIC_NICENESS, favour_self
from roce_headers import BTH_BYTES, DSCP_DATA, UDP_PORT, data_template, type_of_service

_QUEUE_PAIR = 0x20
_NUMBER_AND_TIME = struct.Struct(">Id")
_LAST_PACKETS_S = 0.5
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`longest_gap_s` is the longest time between two arrivals, `longest_gap_packets` the longest run of lost numbers.

    Without a failure the gap is the sending interval plus what the machine's scheduler adds. Latencies are one way.
    """

    sent: int
    received: int
    lost: int
    duplicated: int
    reordered: int
    longest_gap_s: float
    longest_gap_packets: int
    latency_p50_s: float
    latency_p99_s: float


def evaluate(arrivals: Sequence[tuple[int, float, float]], sent: int) -> ProbeResult:
    """From (number, sent at, received at) in the order of arrival."""
    numbers = [number for number, _, _ in arrivals]
    seen = sorted(set(numbers))
    times = [received for _, _, received in arrivals]
    latencies = sorted(received - at for _, at, received in arrivals) or [0.0]
    edges = [-1, *seen, sent]
    return ProbeResult(
        sent=sent,
        received=len(seen),
        lost=sent - len(seen),
        duplicated=len(numbers) - len(seen),
        reordered=sum(later < earlier for earlier, later in itertools.pairwise(numbers)),
        longest_gap_s=max((b - a for a, b in itertools.pairwise(times)), default=0.0),
        longest_gap_packets=max(b - a - 1 for a, b in itertools.pairwise(edges)),
        latency_p50_s=latencies[len(latencies) // 2],
        latency_p99_s=latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)],
    )


class RunningProbe:
    """A probe from one host to another; a context manager whose ends stop with the block at the latest.

    `hosts` gives `pid_of` and `address_of`. Rates in packets per second, sizes in bytes of UDP payload. Without a
    `duration_s` it sends until `wait` is called.
    """

    def __init__(
        self,
        hosts: Any,
        source: str,
        target: str,
        *,
        packets_per_second: float = 500.0,
        duration_s: float | None = 2.0,
        udp_source_port: int = 50000,
        udp_port: int = UDP_PORT,
        size_bytes: int = 64,
        dscp: int = DSCP_DATA,
    ) -> None:
        address = hosts.address_of(target)
        self._duration_s = duration_s
        sender = (hosts.address_of(source), udp_source_port)
        self._receive = self._command(hosts, target, "receive", address, udp_port, *sender)
        length_s = math.inf if duration_s is None else duration_s
        sending = (address, udp_port, packets_per_second, length_s, udp_source_port, size_bytes, dscp)
        self._send = self._command(hosts, source, "send", *sending)
        self._ends: list[subprocess.Popen[str]] = []
        self._last_sent: tuple[int, float] | None = None

    @staticmethod
    def _command(hosts: Any, host: str, *arguments: object) -> list[str]:
        program = ["mnexec", "-a", str(hosts.pid_of(host)), sys.executable, "-S", "-E", __file__]
        return program + [str(a) for a in arguments]

    def __enter__(self) -> RunningProbe:
        """Both ends run, and the first packets are on their way, when this returns."""
        try:
            for command in (self._receive, self._send):
                self._ends.append(
                    subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent
                    )
                )
                if (said := self._read(len(self._ends) - 1, _PATIENCE_S)) != "ready":
                    raise LabError(f"a probe's end said {said!r} instead of `ready`")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for end in self._ends:
            end.kill()
            end.wait()
            for pipe in (end.stdin, end.stdout):
                if pipe is not None:
                    pipe.close()
        self._ends.clear()

    def wait(self) -> ProbeResult:
        """Waits for the last packet and evaluates. Raises LabError when an end fails."""
        return evaluate(*self.arrivals())

    def arrivals(self) -> tuple[list[tuple[int, float, float]], int]:
        """(number, sent at, received at) of all that came, in that order and by the machine's monotonic clock, and how
        many were sent. Waits for the last packet. Raises LabError when an end fails."""
        sent, told_s = self.last_sent()
        time.sleep(max(0.0, told_s + _LAST_PACKETS_S - time.monotonic()))
        stdin = self._ends[0].stdin
        if stdin is not None:
            stdin.close()
        return [tuple(arrival) for arrival in json.loads(self._read(0, _PATIENCE_S))], sent

    def last_sent(self) -> tuple[int, float]:
        """How many were sent, and the moment when that was told. Waits for the last one to leave; whoever asks many
        probes before the first `wait` waits for their last packets once and not for each."""
        if self._last_sent is None:
            if self._duration_s is None:
                self.stop_sending()
            sent = json.loads(self._read(1, (self._duration_s or 0.0) + _PATIENCE_S))
            self._last_sent = (sent, time.monotonic())
        return self._last_sent

    def stop_sending(self) -> None:
        """Without waiting, so that many probes can be stopped together."""
        stdin = self._ends[1].stdin
        if stdin is not None:
            stdin.close()

    def _read(self, end: int, patience_s: float) -> str:
        stdout = self._ends[end].stdout
        if stdout is None or not select.select([stdout], [], [], patience_s)[0]:
            raise LabError("a probe's end did not answer in time")
        line = stdout.readline().strip()
        if not line:
            raise LabError(f"a probe's end stopped with status {self._ends[end].wait()}")
        return line


def _send_all(
    address: str, udp_port: int, rate: float, duration_s: float, source_port: int, size: int, dscp: int
) -> None:
    sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sending.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sending.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, type_of_service(dscp))
    sending.bind(("", source_port))
    sending.connect((address, udp_port))
    packet = data_template(_QUEUE_PAIR, max(_NUMBER_AND_TIME.size, size - BTH_BYTES - 4))
    stopped = threading.Event()
    threading.Thread(target=_until_closed, args=(stopped,), daemon=True).start()
    print("ready", flush=True)
    start = time.monotonic()
    total = 0
    for number in itertools.count():
        if number >= rate * duration_s or stopped.is_set():
            break
        total = number + 1
        due = start + number / rate
        time.sleep(max(0.0, due - time.monotonic()))
        _NUMBER_AND_TIME.pack_into(packet, BTH_BYTES, number, time.monotonic())
        try:
            sending.send(packet)
        except OSError:
            # An ICMP answer to an earlier one, or no route for now: counted as lost by the receiver.
            continue
    print(total, flush=True)
    stopped.wait()


def _until_closed(stopped: threading.Event) -> None:
    sys.stdin.read()
    stopped.set()


def _receive_all(address: str, udp_port: int, sender: str, sender_port: int) -> None:
    receiving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiving.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    receiving.bind((address, udp_port))
    receiving.connect((sender, sender_port))
    print("ready", flush=True)
    arrivals = []
    while True:
        ready = select.select([receiving, sys.stdin], [], [])[0]
        if receiving in ready:
            packet = receiving.recv(2048)
            if len(packet) >= BTH_BYTES + _NUMBER_AND_TIME.size:
                number, at = _NUMBER_AND_TIME.unpack_from(packet, BTH_BYTES)
                arrivals.append((number, at, time.monotonic()))
        elif sys.stdin in ready:
            print(json.dumps(arrivals), flush=True)
            return


def main(arguments: Sequence[str]) -> None:
    die_with_parent()
    favour_self(NIC_NICENESS)
    mode, address, udp_port, *rest = arguments
    if mode == "receive":
        sender, sender_port = rest
        _receive_all(address, int(udp_port), sender, int(sender_port))
    else:
        rate, duration_s, source_port, size, dscp = rest
        _send_all(address, int(udp_port), float(rate), float(duration_s), int(source_port), int(size), int(dscp))


if __name__ == "__main__":
    main(sys.argv[1:])
