"""What follows from a link that loses packets: traffic is taken off it before it dies, and people are told why.

When a link is gray is decided in `health.gray`. It is avoided like one that an operator has drained (`avoidance`), make
before break, and used all the same where nothing else joins two switches with hosts. While it is gray it is probed, so
that it shows when it has become clean.

Evidence that is the same everywhere has one cause, such as counters that do not count what they should, and acting on
all of it would take the fabric out. So a leaf keeps at least half of its links, the least lossy ones, and people are
told. A spine has no such limit: one that is worn loses on all its links, and its leaves have others.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from controller.core.avoidance import Origin
from controller.core.commands import Report, Severity
from controller.core.remembered import Avoidance
from controller.core.state import State
from controller.fabric.discovery import Cable
from controller.fabric.model import Role
from controller.fabric.view import PlanIndex
from controller.health.evidence import Evidence
from controller.health.gray import GrayLinks

# Heartbeats that leave more often than once a period: with one every 0.25 s, 60 a second.
_PROBES_PER_BEAT = 15


@dataclass(frozen=True, slots=True)
class Verdict:
    """A link is gray from now on, or not any more; `reason` is the evidence in words. `kept` says why it is used all
    the same, in words; empty where it is not."""

    cable: Cable
    reason: str = ""
    kept: str = ""

    @property
    def over(self) -> bool:
        return not self.reason


class GrayWatch:
    """Mutable; owned by the core. All times are the core's seconds."""

    def __init__(self, state: State, plan: PlanIndex) -> None:
        self._state, self._plan = state, plan
        self.links = GrayLinks()
        # Whose avoidance is laid down in the state.
        self._acted_on: set[Cable] = set()
        # Gray links that are not avoided, and why in words.
        self.kept: dict[Cable, str] = {}

    def follow(self, known: Collection[Cable], up: Collection[Cable], now_s: float) -> tuple[Verdict, ...]:
        """Which links have become gray, or are so no longer; the state says that they are to be avoided, or not."""
        gray = self.links.gray
        if not gray and not self._acted_on:
            return ()
        for cable in [cable for cable in gray if cable not in known]:
            self.links.forget(cable)
        self.links.release(now_s)
        verdicts = [self._release(cable) for cable in sorted(self._acted_on - gray.keys())]
        told, self.kept = self.kept, {}
        for cable in sorted(gray.keys() - self._acted_on, key=lambda cable: (-gray[cable].evidence.share, cable)):
            why = self._why_kept(cable, up)
            if not why:
                verdicts.append(self._avoid(cable))
                continue
            self.kept[cable] = why
            if cable not in told:
                verdicts.append(Verdict(cable, self.worded(gray[cable].evidence), why))
        return tuple(verdicts)

    def _why_kept(self, cable: Cable, up: Collection[Cable]) -> str:
        """Which leaf at its ends can spare no more links, in words; empty where none is short of them."""
        switches = self._state.view.switches
        leaves = [end.dpid for end in cable if end.dpid in switches and switches[end.dpid].role is Role.LEAF]
        if not leaves:
            return ""
        count = Counter(end.dpid for other in up for end in other)
        spared = Counter(end.dpid for other in self._acted_on for end in other)
        for leaf in leaves:
            if spared[leaf] + 1 > max(1, count[leaf] // 2):
                return f"of the {count[leaf]} links of {self._plan.name(leaf)} {spared[leaf]} are avoided already"
        return ""

    def _avoid(self, cable: Cable) -> Verdict:
        reason = self.worded(self.links.gray[cable].evidence)
        self._acted_on.add(cable)
        self._state.avoided.avoid(cable, Origin.GRAY, Avoidance(reason))
        return Verdict(cable, reason)

    def _release(self, cable: Cable) -> Verdict:
        self._acted_on.discard(cable)
        self._state.avoided.release(cable, Origin.GRAY)
        return Verdict(cable)

    def report(self, verdict: Verdict) -> Report:
        name = " - ".join(f"{self._plan.name(end.dpid)}:{end.port_no}" for end in verdict.cable)
        if verdict.kept:
            why = f"{verdict.reason}; {verdict.kept}"
            return Report(Severity.ERROR, f"link {name} is gray and is used all the same: {why}")
        if verdict.over:
            return Report(Severity.INFO, f"link {name} has been clean for long and may carry traffic again")
        return Report(Severity.WARNING, f"link {name} is gray and is avoided: {verdict.reason}")

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
        ports = sorted(end.port_no for cable in self.links.gray for end in cable if end.dpid == dpid)
        return tuple(port for port in ports for _ in range(_PROBES_PER_BEAT))
