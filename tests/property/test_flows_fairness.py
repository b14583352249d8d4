"""Rates are max-min fair, no link is over capacity, and every bit that is sent arrives once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.simulation.flows.engine import FlowEngine
from controller.simulation.flows.maxmin import LinkRows, link_rates, max_min_rates
from controller.simulation.flows.recorder import Recorder
from controller.simulation.flows.wave import Lanes, Pace, Wave

_HOPS = 3


@st.composite
def networks(draw: st.DrawFn, least: int = 0) -> tuple[LinkRows, np.ndarray]:
    """Flows over up to three of up to six links."""
    count = draw(st.integers(1, 6))
    capacity = [float(draw(st.sampled_from([least, 1, 1, 2, 3, 7, 10]))) for _ in range(count)]
    flow = st.lists(st.integers(0, count - 1), min_size=1, max_size=_HOPS, unique=True)
    flows = draw(st.lists(flow, min_size=1, max_size=12))
    rows = np.array([links + [-1] * (_HOPS - len(links)) for links in flows], dtype=np.int32)
    return rows, np.array(capacity)


@settings(max_examples=200, deadline=None)
@given(networks())
def test_every_flow_has_a_full_link_on_which_none_is_faster(network: tuple[LinkRows, np.ndarray]) -> None:
    rows, capacity = network
    rates = max_min_rates(rows, capacity)
    load = link_rates(rows, rates, len(capacity))
    assert (load <= capacity * (1 + 1e-6)).all()
    for i, links in enumerate(rows):
        assert any(
            load[link] >= capacity[link] * (1 - 1e-6)
            and all(rates[i] >= rates[j] * (1 - 1e-6) for j in np.flatnonzero((rows == link).any(axis=1)))
            for link in links[links >= 0]
        )


@settings(max_examples=60, deadline=None)
@given(networks(least=1), st.sampled_from(list(Pace)), st.data())
def test_every_bit_arrives_once_and_no_link_carries_more_than_it_can(
    network: tuple[LinkRows, np.ndarray], pace: Pace, data: st.DataObject
) -> None:
    rows, capacity = network
    count = len(rows)
    small = st.integers(1, 4)
    steps = np.array([1 if pace == Pace.AT_ONCE else data.draw(small) for _ in range(count)])
    bits = np.array([float(data.draw(small)) for _ in range(count)])
    number = np.arange(count)
    lanes = Lanes(number, number, (number + 1) % count, np.zeros(count, dtype=np.int64), steps, bits, count)
    recorder = Recorder(range(len(capacity)))
    engine = FlowEngine(capacity, recorder)
    ended: list[Wave] = []
    engine.start(Wave(lanes, pace, rows, 0.0, ended.append))
    assert engine.run()
    sent = link_rates(rows, steps * bits, len(capacity))
    assert engine.link_bits == pytest.approx(sent)
    assert recorder.bits.sum(axis=0) == pytest.approx(sent)
    assert (recorder.rates_bps() <= capacity * (1 + 1e-6)).all()
    assert np.nanmax(ended[0].finished_s) == pytest.approx(engine.now_s)
    # Nobody can be done before its narrowest link has carried its bits, nor the whole before its fullest link.
    alone = np.array([steps[i] * bits[i] / capacity[links[links >= 0]].min() for i, links in enumerate(rows)])
    assert (ended[0].finished_s >= alone * (1 - 1e-6)).all()
    assert engine.now_s >= (sent / capacity).max() * (1 - 1e-6)
