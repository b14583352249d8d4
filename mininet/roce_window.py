"""The congestion window of one queue pair: how many packets may be under way. Pure; told of delay and loss.

After Swift (Kumar et al., SIGCOMM 2020): the round trip is held near a target, by adding one packet per round trip
below it and cutting in proportion to the excess above it, at most once per round trip. The lab has no ECN marks
(Linux's pfifo sets none), so delay stands for them; like DCQCN it starts at full rate, bounds queues and shares fairly.
"""

_ADDITIVE_PACKETS = 1.0
_BETA = 0.8
_LARGEST_CUT = 0.5
_SMOOTHING = 1 / 8


class DelayWindow:
    """`packets` is the window now. `target_s` is the round trip aimed at, queues included.

    `largest` bounds the window (and must fit in the acknowledgements' bitmap), `smallest` keeps a flow alive.
    """

    __slots__ = ("_last_cut_s", "largest", "packets", "smallest", "smoothed_s", "target_s")

    def __init__(self, target_s: float, largest: float, smallest: float = 1.0) -> None:
        self.target_s = target_s
        self.largest = largest
        self.smallest = smallest
        self.packets = largest
        # 0 until the first measurement.
        self.smoothed_s = 0.0
        self._last_cut_s = float("-inf")

    def on_ack(self, acked: int, round_trip_s: float, now_s: float) -> None:
        """`acked` packets arrived, the newest of them after `round_trip_s`."""
        smoothed = self.smoothed_s
        self.smoothed_s = smoothed + (round_trip_s - smoothed) * _SMOOTHING if smoothed else round_trip_s
        if round_trip_s <= self.target_s:
            self.packets = min(self.largest, self.packets + _ADDITIVE_PACKETS * acked / self.packets)
        elif now_s - self._last_cut_s >= self.smoothed_s:
            excess = (round_trip_s - self.target_s) / round_trip_s
            self._cut(min(_LARGEST_CUT, _BETA * excess), now_s)

    def on_loss(self, now_s: float) -> None:
        """A packet was found missing."""
        if now_s - self._last_cut_s >= self.smoothed_s:
            self._cut(_LARGEST_CUT, now_s)

    def on_timeout(self, now_s: float) -> None:
        """Nothing came back for a whole timeout: the path may be gone, so only probe it."""
        self.packets = self.smallest
        self._last_cut_s = now_s

    def _cut(self, fraction: float, now_s: float) -> None:
        self.packets = max(self.smallest, self.packets * (1 - fraction))
        self._last_cut_s = now_s
