"""When each port sends its next beacon.

It decides times only; what a beacon says and means is decided in `beacon` and `discovery`. A port that has just come up
sends a few beacons closely, since its neighbour may still be coming up; after that one a period, a little early by
chance, so that ports that came up together do not beacon together for ever. When a whole switch has just connected, its
ports wait until it is known to punt beacons, then each sends one: of two neighbours the later one is so heard by the
earlier, which answers. Thousands of ports that sent a few each to be safe would drown each other. A port that leads to
a host is probed rarely: no beacon is due from there, and a switch that is plugged in there instead is heard by itself.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from controller.fabric.model import PortRef

# What lies between the first beacons of a port that has come up.
FIRST_WAITS_S = (0.1, 0.2)
# Whoever has sent a beacon so lately need not hasten another: the answer to it is on its way.
_LATELY_S = 0.5
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
    # What lies between the next beacons of a port, before its beacons become periodical.
    _waits_s: dict[PortRef, tuple[float, ...]] = field(default_factory=dict)
    _sent_s: dict[PortRef, float] = field(default_factory=dict)
    _draws: int = 0

    def restart(self, ref: PortRef, now_s: float, waits_s: tuple[float, ...] = FIRST_WAITS_S) -> None:
        """The first beacons are due (again): one now, and those after the waits."""
        self._sent_s.pop(ref, None)
        self._waits_s[ref] = waits_s
        self.set(ref, now_s)

    def hold(self, ref: PortRef, now_s: float) -> None:
        """The port is to wait for a `restart`; should none come, it starts in a period."""
        self.restart(ref, now_s + self.period_s, ())

    def set(self, ref: PortRef, due_s: float) -> None:
        self._due_s[ref] = due_s
        heapq.heappush(self._heap, (due_s, ref))

    def hasten(self, ref: PortRef, now_s: float) -> None:
        """One is wanted soon, whatever was due."""
        due_s = max(now_s, self._sent_s.get(ref, float("-inf")) + _LATELY_S)
        if self._due_s.get(ref, float("inf")) > due_s:
            self.set(ref, due_s)

    def stop(self, ref: PortRef) -> None:
        for of_port in (self._due_s, self._waits_s, self._sent_s):
            of_port.pop(ref, None)

    def told(self, ref: PortRef) -> bool:
        """All of its first beacons have been sent."""
        return ref in self._sent_s and not self._waits_s.get(ref)

    def due(self, now_s: float) -> Iterator[PortRef]:
        """Each port that is to send now; the caller says with `sent` when it has."""
        while self._heap and self._heap[0][0] <= now_s:
            due_s, ref = heapq.heappop(self._heap)
            if self._due_s.get(ref) == due_s:
                yield ref

    def sent(self, ref: PortRef, now_s: float, *, to_host: bool) -> None:
        self._sent_s[ref] = now_s
        if waits_s := self._waits_s.get(ref):
            wait_s, self._waits_s[ref] = waits_s[0], waits_s[1:]
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
