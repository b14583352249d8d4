"""Completes a topology file: expands `leaf_spine` and assigns every number that the file leaves out.

It decides datapath ids, port numbers and addresses, always the same ones for the same file. What the file states is
reserved first, so an assigned number never takes one that is written further down. It judges nothing: faults in what
the file states pass through for `topology_checks` to find.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from controller.fabric.model import Role
from controller.formats.topology_schema import (
    HostEntry,
    LeafSpine,
    LinkEntry,
    NicEntry,
    SwitchEntry,
    ThreeTier,
    port_of,
)
from controller.formats.yaml_lines import Location

_FIRST_DPID = {"leaf": 0x101, "spine": 0x201, "core": 0x301, "edge": 0x401}
_FIRST_OVERFLOW_ADDRESS = 0x0A_80_00_01  # 10.128.0.1: above every leaf's own block.
_HOSTS_PER_BLOCK = 254
_BLOCKS = 0x7FFF


@dataclass(frozen=True, slots=True)
class FilledSwitch:
    name: str
    dpid: int
    role: Role
    pod: str
    location: Location


@dataclass(frozen=True, slots=True)
class FilledLink:
    a: str
    a_port: int
    b: str
    b_port: int
    # None: neither the entry nor the file gives a rate.
    rate_bps: int | None
    location: Location


@dataclass(frozen=True, slots=True)
class FilledHost:
    name: str
    switch: str
    port: int
    mac: str
    address: int
    prefix_length: int
    rate_bps: int | None
    location: Location
    # Counted from 1 where the host has several interfaces; 0: its only one.
    nic: int = 0


@dataclass(frozen=True, slots=True)
class Filled:
    switches: tuple[FilledSwitch, ...]
    links: tuple[FilledLink, ...]
    hosts: tuple[FilledHost, ...]


@dataclass(frozen=True, slots=True)
class Entries:
    """What a file states, each list in the order of the file."""

    switches: tuple[tuple[SwitchEntry, Location], ...]
    links: tuple[tuple[LinkEntry, Location], ...]
    hosts: tuple[tuple[HostEntry, Location], ...]


def expand(shape: LeafSpine | ThreeTier, location: Location) -> Entries:
    """The switches, cables and hosts of a regular fabric. Every entry has `location`, since the file has no other."""
    if isinstance(shape, ThreeTier):
        switches, links, leaves = list(_pod_switches(shape)), _pod_links(shape), shape.pods * shape.leaves_per_pod
    else:
        switches, links, leaves = list(_flat_switches(shape)), _uplinks(shape), shape.leaves
    hosts = [
        _railed_host(f"h{first // shape.rails + 1}_{number}", first, shape)
        for first in range(0, leaves, shape.rails)
        for number in range(1, shape.hosts_per_leaf + 1)
    ]
    return Entries(
        tuple((switch, location) for switch in switches),
        tuple((link, location) for link in links),
        tuple((host, location) for host in hosts),
    )


def _railed_host(name: str, first: int, shape: LeafSpine | ThreeTier) -> HostEntry:
    """A host of the group of leaves behind the `first` ones."""
    nics = [NicEntry(at=f"leaf{first + rail}", rate=shape.host_rate) for rail in range(1, shape.rails + 1)]
    return HostEntry(name=name, nics=nics) if len(nics) > 1 else HostEntry(name=name, at=nics[0].at, rate=nics[0].rate)


def nics_of(host: HostEntry, location: Location) -> list[tuple[int, NicEntry, Location]]:
    """(number, interface, where) of each interface, as `PlannedHost.nic` counts them."""
    if not host.nics:
        return [(0, host, location)]
    # A regular fabric has no place for each of its hosts.
    places = [(*location, "nics", i) if len(location) > 1 else location for i in range(len(host.nics))]
    numbers = range(1, len(host.nics) + 1) if len(host.nics) > 1 else (0,)
    return list(zip(numbers, host.nics, places, strict=True))


def _flat_switches(shape: LeafSpine) -> Iterator[SwitchEntry]:
    yield from (SwitchEntry(name=f"leaf{leaf}", role="leaf") for leaf in range(1, shape.leaves + 1))
    yield from (SwitchEntry(name=f"spine{spine}", role="spine") for spine in range(1, shape.spines + 1))


def _pod_switches(shape: ThreeTier) -> Iterator[SwitchEntry]:
    for pod in range(1, shape.pods + 1):
        for role, many in (("leaf", shape.leaves_per_pod), ("spine", shape.spines_per_pod)):
            for number in range((pod - 1) * many + 1, pod * many + 1):
                yield SwitchEntry.model_validate({"name": f"{role}{number}", "role": role, "pod": f"pod{pod}"})
    for core in range(1, shape.spines_per_pod * shape.cores_per_plane + 1):
        yield SwitchEntry(name=f"core{core}", role="core")


def _pod_links(shape: ThreeTier) -> Iterator[LinkEntry]:
    """All of a pod's cables, then those of its spines to their planes."""
    for pod in range(shape.pods):
        for leaf in range(shape.leaves_per_pod):
            for spine in range(shape.spines_per_pod):
                yield LinkEntry(
                    a=f"leaf{pod * shape.leaves_per_pod + leaf + 1}:{spine + 1}",
                    b=f"spine{pod * shape.spines_per_pod + spine + 1}:{leaf + 1}",
                    rate=shape.uplink_rate,
                )
        for plane in range(shape.spines_per_pod):
            for core in range(shape.cores_per_plane):
                yield LinkEntry(
                    a=f"spine{pod * shape.spines_per_pod + plane + 1}:{shape.leaves_per_pod + core + 1}",
                    b=f"core{plane * shape.cores_per_plane + core + 1}:{pod + 1}",
                    rate=shape.core_rate,
                )


def _uplinks(shape: LeafSpine) -> Iterator[LinkEntry]:
    """Leaf by leaf, spine by spine, so that parallel cables have consecutive ports at both ends."""
    for leaf in range(shape.leaves):
        for spine in range(shape.spines):
            for parallel in range(1, shape.links_per_pair + 1):
                yield LinkEntry(
                    a=f"leaf{leaf + 1}:{spine * shape.links_per_pair + parallel}",
                    b=f"spine{spine + 1}:{leaf * shape.links_per_pair + parallel}",
                    rate=shape.uplink_rate,
                )


def fill(entries: Entries, rate_bps: int | None) -> Filled:
    """Every number present; `rate_bps` is for cables without their own."""
    switches = tuple(_switches(entries.switches))
    links, ports = _links_and_ports(entries, rate_bps)
    return Filled(switches, links, tuple(_hosts(entries, ports, rate_bps)))


def _switches(given: Iterable[tuple[SwitchEntry, Location]]) -> Iterator[FilledSwitch]:
    given = tuple(given)
    taken = {switch.dpid for switch, _ in given if switch.dpid is not None}
    free = {role: (dpid for dpid in count(first) if dpid not in taken) for role, first in _FIRST_DPID.items()}
    for switch, location in given:
        dpid = switch.dpid if switch.dpid is not None else next(free[switch.role])
        taken.add(dpid)
        yield FilledSwitch(switch.name, dpid, Role(switch.role), switch.pod or "", location)


class _FreePorts:
    """Hands out the lowest port of a switch that nothing in the file uses."""

    def __init__(self, ends: Iterable[str]) -> None:
        self._taken = {port_of(end) for end in ends}
        self._next: dict[str, int] = {}

    def of(self, end: str) -> tuple[str, int]:
        switch, port = port_of(end)
        if port is not None:
            return switch, port
        port = self._next.get(switch, 1)
        while (switch, port) in self._taken:
            port += 1
        self._next[switch] = port + 1
        return switch, port


def _links_and_ports(entries: Entries, rate_bps: int | None) -> tuple[tuple[FilledLink, ...], _FreePorts]:
    """Cables are numbered before hosts, so that uplinks come first on a leaf."""
    ends = [end for link, _ in entries.links for end in (link.a, link.b)]
    ends += [nic.at for host, location in entries.hosts for _, nic, _ in nics_of(host, location)]
    ports = _FreePorts(ends)
    links = tuple(
        FilledLink(*ports.of(link.a), *ports.of(link.b), link.rate or rate_bps, location)
        for link, location in entries.links
    )
    return links, ports


def _hosts(entries: Entries, ports: _FreePorts, rate_bps: int | None) -> Iterator[FilledHost]:
    leaves = [switch.name for role in ("leaf", "edge") for switch, _ in entries.switches if switch.role == role]
    nics = [(host.name, *nic) for host, location in entries.hosts for nic in nics_of(host, location)]
    addresses = _FreeAddresses(leaves, (nic.ipv4 for _, _, nic, _ in nics if nic.ipv4 is not None))
    macs = {nic.mac for _, _, nic, _ in nics if nic.mac is not None}
    for name, number, nic, location in nics:
        switch, port = ports.of(nic.at)
        address, prefix_length = parse_ipv4(nic.ipv4) if nic.ipv4 else (addresses.of(switch), 8)
        mac = nic.mac or _mac(address, macs)
        yield FilledHost(name, switch, port, mac, address, prefix_length, nic.rate or rate_bps, location, number)


class _FreeAddresses:
    """Hands out 10.0.LEAF.N, where LEAF is the leaf's place in the file; N is the next free one on that leaf."""

    def __init__(self, leaves: list[str], given: Iterable[str]) -> None:
        self._taken = {parse_ipv4(address)[0] for address in given}
        self._blocks = {name: number for number, name in enumerate(leaves, start=1) if number <= _BLOCKS}
        self._next: dict[str, int] = {}
        self._overflow = count(_FIRST_OVERFLOW_ADDRESS)

    def of(self, switch: str) -> int:
        block = self._blocks.get(switch)
        if block is not None:
            for number in range(self._next.get(switch, 1), _HOSTS_PER_BLOCK + 1):
                self._next[switch] = number + 1
                address = 10 << 24 | block << 8 | number
                if address not in self._taken:
                    return address
        # A leaf with more hosts than its block holds, or a host on a switch that is no leaf of this file.
        return next(address for address in self._overflow if address not in self._taken)


def _mac(address: int, taken: set[str]) -> str:
    """A locally administered MAC that shows the IPv4 address; the second octet counts up if the file has it already."""
    for second in range(256):
        mac = bytes((2, second)) + address.to_bytes(4, "big")
        if (text := mac.hex(":")) not in taken:
            return text
    # All 256 are in the file: the duplicate is left for the checks to report.
    return text


def parse_ipv4(text: str) -> tuple[int, int]:
    """(address as a number, prefix length) of "10.0.1.1/8"."""
    interface = ipaddress.IPv4Interface(text)
    return int(interface.ip), interface.network.prefixlen


def format_ipv4(address: int) -> str:
    return str(ipaddress.IPv4Address(address))
