"""What is seen of every cable: by the beacons that come out of it at either end, and by the ports' carrier.

A cable is a pair of ports of which one has heard the other. Beacons in both directions are what a link is made of; they
count as stopped after three periods of silence, and only when the switches at both ends are at work: one that has no
session or does not answer neither sends our beacons nor reports what it hears, and its data plane goes on. A port that
loses its carrier forgets at once what it heard, and so do beacons sent before that which arrive after it.

A port hears one neighbour. A second one means either that the cable was moved, then the first is not heard any more; or
that more than two share a segment, then both go on being heard and nobody can say where a packet would come out. Until
that is clear, a period and a half later, the port is in doubt.

This module does not decide what becomes of a link (`health.links` does), what links are good for, or who is a leaf.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from controller.fabric.answers import Answers
from controller.fabric.beacon import Beacon
from controller.fabric.beacon_timers import BeaconTimers
from controller.fabric.model import Port, PortRef

MISSED_BEACONS = 3
# Beacons come once a period at the latest: who has not been heard for this long while another was has gone.
_REPLACED_PERIODS = 1.5

# What all switches together send once they are known, where something else watches the links closely (`pace`).
BEACONS_PER_S = 500
_LONGEST_PERIODS = 5
# The three beacons of a challenge are sent in this time.
_CHALLENGE_S = 0.1

# In order: a < b.
Cable = tuple[PortRef, PortRef]


class Seen(StrEnum):
    """What is seen of a cable. The words are `Link.cause` in the API."""

    BOTH_WAYS = "both-ways"
    ONE_WAY = "one-way"
    AMBIGUOUS = "ambiguous"
    SILENT = "silent"
    NO_CARRIER = "no-carrier"
    # Beacons arrive, but the switches' own check (`health.bfd`) says that the cable has failed.
    BFD_DOWN = "bfd-down"


class Doubt(Enum):
    """About who is at the other end of a port."""

    NONE = 0
    # A second neighbour was heard; the first may have gone.
    OPEN = 1
    # Both were heard again.
    CONFIRMED = 2


@dataclass(slots=True)
class Hearing:
    """The latest beacon of one neighbour at one port. `challenged_s`: it is to be heard again at once, or never."""

    at_s: float
    sequence: int
    challenged_s: float | None = None


@dataclass(slots=True)
class PortState:
    port: Port
    heard: dict[PortRef, Hearing] = field(default_factory=dict)
    doubt: Doubt = Doubt.NONE
    # When it last heard its own beacon.
    echo_s: float = float("-inf")


def cable_of(one: PortRef, other: PortRef) -> Cable:
    return (one, other) if one < other else (other, one)


@dataclass(slots=True)
class Discovery:
    """Mutable; owned by the core. All times are the core's seconds. `seed` spreads the beacons of this run."""

    period_s: float
    seed: int = 0
    ports: dict[PortRef, PortState] = field(default_factory=dict)
    # Ports of whose cables something else may be seen than before; whoever follows them clears it.
    touched: set[PortRef] = field(default_factory=set)
    leads_to_host: Callable[[PortRef], bool] = lambda _: False
    timers: BeaconTimers = field(init=False)
    _base_s: float = field(init=False)
    _sequence: int = 0
    # The last beacon that was sent when a port lost its carrier: whatever was sent before says nothing any more.
    _void: dict[PortRef, int] = field(default_factory=dict)
    # Sender -> where it is heard.
    _heard_at: dict[PortRef, set[PortRef]] = field(default_factory=dict)
    _next_expiry_s: float = float("-inf")
    # (port, who should be heard there at once).
    _challenges: set[tuple[PortRef, PortRef]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.timers, self._base_s = BeaconTimers(self.period_s, self.seed), self.period_s

    def pace(self, ports: int) -> None:
        """So many ports lead to switches: beacons become rarer where they would be too many. They do not become more
        frequent again in this run, since the next ones are already set."""
        wanted_s = min(_LONGEST_PERIODS * self._base_s, max(self._base_s, ports / BEACONS_PER_S))
        self.period_s = self.timers.period_s = max(self.period_s, wanted_s)

    # --- ports ----------------------------------------------------------------------------------------

    def set_port(self, port: Port, now_s: float) -> None:
        """Takes a port's state as the switch reports it."""
        state = self.ports.get(port.ref)
        was_up = state is not None and state.port.up
        if state is None:
            state = self.ports[port.ref] = PortState(port)
        state.port = port
        if port.up and not was_up:
            self.touched.add(port.ref)
            self.timers.restart(port.ref, now_s)
        if not port.up:
            self._lose_carrier(port.ref, state)

    def remove_port(self, ref: PortRef) -> None:
        state = self.ports.get(ref)
        if state is not None:
            self._lose_carrier(ref, state)
            del self.ports[ref]

    def _lose_carrier(self, ref: PortRef, state: PortState) -> None:
        self.touched.add(ref)
        self.timers.stop(ref)
        self._void[ref] = self._sequence
        for sender in list(state.heard):
            self._forget(ref, state, sender)

    def _forget(self, at: PortRef, state: PortState, sender: PortRef) -> None:
        self.touched |= {at, sender}
        del state.heard[sender]
        self._heard_at[sender].discard(at)
        if len(state.heard) <= 1:
            state.doubt = Doubt.NONE

    def hold(self, dpid: int, now_s: float) -> None:
        """A new session: its ports wait until `announce`."""
        for ref, state in self.ports.items():
            if ref.dpid == dpid and state.port.up:
                self.timers.hold(ref, now_s)

    def announce(self, dpid: int, now_s: float) -> None:
        """The switch punts beacons from now on: every port of it sends one."""
        for ref, state in self.ports.items():
            if ref.dpid == dpid and state.port.up:
                self.timers.restart(ref, now_s, ())

    def told(self, dpids: Collection[int]) -> bool:
        """Whether every port of these switches has been told to send its first beacons."""
        return all(self.timers.told(ref) for ref, s in self.ports.items() if ref.dpid in dpids and s.port.up)

    def recall(self, cables: Iterable[Cable], now_s: float) -> None:
        """Cables of an earlier run count as heard now: a switch that is frozen or away tells nothing, and its tables go
        on forwarding. Ports of which no switch has told yet are taken to be up."""
        for a, b in cables:
            for at, far in ((a, b), (b, a)):
                state = self.ports.setdefault(at, PortState(Port(at, "", "", up=True)))
                # Every beacon of this run has a higher number.
                self._hear_newcomer(Beacon(far, 0), at, state, now_s)

    def is_recalled(self, at: PortRef) -> bool:
        """Only memory says that a switch is at the other end."""
        state = self.ports.get(at)
        return state is not None and bool(state.heard) and all(h.sequence == 0 for h in state.heard.values())

    def disprove(self, at: PortRef) -> None:
        """Something else than the remembered switch is at the other end."""
        state = self.ports[at]
        for sender in list(state.heard):
            self._forget(at, state, sender)

    # --- beacons --------------------------------------------------------------------------------------

    def hear(self, beacon: Beacon, at: PortRef, now_s: float) -> bool:
        """Takes a verified beacon that arrived at port `at`; False when it is too old to say anything."""
        state, sender = self.ports.get(at), beacon.sender
        if state is None or not state.port.up or self._is_void(beacon, at):
            return False
        known = state.heard.get(sender)
        if known is not None:
            if beacon.sequence <= known.sequence:
                return False
            if len(state.heard) > 1 and any(known.at_s < other.at_s for other in state.heard.values()):
                state.doubt = Doubt.CONFIRMED
                self.touched.add(at)
            known.at_s, known.sequence, known.challenged_s = now_s, beacon.sequence, None
        elif sender == at:
            state.echo_s = now_s
            return True
        else:
            self._hear_newcomer(beacon, at, state, now_s)
        far = self.ports.get(sender)
        if far is not None and at not in far.heard:
            # The far end has not heard us: tell it at once rather than at the next period.
            self.timers.hasten(at, now_s)
        return True

    def _is_void(self, beacon: Beacon, at: PortRef) -> bool:
        return beacon.sequence <= max(self._void.get(at, 0), self._void.get(beacon.sender, 0))

    def _hear_newcomer(self, beacon: Beacon, at: PortRef, state: PortState, now_s: float) -> None:
        if state.heard:
            state.doubt = Doubt.OPEN if state.doubt is Doubt.NONE else state.doubt
        state.heard[beacon.sender] = Hearing(now_s, beacon.sequence)
        self._heard_at.setdefault(beacon.sender, set()).add(at)
        self.touched |= {at, beacon.sender}

    def beacons_due(self, now_s: float) -> list[tuple[Beacon, Port]]:
        """The beacons to send now; each port's next one is scheduled."""
        result = []
        for ref in self.timers.due(now_s):
            state = self.ports[ref]
            self._sequence += 1
            result.append((Beacon(ref, self._sequence), state.port))
            self.timers.sent(ref, now_s, to_host=not state.heard and self.leads_to_host(ref))
        return result

    def next_deadline_s(self) -> float | None:
        # Expiry is looked at with every beacon round, which comes at least once a period.
        return self.timers.next_s()

    # --- silence --------------------------------------------------------------------------------------

    def challenge(self, at: PortRef, sender: PortRef, now_s: float) -> None:
        """Nothing seems to arrive at `at` any more: `sender` sends three beacons at once, and if none of them is heard
        although both switches are at work, the cable has failed."""
        state = self.ports.get(at)
        hearing = state.heard.get(sender) if state is not None else None
        if hearing is None or hearing.challenged_s is not None or sender not in self.ports:
            return
        hearing.challenged_s = now_s
        self._challenges.add((at, sender))
        self.timers.restart(sender, now_s, (_CHALLENGE_S / 2, _CHALLENGE_S / 2))

    def _judge_challenges(self, answers: Answers) -> None:
        for at, sender in list(self._challenges):
            state = self.ports.get(at)
            hearing = state.heard.get(sender) if state is not None else None
            if state is None or hearing is None or hearing.challenged_s is None:
                self._challenges.discard((at, sender))
            elif self._is_telling(sender, at, hearing.challenged_s, _CHALLENGE_S, answers):
                self._challenges.discard((at, sender))
                self._forget(at, state, sender)

    def questions(self, now_s: float, answers: Answers) -> set[int]:
        """The switches whose answer would decide a challenge, and that have not been asked what it takes."""
        wanted = set()
        for at, sender in self._challenges:
            hearing = self.ports[at].heard.get(sender) if at in self.ports else None
            if hearing is None or hearing.challenged_s is None or now_s < hearing.challenged_s + _CHALLENGE_S:
                continue
            left_s = answers.first(sender.dpid, hearing.challenged_s + _CHALLENGE_S)
            dpid, from_s = (sender.dpid, hearing.challenged_s + _CHALLENGE_S) if left_s is None else (at.dpid, left_s)
            if not answers.asked_since(dpid, from_s):
                wanted.add(dpid)
        return wanted

    def expire(self, now_s: float, answers: Answers) -> None:
        """Forgets who has fallen silent."""
        if self._challenges:
            self._judge_challenges(answers)
        if now_s < self._next_expiry_s:
            return
        # Looking at every port at every beacon would cost the square of the port count.
        self._next_expiry_s = now_s + self.period_s / 10
        early_s, late_s = (now_s - periods * self.period_s for periods in (_REPLACED_PERIODS, MISSED_BEACONS))
        stale = [
            (at, state, sender, hearing)
            for at, state in self.ports.items()
            for sender, hearing in state.heard.items()
            if hearing.at_s < late_s
            or (hearing.at_s < early_s and (len(state.heard) > 1 or len(self._heard_at[sender]) > 1))
        ]
        for at, state, sender, hearing in stale:
            if self._is_over(at, state, sender, hearing, now_s, answers):
                self._forget(at, state, sender)

    def _is_over(
        self, at: PortRef, state: PortState, sender: PortRef, hearing: Hearing, now_s: float, answers: Answers
    ) -> bool:
        long = now_s - hearing.at_s > MISSED_BEACONS * self.period_s
        elsewhere = (self.ports[port].heard[sender] for port in self._heard_at[sender] if port != at)
        replaced = any(other.at_s > hearing.at_s for other in (*state.heard.values(), *elsewhere))
        if replaced and (long or state.doubt is not Doubt.CONFIRMED):
            return True
        return long and self._is_telling(sender, at, hearing.at_s, (MISSED_BEACONS - 1) * self.period_s, answers)

    def _is_telling(
        self, sender: PortRef, receiver: PortRef, since_s: float, lasting_s: float, answers: Answers
    ) -> bool:
        """Whether silence here can only mean that the cable has failed.

        Sessions keep order. What the sender answered proves that the beacons handed over before the question have left
        it; what the receiver was asked after that, and answered, proves that it would have punted them.
        """
        if sender not in self.ports:
            return True
        begun_s = max(since_s, answers.since_s(sender.dpid), answers.since_s(receiver.dpid))
        left_s = answers.first(sender.dpid, begun_s + lasting_s)
        return left_s is not None and answers.first(receiver.dpid, left_s) is not None

    # --- what is seen ---------------------------------------------------------------------------------

    def seen(self, cable: Cable) -> Seen:
        a, b = (self.ports.get(end) for end in cable)
        if a is None or b is None or not (a.port.up and b.port.up):
            return Seen.NO_CARRIER
        directions = (cable[1] in a.heard) + (cable[0] in b.heard)
        if not directions:
            return Seen.SILENT
        if cable[0].dpid == cable[1].dpid or Doubt.NONE is not a.doubt or Doubt.NONE is not b.doubt:
            return Seen.AMBIGUOUS
        return Seen.BOTH_WAYS if directions == len(cable) else Seen.ONE_WAY

    def cables_at(self, ref: PortRef) -> set[Cable]:
        """Every cable that something is heard of at one of its ends, by the other."""
        return {cable_of(ref, end) for end in (*self.hears(ref), *self._heard_at.get(ref, ()))}

    def hears(self, ref: PortRef) -> Collection[PortRef]:
        """Who is heard at a port."""
        state = self.ports.get(ref)
        return state.heard.keys() if state is not None else ()

    def shared(self) -> Iterable[PortRef]:
        """Ports that more than one neighbour shares."""
        return sorted(ref for ref, state in self.ports.items() if state.doubt is Doubt.CONFIRMED)

    def echoing(self, now_s: float) -> Iterable[PortRef]:
        """Ports that hear their own beacons."""
        oldest_s = now_s - MISSED_BEACONS * self.period_s
        return sorted(ref for ref, state in self.ports.items() if state.echo_s >= oldest_s)

    def faces_switch(self, ref: PortRef) -> bool:
        """A beacon of another port has been heard here since this one came up: no host is believed on it."""
        return bool(self.hears(ref))
