"""Striping over queue pairs and the ring's orders: arithmetic that must add up."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2] / "mininet"))

from lab_namespace import LabError
from roce_collective import TrafficSettings
from roce_headers import OVERHEAD_BYTES
from roce_probe import evaluate
from roce_striping import Striping
from roce_traffic import ideal_ring_s, packets_of, ring_all_reduce, source_ports

stripings = st.builds(Striping, packets=st.integers(1, 400), queue_pairs=st.integers(1, 17), stripe=st.integers(1, 9))


@given(stripings, st.integers(0, 500))
def test_shares_add_up_to_the_whole(striping: Striping, first: int) -> None:
    shares = [striping.share(q, first) for q in range(striping.queue_pairs)]
    assert sum(shares) == min(first, striping.packets)


@given(stripings)
def test_every_packet_has_exactly_one_place(striping: Striping) -> None:
    places = [
        striping.position(q, packet)
        for q in range(striping.queue_pairs)
        for packet in range(striping.share(q, striping.packets))
    ]
    assert sorted(places) == list(range(striping.packets))


@given(stripings, st.data())
def test_in_order_counts_up_to_the_first_hole(striping: Striping, data: st.DataObject) -> None:
    received = [data.draw(st.integers(0, striping.share(q, striping.packets))) for q in range(striping.queue_pairs)]
    there = {striping.position(q, packet) for q, count in enumerate(received) for packet in range(count)}
    hole = next((g for g in range(striping.packets) if g not in there), striping.packets)
    assert striping.in_order(received) == hole


@given(st.integers(2, 20), st.integers(1, 10**7), st.integers(1, 4))
def test_a_ring_moves_what_the_algorithm_says(ranks: int, size: int, queue_pairs: int) -> None:
    names = [f"h{i}" for i in range(ranks)]
    ring = ring_all_reduce(names, size, queue_pairs=queue_pairs)
    assert [(c.source, c.target) for c in ring] == list(zip(names, names[1:] + names[:1], strict=True))
    for i, connection in enumerate(ring):
        gate = ring[connection.gate] if connection.gate is not None else None
        assert gate is not None
        assert gate.target == connection.source, f"rank {i} passes on what its predecessor sends"
        assert 2 * (ranks - 1) * size / ranks <= connection.size_bytes < 2 * (ranks - 1) * (size / ranks + 1)
        assert packets_of(connection, 1024) % (2 * (ranks - 1)) == 0
        assert len(set(connection.udp_source_ports)) == queue_pairs


def test_known_ports_are_used_and_others_follow_the_seed() -> None:
    ring = ring_all_reduce(["a", "b", "c"], 3000, ports={(0, 1): (50001, 50002)}, queue_pairs=2, seed=7)
    assert ring[0].udp_source_ports == (50001, 50002)
    assert ring[1].udp_source_ports == source_ports("b", "c", 2, 7)
    assert source_ports("b", "c", 2, 7) != source_ports("b", "c", 2, 8)


def test_a_ring_of_one_is_refused() -> None:
    with pytest.raises(LabError, match="two ranks"):
        ring_all_reduce(["a"], 1000)


def test_the_ideal_is_bytes_over_rate() -> None:
    assert ideal_ring_s(4, 1_024_000, 8_000_000) == pytest.approx(1.5 * 1000 * (1024 + OVERHEAD_BYTES) / 1_000_000)


def test_a_probe_counts_losses_duplicates_and_gaps() -> None:
    arrivals = [(0, 0.0, 0.001), (1, 0.1, 0.101), (5, 0.5, 0.501), (4, 0.4, 0.502), (5, 0.5, 0.503)]
    result = evaluate(arrivals, sent=8)
    assert (result.received, result.lost, result.duplicated, result.reordered) == (4, 4, 1, 1)
    assert result.longest_gap_packets == 2
    assert result.longest_gap_s == pytest.approx(0.4)


def test_a_probe_of_which_nothing_arrives_is_all_lost() -> None:
    result = evaluate([], sent=10)
    assert (result.lost, result.longest_gap_packets) == (10, 10)


@pytest.mark.parametrize(("queue_pairs", "share", "per_ack"), [(1, 32, 4), (4, 8, 4), (16, 2, 2), (64, 2, 2)])
def test_queue_pairs_share_their_connections_window(queue_pairs: int, share: int, per_ack: int) -> None:
    """None stands still for want of an answer, and all together put no more into queues than one would."""
    settings = TrafficSettings()
    assert settings.share_packets(queue_pairs) == share
    assert settings.packets_per_ack(queue_pairs) == per_ack


def test_a_window_is_never_more_than_acknowledgements_can_tell() -> None:
    assert TrafficSettings(window_packets=1000).share_packets(1) == 64
