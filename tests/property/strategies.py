"""Hypothesis strategies for whole fabrics: any plan that a topology file can describe."""

import ipaddress
import string
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import strategies as st

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink, PlannedSwitch

# "-eth" and a port of two digits must fit into Linux's 15 characters behind a name.
_NAME_LENGTH = 9
_MAX_PORT = 99
_FIRST = string.ascii_letters
_REST = string.ascii_letters + string.digits + "._-"
# Words that some YAML reader takes for something else than text.
_AWKWARD = st.sampled_from(["null", "true", "no", "on", "y", "e1", "a-b", "x.y", "Z_"])

rates = st.integers(min_value=1, max_value=10**14)
names = st.builds(lambda first, rest: first + rest, st.sampled_from(_FIRST), st.text(_REST, max_size=_NAME_LENGTH - 1))


def _free_of_device_names(chosen: list[str]) -> bool:
    """No name that looks like another's interface ("a-eth1")."""
    return not any("-eth" in name for name in chosen)


def _addresses(prefix_length: int, count: int) -> st.SearchStrategy[list[int]]:
    """Distinct host addresses in 10.0.0.0/8, none of them the first or last of its subnet."""
    host_bits = (1 << (32 - prefix_length)) - 1
    usable = st.integers(10 << 24, (11 << 24) - 1).filter(lambda address: 0 < address & host_bits < host_bits)
    return st.lists(usable, min_size=count, max_size=count, unique=True)


@st.composite
def fabric_plans(draw: st.DrawFn, max_switches: int = 6, max_cables: int = 12, max_hosts: int = 8) -> FabricPlan:
    """Plans as `topology_file.load` returns them: leaves and spines, any cables between different switches, hosts on
    leaves only, everything distinct that must be."""
    n_switches = draw(st.integers(1, max_switches))
    n_hosts = draw(st.integers(0, max_hosts))
    total = n_switches + n_hosts
    chosen = draw(st.lists(names | _AWKWARD, min_size=total, max_size=total, unique=True).filter(_free_of_device_names))
    dpids = draw(st.lists(st.integers(1, 2**64 - 1), min_size=n_switches, max_size=n_switches, unique=True))
    roles = draw(st.lists(st.sampled_from([Role.LEAF, Role.SPINE]), min_size=n_switches, max_size=n_switches))
    switches = tuple(PlannedSwitch(*each) for each in zip(chosen, dpids, roles, strict=False))
    free = {switch.name: draw(st.permutations(range(1, _MAX_PORT + 1))) for switch in switches}
    links = tuple(_link(draw, switches, free) for _ in range(draw(st.integers(0, max_cables)) if n_switches > 1 else 0))
    leaves = [switch.name for switch in switches if switch.role == Role.LEAF]
    hosts = _hosts(draw, chosen[n_switches:], leaves, free) if leaves else ()
    return FabricPlan(draw(names | _AWKWARD | st.sampled_from(["4x4", "1e5", "0101", "123"])), switches, links, hosts)


def _link(draw: st.DrawFn, switches: tuple[PlannedSwitch, ...], free: dict[str, list[int]]) -> PlannedLink:
    a, b = draw(st.lists(st.sampled_from(sorted(free)), min_size=2, max_size=2, unique=True))
    return PlannedLink(a, free[a].pop(), b, free[b].pop(), draw(rates))


def _hosts(
    draw: st.DrawFn, chosen: list[str], leaves: list[str], free: dict[str, list[int]]
) -> tuple[PlannedHost, ...]:
    prefix_length = draw(st.integers(8, 30))
    addresses = draw(_addresses(prefix_length, len(chosen)))
    suffixes = draw(
        st.lists(st.binary(min_size=5, max_size=5), min_size=len(chosen), max_size=len(chosen), unique=True)
    )
    result = []
    for name, address, suffix in zip(chosen, addresses, suffixes, strict=True):
        leaf = draw(st.sampled_from(leaves))
        mac = (b"\x12" + suffix).hex(":")
        ipv4 = str(ipaddress.IPv4Address(address))
        result.append(PlannedHost(name, leaf, free[leaf].pop(), mac, ipv4, prefix_length, draw(rates)))
    return tuple(_joined(draw, result))


def _joined(draw: st.DrawFn, hosts: list[PlannedHost]) -> Iterator[PlannedHost]:
    """Some of them are interfaces of one host."""
    while hosts:
        together, hosts = hosts[: (size := draw(st.integers(1, 3)))], hosts[size:]
        numbers = range(1, len(together) + 1) if len(together) > 1 else (0,)
        yield from (replace(h, name=together[0].name, nic=n) for h, n in zip(together, numbers, strict=True))
