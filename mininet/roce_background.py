"""Plain UDP at a given rate, marked best effort: the traffic that a collective must not notice.

It is not congestion controlled and does not care what arrives; a sink at the other end counts. Run as a program it is
one end (`send` or `sink`); as a module it starts both ends.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from lab_namespace import LabError, die_with_parent
from lab_priority import NIC_NICENESS, favour_self

UDP_PORT = 5001
_HEADERS_BYTES = 14 + 20 + 8
_TICK_S = 0.002
# After a pause of the process, do not make up for more than this.
_LONGEST_DEBT_S = 0.02
_PATIENCE_S = 30.0


class Background:
    """UDP of `rate_bps` (on the wire) from one host to another until the block ends; a context manager.

    `udp_source_port` 0 lets the system choose. `received_bytes` is what arrived at the sink's interface, headers
    included, and is known after the block.
    """

    def __init__(
        self,
        hosts: Any,
        source: str,
        target: str,
        rate_bps: int,
        *,
        udp_port: int = UDP_PORT,
        udp_source_port: int = 0,
        size_bytes: int = 1400,
        dscp: int = 0,
    ) -> None:
        address = hosts.address_of(target)
        self.received_bytes = 0
        self._commands = (
            self._command(hosts, target, "sink", address, udp_port),
            self._command(hosts, source, "send", address, udp_port, udp_source_port, rate_bps, size_bytes, dscp),
        )
        self._ends: list[subprocess.Popen[str]] = []

    @staticmethod
    def _command(hosts: Any, host: str, *arguments: object) -> list[str]:
        program = ["mnexec", "-a", str(hosts.pid_of(host)), sys.executable, "-S", "-E", __file__]
        return program + [str(a) for a in arguments]

    def __enter__(self) -> Background:
        try:
            for command in self._commands:
                end = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent
                )
                self._ends.append(end)
                if _line(end) != "ready":
                    raise LabError("a background process did not start")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        sink, sender = self._ends
        try:
            for end in (sender, sink):
                if end.stdin is not None:
                    end.stdin.close()
            self.received_bytes = int(_line(sink))
        finally:
            self._stop()

    def _stop(self) -> None:
        for end in self._ends:
            end.kill()
            end.wait()
            for pipe in (end.stdin, end.stdout):
                if pipe is not None:
                    pipe.close()
        self._ends.clear()


def _line(end: subprocess.Popen[str]) -> str:
    if end.stdout is None or not select.select([end.stdout], [], [], _PATIENCE_S)[0]:
        raise LabError("a background process did not answer in time")
    return end.stdout.readline().strip()


def _input_ended(timeout_s: float) -> bool:
    return bool(select.select([sys.stdin], [], [], timeout_s)[0])


def _send(address: str, udp_port: int, source_port: int, rate_bps: int, size: int, dscp: int) -> None:
    sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sending.bind(("", source_port))
    sending.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
    sending.connect((address, udp_port))
    sending.setblocking(False)
    packet = bytes(size)
    packet_s = (size + _HEADERS_BYTES) * 8 / rate_bps
    print("ready", flush=True)
    due = time.monotonic()
    while not _input_ended(max(0.0, _TICK_S)):
        now = time.monotonic()
        due = max(due, now - _LONGEST_DEBT_S)
        while due <= now:
            due += packet_s
            try:
                sending.send(packet)
            except OSError:
                # The own interface is full, or nobody listens yet: best effort.
                continue


def _sink(address: str, udp_port: int) -> None:
    receiving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiving.bind((address, udp_port))
    receiving.setblocking(False)
    buffer = bytearray(65536)
    count = 0
    print("ready", flush=True)
    ended = False
    while not ended:
        ended = _input_ended(_TICK_S)
        try:
            while True:
                count += receiving.recv_into(buffer) + _HEADERS_BYTES
        except BlockingIOError:
            continue
    print(count, flush=True)


def main(arguments: Sequence[str]) -> None:
    die_with_parent()
    favour_self(NIC_NICENESS)
    mode, address, udp_port, *rest = arguments
    if mode == "sink":
        _sink(address, int(udp_port))
    else:
        source_port, rate, size, dscp = rest
        _send(address, int(udp_port), int(source_port), int(rate), int(size), int(dscp))


if __name__ == "__main__":
    main(sys.argv[1:])
