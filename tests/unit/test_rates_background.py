"""Background: learnt on ports without flows of ours, kept and faded on the others."""

import pytest

from controller.core.events import PortCounters
from controller.fabric.model import PortRef
from controller.health.rates import BACKGROUND_HALF_LIFE_S, RateTracker

FREE, OURS = PortRef(1, 1), PortRef(1, 2)


class Switch:
    """Switch 1, whose counters advance at given rates; statistics are read every second."""

    def __init__(self) -> None:
        self.tracker = RateTracker()
        self.now_s = 100.0
        self._sent = {FREE.port_no: 0.0, OURS.port_no: 0.0}
        self._read()

    def run(self, seconds: int, free_bps: float = 0, ours_bps: float = 0) -> None:
        for _ in range(seconds):
            self.now_s += 1
            self._sent[FREE.port_no] += free_bps / 8
            self._sent[OURS.port_no] += ours_bps / 8
            self._read()

    def _read(self) -> None:
        counters = {n: PortCounters(rx_bytes=None, tx_bytes=int(sent)) for n, sent in self._sent.items()}
        self.tracker.take(1, counters, self.now_s)


def test_rates_are_those_of_the_latest_interval() -> None:
    switch = Switch()
    assert switch.tracker.rate_bps(FREE) is None
    switch.run(3, free_bps=8_000)
    switch.run(1, free_bps=800)
    assert switch.tracker.rate_bps(FREE) == 800
    assert switch.tracker.rate_bps(OURS) == 0
    assert switch.tracker.rate_bps(PortRef(9, 9)) is None


def test_background_is_what_is_measured_where_nothing_of_ours_is() -> None:
    switch = Switch()
    switch.run(5, free_bps=8_000, ours_bps=80_000)
    assert switch.tracker.background_bps({OURS}, switch.now_s) == {FREE: 8_000}


def test_what_ours_send_is_never_learnt() -> None:
    switch = Switch()
    switch.run(5, ours_bps=8_000)
    assert switch.tracker.background_bps(set(), switch.now_s)[OURS] == 8_000
    # Our flow comes, sends ten times as much, and idles: the last honest estimate stands, and fades.
    switch.run(60, ours_bps=80_000)
    faded = switch.tracker.background_bps({OURS}, switch.now_s)[OURS]
    assert faded == pytest.approx(8_000 * 0.5 ** (60 / BACKGROUND_HALF_LIFE_S))
    # It goes. What it sent in its last interval is not taken for background either.
    switch.tracker.background_bps({OURS}, switch.now_s)
    switch.run(3, ours_bps=800)
    assert switch.tracker.background_bps(set(), switch.now_s)[OURS] == pytest.approx(800)


def test_an_interval_that_began_before_paths_changed_is_left_out() -> None:
    switch = Switch()
    switch.run(3, ours_bps=80_000)
    switch.now_s += 0.5
    switch.tracker.background_bps({OURS}, switch.now_s)
    switch.now_s -= 0.5
    # Half of this interval was before the change.
    switch.run(1, ours_bps=80_000)
    assert switch.tracker.background_bps(set(), switch.now_s) == {}


def test_without_new_samples_the_last_estimate_stands() -> None:
    switch = Switch()
    switch.run(5, free_bps=8_000)
    first = switch.tracker.background_bps(set(), switch.now_s)
    assert switch.tracker.background_bps(set(), switch.now_s) == first == {FREE: 8_000}


def test_unknown_counters_leave_nothing_known() -> None:
    switch = Switch()
    switch.run(2, free_bps=8_000)
    switch.tracker.take(1, {FREE.port_no: PortCounters(rx_bytes=None, tx_bytes=None)}, switch.now_s + 1)
    assert switch.tracker.rate_bps(FREE) is None


def test_line_rates_are_respected_when_given() -> None:
    tracker = RateTracker()
    for now_s, count in ((0.0, 0), (1.0, 1_100), (2.0, 90_000)):
        tracker.take(1, {1: PortCounters(rx_bytes=None, tx_bytes=count)}, now_s, {FREE: 8_000})
        if now_s == 1.0:
            assert tracker.rate_bps(FREE) == 8_000
    assert tracker.rate_bps(FREE) is None
