"""Recursive halving and doubling: partners at growing distances exchange ever smaller, then ever larger parts.

Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH" (2005). With P = 2^k
ranks a reduce-scatter by halving sends S/2, S/4, ... S/P from every rank, an all-gather by doubling the same backwards,
an all-reduce both: 2 (P-1)/P S per rank in 2 k steps. An all-reduce of other numbers of ranks first folds the surplus:
each of the first N - P even ranks gives all S to its right neighbour, and gets the result back at the end.
"""

from collections.abc import Iterator

from controller.jobs.collective import Algorithm, Operation
from controller.jobs.edge import Edge
from controller.jobs.ring import chunk


def halving_doubling_edges(operation: Operation, order: tuple[int, ...], share: int) -> Iterator[Edge]:
    """Edges in `order`. ValueError for an operation without halving, or one that needs a power of two and has none."""
    ranks = len(order)
    core = 1 << (ranks.bit_length() - 1)
    surplus = ranks - core
    if operation == Operation.ALL_REDUCE:
        folded = [(order[2 * i], order[2 * i + 1]) for i in range(surplus)]
        inner = (*(b for _, b in folded), *order[2 * surplus :])
        first = 1 if surplus else 0
        levels = core.bit_length() - 1
        yield from (Edge(a, b, share) for a, b in folded)
        yield from _halving(inner, share, first)
        yield from _doubling(inner, share, first + levels)
        yield from (Edge(b, a, share, first + 2 * levels) for a, b in folded)
    elif surplus or operation not in (Operation.ALL_GATHER, Operation.REDUCE_SCATTER):
        raise ValueError(f"{operation} of {ranks} ranks knows no {Algorithm.HALVING_DOUBLING}")
    elif operation == Operation.REDUCE_SCATTER:
        yield from _halving(order, share, 0)
    else:
        yield from _doubling(order, share, 0)


def _halving(order: tuple[int, ...], share: int, first: int) -> Iterator[Edge]:
    """The largest part goes to the nearest partner, where a short way is worth most."""
    ranks = len(order)
    part = chunk(share, ranks)
    for level in range(ranks.bit_length() - 1):
        size = part * (ranks >> (level + 1))
        yield from (Edge(order[i], order[i ^ (1 << level)], size, first + level) for i in range(ranks))


def _doubling(order: tuple[int, ...], share: int, first: int) -> Iterator[Edge]:
    levels = len(order).bit_length() - 1
    for edge in _halving(order, share, 0):
        yield Edge(edge.src_rank, edge.dst_rank, edge.size_bytes, first + levels - 1 - edge.first_step)
