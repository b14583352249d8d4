"""Which ports count errors: frames that arrive broken (a failed checksum), or that the port could not send.

One port's own count needs no other to compare it with, so it shows what a worn transceiver does also where the far
end's counters are unknown, late, or read out of order, and where there is little traffic. The other way round it proves
nothing: many ports have no such counter, and a cable that swallows frames leaves no trace in one.

A verdict needs errors in each part of a time (`evidence`): those of a plug that was pulled come in one burst. A port
that has never counted one costs nothing.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controller.fabric.model import PortRef
from controller.health.evidence import PARTS, SPACING_S, SPANS, Counters, Evidence, is_enough

# How many frames have passed lately is counted over so many marks, and told while the latest is no older than this.
_LATELY_MARKS, _LATELY_S = 30, 10.0


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

    # By port, and whether it is what the port sends; only where errors have been counted, or are suspected.
    _marks: dict[tuple[PortRef, bool], deque[_Mark]] = field(default_factory=dict)

    def take(self, port: PortRef, counters: Counters | None, now_s: float, *, suspect: bool = False) -> bool:
        """A reading of the port, None: it is not among those that were read. Whether there is anything new to judge.
        The ports of a `suspect` link are followed also while they have counted nothing, as after a reboot."""
        if counters is None:
            self.forget((port,))
            return False
        if not self._marks and not suspect and not counters.rx_errors and not counters.tx_errors:
            return False
        received = self._note((port, False), counters.rx_packets, counters.rx_errors, now_s, suspect)
        sent = self._note((port, True), counters.tx_packets, counters.tx_errors, now_s, suspect)
        return received or sent

    def _note(
        self, way: tuple[PortRef, bool], good: int | None, errors: int | None, now_s: float, suspect: bool
    ) -> bool:
        """Whether there is a new mark."""
        if good is None or errors is None or not (errors or suspect):
            # What was gathered says nothing any more.
            self._marks.pop(way, None)
            return False
        marks, mark = self._marks.get(way), _Mark(now_s, good + errors, errors)
        if marks is None or mark.has_begun_again(marks[-1]):
            self._marks[way] = deque([mark], maxlen=max(SPANS) + 1)
            return False
        if now_s < marks[-1].at_s + SPACING_S:
            return False
        marks.append(mark)
        return True

    def _of(self, port: PortRef, *, is_sender: bool) -> Sequence[_Mark]:
        return self._marks.get((port, is_sender), ())

    def evidence(self, sender: PortRef, receiver: PortRef) -> Evidence | None:
        """That packets from one port to the other get lost, by the count of either."""
        for port, is_sender in ((receiver, False), (sender, True)):
            marks = self._of(port, is_sender=is_sender)
            if not marks or marks[-1].errors == marks[0].errors:
                continue
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

    def frames_lately(self, port: PortRef, now_s: float, *, is_sender: bool) -> int:
        """How many frames have passed in about the last half minute; 0 where that is not known."""
        marks = self._of(port, is_sender=is_sender)
        if len(marks) <= _LATELY_MARKS or now_s > marks[-1].at_s + _LATELY_S:
            return 0
        return marks[-1].frames - marks[-1 - _LATELY_MARKS].frames

    def forget(self, ports: Iterable[PortRef]) -> None:
        for port in ports:
            self._marks.pop((port, False), None)
            self._marks.pop((port, True), None)


def _in_every_part(marks: Sequence[_Mark], span: int) -> bool:
    last, part = len(marks) - 1, span // PARTS
    return all(marks[begin + part].errors > marks[begin].errors for begin in range(last - span, last, part))
