"""The candidate paths of each pair of leaves as arrays of link numbers, whatever form the problem gives them in.

Decides nothing. Fabrics of two and of three tiers keep the structure that `fabric` knows; a plain mapping that
describes two tiers is recognised; anything else (arbitrary subsets) is listed path by path.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from controller.fabric.model import Path, PortRef
from controller.fabric.paths import ABSENT, IntArray, Pair, TwoTierPaths
from controller.fabric.three_tiers import ThreeTierPaths

BoolArray = npt.NDArray[np.bool_]


class Routes(Protocol):
    """Numbered links and, for each pair, its paths as rows of link numbers, filled up with ABSENT."""

    @property
    def ports(self) -> Sequence[PortRef]: ...

    @property
    def index(self) -> Mapping[PortRef, int]: ...

    def choices(self, pair: Pair) -> IntArray:
        """Shape (paths, hops). Raises KeyError for a pair that the fabric does not know."""
        ...

    def joins(self, pair: Pair) -> bool:
        """Whether the pair has any path; False for a pair that the fabric does not know."""
        ...

    def row_of(self, pair: Pair, path: Path) -> tuple[int, ...] | None:
        """The path's row among the choices, or None when it is not live."""
        ...

    def which_join(self, pairs: Sequence[Pair]) -> BoolArray:
        """`joins` of each pair."""
        ...

    def links(self, pairs: Collection[Pair]) -> IntArray:
        """Every link on a path of these pairs, once; structured fabrics may add links of the same switches."""
        ...


class ListedRoutes:
    """Routes of a plain mapping; only for `pairs`."""

    def __init__(self, paths: Mapping[Pair, tuple[Path, ...]], pairs: Iterable[Pair]) -> None:
        self._paths = {pair: paths.get(pair, ()) for pair in pairs}
        self.ports = sorted({port for listed in self._paths.values() for path in listed for port in path})
        self.index = {port: i for i, port in enumerate(self.ports)}
        self._hops = max((len(path) for listed in self._paths.values() for path in listed), default=0)

    def choices(self, pair: Pair) -> IntArray:
        listed = self._paths[pair]
        rows = np.full((len(listed), self._hops), ABSENT, dtype=np.intp)
        for row, path in zip(rows, listed, strict=True):
            row[: len(path)] = [self.index[port] for port in path]
        return rows

    def joins(self, pair: Pair) -> bool:
        return bool(self._paths[pair])

    def which_join(self, pairs: Sequence[Pair]) -> BoolArray:
        return np.array([self.joins(pair) for pair in pairs], dtype=np.bool_)

    def row_of(self, pair: Pair, path: Path) -> tuple[int, ...] | None:
        if path not in self._paths[pair]:
            return None
        return (*(self.index[port] for port in path), *(ABSENT,) * (self._hops - len(path)))

    def links(self, pairs: Collection[Pair]) -> IntArray:
        every = [self.choices(pair).ravel() for pair in pairs]
        found: IntArray = np.unique(np.concatenate(every)) if every else np.empty(0, dtype=np.intp)
        live: IntArray = found[found != ABSENT]
        return live


class TwoTierRoutes:
    """Routes of a two-tier fabric, whose tables `table` holds."""

    def __init__(self, table: TwoTierPaths) -> None:
        self.table = table
        self.ports, self.index = table.ports, table.index
        self.choices, self.joins, self.row_of = table.choices, table.joins, table.row_of

    def which_join(self, pairs: Sequence[Pair]) -> BoolArray:
        return _which_join(self.table, pairs)

    def links(self, pairs: Collection[Pair]) -> IntArray:
        sources, destinations = _ends(self.table.row, pairs)
        found: IntArray = np.concatenate((self.table.up[sources].ravel(), self.table.down[destinations].ravel()))
        live: IntArray = found[found != ABSENT]
        return live


class ThreeTierRoutes:
    """Routes of a three-tier fabric, whose tables `table` holds."""

    def __init__(self, table: ThreeTierPaths) -> None:
        self.table = table
        self.ports, self.index = table.ports, table.index
        self.choices, self.joins, self.row_of = table.choices, table.joins, table.row_of

    def which_join(self, pairs: Sequence[Pair]) -> BoolArray:
        return _which_join(self.table, pairs)

    def links(self, pairs: Collection[Pair]) -> IntArray:
        sources, destinations = _ends(self.table.row, pairs)
        low, high = self.table.low, self.table.high
        tables = (low.up[sources], low.down[destinations], high.up, high.down)
        found: IntArray = np.concatenate([table.ravel() for table in tables])
        live: IntArray = found[found != ABSENT]
        return live


def leaf_rows(row: Mapping[int, int], pairs: Sequence[Pair]) -> tuple[IntArray, IntArray]:
    """Rows of the leaves that each pair starts from and ends at. KeyError for a leaf that the fabric does not know."""
    return (
        np.array([row[source] for source, _ in pairs], dtype=np.intp),
        np.array([row[destination] for _, destination in pairs], dtype=np.intp),
    )


def _which_join(table: TwoTierPaths | ThreeTierPaths, pairs: Sequence[Pair]) -> BoolArray:
    try:
        source, destination = leaf_rows(table.row, pairs)
    except KeyError:
        return np.array([table.joins(pair) for pair in pairs], dtype=np.bool_)
    found: BoolArray = table.joined[source, destination] & (source != destination)
    return found


def _ends(row: Mapping[int, int], pairs: Collection[Pair]) -> tuple[list[int], list[int]]:
    """Rows of the leaves that the pairs start from, and of those they end at; those unknown to the fabric left out."""
    sides = ({pair[side] for pair in pairs} for side in (0, 1))
    sources, destinations = (sorted(row[leaf] for leaf in side if leaf in row) for side in sides)
    return sources, destinations


def routes_for(paths: Mapping[Pair, tuple[Path, ...]], pairs: Iterable[Pair]) -> Routes:
    """The most structured form that says exactly what `paths` says about `pairs`."""
    if isinstance(paths, TwoTierPaths):
        return TwoTierRoutes(paths)
    if isinstance(paths, ThreeTierPaths):
        return ThreeTierRoutes(paths)
    wanted = sorted(set(pairs))
    found = _as_two_tier(paths, wanted)
    return TwoTierRoutes(found) if found is not None else ListedRoutes(paths, wanted)


def _as_two_tier(paths: Mapping[Pair, tuple[Path, ...]], pairs: Sequence[Pair]) -> TwoTierPaths | None:
    """None when some pair's paths are not *all* the ways up to a spine and down from it."""
    uplinks: dict[PortRef, int] = {}
    downlinks: dict[PortRef, int] = {}
    for source, destination in pairs:
        for path in paths.get((source, destination), ()):
            if len(path) != 2 or path[0].dpid != source or source == destination:
                return None
            up, down = path
            if uplinks.setdefault(up, down.dpid) != down.dpid or downlinks.setdefault(down, destination) != destination:
                return None
    # A switch that is a leaf here and a spine there is no two-tier fabric.
    if {port.dpid for port in uplinks} & {port.dpid for port in downlinks}:
        return None
    found = TwoTierPaths(uplinks, downlinks, (leaf for pair in pairs for leaf in pair))
    complete = all(a == b or len(found.choices((a, b))) == len(set(paths.get((a, b), ()))) for a, b in pairs)
    return found if complete else None
