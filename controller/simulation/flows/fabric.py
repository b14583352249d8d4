"""The fabric as the flow simulator sees it: numbered link directions with rates, and the links of each path.

Decides only the numbering. First come the link directions between switches, as `paths` numbers them, then each host's
link towards its leaf, then each host's link from it, then what ideal spraying needs: everything that leaves or enters
a leaf, or a pod, as one wide link. The last one is nowhere: a link without capacity, for flows that have no path.
"""

from collections.abc import Sequence

import numpy as np

from controller.fabric.model import FabricView, Path, PortRef, Role
from controller.fabric.paths import ABSENT, IntArray, TwoTierPaths, link_capacities
from controller.fabric.three_tiers import ThreeTierPaths, fabric_paths
from controller.simulation.flows.maxmin import FloatArray


class FlowFabric:
    """`hosts[i]` are host names ("h1:2" is the second interface of h1), `leaf[i]` the datapath id of the leaf of each;
    `capacity_bps` is by link number."""

    def __init__(self, view: FabricView) -> None:
        """Raises ValueError when a host hangs on a switch that is no leaf."""
        self.view = view
        self.paths: TwoTierPaths | ThreeTierPaths = fabric_paths(view)
        self.hosts = tuple(host.label for host in view.hosts)
        self.host_number = {name: i for i, name in enumerate(self.hosts)}
        self.leaf = tuple(host.port.dpid for host in view.hosts)
        elsewhere = [h.name for h in view.hosts if view.switches[h.port.dpid].role != Role.LEAF]
        if elsewhere:
            raise ValueError(f"hosts on switches that are no leaves: {', '.join(elsewhere[:8])}; move them to leaves")
        self.between_bps = link_capacities(view)
        self.ports = len(self.paths.ports)
        self._leaf_row = np.array([self.paths.row[dpid] for dpid in self.leaf], dtype=np.intp)
        pods = self._pod_of_leaf()
        self._pod = pods
        self._tx = self.ports
        self._rx = self._tx + len(self.hosts)
        self._leaf_up = self._rx + len(self.hosts)
        self._leaf_down = self._leaf_up + len(self.paths.leaves)
        self._pod_up = self._leaf_down + len(self.paths.leaves)
        self._pod_down = self._pod_up + int(pods.max(initial=-1)) + 1
        self.nowhere = self._pod_down + int(pods.max(initial=-1)) + 1
        self.links = self.nowhere + 1
        self.hops = 4 if isinstance(self.paths, TwoTierPaths) else 6
        host_bps = np.array([h.capacity_bps for h in view.hosts], dtype=np.float64)
        between = np.array([self.between_bps[port] for port in self.paths.ports], dtype=np.float64)
        self._own_bps = np.concatenate((between, host_bps, host_bps))
        self.far = {end: link.other(end) for link in view.links for end in (link.a, link.b)}

    def _pod_of_leaf(self) -> IntArray:
        if isinstance(self.paths, TwoTierPaths):
            return np.zeros(len(self.paths.leaves), dtype=np.intp)
        return self.paths.pod

    # --- rates -------------------------------------------------------------------------------------------

    def capacity_bps(self, factor: FloatArray | None = None) -> FloatArray:
        """By link number; `factor`, where given, is what is left of each link that exists by itself (`own_links`)."""
        own = self._own_bps if factor is None else self._own_bps * factor
        result = np.zeros(self.links)
        result[: len(own)] = own
        table = self.paths
        if isinstance(table, TwoTierPaths):
            result[self._leaf_up : self._leaf_down] = _sums(table.up, own)
            result[self._leaf_down : self._pod_up] = _sums(table.down, own)
            result[self._pod_up : self.nowhere] = np.inf
            return result
        result[self._leaf_up : self._leaf_down] = _sums(table.low.up, own)
        result[self._leaf_down : self._pod_up] = _sums(table.low.down, own)
        pods = self._pod_down - self._pod_up
        for start, direction in ((self._pod_up, table.high.up), (self._pod_down, table.high.down)):
            result[start : start + pods] = np.bincount(table.spine_pod, weights=_sums(direction, own), minlength=pods)
        return result

    @property
    def own_links(self) -> int:
        """How many links exist by themselves: those between switches and those of hosts."""
        return self._leaf_up

    # --- paths -------------------------------------------------------------------------------------------

    def row(self, source: int, target: int, path: Path | None) -> list[int]:
        """Links from host to host by way of `path`; to nowhere when it is None."""
        links = [self._tx + source, self._rx + target]
        links += [self.nowhere] if path is None else [self.paths.index[port] for port in path]
        return links + [ABSENT] * (self.hops - len(links))

    def ideal_row(self, source: int, target: int) -> list[int]:
        """Links from host to host when every packet goes wherever there is room."""
        a, b = self._leaf_row[source], self._leaf_row[target]
        links = [self._tx + source, self._rx + target]
        if a != b:
            links += [self._leaf_up + int(a), self._leaf_down + int(b)]
            if self._pod[a] != self._pod[b]:
                links += [self._pod_up + int(self._pod[a]), self._pod_down + int(self._pod[b])]
        return links + [ABSENT] * (self.hops - len(links))

    # --- names -------------------------------------------------------------------------------------------

    def link_name(self, link: int) -> str:
        """ "leaf1:3 → spine3" of a direction between switches; "h1_1 → leaf1" of a host's."""
        if link < self.ports:
            port = self.paths.ports[link]
            return f"{self.switch_name(port.dpid)}:{port.port_no} → {self.switch_name(self.far[port].dpid)}"
        host = (link - self._tx) % max(len(self.hosts), 1)
        name, leaf = self.hosts[host], self.switch_name(self.leaf[host])
        return f"{name} → {leaf}" if link < self._rx else f"{leaf} → {name}"

    def switch_name(self, dpid: int) -> str:
        return self.view.switches[dpid].name

    def pod_of(self, host: int) -> int:
        """A number for the pod of a host's leaf; 0 for all in two tiers."""
        return int(self._pod[self._leaf_row[host]])

    def host_links(self, host: int) -> tuple[int, int]:
        return self._tx + host, self._rx + host

    def cables(self) -> list[tuple[str, tuple[int, int]]]:
        """(name, numbers of both directions) of every cable between switches; parallel ones are numbered from #2 on."""
        seen: dict[str, int] = {}
        found = []
        for link in sorted(self.view.links, key=lambda each: (each.a, each.b)):
            ends = sorted((link.a, link.b), key=self._downward)
            if ends[0] not in self.paths.index or ends[1] not in self.paths.index:
                continue
            name = "-".join(self.switch_name(end.dpid) for end in ends)
            seen[name] = seen.get(name, 0) + 1
            label = name if seen[name] == 1 else f"{name}#{seen[name]}"
            found.append((label, (self.paths.index[ends[0]], self.paths.index[ends[1]])))
        return found

    def _downward(self, port: PortRef) -> tuple[int, int, int]:
        order = [Role.LEAF, Role.SPINE, Role.CORE, Role.UNKNOWN]
        return (order.index(self.view.switches[port.dpid].role), port.dpid, port.port_no)

    def links_of(self, dpid: int) -> list[int]:
        """Every link direction that begins or ends at a switch, its hosts' included."""
        index = self.paths.index
        found = [n for port, n in index.items() if port.dpid == dpid or self.far[port].dpid == dpid]
        for host, leaf in enumerate(self.leaf):
            if leaf == dpid:
                found += self.host_links(host)
        return found


def _sums(table: IntArray, own_bps: FloatArray) -> FloatArray:
    """Of each row, the rates of all its links together."""
    padded = np.append(own_bps, 0.0)
    found: FloatArray = padded[table].sum(axis=1)
    return found


def dead_ports(fabric: FlowFabric, factor: FloatArray) -> list[PortRef]:
    """Sending ports between switches of which nothing is left."""
    ports: Sequence[PortRef] = fabric.paths.ports
    return [ports[n] for n in np.flatnonzero(factor[: fabric.ports] <= 0.0).tolist()]
