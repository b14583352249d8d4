"""Follows every cable through the states of a link, with a memory for those that flap.

It puts together what `discovery` sees, the table in `link_states` and the penalty in `damping`, and says which links
are up, which are not, since when and why. What the fabric does about it is decided in the core.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from controller.fabric.answers import Answers
from controller.fabric.discovery import Cable, Discovery, Seen
from controller.fabric.model import PortRef
from controller.health.damping import DampingSettings, Penalty
from controller.health.link_states import LinkState, Past, Signal, after

_LOSSES = frozenset({Seen.ONE_WAY, Seen.SILENT, Seen.NO_CARRIER, Seen.BFD_DOWN})
# A link that is just being found is heard in one direction first; before this it is not called suspect for it.
_PATIENCE_PERIODS = 2.0


@dataclass(slots=True)
class LinkRecord:
    """Times are the core's seconds."""

    state: LinkState = LinkState.UNKNOWN
    cause: Signal = Seen.SILENT
    since_s: float = 0.0
    penalty: Penalty = field(default_factory=Penalty)
    seen: Seen = Seen.SILENT
    seen_since_s: float = 0.0
    # While it is lost after having worked: since when, and how often it was lost anew meanwhile.
    lost_s: float | None = None
    losses: int = 0
    # It works, and is not believed before this.
    not_before_s: float = float("-inf")


@dataclass(frozen=True, slots=True)
class LinkChange:
    cable: Cable
    before: LinkState
    after: LinkState
    cause: Signal


@dataclass(slots=True)
class Links:
    """Mutable; owned by the core."""

    discovery: Discovery
    settings: DampingSettings = field(default_factory=DampingSettings)
    # Cables that have failed by the switches' own check (`health.bfd`); whoever changes it has them looked at.
    failed: Collection[Cable] = ()
    of: dict[Cable, LinkRecord] = field(default_factory=dict)
    # Cables that work and are not up: they wait, or are held. What joins the fabric where nothing else does.
    spare: set[Cable] = field(default_factory=set)
    up: set[Cable] = field(default_factory=set)
    _down: set[Cable] = field(default_factory=set)
    _up_at: dict[int, set[Cable]] = field(default_factory=dict)
    _at: dict[PortRef, set[Cable]] = field(default_factory=dict)
    # When a cable is to be looked at again although nothing has happened to it.
    _due_s: dict[Cable, float] = field(default_factory=dict)

    def follow(self, now_s: float, answers: Answers) -> list[LinkChange]:
        """Takes in what has been seen since; the changes of state, in the cables' order."""
        if not self.discovery.touched and not (self._due_s and now_s >= min(self._due_s.values())):
            return []
        cables = {cable for cable, due_s in self._due_s.items() if now_s >= due_s}
        for ref in self.discovery.touched:
            cables |= self._at.get(ref, set()) | self.discovery.cables_at(ref)
        self.discovery.touched = set()
        changes = []
        for cable in sorted(cables):
            record = self._record(cable, now_s)
            before = record.state
            self._judge(cable, record, now_s, answers)
            if record.state is not before:
                record.since_s = now_s
                changes.append(LinkChange(cable, before, record.state, record.cause))
            self._file(cable, record)
        if changes:
            self._drop_replaced()
        return changes

    def _record(self, cable: Cable, now_s: float) -> LinkRecord:
        record = self.of.get(cable)
        if record is None:
            record = self.of[cable] = LinkRecord(since_s=now_s, seen_since_s=now_s)
            for end in cable:
                self._at.setdefault(end, set()).add(cable)
        return record

    def _judge(self, cable: Cable, record: LinkRecord, now_s: float, answers: Answers) -> None:
        seen = self.discovery.seen(cable)
        if seen is Seen.BOTH_WAYS and cable in self.failed:
            seen = Seen.BFD_DOWN
        if seen is Seen.BOTH_WAYS and record.lost_s is not None:
            self._end_outage(cable, record, now_s, answers)
        elif seen in _LOSSES and self._is_new_loss(record, seen):
            self._note_loss(record, now_s)
        if record.seen is not seen:
            record.seen, record.seen_since_s = seen, now_s
        if record.state is LinkState.HELD and now_s >= record.penalty.released_at_s(self.settings):
            self._take(record, Past.CALM)
        if now_s >= self._believed_s(record):
            self._take(record, seen)

    def _believed_s(self, record: LinkRecord) -> float:
        """From when on what is seen counts."""
        if record.seen is Seen.BOTH_WAYS:
            return record.not_before_s
        if record.seen in (Seen.ONE_WAY, Seen.AMBIGUOUS) and record.state in (LinkState.UNKNOWN, LinkState.DOWN):
            return record.seen_since_s + _PATIENCE_PERIODS * self.discovery.period_s
        return float("-inf")

    def _take(self, record: LinkRecord, signal: Signal) -> None:
        state = after(record.state, signal)
        if state is not record.state or state is not LinkState.HELD:
            record.cause = signal
        record.state = state

    @staticmethod
    def _is_new_loss(record: LinkRecord, seen: Seen) -> bool:
        if record.lost_s is None:
            return record.seen is Seen.BOTH_WAYS
        # A link may bounce faster than beacons can tell.
        return seen is Seen.NO_CARRIER and record.seen is not Seen.NO_CARRIER

    def _note_loss(self, record: LinkRecord, now_s: float) -> None:
        record.lost_s = now_s if record.lost_s is None else record.lost_s
        record.losses += 1
        if record.penalty.charge(self.settings, now_s):
            self._take(record, Past.FLAPPING)

    def _end_outage(self, cable: Cable, record: LinkRecord, now_s: float, answers: Answers) -> None:
        """It works again."""
        lost_s = now_s if record.lost_s is None else record.lost_s
        record.not_before_s = lost_s + self.settings.shortest_outage_s
        if any(lost_s < answers.since_s(end.dpid) < float("inf") for end in cable):
            record.not_before_s = float("-inf")
            if record.penalty.forgive(self.settings, now_s, record.losses):
                self._take(record, Past.CALM)
        record.lost_s, record.losses = None, 0

    def _file(self, cable: Cable, record: LinkRecord) -> None:
        up, works = record.state is LinkState.UP, record.seen is Seen.BOTH_WAYS
        (self.up.add if up else self.up.discard)(cable)
        for end in cable:
            of_switch = self._up_at.setdefault(end.dpid, set())
            (of_switch.add if up else of_switch.discard)(cable)
        (self._down.add if record.state is LinkState.DOWN else self._down.discard)(cable)
        (self.spare.add if works and not up else self.spare.discard)(cable)
        self._due_s.pop(cable, None)
        if record.state is LinkState.HELD:
            self._due_s[cable] = record.penalty.released_at_s(self.settings)
        elif after(record.state, record.seen) is not record.state:
            self._due_s[cable] = self._believed_s(record)

    def _drop_replaced(self) -> None:
        """A cable that was moved leaves no dead link behind."""
        if not self._down:
            return
        taken = {end for cable in self.up for end in cable}
        for cable in [cable for cable in self._down if not taken.isdisjoint(cable)]:
            del self.of[cable]
            self._down.discard(cable)
            self._due_s.pop(cable, None)
            for end in cable:
                self._at[end].discard(cable)

    def up_at(self, dpid: int) -> Collection[Cable]:
        """Those with an end at this switch."""
        return self._up_at.get(dpid, ())

    def next_deadline_s(self) -> float | None:
        return min(self._due_s.values(), default=None)
