"""When each port sends its next beacon.

It decides times only; what a beacon says and means is decided in `beacon` and `discovery`. A port that has just come up
sends a few beacons closely, since its neighbour may not yet have the rule that punts them; after that one a period, a
little early by chance, so that ports that came up together do not beacon together for ever. A port that leads to a host
is probed rarely: no beacon is due from there, and a switch that is plugged in there instead is heard by itself.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from controller.fabric.model import PortRef

FIRST_BEACONS_S = (0.0, 0.1, 0.3)
# The next beacon comes after this share of a period at the earliest, and after a whole one at the latest.
_EARLIEST = 0.9
HOST_PROBE_PERIODS = 10
_STEPS = 1 << 16


@dataclass(slots=True)
class BeaconTimers:
    """Mutable; owned by discovery. `seed` is random for each run; times are the core's seconds."""

    period_s: float
    seed: int = 0
    # (due, port), a heap; an entry whose port has another due time by now is skipped.
    _heap: list[tuple[float, PortRef]] = field(default_factory=list)
    _due_s: dict[PortRef, float] = field(default_factory=dict)
    # How many of the first beacons each port has sent.
    _early: dict[PortRef, int] = field(default_factory=dict)
    _draws: int = 0

    def restart(self, ref: PortRef, now_s: float) -> None:
        """The first beacons are due (again)."""
        self._early[ref] = 0
        self.set(ref, now_s)

    def set(self, ref: PortRef, due_s: float) -> None:
        self._due_s[ref] = due_s
        heapq.heappush(self._heap, (due_s, ref))

    def hasten(self, ref: PortRef, now_s: float) -> None:
        """One is wanted at once, whatever was due."""
        if self._due_s.get(ref, float("inf")) > now_s:
            self.set(ref, now_s)

    def stop(self, ref: PortRef) -> None:
        self._due_s.pop(ref, None)
        self._early.pop(ref, None)

    def told(self, ref: PortRef) -> bool:
        """All of its first beacons have been sent."""
        return self._early.get(ref, 0) >= len(FIRST_BEACONS_S)

    def due(self, now_s: float) -> Iterator[PortRef]:
        """Each port that is to send now; the caller says with `sent` when it has."""
        while self._heap and self._heap[0][0] <= now_s:
            due_s, ref = heapq.heappop(self._heap)
            if self._due_s.get(ref) == due_s:
                yield ref

    def sent(self, ref: PortRef, now_s: float, *, to_host: bool) -> None:
        count = self._early[ref] = self._early.get(ref, 0) + 1
        if count < len(FIRST_BEACONS_S):
            wait_s = FIRST_BEACONS_S[count] - FIRST_BEACONS_S[count - 1]
        else:
            periods = HOST_PROBE_PERIODS if to_host else 1
            wait_s = self.period_s * periods * (_EARLIEST + (1 - _EARLIEST) * self._draw())
        self.set(ref, now_s + wait_s)

    def _draw(self) -> float:
        """From 0 to 1; Knuth's multiplicative hash spreads the counter well enough for this."""
        self._draws += 1
        return (self._draws * 2654435761 + self.seed & 0xFFFFFFFF) // _STEPS / _STEPS

    def next_s(self) -> float | None:
        while self._heap and self._due_s.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
