"""Which queues a port has: one per traffic class, with rates that follow the port's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Queue:
    """Rates in bit/s, whole numbers: Open vSwitch reads a fraction as 12 kbit/s. A lower `priority` is served first."""

    queue_id: int
    min_rate_bps: int
    max_rate_bps: int
    priority: int


@dataclass(frozen=True, slots=True)
class PortQueues:
    """All queues of one port; `max_rate_bps` is the port's own rate."""

    port_no: int
    max_rate_bps: int
    queues: tuple[Queue, ...]
