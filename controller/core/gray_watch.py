"""What follows from a link that loses packets: traffic is taken off it before it dies, and people are told why.

When a link is gray is decided in `health.gray`. It is avoided like one that an operator has drained (`avoidance`), make
before break, and used all the same where nothing else joins two switches with hosts. While it is gray it is probed, so
that it shows when it has become clean.
"""

from collections.abc import Collection

from controller.core.avoidance import Origin
from controller.core.commands import Command, Report, Severity
from controller.core.remembered import Avoidance
from controller.core.state import State
from controller.fabric.discovery import Cable
from controller.fabric.view import PlanIndex
from controller.health.gray import Evidence, GrayLinks

# Heartbeats that leave more often than once a period: with one every 0.25 s, 60 a second.
_PROBES_PER_BEAT = 15


class GrayWatch:
    """Mutable; owned by the core. All times are the core's seconds."""

    def __init__(self, state: State, plan: PlanIndex) -> None:
        self._state, self._plan = state, plan
        self.links = GrayLinks()
        # Whose avoidance is laid down in the state.
        self._acted_on: set[Cable] = set()

    def follow(self, known: Collection[Cable], now_s: float) -> tuple[Command, ...]:
        """A report for each link that has become gray, or is no longer; empty: nothing has changed."""
        gray = self.links.gray
        if not gray and not self._acted_on:
            return ()
        for cable in [cable for cable in gray if cable not in known]:
            self.links.forget(cable)
        self.links.release(now_s)
        reports = [self._avoid(cable) for cable in sorted(gray.keys() - self._acted_on)]
        reports += [self._release(cable) for cable in sorted(self._acted_on - gray.keys())]
        return tuple(reports)

    def _avoid(self, cable: Cable) -> Report:
        reason = self.worded(self.links.gray[cable].evidence)
        self._acted_on.add(cable)
        self._state.avoided.avoid(cable, Origin.GRAY, Avoidance(reason))
        return Report(Severity.WARNING, f"link {self._name(cable)} is gray and is avoided: {reason}")

    def _release(self, cable: Cable) -> Report:
        self._acted_on.discard(cable)
        self._state.avoided.release(cable, Origin.GRAY)
        return Report(Severity.INFO, f"link {self._name(cable)} has been clean and may carry traffic again")

    def worded(self, evidence: Evidence) -> str:
        """What was lost where, in words."""
        sender, receiver = (
            f"{self._plan.name(end.dpid)}:{end.port_no}" for end in (evidence.sender, evidence.receiver)
        )
        packets = f"{evidence.lost:,} of {evidence.sent:,} packets ({100 * evidence.share:.2g} %)"
        return f"{sender} -> {receiver} lost {packets} in {evidence.seconds:.0f} s"

    def _name(self, cable: Cable) -> str:
        return " - ".join(f"{self._plan.name(end.dpid)}:{end.port_no}" for end in cable)

    def probed(self, dpid: int) -> tuple[int, ...]:
        """The ports out of which so many more heartbeats are to go."""
        ports = sorted(end.port_no for cable in self.links.gray for end in cable if end.dpid == dpid)
        return tuple(port for port in ports for _ in range(_PROBES_PER_BEAT))
