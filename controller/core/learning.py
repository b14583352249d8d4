"""How long a controller that has just started believes what an earlier run left, before it trusts its own eyes alone.

Until then nothing changes on switches that work, restored paths wait for their links, and the hosts and switches of
before are asked for. It decides only the time; what is held still is decided in `reconcile` and `planning`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

# Long enough for three beacons in each direction after the last switch is back.
_BEACON_PERIODS = 4
# Open vSwitch comes back to a controller after 8 s at the latest (max_backoff in ovs-vswitchd.conf.db(5)). A switch
# that is gone for good must not keep the others from being repaired for much longer.
_PATIENCE_S = 12.0


@dataclass(slots=True)
class Learning:
    """`expected` are the switches known from the plan or from an earlier run that have not been heard of yet."""

    beacon_period_s: float
    expected: set[int] = field(default_factory=set)
    over: bool = False
    _first_s: float | None = None

    def expect(self, dpids: Iterable[int]) -> None:
        self.expected |= set(dpids)

    def until_s(self, dpid: int, now_s: float) -> float:
        """A switch never heard of since the start has connected: when everything that is there will have been seen."""
        self.expected.discard(dpid)
        if self._first_s is None:
            self._first_s = now_s
        seen_s = now_s + _BEACON_PERIODS * self.beacon_period_s
        return max(seen_s, self._first_s + _PATIENCE_S) if self.expected and not self.over else seen_s

    def end(self) -> None:
        self.over = True
        self.expected.clear()
