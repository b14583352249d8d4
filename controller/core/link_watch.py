"""Watches the links: sends beacons and heartbeats, reads counters, and says which links may be used from now on.

It puts `discovery`, `health.links` and `health.heartbeats` together for all connected switches. How links are judged is
decided in those, and what a change of links means for paths and tables in `machine`.
"""

from dataclasses import dataclass

from controller.core.commands import Command, ConfigureBfd, ReadPortStatistics, Report, SendPacket, Severity
from controller.core.events import BfdRead, PortStatisticsRead
from controller.core.gray_watch import GrayWatch, Verdict
from controller.core.settings import CoreSettings
from controller.core.state import State, SwitchState
from controller.fabric import beacon
from controller.fabric.answers import Answers
from controller.fabric.discovery import Cable, Discovery, Seen
from controller.fabric.model import PortRef, Role
from controller.fabric.view import PlanIndex
from controller.health import heartbeats
from controller.health.bfd import Bfd
from controller.health.heartbeats import Heartbeats
from controller.health.last_resort import needed
from controller.health.link_states import LinkState
from controller.health.links import LinkChange, Links
from controller.health.rates import RateTracker

# Links come up in bursts; placing and compiling once per burst is enough. Losses are acted on at once.
SETTLE_S, _SETTLE_PER_LINK_S = 0.02, 0.0002

# Neighbours are read in turns (`heartbeats`), so that the times between two readings of one differ.
_ROUND_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class LinkNews:
    """`due_s` is when the fabric is to be looked at anew, None: usable links are what they were."""

    commands: tuple[Command, ...] = ()
    came_up: tuple[PortRef, ...] = ()
    due_s: float | None = None
    gray: tuple[Verdict, ...] = ()


class LinkWatch:
    """Mutable; owned by the core. All times are the core's seconds."""

    def __init__(
        self, settings: CoreSettings, plan: PlanIndex, state: State, discovery: Discovery, answers: Answers
    ) -> None:
        self._settings, self._plan, self._state = settings, plan, state
        self.discovery, self.answers = discovery, answers
        self.links = Links(discovery, settings.damping)
        self.bfd = Bfd(settings.bfd)
        self.links.failed = self.bfd.failed
        self.gray = GrayWatch(state, plan)
        # Where BFD runs is to be decided anew.
        self._bfd_stirred = False
        self.heartbeats = Heartbeats(self.links, settings.heartbeat_period_s, settings.counters_per_s)
        self.rates = RateTracker()
        self._spare: set[Cable] = set()
        self._last_resort: frozenset[Cable] = frozenset()
        self._usable: tuple[Cable, ...] | None = None
        self._rates_due_s: dict[int, float] = {}
        self._loss_due_s: dict[int, float] = {}

    @property
    def usable(self) -> tuple[Cable, ...]:
        """Links that are up, and those that are used although they are held; sorted."""
        if self._usable is None:
            self._usable = tuple(sorted(self.links.up | self._last_resort))
        return self._usable

    def follow(self, now_s: float) -> LinkNews:
        """What is lost is acted on at once; what is new comes in bursts, and the more there is the longer they last."""
        self.discovery.expire(now_s, self.answers)
        changes = self.links.follow(now_s, self.answers)
        for change in changes:
            self.gray.links.interrupt(change.cable)
        told = self._follow_bfd(now_s, changed=bool(changes))
        verdicts = self.gray.follow(self.links.of, self.links.up, now_s, changed=bool(changes))
        acts = any(verdict.acts for verdict in verdicts)
        told += tuple(map(self.gray.report, verdicts))
        if not changes and self.links.spare == self._spare:
            return LinkNews(told, due_s=now_s if acts else None, gray=verdicts)
        self._spare = set(self.links.spare)
        before, self._last_resort = self._last_resort, self._needed()
        lost = not before <= self._last_resort | self.links.up or any(c.before is LinkState.UP for c in changes)
        due_s = now_s if acts else None
        if lost or before != self._last_resort or any(c.after is LinkState.UP for c in changes):
            self._usable = None
            due_s = now_s if lost or acts else now_s + SETTLE_S + _SETTLE_PER_LINK_S * len(self.links.up)
            if self._settings.heartbeat_period_s:
                self.discovery.pace(2 * len(self.links.up))
        reports = (self._report(change) for change in changes)
        came_up = (end for change in changes if change.after is LinkState.UP for end in change.cable)
        commands = (*told, *(report for report in reports if report is not None))
        return LinkNews(commands, tuple(came_up), due_s, verdicts)

    def _needed(self) -> frozenset[Cable]:
        if not self.links.spare:
            return frozenset()
        return frozenset(needed(self.links.up, self.links.spare, self._leaves(), self._of_role(Role.EDGE)))

    def _leaves(self) -> set[int]:
        return self._of_role(Role.LEAF)

    def _of_role(self, role: Role) -> set[int]:
        return {dpid for dpid, switch in self._state.view.switches.items() if switch.role == role}

    def _report(self, change: LinkChange) -> Report | None:
        """Ports without carrier are everybody's daily bread; what else takes a link away is news, and so is its end."""
        good = change.after is LinkState.UP
        if change.cause is Seen.NO_CARRIER or (good and change.before in (LinkState.UNKNOWN, LinkState.DOWN)):
            return None
        a, b = (f"{self._plan.name(end.dpid)}:{end.port_no}" for end in change.cable)
        severity = Severity.INFO if good else Severity.WARNING
        return Report(severity, f"link {a} - {b} is {change.after} ({change.cause}), was {change.before}")

    # --- BFD --------------------------------------------------------------------------------------------

    def greet(self, dpid: int) -> ConfigureBfd:
        """To be told to a switch's database when the switch has connected: it may have forgotten."""
        return ConfigureBfd(dpid, self.bfd.told(dpid), self._settings.bfd)

    def bfd_read(self, event: BfdRead) -> None:
        self._bfd_stirred = True
        for cable in self.bfd.take(event.dpid, event.sessions):
            self.discovery.touched.update(cable)

    def _follow_bfd(self, now_s: float, *, changed: bool) -> tuple[Command, ...]:
        """Where BFD is to run from now on; nothing is decided on half a picture."""
        due_s = self.bfd.next_deadline_s()
        self._bfd_stirred |= changed or (due_s is not None and now_s >= due_s)
        if not self._bfd_stirred or self._state.learning:
            return ()
        self._bfd_stirred = False
        leads_to_host = self.discovery.leads_to_host
        known = {cable for cable in self.links.of if not any(map(leads_to_host, cable))}
        ports = self.bfd.follow(known, self.links.up & known, self._leaves(), now_s)
        return tuple(ConfigureBfd(dpid, numbers, self._settings.bfd) for dpid, numbers in sorted(ports.items()))

    # --- packets and counters ---------------------------------------------------------------------------

    def due(self, now_s: float) -> list[Command]:
        """Beacons, heartbeats, and questions to switches about what has arrived."""
        # What is asked last proves that what was sent before has left.
        return self._beacons(now_s) + self._beats_and_questions(now_s)

    def _beacons(self, now_s: float) -> list[Command]:
        switches, key = self._state.switches, self._settings.beacon_key
        return [
            SendPacket(port.ref.dpid, (port.ref.port_no,), beacon.encode(sent, port.mac, key))
            for sent, port in self.discovery.beacons_due(now_s)
            if (switch := switches.get(port.ref.dpid)) is not None and switch.session_id
        ]

    def _beats_and_questions(self, now_s: float) -> list[Command]:
        beats = self.heartbeats.beats(now_s)
        wanted = {*self.heartbeats.readings(now_s, self.answers), *self.discovery.questions(now_s, self.answers)}
        if not beats and not wanted:
            return []
        sessions = {dpid: s.session_id for dpid, s in self._state.switches.items() if s.session_id}
        commands: list[Command] = [
            SendPacket(dpid, (*ports, *self.gray.probed(dpid)), heartbeats.FRAME)
            for dpid, ports in beats.items()
            if dpid in sessions
        ]
        asked = [dpid for dpid in sorted(wanted & sessions.keys()) if self.answers.ask(dpid, now_s)]
        return commands + [ReadPortStatistics(dpid, sessions[dpid]) for dpid in asked]

    def counted(self, switch: SwitchState | None, event: PortStatisticsRead, now_s: float) -> None:
        """Takes a switch's counters; `switch` is None where they are late words of a session that has ended."""
        if switch is not None:
            asked_s = self.answers.answered(event.dpid, now_s)
            switch.heard_s = now_s
            if asked_s is not None:
                self._look_for_loss(switch, event, asked_s, now_s)
                received = {number: counted.rx_packets for number, counted in event.counters.items()}
                self.heartbeats.take(event.dpid, received, asked_s, self.answers, now_s)
        # Rates over a shorter time say little.
        if now_s >= self._rates_due_s.get(event.dpid, now_s):
            self._rates_due_s[event.dpid] = now_s + 0.9 * self._settings.statistics_period_s
            self.rates.take(event.dpid, event.counters, now_s, self._state.problem.capacity_bps)

    def _look_for_loss(self, switch: SwitchState, event: PortStatisticsRead, asked_s: float, now_s: float) -> None:
        """Of the rounds alone: between two other readings there need not be a heartbeat."""
        due_s = self._loss_due_s.get(event.dpid, asked_s)
        if self._settings.heartbeat_period_s and asked_s >= due_s:
            self._loss_due_s[event.dpid] = asked_s + _ROUND_SHARE * self.heartbeats.interval_s
            # Open vSwitch counts as it forwards; elsewhere what is later than a round shows by itself.
            self.gray.links.late_s[event.dpid] = 0.0 if switch.nicira else self.heartbeats.interval_s
            self.gray.links.take(event.dpid, event.counters, self.links.up_at(event.dpid), asked_s, now_s)

    def next_deadline_s(self) -> float | None:
        watching = (self.discovery, self.links, self.heartbeats, self.bfd)
        found = (who.next_deadline_s() for who in watching)
        return min((due_s for due_s in found if due_s is not None), default=None)
