"""Notices within a second that nothing arrives over a link any more, however large the fabric is.

A beacon costs a packet to the controller for every port, so of thousands of ports each can be heard once in some
seconds at most. Heartbeats cost next to nothing: one packet goes out of all links of a switch, is counted by the ports
at the other ends and dropped there, and the counters of a switch are read in one answer. A port that has received
nothing at all since the last reading, although its neighbour has sent a heartbeat meanwhile and is at work, is
suspicious.

Switches that are neighbours are read one after the other, the one first that was second the last time: so `gray` can
tell what has been lost between them.

It decides suspicion alone: counters may lag (some switches update them every few seconds), so a suspicion makes a few
beacons follow one another closely, and only when these do not arrive either is the link lost (`discovery.challenge`).
A port whose suspicions come to nothing is suspected ever more rarely.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.fabric.answers import Answers
from controller.fabric.arp import PROBE_MAC
from controller.fabric.model import PortRef
from controller.health.links import Links

# Never forwarded (IEEE 802.1Q, table 8-1), of an EtherType for local experiments (IEEE 802), and padded to the shortest
# frame without its checksum. It says nothing: which cable it came over is known from beacons.
FRAME = bytes.fromhex(f"0180c200000f{PROBE_MAC.replace(':', '')}88b5").ljust(60, b"\0")
# A suspicion that came to nothing: the port is left in peace for so long, and twice as long each time.
_FIRST_PEACE_S, _LONGEST_PEACE_S = 0.5, 64.0
# What can be challenged at once: a switch that dies without a word takes as many links with it.
_MOST_AT_ONCE = 128
_KEPT_BEATS = 64


@dataclass(slots=True)
class _Peace:
    until_s: float
    length_s: float


@dataclass(slots=True)
class Heartbeats:
    """Mutable; owned by the core. A period of 0 turns them off. `counters_per_s` bounds what is read in all."""

    links: Links
    period_s: float
    counters_per_s: float
    _beat_due_s: float = float("-inf")
    _read_due_s: float = float("-inf")
    # Port -> packets received by it, and when it was asked that first said so.
    _received: dict[PortRef, tuple[int, float]] = field(default_factory=dict)
    # Oldest first; answers may take longer than the next one.
    _beats_s: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_BEATS))
    _peace: dict[PortRef, _Peace] = field(default_factory=dict)
    # Which of two neighbours a switch is, and which kind is read first now.
    _side: dict[int, bool] = field(default_factory=dict)
    _first: bool = False
    # Switches that are read when those of the other side have answered, or at the latest at a time.
    _second: set[int] = field(default_factory=set)
    _awaited: set[int] = field(default_factory=set)
    _second_due_s: float = float("inf")
    # Switches for which nobody waits, since they answered too late the last time.
    _late: set[int] = field(default_factory=set)

    @property
    def interval_s(self) -> float:
        """Between heartbeats, and between readings."""
        return max(self.period_s, 2 * len(self.links.up) / self.counters_per_s)

    def watches(self, dpid: int) -> bool:
        """Its counters are read here, so nobody else need do so."""
        return bool(self.period_s and self.links.up_at(dpid))

    def beats(self, now_s: float) -> Mapping[int, tuple[int, ...]]:
        """The ports of each switch that are to send a heartbeat now."""
        if not self.period_s or now_s < self._beat_due_s or not self.links.up:
            return {}
        self._beats_s.append(now_s)
        self._beat_due_s = now_s + self.interval_s
        # Half-way between two heartbeats: a reading that raced with one would find nothing now and two the next time.
        self._read_due_s = now_s + self.interval_s / 2
        ports: dict[int, list[int]] = defaultdict(list)
        for end in self._ends():
            ports[end.dpid].append(end.port_no)
        return {dpid: tuple(sorted(numbers)) for dpid, numbers in ports.items()}

    def readings(self, now_s: float, answers: Answers) -> list[int]:
        """The switches whose counters are to be read now."""
        if not self.period_s:
            return []
        if now_s >= self._read_due_s:
            self._read_due_s = float("inf")
            return self._begin_round(now_s, answers)
        if self._second and (not self._awaited or now_s >= self._second_due_s):
            self._late |= self._awaited
            second, self._second, self._second_due_s = self._second, set(), float("inf")
            return sorted(second)
        return []

    def _begin_round(self, now_s: float, answers: Answers) -> list[int]:
        self._part_neighbours()
        dpids = {end.dpid for end in self._ends()}
        self._first = not self._first
        first = {dpid for dpid in dpids if self._side[dpid] is self._first}
        self._second = dpids - first
        self._awaited = {dpid for dpid in first - self._late if answers.since_s(dpid) < float("inf")}
        self._second_due_s = now_s + self.interval_s / 4 if self._second else float("inf")
        return sorted(first)

    def _part_neighbours(self) -> None:
        """Neighbours are on different sides, as in any fabric of tiers; elsewhere as far as that can be."""
        side = self._side
        if all(a.dpid in side and b.dpid in side and side[a.dpid] is not side[b.dpid] for a, b in self.links.up):
            return
        near: dict[int, set[int]] = defaultdict(set)
        for a, b in self.links.up:
            near[a.dpid].add(b.dpid)
            near[b.dpid].add(a.dpid)
        side = self._side = {}
        for start in sorted(near):
            side.setdefault(start, False)
            left = [start]
            while left:
                dpid = left.pop()
                new = near[dpid] - side.keys()
                side |= dict.fromkeys(new, not side[dpid])
                left += new

    def _ends(self) -> list[PortRef]:
        return [end for cable in self.links.up for end in cable]

    def next_deadline_s(self) -> float | None:
        if not self.period_s or not self.links.up:
            return None
        return min(self._beat_due_s, self._read_due_s, self._second_due_s)

    def take(
        self, dpid: int, received: Mapping[int, int | None], asked_s: float, answers: Answers, now_s: float
    ) -> None:
        """Packets received by each port of a switch, as it was asked at `asked_s`; suspicions are acted on."""
        if not self.period_s:
            return
        self._awaited.discard(dpid)
        if asked_s + self.interval_s / 4 >= now_s:
            self._late.discard(dpid)
        challenged = 0
        for cable in self.links.up_at(dpid):
            at, sender = cable if cable[0].dpid == dpid else cable[::-1]
            count = received.get(at.port_no)
            if count is None:
                continue
            before = self._received.get(at)
            if before is None or before[0] != count:
                self._received[at] = (count, asked_s)
            elif (
                challenged < _MOST_AT_ONCE
                and self._is_silent(at, sender, before[1], asked_s, answers)
                and self._may_suspect(at, now_s)
            ):
                challenged += 1
                self.links.discovery.challenge(at, sender, now_s)

    def _is_silent(self, at: PortRef, sender: PortRef, from_s: float, asked_s: float, answers: Answers) -> bool:
        """Whether a heartbeat that was sent after `from_s` should have been counted before the port was asked.

        Its sender has answered a question that followed the heartbeat, and only then the port was asked. So neither
        switch is blamed for being slow, and one that does not answer proves nothing.
        """
        begun_s = max(from_s, answers.since_s(sender.dpid), answers.since_s(at.dpid))
        beat_s = next((beat_s for beat_s in self._beats_s if beat_s > begun_s), None)
        left_s = None if beat_s is None else answers.first(sender.dpid, beat_s)
        return left_s is not None and left_s < asked_s

    def _may_suspect(self, at: PortRef, now_s: float) -> bool:
        peace = self._peace.get(at)
        if peace is not None and now_s < peace.until_s:
            return False
        again = peace is not None and now_s < peace.until_s + 4 * peace.length_s
        length_s = min(_LONGEST_PEACE_S, 2 * peace.length_s) if again and peace is not None else _FIRST_PEACE_S
        self._peace[at] = _Peace(now_s + length_s, length_s)
        return True
