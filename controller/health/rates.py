"""From byte counters to rates, and from rates to the background that placement leaves room for.

Counters lie: they are unknown (all-ones on the wire, None here), they start again, switches report nonsense durations.
A rate is either believable or None, never negative and never above the line rate. What to do about it is decided
elsewhere.

Background is what others send. A port's counter mixes theirs with ours, and ours cannot be told from what was announced
(a job that computes sends nothing). So background is only learnt on ports that carry no placed flow of ours, each time
placement asks. On ports that carry ours the last such estimate stands and fades with a half-life: a guess grows no
better with age, and a wrong one must not push flows around for ever. The price: on a port that always carries ours,
new background goes unseen. Subtracting the byte counters of our own rules would see it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import exp
from typing import Protocol

from controller.fabric.model import PortRef

# Two readings of a busy controller can arrive closer together than they were taken. A rate this much above the line
# rate is jitter and counts as line rate; more is a counter that jumped.
JITTER_SHARE = 0.25

SMOOTHING_S = 5.0
BACKGROUND_HALF_LIFE_S = 60.0

# Statistics are read once a second.
_SHORTEST_INTERVAL_S = 0.2


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of one byte counter, taken at `at_s` on the controller's clock.

    `duration_s` is how long the port has existed, by the switch's own account. It is whole seconds or worse, so it only
    serves to notice that the port started again. `byte_count` None: the switch does not know.
    """

    at_s: float
    byte_count: int | None
    duration_s: int = 0


def rate_bps(previous: Sample, current: Sample, line_rate_bps: int = 0) -> float | None:
    """bit/s between two samples, in 0..line_rate_bps; None when they do not tell. A line rate of 0 is unknown."""
    elapsed_s = current.at_s - previous.at_s
    if previous.byte_count is None or current.byte_count is None or elapsed_s <= 0:
        return None
    if current.byte_count < previous.byte_count or current.duration_s < previous.duration_s:
        return None
    rate = 8 * (current.byte_count - previous.byte_count) / elapsed_s
    if not line_rate_bps or rate <= line_rate_bps:
        return rate
    return float(line_rate_bps) if rate <= line_rate_bps * (1 + JITTER_SHARE) else None


def smoothed(old_bps: float | None, new_bps: float, elapsed_s: float) -> float:
    """Exponential moving average; a sample weighs by the time it covers, so that missed polls do no harm."""
    if old_bps is None:
        return new_bps
    return old_bps + (1 - exp(-elapsed_s / SMOOTHING_S)) * (new_bps - old_bps)


class Counters(Protocol):
    """What is read of a port's statistics."""

    @property
    def tx_bytes(self) -> int | None: ...

    @property
    def duration_s(self) -> int: ...


@dataclass(slots=True)
class _Port:
    """`rate_bps` covers the latest interval, `epoch_bps` the intervals since placement last asked; None: unknown."""

    sample: Sample
    rate_bps: float | None = None
    epoch_bps: float | None = None
    background_bps: float = 0.0
    learnt_at_s: float = 0.0


class RateTracker:
    """The latest sample of every port in its sending direction, and what follows from it."""

    def __init__(self) -> None:
        self._ports: dict[PortRef, _Port] = {}
        self._epoch_s = float("-inf")

    def take(
        self,
        dpid: int,
        counters: Mapping[int, Counters],
        now_s: float,
        line_rate_bps: Mapping[PortRef, int] | None = None,
    ) -> None:
        """A switch's port statistics, read at `now_s`. Rates above a known line rate are dropped or cut to it."""
        for port_no, counter in counters.items():
            ref = PortRef(dpid, port_no)
            sample = Sample(now_s, counter.tx_bytes, counter.duration_s)
            port = self._ports.get(ref)
            if port is None:
                self._ports[ref] = _Port(sample)
                continue
            if now_s - port.sample.at_s < _SHORTEST_INTERVAL_S:
                # Two readings at once, as after a reconnect, tell more of the moment than of the rate.
                continue
            previous, port.sample = port.sample, sample
            port.rate_bps = rate_bps(previous, sample, line_rate_bps.get(ref, 0) if line_rate_bps else 0)
            # An interval that began before paths last changed may still hold what was sent on the old ones.
            if port.rate_bps is not None and previous.at_s >= self._epoch_s:
                port.epoch_bps = smoothed(port.epoch_bps, port.rate_bps, now_s - previous.at_s)

    def rate_bps(self, port: PortRef) -> float | None:
        """What the port sent in the latest interval; None when unknown."""
        known = self._ports.get(port)
        return known.rate_bps if known else None

    def background_bps(self, used: Collection[PortRef], now_s: float) -> dict[PortRef, float]:
        """What others are taken to send, for every port where that is more than nothing.

        To be asked whenever paths are about to change, with the ports that have been `used` by placed flows since it
        was last asked: what the others sent in that time was not ours.
        """
        for ref, port in self._ports.items():
            if port.epoch_bps is not None and ref not in used:
                port.background_bps, port.learnt_at_s = port.epoch_bps, now_s
            port.epoch_bps = None
        self._epoch_s = now_s
        faded = ((ref, _faded(port, now_s)) for ref, port in self._ports.items())
        return {ref: rate for ref, rate in faded if rate > 0}


def _faded(port: _Port, now_s: float) -> float:
    return float(port.background_bps * 0.5 ** (max(now_s - port.learnt_at_s, 0.0) / BACKGROUND_HALF_LIFE_S))
