"""Which paths join two switches where some hosts are below edge switches that hang on several leaves.

Such an edge switch (a DPU, the bridge of a hypervisor) has a choice of its own: by which leaf a packet enters the
fabric; and the fabric has one by which leaf it comes down. So paths begin and end at the edge switch, with the
leaves' paths in between. As everywhere, a packet climbs no higher than it must: where one leaf reaches the other end
without a spine, no path over a spine counts. What routing knows (`tiers`) is the same, and a test holds the two
together.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from controller.fabric.model import FabricView, Host, Path, PortRef, Role
from controller.fabric.paths import Pair, TwoTierPaths
from controller.fabric.three_tiers import ThreeTierPaths, fabric_paths

# Leaf -> the ports of the cables to it, or of those down from it.
_Ways = Mapping[int, tuple[PortRef, ...]]
# Pairs of edge switches have more paths than pairs of leaves; those of this many are kept at hand.
_PAIRS_KEPT = 4096


class EdgePaths(Mapping[Pair, tuple[Path, ...]]):
    """(source, destination) -> live paths, sorted; each end is a leaf, or an edge switch with a choice of leaves.

    The keys are all ordered pairs of different switches of these two kinds.
    """

    def __init__(
        self, leaves: TwoTierPaths | ThreeTierPaths, up: Mapping[int, _Ways], down: Mapping[int, _Ways]
    ) -> None:
        """`up[edge][leaf]` are the edge's ports to a leaf, `down[edge][leaf]` that leaf's ports to the edge."""
        self.leaves = leaves
        self.up, self.down = up, down
        self._known: dict[Pair, tuple[Path, ...]] = {}

    def __getitem__(self, pair: Pair) -> tuple[Path, ...]:
        if pair[0] not in self.up and pair[1] not in self.up:
            return self.leaves[pair]
        if pair not in self._known:
            if pair[0] == pair[1] or not all(end in self.up or end in self.leaves.row for end in pair):
                raise KeyError(pair)
            if len(self._known) >= _PAIRS_KEPT:
                self._known.clear()
            self._known[pair] = tuple(sorted(self._between(*pair)))
        return self._known[pair]

    def _between(self, source: int, destination: int) -> Iterator[Path]:
        rises, falls = self.up.get(source, {source: ()}), self.down.get(destination, {destination: ()})
        ways = [(a, b) for a in rises for b in falls if a == b or self.leaves.joins((a, b))]
        fewest = min((self._hops(*way) for way in ways), default=0)
        for a, b in ways:
            if self._hops(a, b) > fewest:
                continue
            for middle in self.leaves[a, b] if a != b else ((),):
                for rise in rises[a] or (None,):
                    for fall in falls[b] or (None,):
                        yield (*([rise] if rise else []), *middle, *([fall] if fall else []))

    def _hops(self, a: int, b: int) -> int:
        """Of the leaves' paths from one to the other, which are all equally long."""
        return 0 if a == b else int((self.leaves.choices((a, b))[0] >= 0).sum())

    def joins(self, pair: Pair) -> bool:
        """Whether the pair has any path; False for a pair that the fabric does not know."""
        return bool(self.get(pair, ())) if pair[0] in self.up or pair[1] in self.up else self.leaves.joins(pair)

    def is_live(self, pair: Pair, path: Path) -> bool:
        return path in self.get(pair, ())

    def __iter__(self) -> Iterator[Pair]:
        ends = (*self.leaves.leaves, *self.up)
        return ((a, b) for a in ends for b in ends if a != b)

    def __len__(self) -> int:
        ends = len(self.leaves.leaves) + len(self.up)
        return ends * max(ends - 1, 0)


AnyPaths = TwoTierPaths | ThreeTierPaths | EdgePaths


def planned_paths(view: FabricView) -> AnyPaths:
    """What placement chooses from: the leaves' paths, or those from edge switches on, where some have a choice."""
    edges = {host.port.dpid for host in view.hosts if host.below_leaf is None} & {
        dpid for dpid, switch in view.switches.items() if switch.role == Role.EDGE
    }
    if not edges:
        return fabric_paths(view)
    up: dict[int, dict[int, tuple[PortRef, ...]]] = {edge: defaultdict(tuple) for edge in edges}
    down: dict[int, dict[int, tuple[PortRef, ...]]] = {edge: defaultdict(tuple) for edge in edges}
    for link in view.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.dpid in edges and view.switches[far.dpid].role == Role.LEAF:
                up[near.dpid][far.dpid] += (near,)
                down[near.dpid][far.dpid] += (far,)
    return EdgePaths(fabric_paths(view), up, down)


def fitted(
    path: Path,
    source: Host,
    destination: Host,
    owner_of: Mapping[PortRef, int],
    towards: Mapping[int, Mapping[int, tuple[int, ...]]],
) -> Path:
    """The same way through the fabric, from where paths between these hosts begin and end at present.

    An edge switch that has lost all leaves but one has nothing left to choose: what stays where it was is no move, and
    neither is it when the other leaves come back. `owner_of[port]` is the switch at the far end of a port's link,
    `towards[dpid][neighbour]` are the ports to it; of several the first is taken for the one.
    """
    if path and source.below_leaf is not None and path[0].dpid == source.port.dpid:
        path = path[1:]
    elif path and path[0].dpid != source.leaf and (up := towards.get(source.leaf, {}).get(path[0].dpid)):
        path = (PortRef(source.leaf, up[0]), *path)
    last = owner_of.get(path[-1]) if path else None
    if last is None or last == destination.leaf:
        return path
    if last == destination.port.dpid:
        return path[:-1]
    down = towards.get(last, {}).get(destination.leaf)
    return (*path, PortRef(last, down[0])) if down else path
