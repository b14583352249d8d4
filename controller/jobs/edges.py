"""Who sends how much to whom in one run of a collective, rank by rank.

The amounts are those behind the bus-bandwidth factors of NCCL's own benchmark (nccl-tests, doc/PERFORMANCE.md), for N
ranks and a buffer of S bytes: a ring all-reduce sends 2 (N-1)/N S over every edge of the ring, all-gather and
reduce-scatter (N-1)/N S, a broadcast S; a direct all-to-all S/N for every ordered pair; send-recv S. S is divided among
the channels to the byte; a channel's share is divided into N chunks of equal, rounded-up size, as padded buffers are.
So the edges of a ring carry exactly the same (which is what exact placement builds on), never less than the formula and
less than 2 N bytes more per channel.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from controller.jobs.collective import Algorithm, Collective, Operation

SUPPORTED = frozenset(
    {
        (Operation.ALL_REDUCE, Algorithm.RING),
        (Operation.ALL_GATHER, Algorithm.RING),
        (Operation.REDUCE_SCATTER, Algorithm.RING),
        (Operation.BROADCAST, Algorithm.RING),
        (Operation.SEND_RECV, Algorithm.RING),
        (Operation.SEND_RECV, Algorithm.DIRECT),
        (Operation.ALL_TO_ALL, Algorithm.DIRECT),
    }
)


@dataclass(frozen=True, slots=True)
class Edge:
    """What one channel sends from one rank to another."""

    src_rank: int
    dst_rank: int
    size_bytes: int


def edges(collective: Collective) -> Iterator[Edge]:
    """Every edge of every channel. ValueError when the operation is not supported with the algorithm."""
    pair = (collective.operation, collective.algorithm)
    if pair not in SUPPORTED:
        raise ValueError(f"operation {pair[0]} is not supported with algorithm {pair[1]}")
    ranks = len(collective.ranks)
    rings = collective.rings or (tuple(range(ranks)),)
    for channel, ring in enumerate(rings):
        share = collective.size_bytes // len(rings) + (channel < collective.size_bytes % len(rings))
        if collective.operation == Operation.ALL_TO_ALL:
            yield from (Edge(a, b, _chunk(share, ranks)) for a in ring for b in ring if a != b)
        else:
            yield from (Edge(a, b, _on_ring(collective.operation, share, ranks)) for a, b in _hops(collective, ring))


def edge_count(collective: Collective) -> int:
    """How many edges `edges` yields, at most, without making them."""
    ranks, channels = len(collective.ranks), max(len(collective.rings), 1)
    return channels * ranks * (ranks - 1 if collective.operation == Operation.ALL_TO_ALL else 1)


def _hops(collective: Collective, ring: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Neighbours in order. A broadcast starts at rank 0 and stops before it; a direct send-recv (pipeline stages) does
    not close the ring, a ring send-recv does, as in nccl-tests."""
    following = (*ring[1:], ring[0])
    for a, b in zip(ring, following, strict=True):
        ends_at_root = collective.operation == Operation.BROADCAST and b == 0
        closes = collective.algorithm == Algorithm.DIRECT and b == ring[0]
        if not ends_at_root and not closes:
            yield a, b


def _on_ring(operation: Operation, share: int, ranks: int) -> int:
    if operation == Operation.ALL_REDUCE:
        return 2 * (ranks - 1) * _chunk(share, ranks)
    if operation in (Operation.ALL_GATHER, Operation.REDUCE_SCATTER):
        return (ranks - 1) * _chunk(share, ranks)
    return share


def _chunk(share: int, ranks: int) -> int:
    return -(-share // ranks)
