"""How long a controller that has just started believes what an earlier run left, before it trusts its own eyes alone.

Until then nothing changes on switches that work, restored paths wait for their links, and the hosts and switches of
before are asked for. No clock can tell when everything that is there has shown itself: on a loaded machine beacons
take many times as long, and who acts on half a picture takes routes away. So the end is proven by order: every port
has been told to send its first beacons, then every switch has answered a question, so that they have left; then every
switch has answered another one, so that those that arrived have been reported. What is held still is decided in
`reconcile` and `planning`.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from controller.fabric.answers import Answers

# Long enough for three beacons in each direction after the last switch is back, and for hosts to be asked as often.
_BEACON_PERIODS = 4
# Open vSwitch comes back to a controller after 8 s at the latest (max_backoff in ovs-vswitchd.conf.db(5)), and a loaded
# machine takes its time. A switch that is gone for good must not keep the others from being repaired for much longer.
_PATIENCE_S = 20.0
# One that is there and answers nothing for so long must not either.
_LONGEST_S = 120.0


@dataclass(slots=True)
class Learning:
    """`expected` are the switches known from the plan or from an earlier run that have not been heard of yet."""

    beacon_period_s: float
    expected: set[int] = field(default_factory=set)
    _first_s: float | None = None
    _last_s: float = float("-inf")
    # When every port had been told to send, and when every switch had answered after that.
    _told_s: float | None = None
    _sent_s: float | None = None

    def expect(self, dpids: Iterable[int]) -> None:
        self.expected |= set(dpids)

    def connected(self, dpid: int, now_s: float, *, first_time: bool) -> float:
        """A session has begun; until when learning lasts at most. What was proven before it says nothing about it."""
        self.expected.discard(dpid)
        self._told_s = self._sent_s = None
        if self._first_s is None:
            self._first_s = now_s
        if first_time:
            self._last_s = now_s
        return max(self._first_s + _LONGEST_S, self._last_s + _BEACON_PERIODS * self.beacon_period_s)

    def is_done(self, now_s: float, told: Callable[[], bool], answers: Answers, sessions: Collection[int]) -> bool:
        """Whether everything that is there has had the occasion to show itself. `told()` says whether every port of the
        switches in `sessions` has been told to send its first beacons."""
        waiting = self.expected and self._first_s is not None and now_s < self._first_s + _PATIENCE_S
        if waiting or now_s < self._last_s + _BEACON_PERIODS * self.beacon_period_s:
            return False
        if self._told_s is None and told():
            self._told_s = now_s
        if self._sent_s is None and self._told_s is not None:
            self._sent_s = _all_answered(answers, sessions, self._told_s)
        return self._sent_s is not None and _all_answered(answers, sessions, self._sent_s) is not None

    def end(self) -> None:
        self.expected.clear()


def _all_answered(answers: Answers, sessions: Collection[int], asked_from_s: float) -> float | None:
    """When the last switch answered something it was asked then or later; None while one has not."""
    answered = [answers.first(dpid, asked_from_s) for dpid in sessions]
    given = [time_s for time_s in answered if time_s is not None]
    return max(given, default=asked_from_s) if len(given) == len(answered) else None
