"""Which paths join two leaves in a fabric of three tiers: leaves, spines, and cores that join the spines of pods.

Leaves that share a live spine are joined over it; others go up to a spine, up to a core, down to a spine that the core
knows, and down: never down and up again. Like two-tier paths they are set intersections, made when a pair is asked
for. Which path a flow takes is `placement`'s to decide.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from controller.fabric.model import FabricView, Path, PortRef, Role
from controller.fabric.paths import ABSENT, IntArray, Pair, TwoTierPaths, two_tier_paths

BoolArray = npt.NDArray[np.bool_]
# Port of the lower switch, port of the upper one.
Cable = tuple[PortRef, PortRef]

# A pair of leaves in different pods may have thousands of paths: those of this many pairs are kept at hand.
_PAIRS_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Tier:
    """The cables between lower switches (rows of the tables) and upper ones, a column for each channel.

    `up[row, channel]` and `down[row, channel]` are link numbers, `upper[row, channel]` is the upper switch's row;
    all are ABSENT where the switch has no live cable of that channel.
    """

    up: IntArray
    down: IntArray
    upper: IntArray

    def without(self, alive: IntArray) -> "Tier":
        """`alive[link]` is the link's number or ABSENT, and ABSENT at the end. A cable's directions die alone."""
        return Tier(alive[self.up], alive[self.down], self.upper)

    def meets(self, directions: IntArray, count: int) -> npt.NDArray[np.float32]:
        """[lower row, upper row]: 1 where a cable of `directions` (up or down) joins them."""
        result = np.zeros((len(directions), count + 1), dtype=np.float32)
        rows = np.repeat(np.arange(len(directions)), directions.shape[1])
        result[rows, np.where(directions != ABSENT, self.upper, ABSENT).ravel()] = 1
        return result[:, :count]


class ThreeTierPaths(Mapping[Pair, tuple[Path, ...]]):
    """(source leaf, destination leaf) -> live paths of two hops where some spine joins the leaves, else of four.

    The keys are all ordered pairs of different leaves. For placement the same is open as arrays: `ports` are all link
    directions; `low` is the tier of leaves and spines, its channels being (plane, n-th spine of the pod in that plane,
    n-th parallel cable); `high` is that of spines and cores, its channels being (core, n-th parallel cable) of the
    spine's plane. A plane is all spines and cores that hang together, a pod all leaves and spines. So two leaves that
    use one channel of `low` reach spines of one plane, and two spines of a plane that use one channel of `high` reach
    one core: equal channels always make a path.
    """

    def __init__(self, low: Iterable[Cable], high: Iterable[Cable], leaves: Iterable[int] = ()) -> None:
        """`low` joins leaves and spines, `high` spines and cores; `leaves` adds those without cables."""
        low, high = sorted(low), sorted(high)
        self.ports = tuple(sorted({end for cable in (*low, *high) for end in cable}))
        self.index = {port: i for i, port in enumerate(self.ports)}
        far = {near: there.dpid for a, b in (*low, *high) for near, there in ((a, b), (b, a))}
        self._ends = [far[port] for port in self.ports]
        self.leaves = tuple(sorted({*leaves, *(a.dpid for a, _ in low)}))
        self.spines = tuple(sorted({*(b.dpid for _, b in low), *(a.dpid for a, _ in high)}))
        self.cores = tuple(sorted({b.dpid for _, b in high}))
        self.row = {leaf: i for i, leaf in enumerate(self.leaves)}
        spine_row = {spine: i for i, spine in enumerate(self.spines)}
        core_row = {core: i for i, core in enumerate(self.cores)}
        in_low = [(self.row[a.dpid], spine_row[b.dpid]) for a, b in low]
        in_high = [(spine_row[a.dpid], core_row[b.dpid]) for a, b in high]
        pods = _components(len(self.leaves), len(self.spines), in_low)
        self.pod, self.spine_pod = pods[: len(self.leaves)], pods[len(self.leaves) :]
        planes = _components(len(self.spines), len(self.cores), in_high)
        self.plane, self.core_plane = planes[: len(self.spines)], planes[len(self.spines) :]
        place = _ranks(self.spine_pod, self.plane)
        names = [(int(self.plane[spine]), place[spine]) for _, spine in in_low]
        self.low = self._tier(low, in_low, len(self.leaves), names, [0] * len(self.leaves))
        cores = [(core, 0) for _, core in in_high]
        self.high = self._tier(high, in_high, len(self.spines), cores, self.plane.tolist())
        self._choices: dict[Pair, IntArray] = {}

    def _tier(
        self, cables: Sequence[Cable], rows: Sequence[Pair], count: int, names: Sequence[Pair], scope: Sequence[int]
    ) -> Tier:
        """Cable i has the rows `rows[i]` and the channel (names[i], n) among those of `scope[its lower row]`."""
        parallel: dict[tuple[int, Pair], int] = defaultdict(int)
        channel = []
        for (lower, _), name in zip(rows, names, strict=True):
            channel.append((scope[lower], name, parallel[lower, name]))
            parallel[lower, name] += 1
        column: dict[tuple[int, Pair, int], int] = {}
        used: dict[int, int] = defaultdict(int)
        for each in sorted(set(channel)):
            column[each] = used[each[0]]
            used[each[0]] += 1
        tables = [np.full((count, max(used.values(), default=0)), ABSENT, dtype=np.intp) for _ in range(3)]
        for (a, b), (lower, upper), each in zip(cables, rows, channel, strict=True):
            for table, value in zip(tables, (self.index[a], self.index[b], upper), strict=True):
                table[lower, column[each]] = value
        return Tier(*tables)

    def without(self, dead: Iterable[PortRef]) -> "ThreeTierPaths":
        """The same fabric less some link directions; link and channel numbers stay."""
        alive = np.arange(len(self.ports) + 1)
        alive[-1] = ABSENT
        made = copy(self)
        made._ends = self._ends.copy()
        for port in dead:
            if port in self.index:
                alive[self.index[port]] = made._ends[self.index[port]] = ABSENT
        made.low, made.high = self.low.without(alive), self.high.without(alive)
        made._choices = {}
        for name in ("shared", "joined", "_joined_rows"):
            made.__dict__.pop(name, None)
        return made

    @cached_property
    def shared(self) -> BoolArray:
        """shared[a, b]: whether some spine joins the leaves of rows a and b."""
        low, count = self.low, len(self.spines)
        found: BoolArray = low.meets(low.up, count) @ low.meets(low.down, count).T > 0
        return found

    @cached_property
    def joined(self) -> BoolArray:
        """joined[a, b]: whether the leaves of rows a and b, which may be the same, have any path."""
        low, high = self.low, self.high
        spines, cores = len(self.spines), len(self.cores)
        up = low.meets(low.up, spines) @ high.meets(high.up, cores) > 0
        down = low.meets(low.down, spines) @ high.meets(high.down, cores) > 0
        over_core = up.astype(np.float32) @ down.astype(np.float32).T > 0
        found: BoolArray = self.shared | over_core
        return found

    @cached_property
    def _joined_rows(self) -> list[list[bool]]:
        rows: list[list[bool]] = self.joined.tolist()
        return rows

    def joins(self, pair: Pair) -> bool:
        source, destination = self.row.get(pair[0]), self.row.get(pair[1])
        if source is None or destination is None or source == destination:
            return False
        return self._joined_rows[source][destination]

    def choices(self, pair: Pair) -> IntArray:
        """The pair's paths as link numbers: a row per path with four columns, the inner two ABSENT where one spine
        joins the leaves. KeyError for what the fabric does not know."""
        found = self._choices.get(pair)
        if found is None:
            if pair[0] == pair[1]:
                raise KeyError(pair)
            source, destination = self.row[pair[0]], self.row[pair[1]]
            found = self._over_spine(source, destination)
            if not len(found):
                found = self._over_core(source, destination)
            found = found[np.lexsort(found.T[::-1])]
            if len(self._choices) >= _PAIRS_KEPT:
                self._choices.clear()
            self._choices[pair] = found
        return found

    def _over_spine(self, source: int, destination: int) -> IntArray:
        (up, above), (down, below) = self._live(self.low.up, source), self._live(self.low.down, destination)
        i, j = _join(above, below)
        none = np.full(len(i), ABSENT, dtype=np.intp)
        return np.stack((up[i], none, none, down[j]), axis=1)

    def _live(self, directions: IntArray, leaf: int) -> tuple[IntArray, IntArray]:
        """(links, spines they reach) of one leaf."""
        links = directions[leaf]
        return links[links != ABSENT], self.low.upper[leaf][links != ABSENT]

    def _over_core(self, source: int, destination: int) -> IntArray:
        up, rise, above = self._climbs(self.low.up, self.high.up, source)
        down, fall, below = self._climbs(self.low.down, self.high.down, destination)
        i, j = _join(above, below)
        return np.stack((up[i], rise[i], fall[j], down[j]), axis=1)

    def _climbs(self, low: IntArray, high: IntArray, leaf: int) -> tuple[IntArray, IntArray, IntArray]:
        """(low link, high link, core) of every way between a leaf and a core, in the directions of the tables."""
        links, spines = self._live(low, leaf)
        beyond = high[spines]
        there = beyond != ABSENT
        return np.repeat(links, there.sum(axis=1)), beyond[there], self.high.upper[spines][there]

    def is_live(self, pair: Pair, path: Path) -> bool:
        """Whether `path` is one of the pair's paths, without making them."""
        return self.row_of(pair, path) is not None

    def row_of(self, pair: Pair, path: Path) -> tuple[int, ...] | None:
        """The path's row among the pair's `choices`, or None when it is none of them."""
        links = [self.index.get(port) for port in path]
        if len(path) not in (2, 4) or None in links or path[0].dpid != pair[0] or pair[0] == pair[1]:
            return None
        numbers = [link for link in links if link is not None]
        reached = [self._ends[link] for link in numbers]
        if reached != [*(port.dpid for port in path[1:]), pair[1]]:
            return None
        if len(path) == 2:
            return (numbers[0], ABSENT, ABSENT, numbers[1])
        # Longer ways are taken only where there is no short one.
        return None if self.shared[self.row[pair[0]], self.row[pair[1]]] else tuple(numbers)

    def __getitem__(self, pair: Pair) -> tuple[Path, ...]:
        return tuple(tuple(self.ports[link] for link in row if link >= 0) for row in self.choices(pair).tolist())

    def __iter__(self) -> Iterator[Pair]:
        return ((a, b) for a in self.leaves for b in self.leaves if a != b)

    def __len__(self) -> int:
        return len(self.leaves) * max(len(self.leaves) - 1, 0)


def _join(left: IntArray, right: IntArray) -> tuple[IntArray, IntArray]:
    """All (i, j) with left[i] == right[j]."""
    order = np.argsort(left, kind="stable")
    first = np.searchsorted(left, right, "left", sorter=order)
    count = np.searchsorted(left, right, "right", sorter=order) - first
    j = np.repeat(np.arange(len(right)), count)
    i = order[np.arange(len(j)) - np.repeat(np.cumsum(count) - count, count) + first[j]]
    return i, j


def _components(lower: int, upper: int, edges: Iterable[Pair]) -> IntArray:
    """A number for each lower and then each upper vertex, equal where they hang together; in the order of the first
    lower vertex of each, which makes equal fabrics equal."""
    parent = list(range(lower + upper))

    def top(vertex: int) -> int:
        while parent[vertex] != vertex:
            parent[vertex] = parent[parent[vertex]]
            vertex = parent[vertex]
        return vertex

    for a, b in edges:
        low, high = sorted((top(a), top(lower + b)))
        parent[high] = low
    tops = [top(vertex) for vertex in range(lower + upper)]
    number = {vertex: i for i, vertex in enumerate(sorted(set(tops)))}
    return np.array([number[vertex] for vertex in tops], dtype=np.intp)


def _ranks(pod: IntArray, plane: IntArray) -> list[int]:
    """Of each spine: how many earlier ones of its pod are in its plane."""
    seen: dict[Pair, int] = defaultdict(int)
    result = []
    for key in zip(pod.tolist(), plane.tolist(), strict=True):
        result.append(seen[key])
        seen[key] += 1
    return result


def three_tier_paths(view: FabricView) -> ThreeTierPaths:
    """All paths between the leaves of `view`, worked out pair by pair when asked for."""
    roles = {dpid: switch.role for dpid, switch in view.switches.items()}
    tiers: dict[tuple[Role | None, Role | None], list[Cable]] = defaultdict(list)
    for link in view.links:
        for lower, upper in ((link.a, link.b), (link.b, link.a)):
            tiers[roles.get(lower.dpid), roles.get(upper.dpid)].append((lower, upper))
    leaves = (dpid for dpid, role in roles.items() if role == Role.LEAF)
    return ThreeTierPaths(tiers[Role.LEAF, Role.SPINE], tiers[Role.SPINE, Role.CORE], leaves)


def fabric_paths(view: FabricView) -> TwoTierPaths | ThreeTierPaths:
    """Of two tiers, or of three where there is a core; for one and the same view the same object."""
    return _paths_of(_ThisView(view))


class _ThisView:
    """A view as a key: equal to itself alone. Views are frozen, and to compare two is dearer than to find paths."""

    def __init__(self, view: FabricView) -> None:
        self.view = view

    def __hash__(self) -> int:
        return id(self.view)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ThisView) and other.view is self.view


# Jobs come and go while the fabric stays as it is: finding its paths took a third of placing a small one.
@lru_cache(maxsize=4)
def _paths_of(key: _ThisView) -> TwoTierPaths | ThreeTierPaths:
    three = any(switch.role == Role.CORE for switch in key.view.switches.values())
    return three_tier_paths(key.view) if three else two_tier_paths(key.view)
