"""The candidate paths of each pair of leaves as arrays of link numbers, whatever form the problem gives them in.

Decides nothing. Two-tier fabrics keep the structure that `fabric.paths` knows; a plain mapping that describes one is
recognised; anything else (three tiers, arbitrary subsets) is listed path by path.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from controller.fabric.model import Path, PortRef
from controller.fabric.paths import ABSENT, IntArray, Pair, TwoTierPaths


class Routes(Protocol):
    """Numbered links and, for each pair, its paths as rows of link numbers, filled up with ABSENT."""

    @property
    def ports(self) -> Sequence[PortRef]: ...

    @property
    def index(self) -> Mapping[PortRef, int]: ...

    def choices(self, pair: Pair) -> IntArray:
        """Shape (paths, hops). Raises KeyError for a pair that the fabric does not know."""
        ...

    def is_live(self, pair: Pair, path: Path) -> bool: ...


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

    def is_live(self, pair: Pair, path: Path) -> bool:
        return path in self._paths[pair]


def routes_for(paths: Mapping[Pair, tuple[Path, ...]], pairs: Iterable[Pair]) -> Routes:
    """The most structured form that says exactly what `paths` says about `pairs`."""
    if isinstance(paths, TwoTierPaths):
        return paths
    wanted = sorted(set(pairs))
    return _as_two_tier(paths, wanted) or ListedRoutes(paths, wanted)


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
