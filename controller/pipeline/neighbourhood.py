"""A fabric view turned around: what each switch has next to it. Decides which ports lead to a switch, no more."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.fabric.model import FabricView, Host, PortRef
from controller.fabric.tiers import Tiers


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Live links by switch: `towards[dpid][neighbour]` are the local ports, sorted; `owner_of[port]` is the switch at
    the far end of a port's link."""

    view: FabricView
    tiers: Tiers
    towards: Mapping[int, Mapping[int, tuple[int, ...]]]
    capacity: Mapping[PortRef, int]
    hosts_of: Mapping[int, tuple[Host, ...]]
    owner_of: Mapping[PortRef, int]
    # Thousands of flows share a few hundred pairs of switches.
    _choices: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, view: FabricView) -> "Neighbourhood":
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
        return cls(view, Tiers.of(view), sorted_ports, capacity, {d: tuple(h) for d, h in hosts.items()}, owner)

    def choices(self, here: int, destination: int) -> tuple[int, ...]:
        """The local ports by which a packet at switch `here` can reach switch `destination`, sorted."""
        known = self._choices.get((here, destination))
        if known is None:
            towards = self.towards.get(here, {})
            ports = [port for there in self.tiers.next_switches(here, destination) for port in towards[there]]
            known = self._choices[here, destination] = tuple(sorted(ports))
        return known

    def from_above(self, dpid: int) -> tuple[int, ...]:
        """The ports on which traffic comes down to a switch."""
        towards = self.towards.get(dpid, {})
        return tuple(sorted(port for upper in self.tiers.uppers.get(dpid, ()) for port in towards[upper]))
