"""Brings chosen edges of a coloured bipartite multigraph to chosen colours, without spoiling the colouring.

A Kempe chain is all that hangs together in two colours; swapping the two along it keeps neighbours different. One edge,
or any number at one vertex, always gets its colour so; in general the question is NP-complete (precolouring extension),
so an edge whose chains would undo a settled one may stay as it is. Effort is counted in edges walked.
"""

from collections.abc import Iterator, Mapping

from controller.fabric.paths import IntArray

EDGES_WALKED = 200_000


def settle(
    left: IntArray,
    right: IntArray,
    colour: IntArray,
    colours: int,
    wanted: Mapping[int, int],
    effort: int = EDGES_WALKED,
) -> IntArray:
    """A proper colouring like `colour` in which edge e has the colour `wanted[e]`, for as many of them as it can."""
    if not wanted:
        return colour
    chains = _Chains(left, right, colour, colours, effort)
    for edge, aim in wanted.items():
        chains.settle(edge, aim)
    result = colour.copy()
    result[:] = chains.colour
    return result


class _Chains:
    def __init__(self, left: IntArray, right: IntArray, colour: IntArray, colours: int, effort: int) -> None:
        self.colour: list[int] = colour.tolist()
        self._colours = colours
        self._effort = effort
        self._settled: set[int] = set()
        self._ends: tuple[list[int], list[int]] = (left.tolist(), right.tolist())
        # By side: vertex * colours + colour -> the edge that has that colour there.
        self._at: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for edge in range(len(self.colour)):
            self._enter(edge)

    def settle(self, edge: int, aim: int) -> None:
        """Swaps one chain, or two by way of a third colour; leaves everything as it is when neither helps."""
        if self.colour[edge] == aim or self._swap(edge, aim):
            self._settled.add(edge)
            return
        for way in range(self._colours):
            before = self.colour[edge]
            if self._effort <= 0:
                return
            if way in (before, aim) or not self._swap(edge, way):
                continue
            if self._swap(edge, aim):
                self._settled.add(edge)
                return
            self._swap(edge, before)

    def _swap(self, edge: int, other: int) -> bool:
        """Gives `edge` the colour `other`, by its chain; False when a settled edge is on it."""
        chain = self._chain(edge, other)
        self._effort -= len(chain)
        if not self._settled.isdisjoint(chain):
            return False
        both = self.colour[edge] + other
        for member in chain:
            self._leave(member)
        for member in chain:
            self.colour[member] = both - self.colour[member]
            self._enter(member)
        return True

    def _chain(self, edge: int, other: int) -> list[int]:
        result = [edge]
        for side in (0, 1):
            for member in self._walk(edge, other, side):
                if member == edge:
                    return result
                result.append(member)
        return result

    def _walk(self, edge: int, other: int, side: int) -> Iterator[int]:
        """The chain's edges from one end of `edge` on; comes back to `edge` itself when the chain is a ring."""
        mine, member = self.colour[edge], edge
        while True:
            looked_for = other if self.colour[member] == mine else mine
            following = self._at[side].get(self._ends[side][member] * self._colours + looked_for)
            if following is None:
                return
            yield following
            member, side = following, 1 - side

    def _enter(self, edge: int) -> None:
        for side in (0, 1):
            self._at[side][self._ends[side][edge] * self._colours + self.colour[edge]] = edge

    def _leave(self, edge: int) -> None:
        for side in (0, 1):
            del self._at[side][self._ends[side][edge] * self._colours + self.colour[edge]]
