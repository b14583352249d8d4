"""Measures: bytes per port and share of the processors over an interval. Reads counters only; judges nothing."""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class PortCounters:
    """As the kernel counts them on the port's interface; sent frames are counted when they leave the queue."""

    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int


def read_counters() -> dict[str, PortCounters]:
    """All interfaces of the calling thread's namespace (for the lab: every switch port), in one read."""
    counters = {}
    # /proc/net is the main thread's; the lab may run in another.
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]:
        name, _, fields = line.partition(":")
        numbers = [int(field) for field in fields.split()]
        counters[name.strip()] = PortCounters(numbers[0], numbers[1], numbers[8], numbers[9])
    return counters


def sent_bytes(before: Mapping[str, PortCounters], after: Mapping[str, PortCounters]) -> dict[str, int]:
    """Bytes that each port sent between two readings; a port that is not in both is left out."""
    return {name: after[name].tx_bytes - c.tx_bytes for name, c in before.items() if name in after}


@dataclass(frozen=True, slots=True)
class CpuReading:
    """Cumulative processor seconds: all of the machine's, those not idle, and those of each process asked for."""

    at_s: float
    total_s: float
    busy_s: float
    process_s: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class CpuShare:
    """Fractions over an interval: `machine` of all cores (1.0 = all busy), `process` of one core."""

    machine: float
    process: Mapping[int, float]


def read_cpu(pids: Iterable[int] = ()) -> CpuReading:
    fields = [int(f) for f in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    total = sum(fields)
    # idle and iowait.
    busy = total - fields[3] - fields[4]
    spent = {pid: _process_seconds(pid) for pid in pids}
    return CpuReading(time.monotonic(), total / _TICKS_PER_SECOND, busy / _TICKS_PER_SECOND, spent)


def cpu_share(before: CpuReading, after: CpuReading) -> CpuShare:
    elapsed = max(after.at_s - before.at_s, 1e-9)
    total = max(after.total_s - before.total_s, 1e-9)
    shares = {pid: (after.process_s[pid] - spent) / elapsed for pid, spent in before.process_s.items()}
    # Ticks are rounded when they become seconds.
    return CpuShare(min(1.0, (after.busy_s - before.busy_s) / total), shares)


def _process_seconds(pid: int) -> float:
    """User and system time of all threads of `pid`; 0 when it is gone."""
    try:
        # The second field is the name in parentheses and may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
