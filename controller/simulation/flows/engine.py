"""The clockwork of the flow simulator: from one event to the next, with max-min fair rates between them.

An event is a segment that has been sent, or an action that somebody asked for at a time. Decides when things happen;
what is sent when is `wave`'s, who asks for what is `run`'s. Where the state repeats, as it does in the steps of a ring,
whole periods are skipped at once, which changes no result.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from controller.simulation.flows.maxmin import FloatArray, LinkRows, link_rates, max_min_rates
from controller.simulation.flows.recorder import Recorder
from controller.simulation.flows.wave import BoolArray, Pace, Wave

Action = Callable[[], None]

# Segments that end within this part of the time to the next event end with it.
_TOGETHER = 1e-9
# Moments remembered when looking for one like the present: a period longer than this is not found.
_MOMENTS = 8


@dataclass(frozen=True, slots=True)
class _Moment:
    now_s: float
    pattern: tuple[bytes, ...]
    last: tuple[int, ...]
    link_bits: FloatArray


class FlowEngine:
    """Runs waves on links.

    Args:
        capacity_bps: by link number; may be replaced at any time with `set_links`.
        recorder: is told what every link carries.
        detail_lanes: in a step of equal lanes that start together on an otherwise idle fabric, single completions are
            followed only up to this many lanes; the step's length and what links carry is exact in any case.

    A step of equal transfers that start together lasts as long as its fullest link needs: no rate is ever below the
    fullest link's fair share, since links only lose flows meanwhile, and that link's own flows have just this rate.
    """

    def __init__(self, capacity_bps: FloatArray, recorder: Recorder, detail_lanes: int = 8_192) -> None:
        self.now_s = 0.0
        self.events = 0
        self.link_bits = np.zeros(len(capacity_bps))
        self._capacity_bps = capacity_bps
        # What arrives of what is sent over each link.
        self._arriving = np.ones(len(capacity_bps) + 1)
        self._recorder = recorder
        self._detail_lanes = detail_lanes
        self._waves: list[Wave] = []
        self._timers: list[tuple[float, int, Action]] = []
        self._order = count()
        self._moments: deque[_Moment] = deque(maxlen=_MOMENTS)
        self._rates: list[FloatArray] | None = None

    # --- what can be asked for ---------------------------------------------------------------------------

    def at(self, when_s: float, action: Action) -> None:
        """`action` is called when it is `when_s`, or now if that is past."""
        heapq.heappush(self._timers, (max(when_s, self.now_s), next(self._order), action))

    def start(self, wave: Wave) -> None:
        self._waves.append(wave)
        self._forget()

    def set_links(self, capacity_bps: FloatArray, arriving: FloatArray) -> None:
        """From now on links have these rates; of what is sent over a link the part `arriving` gets there."""
        self._capacity_bps, self._arriving = capacity_bps, np.append(arriving, 1.0)
        self._forget()

    def reroute(self) -> None:
        """To be called after rows of waves were changed."""
        self._forget()

    @property
    def waves(self) -> Sequence[Wave]:
        """Those under way."""
        return self._waves

    @property
    def idle(self) -> bool:
        return not self._waves

    @property
    def next_timer_s(self) -> float:
        return self._timers[0][0] if self._timers else np.inf

    def carry(self, seconds: float, link_bits: FloatArray) -> None:
        """Counts what links carry in the coming `seconds` without any wave, because it is known already."""
        self._recorder.add(self.now_s, seconds, link_bits)
        self.link_bits += link_bits

    # --- the clockwork -----------------------------------------------------------------------------------

    def run(self) -> bool:
        """Until nothing is left to do. False: some wave cannot go on, because its lanes have no capacity at all."""
        while self._waves or self._timers:
            if not self._step():
                return False
        return True

    def _step(self) -> bool:
        rates = self._current_rates()
        goodput = [r * self._arrives(w) for w, r in zip(self._waves, rates, strict=True)]
        gap_s = self.next_timer_s - self.now_s
        ends_s = [_first_end_s(w, g) for w, g in zip(self._waves, goodput, strict=True)]
        whole_s = self._whole_step_s(rates)
        if whole_s is not None and whole_s < gap_s:
            self._finish_step(whole_s)
        else:
            span_s = min([gap_s, *ends_s])
            if span_s == np.inf:
                return False
            self._advance(span_s, rates, goodput)
        self.events += 1
        self._after()
        return True

    def _current_rates(self) -> list[FloatArray]:
        if self._rates is None:
            rows = [w.rows[w.active] for w in self._waves]
            together = max_min_rates(_stacked(rows), self._capacity_bps) if rows else np.empty(0)
            parts = np.split(together, np.cumsum([len(r) for r in rows])[:-1]) if rows else []
            self._rates = parts
        return self._rates

    def _arrives(self, wave: Wave) -> FloatArray:
        part: FloatArray = self._arriving[wave.rows[wave.active]].prod(axis=1)
        return part

    def _advance(self, span_s: float, rates: list[FloatArray], goodput: list[FloatArray]) -> None:
        carried = np.zeros(len(self.link_bits))
        ended = False
        for wave, rate, good in zip(self._waves, rates, goodput, strict=True):
            carried += link_rates(wave.rows[wave.active], rate, len(carried)) * span_s
            left = wave.left_bits[wave.active]
            with np.errstate(invalid="ignore"):
                over = left - good * (span_s * (1 + _TOGETHER)) <= 0
            over |= np.isinf(good)
            wave.left_bits[wave.active] = np.where(over, 0.0, left - np.where(over, 0.0, good) * span_s)
            if over.any():
                ended = True
                which = np.zeros(len(wave.lanes), dtype=np.bool_)
                which[np.flatnonzero(wave.active)[over]] = True
                wave.complete(which, self.now_s + span_s)
        self._recorder.add(self.now_s, span_s, carried)
        self.link_bits += carried
        self.now_s += span_s
        if ended:
            self._rates = None

    def _whole_step_s(self, rates: list[FloatArray]) -> float | None:
        """How long the present step takes, if nothing inside it needs to be looked at."""
        if len(self._waves) != 1:
            return None
        wave = self._waves[0]
        active: BoolArray = wave.active
        alike = wave.pace == Pace.TOGETHER or (wave.pace == Pace.AT_ONCE and wave.lanes.count.max() == 1)
        if not alike or int(active.sum()) <= self._detail_lanes or (self._arriving < 1).any():
            return None
        left = wave.left_bits[active]
        slowest = float(rates[0].min())
        if slowest <= 0 or left.min() < left.max() or left.max() < wave.lanes.segment_bits[active].max():
            return None
        return float(left[0]) / slowest

    def _finish_step(self, span_s: float) -> None:
        wave = self._waves[0]
        carried = link_rates(wave.rows[wave.active], wave.left_bits[wave.active], len(self.link_bits))
        self._recorder.add(self.now_s, span_s, carried)
        self.link_bits += carried
        self.now_s += span_s
        wave.complete(wave.active.copy(), self.now_s)
        self._rates = None

    def _after(self) -> None:
        ended = [w for w in self._waves if w.done]
        if ended:
            self._waves = [w for w in self._waves if not w.done]
            self._forget()
            for wave in ended:
                wave.on_end(wave)
        while self._timers and self._timers[0][0] <= self.now_s:
            heapq.heappop(self._timers)[2]()
            # Whatever it did, the state is no longer what it was.
            self._forget()
        self._leap()

    # --- repetition --------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._moments.clear()
        self._rates = None

    def _leap(self) -> None:
        """Skips whole periods, when the present differs from an earlier moment only in how far everybody is."""
        if not self._waves:
            return
        patterns = [w.pattern() for w in self._waves]
        last, pattern = tuple(p[0] for p in patterns), tuple(p[1] for p in patterns)
        if self._moments and self._moments[-1].last == last:
            return
        before = next((m for m in self._moments if m.pattern == pattern), None)
        if before is not None:
            times = self._times(before, last)
            if times > 0:
                self._skip(before, last, times)
                return
        self._moments.append(_Moment(self.now_s, pattern, last, self.link_bits.copy()))

    def _times(self, before: _Moment, last: tuple[int, ...]) -> int:
        advances = [now - then for now, then in zip(last, before.last, strict=True)]
        period_s = self.now_s - before.now_s
        if min(advances) < 1 or period_s <= 0:
            return 0
        until_timer = (self.next_timer_s - self.now_s) / period_s
        times = min(w.rounds_left(a) for w, a in zip(self._waves, advances, strict=True))
        return times if until_timer == np.inf else min(times, max(int(np.ceil(until_timer)) - 1, 0))

    def _skip(self, before: _Moment, last: tuple[int, ...], times: int) -> None:
        period_s = self.now_s - before.now_s
        carried = (self.link_bits - before.link_bits) * times
        self._recorder.add(self.now_s, period_s * times, carried)
        self.link_bits += carried
        self.now_s += period_s * times
        for wave, now, then in zip(self._waves, last, before.last, strict=True):
            wave.skip((now - then) * times)
        self._forget()


def _stacked(rows: list[LinkRows]) -> LinkRows:
    return np.concatenate(rows) if len(rows) > 1 else rows[0]


def _first_end_s(wave: Wave, goodput: FloatArray) -> float:
    """Seconds until the first active lane has sent its segment; infinity when none moves."""
    if not len(goodput):
        return float(np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where(np.isinf(goodput), 0.0, wave.left_bits[wave.active] / goodput)
    return float(np.nanmin(needed, initial=np.inf))
