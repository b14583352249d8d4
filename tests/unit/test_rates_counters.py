"""Counters that lie: unknown, started again, in a hurry. A rate is believable or None."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.health.rates import SMOOTHING_S, Sample, rate_bps, smoothed


def test_a_rate_is_bits_over_the_controllers_own_time() -> None:
    # The switch's duration is not used: it counts whole seconds.
    assert rate_bps(Sample(10.0, 1_000, 5), Sample(12.5, 3_500, 5)) == 8 * 2_500 / 2.5
    assert rate_bps(Sample(10.0, 1_000), Sample(11.0, 1_000)) == 0.0


@pytest.mark.parametrize(
    ("previous", "current"),
    [
        (Sample(0.0, None), Sample(1.0, 5)),
        (Sample(0.0, 5), Sample(1.0, None)),
        # 10 GB, then 1 kB: the counter started again.
        (Sample(0.0, 10_000_000_000, 50), Sample(1.0, 1_000, 51)),
        # It started again and has overtaken its old value.
        (Sample(0.0, 1_000, 50), Sample(1.0, 2_000, 1)),
        (Sample(1.0, 5), Sample(1.0, 6)),
        (Sample(1.0, 5), Sample(0.5, 6)),
    ],
)
def test_what_cannot_be_told_is_unknown(previous: Sample, current: Sample) -> None:
    assert rate_bps(previous, current) is None


def test_the_sample_after_a_restart_counts_again() -> None:
    assert rate_bps(Sample(1.0, 1_000, 1), Sample(2.0, 2_000, 2)) == 8_000


def test_a_little_above_line_rate_is_jitter_and_far_above_is_a_jump() -> None:
    def measured(count: int) -> float | None:
        return rate_bps(Sample(0.0, 0), Sample(1.0, count), line_rate_bps=8_000)

    assert measured(999) == 7_992
    assert measured(1_100) == 8_000
    assert measured(1_251) is None


samples = st.builds(Sample, st.floats(0, 1e6), st.none() | st.integers(0, 2**64 - 2), st.integers(0, 2**32 - 1))


@given(samples, samples, st.integers(0, 10**12))
def test_never_negative_and_never_above_line_rate(previous: Sample, current: Sample, line_rate_bps: int) -> None:
    rate = rate_bps(previous, current, line_rate_bps)
    assert rate is None or rate >= 0
    assert rate is None or not line_rate_bps or rate <= line_rate_bps


def test_the_average_follows_time_not_the_number_of_samples() -> None:
    assert smoothed(None, 5.0, 1.0) == 5.0
    often = 100.0
    for _ in range(10):
        often = smoothed(often, 0.0, SMOOTHING_S / 10)
    assert often == pytest.approx(smoothed(100.0, 0.0, SMOOTHING_S))
    assert often == pytest.approx(100.0 / 2.718281828)
