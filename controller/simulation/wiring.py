"""From a fabric plan to model switches, hosts and cables."""

from collections.abc import Iterable

from controller.fabric.model import Port, PortRef, Role
from controller.fabric.plan import FabricPlan
from controller.simulation.admission import Limits
from controller.simulation.cables import Cable, End
from controller.simulation.hosts import ModelHost
from controller.simulation.switches import ModelSwitch


class Wiring:
    """Who is there and what is plugged into what; keyed by the plan's names."""

    def __init__(self, plan: FabricPlan, limits: Limits | None) -> None:
        dpids = {switch.name: switch.dpid for switch in plan.switches}
        self.switches = {s.name: ModelSwitch(s.dpid, s.name, (), limits=limits) for s in plan.switches}
        self.by_dpid = {switch.dpid: switch for switch in self.switches.values()}
        self.edge_switches = frozenset(s.name for s in plan.switches if s.role is Role.EDGE)
        # A host with several interfaces is one for each of them: "h1:1", "h1:2".
        self.hosts = {h.label: ModelHost(h, PortRef(dpids[h.switch], h.port)) for h in plan.hosts}
        self.cables: list[Cable] = []
        self._at: dict[End, Cable] = {}
        for link in plan.links:
            self.plug(PortRef(dpids[link.a], link.a_port), PortRef(dpids[link.b], link.b_port), link.rate_bps)
        for host in plan.hosts:
            self.plug(PortRef(dpids[host.switch], host.port), host.label, host.rate_bps)

    def plug(self, a: End, b: End, rate_bps: int) -> Cable:
        """Adds a cable, and the ports it needs. Raises ValueError when an end is taken."""
        taken = [end for end in (a, b) if end in self._at]
        if taken:
            raise ValueError(f"{taken[0]} already has a cable to {self._at[taken[0]].other(taken[0])}")
        cable = Cable(a, b, rate_bps)
        self.cables.append(cable)
        for end in (a, b):
            self._at[end] = cable
            if isinstance(end, PortRef) and end.port_no not in self.by_dpid[end.dpid].ports:
                self.by_dpid[end.dpid].set_port(self.new_port(end, rate_bps))
        return cable

    def unplug(self, cable: Cable) -> None:
        """Takes a cable away; its ports stay."""
        self.cables.remove(cable)
        del self._at[cable.a], self._at[cable.b]

    def exchange(self, one: Cable, other: Cable) -> None:
        """Each cable gets the other's second end; what a cable does not carry stays with the cable."""
        dead = [cable.b in cable.dead_from for cable in (one, other)]
        one.b, other.b = other.b, one.b
        self._at[one.b], self._at[other.b] = one, other
        for cable, is_dead in zip((one, other), dead, strict=True):
            cable.dead_from = (cable.dead_from & {cable.a}) | ({cable.b} if is_dead else set())
            cable.lossy_from = {(end if end == cable.a else cable.b): share for end, share in cable.lossy_from.items()}

    def new_port(self, ref: PortRef, rate_bps: int) -> Port:
        """A port that is up, named as Mininet does, with a locally administered MAC."""
        mac = (0x02 << 40 | (ref.dpid & 0xFFFFFF) << 16 | ref.port_no & 0xFFFF).to_bytes(6, "big").hex(":")
        return Port(ref, f"{self.by_dpid[ref.dpid].name}-eth{ref.port_no}", mac, True, rate_bps)

    def cable_at(self, end: End) -> Cable | None:
        return self._at.get(end)

    def cables_of(self, name: str) -> list[Cable]:
        """The cables of a switch or host, in the plan's order."""
        return [cable for cable in self.cables if name in (self.name_of(cable.a), self.name_of(cable.b))]

    def cables_between(self, a: str, b: str) -> list[Cable]:
        return [c for c in self.cables if {self.name_of(c.a), self.name_of(c.b)} == {a, b}]

    def name_of(self, end: End) -> str:
        """The switch's or host's name."""
        return self.by_dpid[end.dpid].name if isinstance(end, PortRef) else end

    def describe(self, ends: Iterable[End]) -> str:
        texts = (f"{self.name_of(end)}:{end.port_no}" if isinstance(end, PortRef) else end for end in ends)
        return " - ".join(texts)
