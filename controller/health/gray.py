"""Which links lose packets although they are up: what one end has sent is compared with what the other has received.

The two ends are never read at the same moment, so their difference says nothing by itself. But a reading that was asked
for after another one had been answered is later than it. Where a receiver is read before its sender at the beginning
of a time, and after it at the end, everything that was sent in between has had the time to arrive, and what is missing
has been lost: at least so much, whatever the delays were. That is the evidence here; it needs no clock, and a slow or
loaded machine makes it weaker, never wrong. `heartbeats` reads the switches in an order that brings it about.

A verdict needs at least `LEAST_SENT` packets, enough of them lost (`evidence`), and some in each part of the time: a
single burst may be a buffer. So a link of which less than 17 packets a second are sent in its minute is not judged;
BFD alone is more than that. What a sender says it has dropped itself counts as never sent. Counters that are unknown,
start again, or stand still while heartbeats pass say nothing: many switches update them every few seconds. Those that
may be late by less than that are believed so far as a loss is larger than what they could owe.

Besides, a port that counts errors tells of them by itself (`port_errors`), whatever its neighbour says.

What it means to be gray for paths is decided by the core; here, only when a link is, and when it is no longer.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

from controller.fabric.discovery import Cable
from controller.fabric.model import PortRef
from controller.health.evidence import PARTS, SPACING_S, SPANS, Counters, Evidence, is_enough
from controller.health.port_errors import PortErrors

LEAST_SENT = 1000
_CLEAN_SPANS = (1, 6, 30)
# What is known of packets is of use while the latest reading is no older than this.
_LATELY_S = 10.0
# Clean for so long, a gray link may carry traffic again; twice as long each time that it turns out gray anew.
_HOLD_S, _LONGEST_HOLD_S = 60.0, 3600.0


@dataclass(slots=True)
class Gray:
    """A gray link. `clean_since_s`: when something was last known to be lost."""

    evidence: Evidence
    since_s: float
    clean_since_s: float
    hold_s: float

    @property
    def released_at_s(self) -> float:
        """When it may carry traffic again if nothing more is lost."""
        return self.clean_since_s + self.hold_s


@dataclass(frozen=True, slots=True)
class _Reading:
    asked_s: float
    answered_s: float
    received: int
    sent: int


@dataclass(frozen=True, slots=True)
class _Mark:
    """(sent, received) so far: as read of the receiver first, and of the sender first."""

    at_s: float
    receiver_first: tuple[int, int]
    sender_first: tuple[int, int]


@dataclass(slots=True)
class _Direction:
    """One direction of a cable."""

    marks: deque[_Mark] = field(default_factory=lambda: deque(maxlen=max(*SPANS, *_CLEAN_SPANS) + 1))
    receiver_first: tuple[int, int] | None = None

    def lost(self, begin: int, end: int) -> tuple[int, int]:
        """(lost at least, sent) between two marks."""
        (sent_0, received_0), (sent_1, received_1) = self.marks[begin].receiver_first, self.marks[end].sender_first
        return (sent_1 - sent_0) - (received_1 - received_0), sent_1 - sent_0

    def verdict(self, sender: PortRef, receiver: PortRef, late_s: float) -> Evidence | None:
        """`late_s`: so much the counters of both ends together may be late."""
        last = len(self.marks) - 1
        for span in (span for span in SPANS if span <= last):
            lost, sent = self.lost(last - span, last)
            seconds = self.marks[last].at_s - self.marks[last - span].at_s
            lost -= ceil(sent * late_s / seconds)
            if sent < LEAST_SENT or not is_enough(lost, sent):
                continue
            part = span // PARTS
            begins = range(last - span, last, part)
            if all(self.lost(begin, begin + part)[0] > 0 for begin in begins):
                return Evidence(sender, receiver, lost, sent, seconds)
        return None

    def is_clean(self) -> bool:
        """Nothing is known to have been lost, as of the latest mark."""
        last = len(self.marks) - 1
        return all(self.lost(last - span, last)[0] <= 0 for span in _CLEAN_SPANS if span <= last)


@dataclass(slots=True)
class GrayLinks:
    """Mutable; owned by the core. All times are the core's seconds."""

    gray: dict[Cable, Gray] = field(default_factory=dict)
    # Grows with every change of `gray` and of its evidence, which is the worst that was seen.
    revision: int = 0
    # How late the counters of a switch may be; none unless it is here.
    late_s: dict[int, float] = field(default_factory=dict)
    errors: PortErrors = field(default_factory=PortErrors)
    _readings: dict[PortRef, _Reading] = field(default_factory=dict)
    # By (sender, receiver).
    _directions: dict[tuple[PortRef, PortRef], _Direction] = field(default_factory=dict)
    # How long a link was held when it was last gray, and until when that counts.
    _past: dict[Cable, tuple[float, float]] = field(default_factory=dict)

    def take(
        self, dpid: int, counters: Mapping[int, Counters], cables: Iterable[Cable], asked_s: float, now_s: float
    ) -> list[Cable]:
        """A switch's counters, asked for at `asked_s`, and the cables that are up there. Those that turn out gray.

        Readings must be farther apart than heartbeats: what stands still between two of them is not believed.
        """
        found = []
        for cable in cables:
            here, far = cable if cable[0].dpid == dpid else cable[::-1]
            marked = self.errors.take(here, counters.get(here.port_no), now_s, suspect=cable in self.gray)
            reading = _reading(counters.get(here.port_no), asked_s, now_s)
            before = self._readings.pop(here, None)
            if reading is not None:
                self._readings[here] = reading
            self._drop_broken(here, far, before, reading)
            other = self._readings.get(far)
            if before is not None and reading is not None and other is not None and _just_after(other, reading, before):
                self._direction(here, far).receiver_first = (reading.sent, other.received)
                marked |= self._mark(far, here, (other.sent, reading.received), now_s)
            if marked and self._judge(cable, here, far, now_s):
                found.append(cable)
        return found

    def _direction(self, sender: PortRef, receiver: PortRef) -> _Direction:
        return self._directions.setdefault((sender, receiver), _Direction())

    def _drop_broken(self, here: PortRef, far: PortRef, before: _Reading | None, reading: _Reading | None) -> None:
        """Where a counter does not go on as it should, what was gathered says nothing any more."""
        if before is None or reading is None or reading.received <= before.received:
            self._directions.pop((far, here), None)
        if before is None or reading is None or reading.sent <= before.sent:
            self._directions.pop((here, far), None)

    def _mark(self, sender: PortRef, receiver: PortRef, sender_first: tuple[int, int], now_s: float) -> bool:
        """Whether there is a new mark."""
        direction = self._direction(sender, receiver)
        if direction.receiver_first is None or (direction.marks and now_s < direction.marks[-1].at_s + SPACING_S):
            return False
        direction.marks.append(_Mark(now_s, direction.receiver_first, sender_first))
        # The next one begins later than this one ends: an outage that reaches over both lets the receiver's count
        # stand still between them, so that no single outage is ever seen in three parts.
        direction.receiver_first = None
        return True

    def _judge(self, cable: Cable, here: PortRef, far: PortRef, now_s: float) -> bool:
        """Whether the link has become gray, by what was just read `here`."""
        known, evidence = self.gray.get(cable), self._evidence(cable, here, far)
        if known is not None:
            if not self._is_clean(far, here) or self.errors.rise(here, far):
                known.clean_since_s = now_s
            if evidence is not None and evidence.share > known.evidence.share:
                known.evidence = evidence
                self.revision += 1
            return False
        if evidence is None:
            return False
        held_s, counts_until_s = self._past.get(cable, (0.0, now_s))
        hold_s = min(_LONGEST_HOLD_S, 2 * held_s) if now_s < counts_until_s else _HOLD_S
        self.gray[cable] = Gray(evidence, now_s, now_s, hold_s)
        self.revision += 1
        return True

    def _evidence(self, cable: Cable, here: PortRef, far: PortRef) -> Evidence | None:
        late_s = sum(self.late_s.get(end.dpid, 0.0) for end in cable)
        direction = self._directions.get((far, here))
        compared = direction.verdict(far, here, late_s) if direction is not None and direction.marks else None
        return compared or self.errors.evidence(far, here) or self.errors.evidence(here, far)

    def _is_clean(self, sender: PortRef, receiver: PortRef) -> bool:
        direction = self._directions.get((sender, receiver))
        return (direction is None or direction.is_clean()) and not self.errors.rise(sender, receiver)

    def release(self, now_s: float) -> list[Cable]:
        """Those that have been clean for long enough: they are not gray any more. Only readings bring that about."""
        clean = [c for c, gray in self.gray.items() if now_s >= gray.released_at_s and self._is_known(c, gray, now_s)]
        for cable in clean:
            gray = self.gray.pop(cable)
            self._past[cable] = (gray.hold_s, now_s + 4 * gray.hold_s)
            self.revision += 1
        return clean

    def _is_known(self, cable: Cable, gray: Gray, now_s: float) -> bool:
        """Enough was sent, of late, to be sure: in both directions, or past the port that has counted errors."""
        by = gray.evidence.counted_by
        if by is not None:
            return self.errors.frames_lately(by, now_s, is_sender=by == gray.evidence.sender) >= LEAST_SENT
        return all(self._compared_lately(way, now_s) >= LEAST_SENT for way in (cable, cable[::-1]))

    def _compared_lately(self, way: tuple[PortRef, PortRef], now_s: float) -> int:
        """How many packets of about the last half minute are known to have been lost or not."""
        found = self._directions.get(way)
        last = len(found.marks) - 1 if found is not None else 0
        if found is None or last < max(_CLEAN_SPANS) or now_s > found.marks[last].at_s + _LATELY_S:
            return 0
        return found.lost(last - max(_CLEAN_SPANS), last)[1]

    def interrupt(self, cable: Cable) -> None:
        """The link is down: what was lost since it last was up was lost by an outage, which others judge."""
        for way in (cable, cable[::-1]):
            self._directions.pop(way, None)
        self.errors.forget(cable)

    def forget(self, cable: Cable) -> None:
        """The cable is there no more."""
        if self.gray.pop(cable, None) is not None:
            self.revision += 1
        self.interrupt(cable)


def _just_after(other: _Reading, reading: _Reading, before: _Reading) -> bool:
    """Asked for after the other one had been answered, in the same round: what passed in between weakens evidence."""
    return 0.0 <= reading.asked_s - other.answered_s <= (reading.asked_s - before.asked_s) / 2


def _reading(counters: Counters | None, asked_s: float, now_s: float) -> _Reading | None:
    if counters is None or counters.rx_packets is None or counters.tx_packets is None:
        return None
    return _Reading(asked_s, now_s, counters.rx_packets, counters.tx_packets - (counters.tx_dropped or 0))
