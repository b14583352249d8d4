"""What counts as evidence that a link loses packets: how much, over which times, and in what words it is put.

How it is found is decided in `gray` (two ends' counters differ) and in `port_errors` (one end's count of errors rises).
"""

from dataclasses import dataclass
from typing import Protocol

from controller.fabric.model import PortRef

LEAST_SHARE, LEAST_LOST = 0.001, 10
# Something must have been lost in each part of the time, or it may have been one burst.
PARTS = 3
SPACING_S = 0.9
# Times over which is judged, in marks of about a second. A short time shows heavy loss early, a long one light loss.
SPANS = (3, 6, 12, 24, 48)


class Counters(Protocol):
    """What is read of a port's statistics; None: the switch does not know."""

    @property
    def rx_packets(self) -> int | None: ...

    @property
    def tx_packets(self) -> int | None: ...

    @property
    def tx_dropped(self) -> int | None: ...

    @property
    def rx_errors(self) -> int | None: ...

    @property
    def tx_errors(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Evidence:
    """At least `lost` of `sent` packets have not arrived; `seconds` is about how long that took. `counted_by` is the
    port that has counted them as errors itself; None: they are what the two ends' counters differ in."""

    sender: PortRef
    receiver: PortRef
    lost: int
    sent: int
    seconds: float
    counted_by: PortRef | None = None

    @property
    def share(self) -> float:
        return self.lost / self.sent


def is_enough(lost: int, sent: int) -> bool:
    return lost >= max(LEAST_LOST, LEAST_SHARE * sent)
