"""The clockwork of the flow simulator against results that can be worked out by hand."""

from collections.abc import Sequence

import numpy as np
import pytest

from controller.simulation.flows.engine import FlowEngine
from controller.simulation.flows.maxmin import max_min_rates
from controller.simulation.flows.recorder import Recorder
from controller.simulation.flows.wave import Lanes, Pace, Wave

RATE_BPS = 8_000_000.0
CHUNK_BITS = 600_000.0


def lanes(count: int, steps: int, bits: float = CHUNK_BITS, segments: int = 1) -> Lanes:
    """Lane i from server i to the next one of a ring."""
    number = np.arange(count)
    return Lanes(
        flow=number,
        source=number,
        target=(number + 1) % count,
        first=np.zeros(count, dtype=np.int64),
        count=np.full(count, steps * segments),
        segment_bits=np.full(count, bits / segments),
        servers=count,
        segments=segments,
    )


def run(
    rows: Sequence[Sequence[int]], made: Lanes, pace: Pace, capacity_bps: Sequence[float], detail_lanes: int = 8_192
) -> tuple[FlowEngine, Wave]:
    engine = FlowEngine(np.array(capacity_bps), Recorder(range(len(capacity_bps))), detail_lanes)
    ended: list[Wave] = []
    engine.start(Wave(made, pace, np.array(rows, dtype=np.int32), 0.0, ended.append))
    assert engine.run()
    return engine, ended[0]


@pytest.mark.parametrize("pace", [Pace.RANK, Pace.TOGETHER])
@pytest.mark.parametrize("ranks", [2, 5, 16])
def test_a_ring_on_links_of_its_own_takes_what_the_formula_says(ranks: int, pace: Pace) -> None:
    steps = 2 * (ranks - 1)
    engine, _ = run([[i] for i in range(ranks)], lanes(ranks, steps), pace, [RATE_BPS] * ranks)
    assert engine.now_s == pytest.approx(steps * CHUNK_BITS / RATE_BPS)
    assert engine.link_bits == pytest.approx([steps * CHUNK_BITS] * ranks)


@pytest.mark.parametrize("pace", list(Pace))
@pytest.mark.parametrize("segments", [1, 8])
def test_three_flows_of_a_ring_on_one_link_hold_all_back(pace: Pace, segments: int) -> None:
    if pace != Pace.RANK:
        segments = 1
    rows = [[i, 8 + max(i - 2, 0)] for i in range(8)]
    engine, _ = run(rows, lanes(8, 14, segments=segments), pace, [RATE_BPS] * 16)
    assert engine.now_s == pytest.approx(3 * 14 * CHUNK_BITS / RATE_BPS)


def test_incast_shares_the_receivers_link() -> None:
    engine, wave = run([[i, 9] for i in range(9)], lanes(9, 1), Pace.AT_ONCE, [RATE_BPS] * 10)
    assert wave.finished_s == pytest.approx([9 * CHUNK_BITS / RATE_BPS] * 9)
    assert engine.link_bits[9] == pytest.approx(9 * CHUNK_BITS)


def test_a_dumbbell_gives_the_longer_flow_all_once_the_shorter_is_done() -> None:
    made = Lanes(
        flow=np.arange(2),
        source=np.arange(2),
        target=np.arange(2, 4),
        first=np.zeros(2, dtype=np.int64),
        count=np.ones(2, dtype=np.int64),
        segment_bits=np.array([CHUNK_BITS, 2 * CHUNK_BITS]),
        servers=4,
    )
    _, wave = run([[0, 2], [1, 2]], made, Pace.AT_ONCE, [RATE_BPS] * 3)
    assert wave.finished_s == pytest.approx([2 * CHUNK_BITS / RATE_BPS, 3 * CHUNK_BITS / RATE_BPS])


def test_a_parking_lot_gives_the_long_flow_its_fair_share_on_every_link() -> None:
    hops = 5
    rows = np.full((hops + 1, hops), -1, dtype=np.int32)
    rows[0] = range(hops)
    rows[1:, 0] = range(hops)
    assert max_min_rates(rows, np.full(hops, 10.0)) == pytest.approx([5.0] * (hops + 1))


def test_what_one_flow_cannot_use_the_others_get() -> None:
    rows = np.array([[0, 1], [0, -1], [0, -1]], dtype=np.int32)
    assert max_min_rates(rows, np.array([9.0, 1.0])) == pytest.approx([1.0, 4.0, 4.0])


def test_a_link_that_is_gone_gives_nothing_and_no_link_at_all_gives_everything() -> None:
    rows = np.array([[0, 1], [1, -1], [-1, -1]], dtype=np.int32)
    assert max_min_rates(rows, np.array([0.0, 5.0])).tolist() == [0.0, 5.0, np.inf]


def test_a_rank_waits_for_its_predecessor_only() -> None:
    # Lane 0 is slow; whoever comes later on the chain waits for it, whoever comes before does not.
    made = Lanes(
        flow=np.arange(3),
        source=np.arange(3),
        target=np.arange(1, 4),
        first=np.arange(3),
        count=np.ones(3, dtype=np.int64),
        segment_bits=np.full(3, CHUNK_BITS),
        servers=4,
    )
    _, wave = run([[0], [1], [2]], made, Pace.RANK, [RATE_BPS / 2, RATE_BPS, RATE_BPS])
    assert wave.finished_s == pytest.approx([n * CHUNK_BITS / RATE_BPS for n in (2, 3, 4)])


def test_a_chain_in_many_segments_takes_little_longer_than_one_hop() -> None:
    hops, segments = 4, 100
    made = Lanes(
        flow=np.arange(hops),
        source=np.arange(hops),
        target=np.arange(1, hops + 1),
        first=np.arange(hops) * segments,
        count=np.full(hops, segments),
        segment_bits=np.full(hops, CHUNK_BITS / segments),
        servers=hops + 1,
        segments=segments,
    )
    engine, _ = run([[i] for i in range(hops)], made, Pace.RANK, [RATE_BPS] * hops)
    assert engine.now_s == pytest.approx((1 + (hops - 1) / segments) * CHUNK_BITS / RATE_BPS)


def test_repetition_is_skipped_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[i, 16 + n] for i, n in enumerate([0, 0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11])]
    found = {}
    for leaping in (True, False):
        with monkeypatch.context() as patched:
            if not leaping:
                patched.setattr(FlowEngine, "_leap", lambda self: None)
            found[leaping] = run(rows, lanes(16, 150), Pace.RANK, [RATE_BPS] * 32)
    (quick, quick_wave), (slow, slow_wave) = found[True], found[False]
    assert quick.events < slow.events / 3
    assert quick.now_s == pytest.approx(slow.now_s)
    assert quick_wave.finished_s == pytest.approx(slow_wave.finished_s)
    assert quick.link_bits == pytest.approx(slow.link_bits)


def test_a_step_as_a_whole_takes_as_long_as_looked_at_lane_by_lane() -> None:
    rng = np.random.default_rng(3)
    rows = [[i, 40 + int(n)] for i, n in enumerate(rng.integers(0, 20, 40))]
    whole, _ = run(rows, lanes(40, 6), Pace.TOGETHER, [RATE_BPS] * 60, detail_lanes=1)
    detailed, _ = run(rows, lanes(40, 6), Pace.TOGETHER, [RATE_BPS] * 60)
    assert whole.events < detailed.events
    assert whole.now_s == pytest.approx(detailed.now_s)
    assert whole.link_bits == pytest.approx(detailed.link_bits)


def test_lanes_without_capacity_are_told_from_lanes_that_end() -> None:
    engine = FlowEngine(np.array([0.0]), Recorder([]))
    engine.start(Wave(lanes(1, 1), Pace.AT_ONCE, np.array([[0]], dtype=np.int32), 0.0, lambda _wave: None))
    assert not engine.run()


def test_bins_widen_and_lose_nothing() -> None:
    recorder = Recorder([0], bins=4, first_bin_s=1.0)
    recorder.add(0.0, 2.0, np.array([20.0]))
    recorder.add(3.0, 4.0, np.array([40.0]))
    assert recorder.bin_s == 2.0
    assert recorder.rates_bps()[:, 0] == pytest.approx([10.0, 5.0, 10.0, 5.0])
