"""Algorithms in which every rank speaks to its neighbours on a ring, or to everybody in turn.

For N ranks and a channel's share of S bytes (nccl-tests, doc/PERFORMANCE.md): all-reduce sends 2 (N-1)/N S over every
edge in 2 (N-1) steps, all-gather and reduce-scatter (N-1)/N S in N-1 steps, broadcast and reduce S along a chain,
a direct all-to-all S/N for every ordered pair, send-recv S. Chunks of S/N are rounded up, as padded buffers are.
"""

from collections.abc import Iterator
from itertools import pairwise

from controller.jobs.collective import Algorithm, Operation
from controller.jobs.edge import Edge

# Rank 0 is the root of broadcast and reduce, as in nccl-tests by default.
ROOT = 0


def ring_edges(operation: Operation, order: tuple[int, ...], share: int) -> Iterator[Edge]:
    """Edges between neighbours in `order`. ValueError for an operation that knows no ring."""
    ranks = len(order)
    match operation:
        case Operation.ALL_REDUCE:
            yield from _around(order, 2 * (ranks - 1), chunk(share, ranks))
        case Operation.ALL_GATHER | Operation.REDUCE_SCATTER:
            yield from _around(order, ranks - 1, chunk(share, ranks))
        case Operation.SEND_RECV:
            yield from _around(order, 1, share)
        case Operation.BROADCAST:
            yield from (Edge(a, b, share, n) for n, (a, b) in enumerate(pairwise(_from_root(order))))
        case Operation.REDUCE:
            start, *rest = _from_root(order)
            yield from (Edge(a, b, share, n) for n, (a, b) in enumerate(pairwise((*rest, start))))
        case _:
            raise ValueError(f"{operation} knows no {Algorithm.RING}")


def direct_edges(operation: Operation, order: tuple[int, ...], share: int) -> Iterator[Edge]:
    """All-to-all, in step n to the rank n + 1 places on; or pipeline stages, each to the next. ValueError otherwise."""
    ranks = len(order)
    if operation == Operation.SEND_RECV:
        yield from (Edge(a, b, share) for a, b in pairwise(order))
    elif operation == Operation.ALL_TO_ALL:
        part = chunk(share, ranks)
        yield from (Edge(order[i], order[(i + n) % ranks], part, n - 1) for i in range(ranks) for n in range(1, ranks))
    else:
        raise ValueError(f"{operation} knows no {Algorithm.DIRECT}")


def chunk(share: int, parts: int) -> int:
    """Bytes of one of `parts` equal chunks, the last of which is filled up."""
    return -(-share // parts)


def _around(order: tuple[int, ...], steps: int, part: int) -> Iterator[Edge]:
    for a, b in zip(order, (*order[1:], order[0]), strict=True):
        yield Edge(a, b, steps * part, steps=steps)


def _from_root(order: tuple[int, ...]) -> tuple[int, ...]:
    at = order.index(ROOT)
    return order[at:] + order[:at]
