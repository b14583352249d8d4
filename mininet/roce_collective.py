"""What is moved: connections between hosts, the ring collective made of them, and what a run of them says.

A *connection* moves a number of bytes from one host to another over one or more queue pairs. A ring collective is one
connection per rank whose bytes wait for the predecessor's (its `gate`). Pure arithmetic; `roce_traffic` runs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab_namespace import LabError
from roce_headers import OVERHEAD_BYTES, SACK_PACKETS, SOURCE_PORTS

_SMALLEST_SHARE_PACKETS = 2


@dataclass(frozen=True, slots=True)
class TrafficSettings:
    """How NICs behave. Measured defaults: docs of `mininet/` say with what.

    `window_packets` bounds each connection's packets under way (shared by its queue pairs, at least 2 each);
    `target_packets` is the round trip the window aims at, in packet times at the host's rate.
    """

    payload_bytes: int = 1024
    window_packets: int = 32
    target_packets: float = 80.0
    ack_every: int = 4
    ack_delay_s: float = 0.005
    tick_s: float = 0.004
    stripe_packets: int = 4
    dscp: int = 26

    def share_packets(self, queue_pairs: int) -> int:
        """What each of a connection's queue pairs may have under way.

        With one packet it waits for the other end and not for the link. Four each, with 16 queue pairs, stood in queues
        until the senders' timers took them for lost: a ring then took 5 to 10 % longer than its fullest link.
        """
        return min(SACK_PACKETS, max(_SMALLEST_SHARE_PACKETS, self.window_packets // queue_pairs))

    def packets_per_ack(self, queue_pairs: int) -> int:
        """Whoever has to wait for the answer asks for it, hence with every window at the latest."""
        return min(self.ack_every, self.share_packets(queue_pairs))


@dataclass(frozen=True, slots=True)
class Connection:
    """`size_bytes` from one host to another, over one queue pair per UDP source port.

    With `gate`, the index of another connection in the same list that ends at `source`, byte x is sent only when
    x < `head_start_bytes` + bytes received in order on it. Sizes are rounded up to whole packets.
    """

    source: str
    target: str
    size_bytes: int
    udp_source_ports: tuple[int, ...]
    gate: int | None = None
    head_start_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionResult:
    """`completion_s` is from the common start to the last byte in order at the target; None when it did not get there.

    `goodput_bps` counts payload. `longest_gaps_s` is the target host's longest pause between data packets (of all its
    connections) in each 0.1 s since the start.
    """

    source: str
    target: str
    size_bytes: int
    completion_s: float | None
    goodput_bps: float
    transmissions: int
    retransmissions: int
    timeouts: int
    duplicates: int
    out_of_order: int
    round_trip_s: float
    queue_pair_completion_s: tuple[float | None, ...]
    longest_gaps_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TrafficResult:
    """`completion_s` is that of the slowest connection; None when one did not complete in time."""

    connections: tuple[ConnectionResult, ...]
    started_s: float
    worker_cpu_s: float
    faults: tuple[str, ...] = field(default=())

    @property
    def complete(self) -> bool:
        return not self.faults and all(c.completion_s is not None for c in self.connections)

    @property
    def completion_s(self) -> float | None:
        times = [c.completion_s for c in self.connections]
        return max((t for t in times if t is not None), default=0.0) if self.complete else None

    @property
    def retransmissions(self) -> int:
        return sum(c.retransmissions for c in self.connections)


def source_ports(source: str, target: str, count: int, seed: int = 0) -> tuple[int, ...]:
    """`count` different UDP source ports that look random and are the same for the same arguments."""
    ports: list[int] = []
    number = 0
    while len(ports) < count:
        digest = hashlib.sha256(f"{seed}/{source}/{target}/{number}".encode()).digest()
        port = SOURCE_PORTS[int.from_bytes(digest[:4], "big") % len(SOURCE_PORTS)]
        if port not in ports:
            ports.append(port)
        number += 1
    return tuple(ports)


def ring_all_reduce(
    ranks: Sequence[str],
    size_bytes: int,
    *,
    queue_pairs: int = 1,
    seed: int = 0,
    ports: dict[tuple[int, int], tuple[int, ...]] | None = None,
) -> list[Connection]:
    """A pipelined ring all-reduce: each rank sends 2 (n - 1) chunks of size / n bytes to the next one.

    A rank starts with its own chunk and passes on what it received (Patarasuk and Yuan, 2009). `ports` gives UDP source
    ports for (rank, next rank) where they are known; the others follow from `seed`.
    """
    n = len(ranks)
    if n < 2:
        raise LabError("a ring needs two ranks at least")
    chunk = -(-size_bytes // n)
    known = ports or {}
    return [
        Connection(
            ranks[i],
            ranks[(i + 1) % n],
            2 * (n - 1) * chunk,
            known.get((i, (i + 1) % n)) or source_ports(ranks[i], ranks[(i + 1) % n], queue_pairs, seed),
            gate=(i - 1) % n,
            head_start_bytes=chunk,
        )
        for i in range(n)
    ]


def ideal_ring_s(ranks: int, size_bytes: int, rate_bps: int, payload_bytes: int = 1024) -> float:
    """The shortest time of `ring_all_reduce` when every step has a link of `rate_bps` to itself."""
    sent = 2 * (ranks - 1) / ranks * size_bytes
    return sent * 8 * (payload_bytes + OVERHEAD_BYTES) / payload_bytes / rate_bps


def packets_of(connection: Connection, payload_bytes: int) -> int:
    """Whole packets; a gated connection is whole in each of its chunks, so that gates open at packet bounds."""
    chunk = connection.head_start_bytes
    if connection.gate is None or not chunk:
        return -(-connection.size_bytes // payload_bytes)
    chunks = -(-connection.size_bytes // chunk)
    return chunks * -(-chunk // payload_bytes)
