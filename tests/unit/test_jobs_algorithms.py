"""The algorithms one can draw: shapes, steps and bytes against what their papers and NCCL's sources show."""

import pytest

from controller.jobs.collective import Algorithm, Collective, Operation
from controller.jobs.edge import Edge
from controller.jobs.edges import edges
from controller.jobs.hierarchical import rails
from controller.jobs.tree import both_trees

KIB = 1024


def made(operation: Operation, algorithm: Algorithm, ranks: int, size: int, together: int = 1) -> list[Edge]:
    names = tuple(f"h{i}" for i in range(ranks))
    return list(edges(Collective("job", operation, algorithm, names, size, ranks_per_host=together)))


def test_the_first_tree_is_the_one_drawn_in_nccl() -> None:
    """src/graph/trees.cc draws 14 ranks: 0 over 8; 8 over 4 and 12; 4 over 2 and 6; odd ranks are leaves."""
    first, _ = both_trees(14)
    assert first == (None, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 13, 14, 64, 1000])
def test_nobody_is_inside_both_trees(count: int) -> None:
    first, second = both_trees(count)
    for parents in (first, second):
        assert sum(parent is None for parent in parents) == 1
        assert all(list(parents).count(place) <= 2 for place in set(parents))
    inside_first, inside_second = ({p for p in parents if p is not None} for parents in (first, second))
    # Each top has one branch only, so it may be inside the other tree too and still has no more to do than others.
    tops = {first.index(None), second.index(None)}
    assert not (inside_first & inside_second) - tops


def test_a_small_two_tree_all_reduce() -> None:
    """4 ranks: 0-2, 2-1, 2-3 and its mirror image 3-1, 1-2, 1-0; half of the buffer up and down each branch."""
    found = made(Operation.ALL_REDUCE, Algorithm.TREE, 4, 8 * KIB)
    assert {edge.size_bytes for edge in found} == {4 * KIB}
    first = {(e.src_rank, e.dst_rank): e.first_step for e in found[:6]}
    assert first == {(1, 2): 0, (3, 2): 0, (2, 0): 1, (0, 2): 2, (2, 1): 3, (2, 3): 3}
    second = {(e.src_rank, e.dst_rank) for e in found[6:]}
    assert second == {(3 - a, 3 - b) for a, b in first}


def test_the_root_of_a_broadcast_feeds_both_trees() -> None:
    found = made(Operation.BROADCAST, Algorithm.TREE, 6, 100)
    assert sum(edge.size_bytes for edge in found if edge.src_rank == 0) == 100
    for rank in range(1, 6):
        assert sum(edge.size_bytes for edge in found if edge.dst_rank == rank) == 100
    back = made(Operation.REDUCE, Algorithm.TREE, 6, 100)
    assert {(e.dst_rank, e.src_rank, e.size_bytes) for e in back} == {
        (e.src_rank, e.dst_rank, e.size_bytes) for e in found
    }


def test_trees_join_servers_not_ranks() -> None:
    found = made(Operation.ALL_REDUCE, Algorithm.TREE, 16, KIB, together=4)
    assert {edge.src_rank % 4 for edge in found} == {0}
    assert sum(edge.size_bytes for edge in found) == 2 * 3 * KIB


def test_halving_and_doubling_exchange_half_a_quarter_an_eighth_and_back() -> None:
    found = made(Operation.ALL_REDUCE, Algorithm.HALVING_DOUBLING, 8, 8 * KIB)
    mine = sorted((e.first_step, e.dst_rank, e.size_bytes) for e in found if e.src_rank == 0)
    parts = [(0, 1, 4 * KIB), (1, 2, 2 * KIB), (2, 4, KIB), (3, 4, KIB), (4, 2, 2 * KIB), (5, 1, 4 * KIB)]
    assert mine == parts


def test_surplus_ranks_fold_in_first_and_out_last() -> None:
    found = made(Operation.ALL_REDUCE, Algorithm.HALVING_DOUBLING, 6, 4 * KIB)
    surplus = [(e.src_rank, e.dst_rank, e.first_step, e.size_bytes) for e in found if 0 in (e.src_rank, e.dst_rank)]
    assert surplus == [(0, 1, 0, 4 * KIB), (1, 0, 5, 4 * KIB)]
    inner = {e.src_rank for e in found if e.first_step not in (0, 5)}
    assert inner == {1, 3, 4, 5}


def test_a_reduce_ends_at_rank_0() -> None:
    found = made(Operation.REDUCE, Algorithm.RING, 4, KIB)
    assert [(e.src_rank, e.dst_rank, e.first_step) for e in found] == [(1, 2, 0), (2, 3, 1), (3, 0, 2)]


def test_rails_never_meet() -> None:
    """4 servers of 8 ranks: 8 rings of 4 ranks, each with an eighth of the buffer (2 (H-1)/H S/L per edge)."""
    found = made(Operation.ALL_REDUCE, Algorithm.HIERARCHICAL, 32, 64 * KIB, together=8)
    assert len(found) == 32
    assert all(edge.src_rank % 8 == edge.dst_rank % 8 for edge in found)
    assert {edge.size_bytes for edge in found} == {2 * 3 * 64 * KIB // 8 // 4}
    assert {edge.steps for edge in found} == {6}
    assert rails((0, 1, 2, 3), 2) == [(0, 2), (1, 3)]


def test_a_hierarchical_all_to_all_sends_fewer_and_larger_flows() -> None:
    """The same bytes between servers as the direct one, in a quarter of the flows for 4 ranks per server."""
    direct = [
        e for e in made(Operation.ALL_TO_ALL, Algorithm.DIRECT, 16, 16 * KIB) if e.src_rank // 4 != e.dst_rank // 4
    ]
    railed = made(Operation.ALL_TO_ALL, Algorithm.HIERARCHICAL, 16, 16 * KIB, together=4)
    assert sum(e.size_bytes for e in railed) == sum(e.size_bytes for e in direct)
    assert 4 * len(railed) == len(direct)
    assert all(e.src_rank % 4 == e.dst_rank % 4 for e in railed)


def test_a_direct_all_to_all_is_a_permutation_in_every_step() -> None:
    found = made(Operation.ALL_TO_ALL, Algorithm.DIRECT, 5, 5 * KIB)
    for step in range(4):
        now = [e for e in found if e.first_step == step]
        assert {e.src_rank for e in now} == {e.dst_rank for e in now} == set(range(5))
        assert len(now) == 5


def test_what_an_algorithm_cannot_do_is_an_error() -> None:
    with pytest.raises(ValueError, match="all-gather of 6 ranks knows no halving-doubling"):
        made(Operation.ALL_GATHER, Algorithm.HALVING_DOUBLING, 6, KIB)
    with pytest.raises(ValueError, match="operation send-recv is not supported with algorithm tree"):
        made(Operation.SEND_RECV, Algorithm.TREE, 6, KIB)


def test_bytes_do_not_stop_at_64_bits() -> None:
    found = made(Operation.ALL_REDUCE, Algorithm.RING, 4, 2**63)
    assert {edge.size_bytes for edge in found} == {2 * 3 * 2**61}
