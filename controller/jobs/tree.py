"""Double binary trees: every rank is inside one tree at most and a leaf of the other, so that both fill its link.

Source: Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009). The shape
is NCCL's: a binary tree in which odd places are leaves; the second tree is the first one shifted by one place for an
odd number of ranks, mirrored for an even one. Each tree carries half of the buffer: an all-reduce sends it up and down
every branch, so that all edges together carry 2 (N-1) S and no rank sends or receives more than 2 S; a broadcast or a
reduce carries (N-1) S, and rank 0, which is in neither tree, feeds or drains both.
"""

from collections.abc import Iterator, Sequence

from controller.jobs.collective import Algorithm, Operation
from controller.jobs.edge import Edge
from controller.jobs.ring import ROOT, chunk

Parents = tuple[int | None, ...]


def tree_edges(operation: Operation, order: tuple[int, ...], share: int, ranks_per_host: int = 1) -> Iterator[Edge]:
    """Edges of both trees over the ranks in `order`, or over one rank of each server: inside a server the library
    goes by chain, which never meets the fabric. ValueError for an operation that knows no tree."""
    heads: dict[int, int] = {}
    for rank in order:
        heads.setdefault(rank // ranks_per_host, rank)
    order, root = tuple(heads.values()), heads[ROOT // ranks_per_host]
    half = chunk(share, 2)
    if operation == Operation.ALL_REDUCE:
        for parents in both_trees(len(order)):
            yield from _up_and_down(order, parents, half)
    elif operation in (Operation.BROADCAST, Operation.REDUCE):
        others = tuple(rank for rank in order if rank != root)
        for parents in both_trees(len(others)):
            down = operation == Operation.BROADCAST
            yield from _below_root(root, others, parents, half, down)
    else:
        raise ValueError(f"{operation} knows no {Algorithm.TREE}")


def both_trees(count: int) -> tuple[Parents, Parents]:
    """The parent of each of `count` places in the first and in the second tree; None for the top."""
    first = tuple(_parent(place, count) for place in range(count))
    if count % 2:
        second = tuple(_moved(first[(place - 1) % count], count) for place in range(count))
    else:
        second = tuple(None if (p := first[count - 1 - place]) is None else count - 1 - p for place in range(count))
    return first, second


def _moved(parent: int | None, count: int) -> int | None:
    return None if parent is None else (parent + 1) % count


def _parent(place: int, count: int) -> int | None:
    """Place 0 is the top; another's parent is found by moving its lowest set bit up by one, or off where that is out
    of range."""
    if place == 0:
        return None
    lowest = place & -place
    above = (place ^ lowest) | (lowest << 1)
    return above if above < count else place ^ lowest


def _depths(parents: Parents) -> list[int]:
    depth = [0 if parent is None else -1 for parent in parents]
    for place in range(len(parents)):
        line = []
        at = place
        while depth[at] < 0:
            line.append(at)
            at = parents[at] or 0
        for member in reversed(line):
            depth[member] = depth[parents[member] or 0] + 1
    return depth


def _up_and_down(order: Sequence[int], parents: Parents, size: int) -> Iterator[Edge]:
    depths = _depths(parents)
    deepest = max(depths, default=0)
    for place, parent in enumerate(parents):
        if parent is not None:
            yield Edge(order[place], order[parent], size, deepest - depths[place])
            yield Edge(order[parent], order[place], size, deepest + depths[place] - 1)


def _below_root(root: int, others: Sequence[int], parents: Parents, size: int, down: bool) -> Iterator[Edge]:
    depths = _depths(parents)
    deepest = max(depths, default=0)
    for place, parent in enumerate(parents):
        above = root if parent is None else others[parent]
        if down:
            yield Edge(above, others[place], size, depths[place])
        else:
            yield Edge(others[place], above, size, deepest - depths[place])
