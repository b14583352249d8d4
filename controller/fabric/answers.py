"""Whether a switch has proven that it works on what it is told, and since when.

A beacon that is not heard says nothing about a cable while the switch at either end is frozen, overloaded or away: its
tables go on forwarding, only its OpenFlow side is silent. Messages of one session are worked on in order, so the answer
to a question proves that every beacon handed over before the question has left the switch, or has been punted.
What silence means for a link is decided in `discovery`.
"""

from collections import deque
from dataclasses import dataclass, field

# A switch that owes this many answers is not asked again before it has given one, or is given up.
_MOST_OWED = 3
_GIVE_UP_S = 30.0
_KEPT = 16


@dataclass(slots=True)
class _Answers:
    since_s: float = float("-inf")
    owed: deque[float] = field(default_factory=deque)
    # (asked, answered), oldest first.
    given: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_KEPT))


@dataclass(slots=True)
class Answers:
    """Mutable; owned by the core. By datapath id; all times are the core's seconds."""

    _of: dict[int, _Answers] = field(default_factory=dict)

    def start(self, dpid: int, now_s: float) -> None:
        """A new session: what an earlier one owed will never come, and what was told before is lost."""
        self._of[dpid] = _Answers(now_s)

    def end(self, dpid: int) -> None:
        self._of.pop(dpid, None)

    def since_s(self, dpid: int) -> float:
        """When the present session began; infinite while there is none."""
        known = self._of.get(dpid)
        return float("inf") if known is None else known.since_s

    def ask(self, dpid: int, now_s: float) -> bool:
        """Whether the switch is to be asked something now; if so, that is noted."""
        known = self._of.setdefault(dpid, _Answers(now_s))
        if known.owed and now_s - known.owed[0] >= _GIVE_UP_S:
            known.owed.clear()
        if len(known.owed) >= _MOST_OWED:
            return False
        known.owed.append(now_s)
        return True

    def owing_since_s(self, dpid: int, heard_s: float) -> float | None:
        """When the first question after `heard_s` was asked that the switch has not answered; None: it owes nothing.

        An older one may have been lost on its way, which says nothing about a switch that was heard of since.
        """
        known = self._of.get(dpid)
        owed = known.owed if known is not None else ()
        return next((asked_s for asked_s in owed if asked_s > heard_s), None)

    def asked_since(self, dpid: int, from_s: float) -> bool:
        """Whether a question asked at `from_s` or later has been answered or is owed."""
        known = self._of.get(dpid)
        owed = known.owed if known is not None else ()
        return any(asked_s >= from_s for asked_s in owed) or self.first(dpid, from_s) is not None

    def answered(self, dpid: int, now_s: float) -> float | None:
        """The switch has answered its oldest question; when that was asked."""
        known = self._of.get(dpid)
        if known is None or not known.owed:
            return None
        asked_s = known.owed.popleft()
        known.given.append((asked_s, now_s))
        return asked_s

    def first(self, dpid: int, asked_from_s: float) -> float | None:
        """When the first question asked at `asked_from_s` or later was answered; None: not yet."""
        known = self._of.get(dpid)
        given = known.given if known is not None else ()
        return next((answered_s for asked_s, answered_s in given if asked_s >= asked_from_s), None)
