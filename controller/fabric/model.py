"""The words in which everything else speaks about a fabric: ports, switches, links, hosts.

This module decides nothing; it holds the nouns. What is usable, which role a switch has and which paths exist
is decided in `discovery`, `roles` and `paths`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class PortRef:
    """One port of one switch. As a direction of a link, it is the port that *sends*."""

    dpid: int
    port_no: int

    def __hash__(self) -> int:
        # Maps by port are everywhere, and this takes half the time of the generated method.
        return self.dpid * 1_000_003 + self.port_no

    def __str__(self) -> str:
        return f"{self.dpid:x}:{self.port_no}"


@dataclass(frozen=True, slots=True)
class Port:
    """A switch port as OpenFlow reports it. `speed_bps` is 0 when the switch does not say."""

    ref: PortRef
    name: str
    mac: str
    up: bool
    speed_bps: int = 0


class Role(StrEnum):
    """What a switch is in a leaf-spine fabric."""

    # Below a leaf, with hosts of its own: a DPU, or the bridge of a hypervisor.
    EDGE = "edge"
    LEAF = "leaf"
    SPINE = "spine"
    # Third tier: joins the spines of different pods (super-spine).
    CORE = "core"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch that is connected or has been; `nicira` says it takes Open vSwitch's extensions."""

    dpid: int
    name: str
    role: Role
    connected: bool
    nicira: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """One cable that is usable in both directions; `a` < `b`, so that a cable has one spelling."""

    a: PortRef
    b: PortRef
    capacity_bps: int

    def other(self, end: PortRef) -> PortRef:
        return self.b if end == self.a else self.a


def nic_label(server: str, nic: int) -> str:
    """What an interface is called: "h1" where the server has no other (`nic` 0), else "h1:2" for its second one."""
    return f"{server}:{nic}" if nic else server


@dataclass(frozen=True, slots=True)
class Host:
    """A network interface of a server. `addresses` are IPv4 or IPv6 in text, the first one is the main one."""

    name: str
    mac: str
    addresses: tuple[str, ...]
    port: PortRef
    capacity_bps: int
    # Of a host below an edge switch: the leaf where its traffic enters the fabric's paths.
    below_leaf: int | None = None
    # Which of its server's interfaces this is, counted from 1; 0 where the server has no other.
    nic: int = 0
    # What the server calls itself, where no plan says which server the interface is of: then its address is its name.
    server: str = ""

    @property
    def leaf(self) -> int:
        return self.port.dpid if self.below_leaf is None else self.below_leaf

    @property
    def label(self) -> str:
        """Unlike the name, no other interface's."""
        return self.name if self.server else nic_label(self.name, self.nic)


# A path is the egress ports it crosses, in order, from the source's leaf on; empty when both hosts share a leaf.
# The last hop to the host itself is not part of it.
Path = tuple[PortRef, ...]


@dataclass(frozen=True, slots=True)
class FabricView:
    """One consistent picture of the fabric, for placement and compilation.

    Only links that are usable in both directions are in `links`; only hosts whose switch port is known are in
    `hosts`. All maps are keyed by identity and must not be changed by readers.
    """

    switches: dict[int, Switch] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    hosts: tuple[Host, ...] = ()
    # Other spellings of hosts' names, as the plan gives them: alias -> name.
    aliases: Mapping[str, str] = field(default_factory=dict)
    # Of leaves that carry rails: their numbers, counted from 1.
    rails: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
