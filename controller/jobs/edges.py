"""Who sends how much to whom in one run of a collective, rank by rank: chooses the algorithm, divides among channels.

The amounts are those of the published formulas, cited where each algorithm is written (`ring`, `tree`,
`halving_doubling`, `hierarchical`). S is divided among the channels to the byte; a channel's share is divided into
chunks of equal, rounded-up size, as padded buffers are. So the edges of a ring carry exactly the same (which is what
exact placement builds on), never less than the formula and less than 2 N bytes more per channel. Python's integers
have no width: sizes beyond 2^32 and sums beyond 2^63 are exact.
"""

from collections.abc import Iterator

from controller.jobs.collective import Algorithm, Collective, Operation
from controller.jobs.edge import Edge
from controller.jobs.halving_doubling import halving_doubling_edges
from controller.jobs.hierarchical import hierarchical_edges
from controller.jobs.ring import direct_edges, ring_edges
from controller.jobs.tree import tree_edges

__all__ = ["SUPPORTED", "Edge", "channel_edges", "edge_count", "edges"]

_KNOWN = {
    Operation.ALL_REDUCE: (Algorithm.RING, Algorithm.TREE, Algorithm.HALVING_DOUBLING, Algorithm.HIERARCHICAL),
    Operation.ALL_GATHER: (Algorithm.RING, Algorithm.HALVING_DOUBLING, Algorithm.HIERARCHICAL),
    Operation.REDUCE_SCATTER: (Algorithm.RING, Algorithm.HALVING_DOUBLING, Algorithm.HIERARCHICAL),
    Operation.BROADCAST: (Algorithm.RING, Algorithm.TREE),
    Operation.REDUCE: (Algorithm.RING, Algorithm.TREE),
    Operation.ALL_TO_ALL: (Algorithm.DIRECT, Algorithm.HIERARCHICAL),
    Operation.SEND_RECV: (Algorithm.RING, Algorithm.DIRECT),
}
SUPPORTED = frozenset((operation, algorithm) for operation, known in _KNOWN.items() for algorithm in known)


def edges(collective: Collective) -> Iterator[Edge]:
    """Every edge of every channel. ValueError when the operation is not supported with the algorithm."""
    for channel in channel_edges(collective):
        yield from channel


def channel_edges(collective: Collective) -> Iterator[Iterator[Edge]]:
    """The same, channel by channel: two edges of one channel between the same ranks share a connection."""
    operation, algorithm = collective.operation, collective.algorithm
    if (operation, algorithm) not in SUPPORTED:
        raise ValueError(f"operation {operation} is not supported with algorithm {algorithm}")
    rings = collective.rings or (tuple(range(len(collective.ranks))),)
    for channel, order in enumerate(rings):
        share = collective.size_bytes // len(rings) + (channel < collective.size_bytes % len(rings))
        yield _of_channel(collective, order, share)


def _of_channel(collective: Collective, order: tuple[int, ...], share: int) -> Iterator[Edge]:
    operation = collective.operation
    match collective.algorithm:
        case Algorithm.RING:
            return ring_edges(operation, order, share)
        case Algorithm.DIRECT:
            return direct_edges(operation, order, share)
        case Algorithm.TREE:
            return tree_edges(operation, order, share, max(collective.ranks_per_host, 1))
        case Algorithm.HALVING_DOUBLING:
            return halving_doubling_edges(operation, order, share)
        case Algorithm.HIERARCHICAL:
            return hierarchical_edges(operation, order, share, max(collective.ranks_per_host, 1))


def edge_count(collective: Collective) -> int:
    """How many edges `edges` yields, at most, without making them."""
    ranks, channels = len(collective.ranks), max(len(collective.rings), 1)
    if collective.operation == Operation.ALL_TO_ALL:
        on_rail = ranks // max(collective.ranks_per_host, 1)
        peers = on_rail if collective.algorithm == Algorithm.HIERARCHICAL else ranks
        return channels * ranks * (peers - 1)
    per_rank = {Algorithm.TREE: 4, Algorithm.HALVING_DOUBLING: 2 * max(ranks.bit_length(), 1)}
    return channels * ranks * per_rank.get(collective.algorithm, 1)
