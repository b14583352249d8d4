"""Which paths join two switches where some hosts are below edge switches that hang on several leaves.

Such an edge switch (a DPU, the bridge of a hypervisor) has a choice of its own: by which leaf a packet enters the
fabric; and the fabric has one by which leaf it comes down. So paths begin and end at the edge switch. They are exactly
the ways that routing knows (`tiers`): a packet climbs no higher than it must, and a cable that skips a tier, which
somebody has plugged in by mistake, is one of them. Between two leaves nothing changes.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from controller.fabric.model import FabricView, Host, Path, PortRef, Role
from controller.fabric.paths import Pair, TwoTierPaths
from controller.fabric.three_tiers import ThreeTierPaths, fabric_paths
from controller.fabric.tiers import Tiers

# Switch -> neighbour -> the ports to it, sorted.
_Towards = Mapping[int, Mapping[int, tuple[PortRef, ...]]]
# Pairs of edge switches have more paths than pairs of leaves; those of this many are kept at hand.
_PAIRS_KEPT = 4096


class EdgePaths(Mapping[Pair, tuple[Path, ...]]):
    """(source, destination) -> live paths, sorted; each end is a leaf, or one of `edges`.

    The keys are all ordered pairs of different switches of these two kinds.
    """

    def __init__(
        self, leaves: TwoTierPaths | ThreeTierPaths, edges: frozenset[int], tiers: Tiers, towards: _Towards
    ) -> None:
        self.leaves, self.edges = leaves, edges
        self._tiers, self._towards = tiers, towards
        self._known: dict[Pair, tuple[Path, ...]] = {}

    def __getitem__(self, pair: Pair) -> tuple[Path, ...]:
        if self.edges.isdisjoint(pair):
            return self.leaves[pair]
        if pair not in self._known:
            if pair[0] == pair[1] or not all(end in self.edges or end in self.leaves.row for end in pair):
                raise KeyError(pair)
            if len(self._known) >= _PAIRS_KEPT:
                self._known.clear()
            self._known[pair] = tuple(sorted(self._ways(*pair)))
        return self._known[pair]

    def _ways(self, here: int, destination: int) -> Iterator[Path]:
        if here == destination:
            yield ()
            return
        for there in self._tiers.next_switches(here, destination):
            for way in self._ways(there, destination):
                yield from ((port, *way) for port in self._towards[here][there])

    def joins(self, pair: Pair) -> bool:
        """Whether the pair has any path; False for a pair that the fabric does not know."""
        return self.leaves.joins(pair) if self.edges.isdisjoint(pair) else bool(self.get(pair, ()))

    def is_live(self, pair: Pair, path: Path) -> bool:
        return path in self.get(pair, ())

    def __iter__(self) -> Iterator[Pair]:
        ends = (*self.leaves.leaves, *sorted(self.edges))
        return ((a, b) for a in ends for b in ends if a != b)

    def __len__(self) -> int:
        ends = len(self.leaves.leaves) + len(self.edges)
        return ends * max(ends - 1, 0)


AnyPaths = TwoTierPaths | ThreeTierPaths | EdgePaths


def planned_paths(view: FabricView) -> AnyPaths:
    """What placement chooses from: the leaves' paths, or those from edge switches on, where some have a choice."""
    edges = {host.port.dpid for host in view.hosts if host.below_leaf is None} & {
        dpid for dpid, switch in view.switches.items() if switch.role == Role.EDGE
    }
    if not edges:
        return fabric_paths(view)
    towards: dict[int, dict[int, tuple[PortRef, ...]]] = defaultdict(lambda: defaultdict(tuple))
    for link in view.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            towards[near.dpid][far.dpid] += (near,)
    return EdgePaths(fabric_paths(view), frozenset(edges), Tiers.of(view), towards)


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
