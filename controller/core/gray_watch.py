"""What follows from a link that loses packets: traffic is taken off it before it dies, and people are told why.

When a link is gray is decided in `health.gray`, and how many may be avoided at once in `gray_limits`. A gray link is
avoided like one that an operator has drained (`avoidance`), make before break, and used all the same where nothing else
joins two switches with hosts. While it is avoided it is probed, so that it shows when it has become clean.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from controller.core.avoidance import Origin
from controller.core.commands import Report, Severity
from controller.core.gray_limits import Fabric, kept
from controller.core.remembered import Avoidance
from controller.core.state import State
from controller.fabric.discovery import Cable
from controller.fabric.view import PlanIndex
from controller.health.evidence import Evidence
from controller.health.gray import GrayLinks

# Heartbeats that leave more often than once a period: with one every 0.25 s, 60 a second.
_PROBES_PER_BEAT = 15
# Of one switch so many links at a time, those that have been clean for longest.
_PROBED_LINKS = 4
# When nothing has changed, all gray links are looked at so often.
_LOOK_S = 1.0


class Turn(Enum):
    """What becomes of a link."""

    AVOIDED = auto()
    # It is gray and is used all the same.
    KEPT = auto()
    # It has been clean for long; it was avoided, or kept.
    RELEASED = auto()
    CLEAN = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is the evidence in words, and why a link is kept. `acts`: paths may depend on it."""

    cable: Cable
    turn: Turn
    reason: str = ""
    acts: bool = True


class GrayWatch:
    """Mutable; owned by the core. All times are the core's seconds."""

    def __init__(self, state: State, plan: PlanIndex) -> None:
        self._state, self._plan = state, plan
        self.links = GrayLinks()
        # Whose avoidance is laid down in the state.
        self._acted_on: set[Cable] = set()
        # Gray links that are not avoided, and why in words.
        self.kept: Mapping[Cable, str] = {}
        # Revisions of the evidence and of the state when all was last looked at, and when it is to be again.
        self._seen: tuple[int, int] | None = None
        self._look_due_s = float("-inf")

    def follow(
        self, known: Collection[Cable], up: Collection[Cable], now_s: float, *, changed: bool
    ) -> tuple[Verdict, ...]:
        """Which links have become gray, or are so no longer; the state says that they are to be avoided, or not.
        `changed` says that links have come, gone or changed their state since the last call."""
        if not self.links.gray and not self._acted_on and not self.kept:
            return ()
        if not changed and now_s < self._look_due_s and self._seen == (self.links.revision, self._state.revision):
            return ()
        for cable in [cable for cable in self.links.gray if cable not in known]:
            self.links.forget(cable)
        self.links.release(now_s)
        self._look_due_s, self._seen = now_s + _LOOK_S, (self.links.revision, self._state.revision)
        return tuple(self._decide(up))

    def _decide(self, up: Collection[Cable]) -> list[Verdict]:
        gray = self.links.gray
        told, lost = self.kept, {cable: known.evidence.share for cable, known in gray.items()}
        self.kept = kept(lost, self._acted_on, self._fabric(up), self._plan.name)
        verdicts = [self._release(cable) for cable in sorted(self._acted_on - gray.keys())]
        verdicts += [Verdict(cable, Turn.CLEAN, acts=False) for cable in sorted(told.keys() - gray.keys())]
        for cable in sorted(gray):
            if cable not in self.kept:
                verdicts += [] if cable in self._acted_on else [self._avoid(cable)]
            elif cable in self._acted_on or cable not in told:
                verdicts.append(self._keep(cable))
        return verdicts

    def _fabric(self, up: Collection[Cable]) -> Fabric:
        drains = self._state.avoided.of(Origin.OPERATOR)
        drained = [c for c in up if any(t in drains for t in (c, c[0].dpid, c[1].dpid))] if drains else []
        return Fabric(up, frozenset(drained), {d: s.role for d, s in self._state.view.switches.items()})

    def _avoid(self, cable: Cable) -> Verdict:
        reason = self.worded(self.links.gray[cable].evidence)
        self._acted_on.add(cable)
        self._state.avoided.avoid(cable, Origin.GRAY, Avoidance(reason))
        return Verdict(cable, Turn.AVOIDED, reason)

    def _keep(self, cable: Cable) -> Verdict:
        was_avoided = cable in self._acted_on
        self._acted_on.discard(cable)
        self._state.avoided.release(cable, Origin.GRAY)
        reason = f"{self.worded(self.links.gray[cable].evidence)}; {self.kept[cable]}"
        return Verdict(cable, Turn.KEPT, reason, acts=was_avoided)

    def _release(self, cable: Cable) -> Verdict:
        self._acted_on.discard(cable)
        self._state.avoided.release(cable, Origin.GRAY)
        return Verdict(cable, Turn.RELEASED)

    def report(self, verdict: Verdict) -> Report:
        name = " - ".join(f"{self._plan.name(end.dpid)}:{end.port_no}" for end in verdict.cable)
        match verdict.turn:
            case Turn.AVOIDED:
                return Report(Severity.WARNING, f"link {name} is gray and is avoided: {verdict.reason}")
            case Turn.KEPT:
                return Report(Severity.ERROR, f"link {name} is gray and is used all the same: {verdict.reason}")
            case Turn.RELEASED:
                return Report(Severity.INFO, f"link {name} has been clean for long and may carry traffic again")
            case Turn.CLEAN:
                return Report(Severity.INFO, f"link {name} has been clean for long")

    def worded(self, evidence: Evidence) -> str:
        """What was lost where, in words."""
        sender, receiver = (
            f"{self._plan.name(end.dpid)}:{end.port_no}" for end in (evidence.sender, evidence.receiver)
        )
        packets = f"{evidence.lost:,} of {evidence.sent:,} packets ({100 * evidence.share:.2g} %)"
        by = evidence.counted_by
        errors = "" if by is None else f", by the error counter of {self._plan.name(by.dpid)}:{by.port_no}"
        return f"{sender} -> {receiver} lost {packets} in {evidence.seconds:.0f} s{errors}"

    def probed(self, dpid: int) -> tuple[int, ...]:
        """The ports out of which so many more heartbeats are to go."""
        found = [
            (self.links.gray[cable].released_at_s, end.port_no)
            for cable in self._acted_on & self.links.gray.keys()
            for end in cable
            if end.dpid == dpid
        ]
        return tuple(port for _, port in sorted(found)[:_PROBED_LINKS] for _ in range(_PROBES_PER_BEAT))
