"""Which ports count errors: frames that arrive broken (a failed checksum), or that the port could not send.

One port's own count needs no other to compare it with, so it shows what a worn transceiver does also where the far
end's counters are unknown, late, or read out of order, and where there is little traffic. The other way round it proves
nothing: many ports have no such counter, and a cable that swallows frames leaves no trace in one.

A verdict needs errors in each part of a time (`evidence`): those of a plug that was pulled come in one burst.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controller.fabric.model import PortRef
from controller.health.evidence import PARTS, SPACING_S, SPANS, Counters, Evidence, is_enough

# Over so many marks, the last minute or so, errors keep a link from being called clean.
_CLEAN_MARKS = 30


@dataclass(frozen=True, slots=True)
class _Mark:
    """So far: frames, broken ones included, and broken ones."""

    at_s: float
    frames: int
    errors: int

    def has_begun_again(self, before: "_Mark") -> bool:
        return self.errors < before.errors or self.frames - self.errors < before.frames - before.errors


@dataclass(slots=True)
class PortErrors:
    """Mutable; owned by `gray`. All times are the core's seconds."""

    # By port, and whether it is what the port sends.
    _marks: dict[tuple[PortRef, bool], deque[_Mark]] = field(default_factory=dict)

    def take(self, port: PortRef, counters: Counters | None, now_s: float) -> None:
        """A reading of the port; with `counters` unknown, what was gathered says nothing any more."""
        received = (counters.rx_packets, counters.rx_errors) if counters is not None else (None, None)
        sent = (counters.tx_packets, counters.tx_errors) if counters is not None else (None, None)
        self._note((port, False), *received, now_s)
        self._note((port, True), *sent, now_s)

    def _note(self, way: tuple[PortRef, bool], good: int | None, errors: int | None, now_s: float) -> None:
        if good is None or errors is None:
            self._marks.pop(way, None)
            return
        marks, mark = self._marks.get(way), _Mark(now_s, good + errors, errors)
        if marks is None or mark.has_begun_again(marks[-1]):
            self._marks[way] = deque([mark], maxlen=max(SPANS) + 1)
        elif now_s >= marks[-1].at_s + SPACING_S:
            marks.append(mark)

    def _of(self, port: PortRef, *, is_sender: bool) -> Sequence[_Mark]:
        return self._marks.get((port, is_sender), ())

    def evidence(self, sender: PortRef, receiver: PortRef) -> Evidence | None:
        """That packets from one port to the other get lost, by the count of either."""
        for port, is_sender in ((receiver, False), (sender, True)):
            marks = self._of(port, is_sender=is_sender)
            last = len(marks) - 1
            for span in (span for span in SPANS if span <= last):
                begin, end = marks[last - span], marks[last]
                lost, frames = end.errors - begin.errors, end.frames - begin.frames
                if is_enough(lost, frames) and _in_every_part(marks, span):
                    return Evidence(sender, receiver, lost, frames, end.at_s - begin.at_s, counted_by=port)
        return None

    def rise(self, sender: PortRef, receiver: PortRef) -> bool:
        """Whether either has counted errors at the latest mark."""
        found = (self._of(receiver, is_sender=False), self._of(sender, is_sender=True))
        return any(len(marks) > 1 and marks[-1].errors > marks[-2].errors for marks in found)

    def frames_lately(self, receiver: PortRef) -> int | None:
        """How many frames the port has received in about the last half minute; None: it has not been read for so
        long, or does not count errors."""
        marks = self._of(receiver, is_sender=False)
        return marks[-1].frames - marks[-1 - _CLEAN_MARKS].frames if len(marks) > _CLEAN_MARKS else None

    def forget(self, ports: Iterable[PortRef]) -> None:
        for port in ports:
            self._marks.pop((port, False), None)
            self._marks.pop((port, True), None)


def _in_every_part(marks: Sequence[_Mark], span: int) -> bool:
    last, part = len(marks) - 1, span // PARTS
    return all(marks[begin + part].errors > marks[begin].errors for begin in range(last - span, last, part))
