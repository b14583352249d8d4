"""Which links exist, by beacons in both directions and port status.

A link becomes usable once a beacon from each end has been seen at the other and both ports are up. It is lost at once
with a port, and when beacons stop for three periods although the switches at both ends are at work: a switch that has
no session or does not answer neither sends our beacons nor reports what it hears, and its data plane goes on. This
module does not decide what the links are good for, nor which switch is a leaf.
"""

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from controller.fabric.answers import Answers
from controller.fabric.beacon import Beacon
from controller.fabric.model import Port, PortRef

# Right after a port comes up its neighbour may not yet have the rule that punts our beacons, so the first ones
# follow one another closely.
_FIRST_BEACONS_S = (0.0, 0.1, 0.3)
_MISSED_BEACONS = 3


@dataclass(slots=True)
class _PortState:
    port: Port
    sequence: int = 0
    early_sent: int = 0
    # Who was heard here, and when last.
    neighbour: PortRef | None = None
    heard_s: float = float("-inf")


@dataclass(slots=True)
class Discovery:
    """Mutable; owned by the core. All times are the core's seconds."""

    period_s: float
    ports: dict[PortRef, _PortState] = field(default_factory=dict)
    # (due, port), a heap; an entry whose port is gone or has a later due time is skipped.
    _due: list[tuple[float, PortRef]] = field(default_factory=list)
    _due_of: dict[PortRef, float] = field(default_factory=dict)
    _usable: dict[PortRef, PortRef] = field(default_factory=dict)
    _next_expiry_s: float = float("-inf")
    # Ports whose neighbour is remembered and has not been heard of in this run.
    _recalled: set[PortRef] = field(default_factory=set)

    @property
    def freshness_s(self) -> float:
        return _MISSED_BEACONS * self.period_s

    def set_port(self, port: Port, now_s: float) -> bool:
        """Takes a port's state as the switch reports it; True when a usable link was lost."""
        state = self.ports.get(port.ref)
        was_up = state is not None and state.port.up
        if state is None:
            state = self.ports[port.ref] = _PortState(port)
        state.port = port
        if port.up and not was_up:
            state.early_sent = 0
            self._schedule(port.ref, now_s)
        if not port.up:
            self._forget(state)
            return self._lose(port.ref)
        return False

    def announce_again(self, dpid: int, now_s: float) -> None:
        """A new session: the first beacons are sent again, since the ones before may have met no punt rule."""
        for ref, state in self.ports.items():
            if ref.dpid == dpid and state.port.up:
                state.early_sent = 0
                self._schedule(ref, now_s)

    def told(self, dpids: Collection[int]) -> bool:
        """Whether every port of these switches has been told to send its first beacons."""
        ups = (state for ref, state in self.ports.items() if ref.dpid in dpids and state.port.up)
        return all(state.early_sent >= len(_FIRST_BEACONS_S) for state in ups)

    def recall(self, cables: Iterable[tuple[PortRef, PortRef]], now_s: float) -> None:
        """Cables of an earlier run count as heard now: a switch that is frozen or away tells nothing, and its tables go
        on forwarding. Ports of which no switch has told yet are taken to be up."""
        for a, b in cables:
            for at, far in ((a, b), (b, a)):
                state = self.ports.setdefault(at, _PortState(Port(at, "", "", up=True)))
                state.neighbour, state.heard_s = far, now_s
                self._recalled.add(at)
            self._usable[a], self._usable[b] = b, a

    def is_recalled(self, at: PortRef) -> bool:
        """Only memory says that a switch is at the other end."""
        return at in self._recalled and self.faces_switch(at)

    def disprove(self, at: PortRef) -> None:
        """Something else than the remembered switch is at the other end."""
        self._recalled.discard(at)
        self._forget(self.ports[at])
        self._lose(at)

    def remove_port(self, ref: PortRef) -> bool:
        """True when a usable link was lost."""
        state = self.ports.pop(ref, None)
        self._due_of.pop(ref, None)
        return state is not None and self._lose(ref)

    def _forget(self, state: _PortState) -> None:
        state.neighbour, state.heard_s = None, float("-inf")

    def _lose(self, ref: PortRef) -> bool:
        far = self._usable.pop(ref, None)
        if far is None:
            return False
        self._usable.pop(far, None)
        return True

    def hear(self, beacon: Beacon, at: PortRef, now_s: float) -> bool:
        """Takes a verified beacon that arrived at port `at`; True when the set of usable links changed."""
        state = self.ports.get(at)
        if state is None or not state.port.up or beacon.sender == at:
            return False
        changed = False
        if state.neighbour not in (None, beacon.sender):
            # The cable was moved: the newest word replaces the old link at both its ends.
            changed = self._lose(at)
        news = state.neighbour != beacon.sender
        state.neighbour, state.heard_s = beacon.sender, now_s
        self._recalled.discard(at)
        far = self.ports.get(beacon.sender)
        if far is None or not far.port.up:
            return changed
        if far.neighbour == at and now_s - far.heard_s <= self.freshness_s:
            if self._usable.get(at) != beacon.sender:
                self._usable[at], self._usable[beacon.sender] = beacon.sender, at
                changed = True
        elif news:
            # The far end has not heard us: tell it at once rather than at the next period.
            self._schedule(at, now_s)
        return changed

    def beacons_due(self, now_s: float) -> list[tuple[Beacon, Port]]:
        """The beacons to send now; each port's next one is scheduled."""
        result = []
        while self._due and self._due[0][0] <= now_s:
            due, ref = heapq.heappop(self._due)
            state = self.ports.get(ref)
            if state is None or not state.port.up or self._due_of.get(ref) != due:
                continue
            state.sequence += 1
            state.early_sent += 1
            result.append((Beacon(ref, state.sequence), state.port))
            self._schedule(ref, now_s + self._interval_s(ref, state))
        return result

    def _interval_s(self, ref: PortRef, state: _PortState) -> float:
        if state.early_sent < len(_FIRST_BEACONS_S):
            return _FIRST_BEACONS_S[state.early_sent] - _FIRST_BEACONS_S[state.early_sent - 1]
        # Spread by identity: ports that came up together must not beacon together for ever.
        jitter = (ref.dpid * 31 + ref.port_no * 17 + state.sequence * 7) % 16 / 16
        return self.period_s * (0.9 + 0.1 * jitter)

    def _schedule(self, ref: PortRef, due_s: float) -> None:
        self._due_of[ref] = due_s
        heapq.heappush(self._due, (due_s, ref))

    def expire(self, now_s: float, answers: Answers) -> list[tuple[PortRef, PortRef]]:
        """Takes links down whose beacons stopped in either direction, and returns them (a < b)."""
        if now_s < self._next_expiry_s:
            return []
        # Looking at every port at every beacon would cost the square of the port count.
        self._next_expiry_s = now_s + self.period_s / 10
        stale = [
            state
            for state in self.ports.values()
            if state.neighbour is not None
            and now_s - state.heard_s > self.freshness_s
            and self._is_telling(state, answers)
        ]
        lost = []
        for state in stale:
            ref, far = state.port.ref, self._usable.get(state.port.ref)
            self._forget(state)
            if far is not None and self._lose(ref):
                lost.append((min(ref, far), max(ref, far)))
        return sorted(lost)

    def _is_telling(self, state: _PortState, answers: Answers) -> bool:
        """Whether silence here can only mean that the cable has failed.

        Sessions keep order. What the sender answered proves that the beacons handed over before the question have left
        it; what the receiver was asked after that, and answered, proves that it would have punted them.
        """
        sender, receiver = state.neighbour, state.port.ref
        if sender is None or sender not in self.ports:
            return True
        begun_s = max(state.heard_s, answers.since_s(sender.dpid), answers.since_s(receiver.dpid))
        left_s = answers.first(sender.dpid, begun_s + (_MISSED_BEACONS - 1) * self.period_s)
        return left_s is not None and answers.first(receiver.dpid, left_s) is not None

    def next_deadline_s(self) -> float | None:
        while self._due and self._due_of.get(self._due[0][1]) != self._due[0][0]:
            heapq.heappop(self._due)
        # Expiry is looked at with every beacon round, which comes at least once a period.
        return self._due[0][0] if self._due else None

    def usable_links(self) -> Iterable[tuple[PortRef, PortRef]]:
        """Each cable once, a < b, sorted."""
        return sorted((a, b) for a, b in self._usable.items() if a < b)

    def one_way_links(self, now_s: float) -> list[tuple[PortRef, PortRef]]:
        """(sender, receiver) where only the receiver hears the sender."""
        return sorted(
            (state.neighbour, ref)
            for ref, state in self.ports.items()
            if state.neighbour is not None
            and ref not in self._usable
            and now_s - state.heard_s <= self.freshness_s
            and state.neighbour in self.ports
        )

    def faces_switch(self, ref: PortRef) -> bool:
        """A beacon has been heard here since the port came up: no host is believed on this port."""
        state = self.ports.get(ref)
        return state is not None and state.neighbour is not None
