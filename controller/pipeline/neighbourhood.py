"""A fabric view turned around: what each switch has next to it. Decides which ports lead to a switch, no more."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.fabric.model import FabricView, Host, PortRef
from controller.fabric.tiers import Tiers


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Live links by switch: `towards[dpid][neighbour]` are the local ports, sorted; `owner_of[port]` is the switch at
    the far end of a port's link. `last_resort` has the avoided links as well."""

    view: FabricView
    tiers: Tiers
    towards: Mapping[int, Mapping[int, tuple[int, ...]]]
    capacity: Mapping[PortRef, int]
    hosts_of: Mapping[int, tuple[Host, ...]]
    owner_of: Mapping[PortRef, int]
    last_resort: "Neighbourhood | None" = None
    # Thousands of flows share a few hundred pairs of switches.
    _choices: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, view: FabricView, last_resort: FabricView | None = None) -> "Neighbourhood":
        """`last_resort` is the same fabric with the links that `view` avoids."""
        wide = None if last_resort is None or last_resort.links == view.links else cls.of(last_resort)
        towards: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        capacity: dict[PortRef, int] = {}
        owner: dict[PortRef, int] = {}
        for link in view.links:
            for here, there in ((link.a, link.b), (link.b, link.a)):
                towards[here.dpid][there.dpid].append(here.port_no)
                capacity[here] = link.capacity_bps
                owner[here] = there.dpid
        hosts: dict[int, list[Host]] = defaultdict(list)
        for host in view.hosts:
            hosts[host.port.dpid].append(host)
        sorted_ports = {d: {n: tuple(sorted(p)) for n, p in by.items()} for d, by in towards.items()}
        hosts_of = {d: tuple(h) for d, h in hosts.items()}
        if wide is not None:
            capacity, owner = {**wide.capacity, **capacity}, {**wide.owner_of, **owner}
        return cls(view, Tiers.of(view), sorted_ports, capacity, hosts_of, owner, wide)

    def choices(self, here: int, destination: int) -> tuple[int, ...]:
        """The local ports by which a packet at switch `here` can reach switch `destination`, sorted.

        A switch with no other way down, or with no way at all, keeps that over avoided links. Whoever has a choice
        sends nothing there, and whoever has not been told so yet still gets through.
        """
        known = self._choices.get((here, destination))
        if known is None:
            known = self._choices[here, destination] = self._ways(here, destination)
        return known

    def _ways(self, here: int, destination: int) -> tuple[int, ...]:
        towards = self.towards.get(here, {})
        ports = [port for there in self.tiers.next_switches(here, destination) for port in towards[there]]
        is_below = destination in self.below(here)
        if self.last_resort and (not ports or (is_below and destination not in self.tiers.below(here))):
            return self.last_resort.choices(here, destination)
        return tuple(sorted(ports))

    def below(self, dpid: int) -> frozenset[int]:
        """The switch and everything that is reached from it by going down, if need be over avoided links."""
        return (self.last_resort or self).tiers.below(dpid)

    def from_above(self, dpid: int) -> tuple[int, ...]:
        """The ports on which traffic comes down to a switch."""
        if self.last_resort:
            return self.last_resort.from_above(dpid)
        towards = self.towards.get(dpid, {})
        return tuple(sorted(port for upper in self.tiers.uppers.get(dpid, ()) for port in towards[upper]))
