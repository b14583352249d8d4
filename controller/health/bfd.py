"""Which cables the switches themselves are to watch by BFD, and which of these have failed by it.

BFD (RFC 5880) notices a silent failure in a fraction of a second, and a switch that runs it counts the port as dead for
its fast-failover groups at once, without any controller. But from the moment when it is turned on until its session is
up, about a second, the port counts as dead as well; and so it does while BFD is off at the far end already. So it is
turned on and off for a few cables at a time, where others carry on, and never on for one that anything depends on.

BFD alone never makes a link, and a cable whose session has never come up is not down: its far end may speak none. Then
it is turned off again. What a failure by BFD means for a link is decided in `link_states`, and how a switch is told in
`runtime.ovsdb_bfd`.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controller.fabric.discovery import Cable
from controller.fabric.model import PortRef
from controller.health.last_resort import needed

# RFC 5880 (6.8.3) allows one packet a second before a session is up, and three of them are needed.
_PATIENCE_S = 10.0
# A far end may have been too busy, or speak no BFD until it is exchanged; each try takes the cable out for the time
# above, and the next one comes after twice as long.
_FIRST_PEACE_S, _LONGEST_PEACE_S = 20.0, 3600.0
# The two ends of a cable are two switches, perhaps with two databases, and one may be slow.
_LEAVING_S = 2.0
# With so many live cables at each end, several neighbours may each miss one and still reach one another by a detour.
_ENOUGH_CABLES = 3


@dataclass(frozen=True, slots=True)
class BfdSettings:
    """A session fails after `multiplier` intervals without a packet. How they were chosen: docs/benchmarks.md."""

    enabled: bool = True
    interval_ms: int = 50
    multiplier: int = 3
    # The interval is not to grow with the number of ports that one daemon serves.
    exact: bool = False


class Session(StrEnum):
    """Of a port, as its switch says; what is not up is down."""

    UP = "up"
    DOWN = "down"


@dataclass(slots=True)
class Bfd:
    """Mutable; owned by the core. All times are the core's seconds."""

    settings: BfdSettings = field(default_factory=BfdSettings)
    # Cables whose two ends are to run it.
    watched: set[Cable] = field(default_factory=set)
    # Cables whose session was up and is not any more.
    failed: set[Cable] = field(default_factory=set)
    # By switch whose database is reached: the state of each port that runs BFD.
    _states: dict[int, Mapping[int, Session]] = field(default_factory=dict)
    # Since when.
    _starting: dict[Cable, float] = field(default_factory=dict)
    _met: set[Cable] = field(default_factory=set)
    # Until when a cable is left in peace, and for how long that was; kept until its session is up.
    _peace: dict[Cable, tuple[float, float]] = field(default_factory=dict)
    _retry_due_s: float | None = None
    _told: dict[int, frozenset[int]] = field(default_factory=dict)
    # Where it is to go altogether: cables that it has left, and those that it is leaving, until when.
    _left: set[Cable] = field(default_factory=set)
    _leaving: set[Cable] = field(default_factory=set)
    _leaving_until_s: float = float("-inf")

    def take(self, dpid: int, states: Mapping[int, Session] | None) -> set[Cable]:
        """What a switch says of its ports; None: nobody can tell. The cables that have failed by it, or recovered."""
        if states is None:
            self._states.pop(dpid, None)
        else:
            self._states[dpid] = states
        before = set(self.failed)
        for cable in self.watched:
            if dpid in (cable[0].dpid, cable[1].dpid):
                self._judge(cable)
        return before ^ self.failed

    def _judge(self, cable: Cable) -> None:
        states = [self._state(end) for end in cable]
        if all(state is Session.UP for state in states):
            self._met.add(cable)
            self._starting.pop(cable, None)
            self._peace.pop(cable, None)
        # Where one end cannot be asked, what the other one says of the session still holds for both.
        failed = cable in self._met and Session.DOWN in states
        (self.failed.add if failed else self.failed.discard)(cable)

    def _state(self, end: PortRef) -> Session | None:
        return self._states.get(end.dpid, {}).get(end.port_no)

    # --- where it runs ----------------------------------------------------------------------------------

    def follow(
        self, known: Collection[Cable], up: Collection[Cable], leaves: Collection[int], now_s: float
    ) -> dict[int, frozenset[int]]:
        """The ports that are to run BFD, of each switch for which that has changed.

        `known` are all cables between switches, whatever their state, and `up` those that are up.
        """
        if not self.settings.enabled:
            self._leave(known, up, now_s)
            return self._news()
        self._forget(self.watched - set(known))
        self._forget([cable for cable in self._starting if cable not in up])
        self._give_up(now_s)
        self._adopt(known, up, now_s)
        if not self._starting:
            self._start(up, leaves, now_s)
        due_s = (until_s for cable, (until_s, _) in self._peace.items() if until_s > now_s and cable in up)
        self._retry_due_s = min(due_s, default=None)
        return self._news()

    def _forget(self, cables: Collection[Cable]) -> None:
        for cable in list(cables):
            self.watched.discard(cable)
            self.failed.discard(cable)
            self._met.discard(cable)
            self._starting.pop(cable, None)

    def _give_up(self, now_s: float) -> None:
        late = [cable for cable, begun_s in self._starting.items() if now_s >= begun_s + _PATIENCE_S]
        for cable in late:
            length_s = min(2 * self._peace[cable][1], _LONGEST_PEACE_S) if cable in self._peace else _FIRST_PEACE_S
            self._peace[cable] = (now_s + length_s, length_s)
        self._forget(late)

    def _in_peace(self, cable: Cable, now_s: float) -> bool:
        return cable in self._peace and now_s < self._peace[cable][0]

    def _adopt(self, known: Collection[Cable], up: Collection[Cable], now_s: float) -> None:
        """A controller that has just started leaves alone what an earlier one had begun."""
        for cable in known:
            if cable in self.watched or cable in self._peace or None in map(self._state, cable):
                continue
            self.watched.add(cable)
            self._judge(cable)
            if cable in up and cable not in self._met:
                self._starting[cable] = now_s

    def _start(self, up: Collection[Cable], leaves: Collection[int], now_s: float) -> None:
        ready = [
            cable
            for cable in sorted(up)
            if cable not in self.watched
            and not self._in_peace(cable, now_s)
            and all(end.dpid in self._states for end in cable)
        ]
        degree = Counter(end.dpid for cable in up for end in cable)
        while ready and not self._starting:
            chosen = _apart(ready, degree)
            depended_on = set(needed(set(up) - chosen, chosen, leaves))
            self._starting = dict.fromkeys(chosen - depended_on, now_s)
            ready = [cable for cable in ready if cable not in depended_on]
        self.watched |= self._starting.keys()

    def _leave(self, known: Collection[Cable], up: Collection[Cable], now_s: float) -> None:
        """Takes it off what an earlier controller had set up."""
        self.watched = {cable for cable in known if any(map(self._state, cable))} - self._left
        self._leaving = {cable for cable in self._leaving if any(map(self._state, cable))}
        if self._leaving and now_s < self._leaving_until_s:
            return
        degree = Counter(end.dpid for cable in up for end in cable)
        self._leaving = _apart(sorted(self.watched), degree)
        self._leaving_until_s = now_s + _LEAVING_S
        self._left |= self._leaving
        self.watched -= self._leaving

    def _news(self) -> dict[int, frozenset[int]]:
        wanted: dict[int, set[int]] = {dpid: set() for dpid in self._states}
        for end in (end for cable in self.watched for end in cable if end.dpid in wanted):
            wanted[end.dpid].add(end.port_no)
        now = {dpid: frozenset(ports) for dpid, ports in wanted.items()}
        news = {dpid: ports for dpid, ports in now.items() if self._told.get(dpid) != ports}
        self._told |= news
        return news

    def told(self, dpid: int) -> frozenset[int] | None:
        """The ports of this switch that are to run it; None: not decided yet, and what runs is to be left alone."""
        return self._told.get(dpid)

    def next_deadline_s(self) -> float | None:
        """When a session that does not come up is given up or tried anew, or one that does not go is no more waited
        for."""
        if self._leaving:
            return self._leaving_until_s
        if self._starting:
            return min(self._starting.values()) + _PATIENCE_S
        return self._retry_due_s


def _apart(cables: Collection[Cable], degree: Mapping[int, int]) -> set[Cable]:
    """Cables of which no two share a switch; several only where each switch keeps enough others."""
    chosen: set[Cable] = set()
    busy: set[int] = set()
    for cable in cables:
        ends = {end.dpid for end in cable}
        scarce = any(degree[dpid] < _ENOUGH_CABLES for dpid in ends)
        if ends.isdisjoint(busy) and not (chosen and scarce):
            chosen.add(cable)
            busy |= ends
            if scarce:
                break
    return chosen
