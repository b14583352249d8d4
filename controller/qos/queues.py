"""Which queues a port has: one per traffic class, with rates that follow the port's."""

from dataclasses import dataclass

from controller.qos.classes import QosSettings

# Open vSwitch takes no less as a minimum rate.
SMALLEST_RATE_BPS = 12_000


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


def port_queues(port_no: int, rate_bps: int, settings: QosSettings) -> PortQueues:
    """One queue per class, each guaranteed its share of the port and free to borrow all of it."""
    queues = tuple(
        Queue(c.queue_id, max(SMALLEST_RATE_BPS, int(rate_bps * c.share)), rate_bps, c.priority)
        for c in sorted(settings.classes, key=lambda c: c.queue_id)
    )
    return PortQueues(port_no, rate_bps, queues)
