"""Rail-aware algorithms: the ranks of one server exchange over its own bus, and each speaks to its peers only.

With L ranks on each of H servers, rail j is the j-th rank of every server; on a rail-optimised fabric all of one rail
hang on one leaf. A reduce-scatter inside each server leaves a rank with S/L; the rails then run the operation as a ring
among H ranks with S/L bytes, and the servers gather. An all-to-all first hands data to the local rank of the right rail
(as NCCL's PXN does), which then sends L ranks' worth, L S/N bytes, to its peer on every other server. What moves inside
a server is not listed: it never meets the fabric.
"""

from collections.abc import Iterator

from controller.jobs.collective import Algorithm, Operation
from controller.jobs.edge import Edge
from controller.jobs.ring import chunk, ring_edges

_RINGS = (Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER)


def hierarchical_edges(operation: Operation, order: tuple[int, ...], share: int, ranks_per_host: int) -> Iterator[Edge]:
    """Edges of every rail in `order`. ValueError for an operation that knows no hierarchy."""
    for rail in rails(order, ranks_per_host):
        if operation in _RINGS:
            yield from ring_edges(operation, rail, chunk(share, ranks_per_host))
        elif operation == Operation.ALL_TO_ALL:
            part = ranks_per_host * chunk(share, len(order))
            servers = len(rail)
            for i in range(servers):
                yield from (Edge(rail[i], rail[(i + n) % servers], part, n - 1) for n in range(1, servers))
        else:
            raise ValueError(f"{operation} knows no {Algorithm.HIERARCHICAL}")


def rails(order: tuple[int, ...], ranks_per_host: int) -> list[tuple[int, ...]]:
    """Rail j: the j-th rank of each server, in the order given. Consecutive ranks share a server."""
    return [tuple(rank for rank in order if rank % ranks_per_host == j) for j in range(ranks_per_host)]
