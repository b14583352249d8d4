"""A packet-rate meter: which packets conform (a token bucket; OpenFlow 1.3.5, section 5.7.1)."""

from controller.pipeline.rules import Meter


class TokenBucket:
    """Holds up to the meter's burst; `now_s` must not go back."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._tokens = float(self._depth())
        self._filled_s: float | None = None

    def _depth(self) -> int:
        # A bucket that holds nothing would drop everything; Open vSwitch takes one second's worth then.
        return self.meter.burst_packets or self.meter.packets_per_second

    def conforms(self, now_s: float) -> bool:
        """Takes one packet at this time; False when it is over the rate."""
        if self._filled_s is not None:
            gained = (now_s - self._filled_s) * self.meter.packets_per_second
            self._tokens = min(self._tokens + gained, float(self._depth()))
        self._filled_s = now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
