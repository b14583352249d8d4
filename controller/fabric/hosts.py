"""Where hosts are: learnt from the ARP and neighbour discovery they send, confirmed against the plan.

Decides who a host is and which port leads to it. It answers no packets itself; `core.packets` does.
"""

import ipaddress
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from controller.fabric.model import PortRef
from controller.fabric.plan import FabricPlan, PlannedHost

_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
# Of a host that is remembered and has not spoken yet; nobody has this address.
UNKNOWN_MAC = "00:00:00:00:00:00"


@dataclass(frozen=True, slots=True)
class SeenHost:
    address: str
    mac: str
    port: PortRef


@dataclass(slots=True)
class HostTable:
    """Mutable; owned by the core. Keyed by address in text, IPv4 or IPv6."""

    plan: FabricPlan | None
    seen: dict[str, SeenHost] = field(default_factory=dict)
    # Where hosts were in an earlier run: a place to ask, not yet knowledge.
    remembered: dict[str, PortRef] = field(default_factory=dict)
    planned: dict[str, tuple[PlannedHost, PortRef]] = field(init=False)
    _planned_ports: frozenset[PortRef] = field(init=False)
    _at: dict[PortRef, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        dpids = {s.name: s.dpid for s in self.plan.switches} if self.plan else {}
        hosts = self.plan.hosts if self.plan else ()
        self.planned = {h.ipv4: (h, PortRef(dpids[h.switch], h.port)) for h in hosts}
        self._planned_ports = frozenset(port for _, port in self.planned.values())

    def is_host_port(self, port: PortRef) -> bool:
        """By the plan, or because a host has spoken there since the port came up."""
        return port in self._planned_ports or bool(self._at.get(port))

    def at(self, port: PortRef) -> Collection[str]:
        """The addresses that have been seen there."""
        return self._at.get(port, ())

    def belongs_at(self, address: str, port: PortRef) -> bool:
        """The plan says so; of two that claim an address, this one is right."""
        planned = self.planned.get(address)
        return planned is not None and planned[1] == port

    def learn(self, address: str, mac: str, port: PortRef) -> bool:
        """True when this tells something new. Whether a claim on somebody's address is believed is `core.packets`'s."""
        ip = ipaddress.ip_address(address)
        if ip.is_unspecified or ip.is_multicast or ip.is_loopback or ip == _BROADCAST:
            return False
        if int(mac[:2], 16) & 1 or mac == UNKNOWN_MAC:
            return False
        seen = SeenHost(address, mac, port)
        if self.seen.get(address) == seen:
            return False
        self._put(seen)
        return True

    def _put(self, seen: SeenHost) -> None:
        self._drop(seen.address)
        self.seen[seen.address] = seen
        self._at.setdefault(seen.port, set()).add(seen.address)

    def _drop(self, address: str) -> None:
        before = self.seen.pop(address, None)
        if before is not None:
            self._at[before.port].discard(address)

    def believe(self, could_be_at: Callable[[PortRef], bool]) -> None:
        """Remembered hosts behind switches that are away are where they were: who could tell otherwise is away, and
        what is in its tables still leads to them."""
        for address, port in self.remembered.items():
            planned = self.planned.get(address)
            if could_be_at(port) and address not in self.seen and (planned is None or planned[1] == port):
                self._put(SeenHost(address, UNKNOWN_MAC, port))

    def forget_port(self, port: PortRef) -> bool:
        gone = list(self._at.get(port, ()))
        for address in gone:
            self._drop(address)
        return bool(gone)

    def forget_switch(self, dpid: int) -> None:
        for port in {host.port for host in self.seen.values() if host.port.dpid == dpid}:
            self.forget_port(port)

    def is_planned(self, seen: SeenHost) -> bool:
        return seen.address in self.planned

    def name_of(self, address: str) -> str:
        entry = self.planned.get(address)
        return entry[0].name if entry else address

    def nic_of(self, addresses: Iterable[str]) -> int:
        """Which interface of its host has one of these addresses by the plan; 0 for an only one."""
        return next((self.planned[address][0].nic for address in addresses if address in self.planned), 0)

    def expected_but_unseen(self) -> list[tuple[str, PortRef]]:
        """(address, the port to ask at); the plan knows better than memory does."""
        silent = {address: host.port for address, host in self.seen.items() if host.mac == UNKNOWN_MAC}
        places = self.remembered | {address: port for address, (_, port) in self.planned.items()} | silent
        return [(a, port) for a, port in places.items() if a not in self.seen or a in silent]
