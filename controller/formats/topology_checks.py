"""What is wrong with a topology file although each of its values is right by itself.

It decides on clashes (names, datapath ids, ports, addresses), on ends that lead nowhere and on interface names that
Linux would refuse. It gets everything filled in, so that an assigned number is checked like a written one. It does
not decide about odd but workable fabrics; those are remarked on in `topology_remarks`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from controller.fabric.model import Role
from controller.formats.topology_fill import Filled, FilledHost, format_ipv4
from controller.formats.topology_schema import MAX_PORT
from controller.formats.yaml_lines import Location

# IFNAMSIZ is 16 with the terminating zero (linux/if.h).
MAX_INTERFACE_NAME = 15


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and the place in the file that it is about."""

    location: Location
    what: str
    cure: str


# Says in words where the file uses a thing first.
Place = Callable[[Location], str]


@dataclass(frozen=True, slots=True)
class Names:
    """Every switch and host that the file names, and where; also those whose entry has a fault of its own, so that
    one fault is not reported again at every cable of that switch."""

    switches: Mapping[str, Location]
    hosts: Mapping[str, Location]


def findings(filled: Filled, names: Names, place: Place) -> Iterator[Finding]:
    """Everything wrong with the file as a whole."""
    yield from _names(filled, place)
    yield from _duplicates(
        ((f"{switch.dpid:#x}", switch.name, (*switch.location, "dpid")) for switch in filled.switches), "dpid", place
    )
    yield from _ends(filled, names.switches.keys())
    yield from _ports(filled, place)
    yield from _duplicates(
        ((format_ipv4(host.address), host.name, (*host.location, "ipv4")) for host in filled.hosts), "address", place
    )
    yield from _duplicates(((host.mac, host.name, (*host.location, "mac")) for host in filled.hosts), "MAC", place)
    yield from _rates(filled)
    yield from _interface_names(filled, names)
    yield from _device_names(filled, place)


def _duplicates(uses: Iterable[tuple[str, str, Location]], kind: str, place: Place) -> Iterator[Finding]:
    """`uses` are (value, whose, where)."""
    first: dict[str, tuple[str, Location]] = {}
    for value, owner, location in uses:
        if value in first:
            other, where = first[value]
            cure = f"give {owner} another one, or leave it out to have one assigned"
            yield Finding(location, f"{kind} {value} of {owner} is that of {other} ({place(where)})", cure)
        else:
            first[value] = (owner, location)


def _names(filled: Filled, place: Place) -> Iterator[Finding]:
    first: dict[str, tuple[str, Location]] = {}
    named = [("switch", switch.name, switch.location) for switch in filled.switches]
    named += [("host", host.name, host.location[:2]) for host in filled.hosts if host.nic <= 1]
    for kind, name, location in named:
        if name in first:
            other, where = first[name]
            what = f'{kind} name "{name}" is that of another {other} ({place(where)})'
            yield Finding((*location, "name"), what, "rename one of the two; switches and hosts share one set of names")
        else:
            first[name] = (kind, location)


def _ends(filled: Filled, known: Set[str]) -> Iterator[Finding]:
    cure = "add the switch, or correct the name; known: " + _some(known)
    for link in filled.links:
        for side, switch in (("a", link.a), ("b", link.b)):
            if switch not in known:
                yield Finding((*link.location, side), f'cable to unknown switch "{switch}"', cure)
        if link.a == link.b:
            what = f"cable from {link.a}:{link.a_port} to {link.b}:{link.b_port}, both on {link.a}"
            yield Finding(link.location, what, "connect two different switches, or remove the cable")
    roles = {switch.name: switch.role for switch in filled.switches}
    for host in filled.hosts:
        if host.switch not in known:
            yield Finding((*host.location, "at"), f'host {host.name} at unknown switch "{host.switch}"', cure)
        elif (role := roles.get(host.switch)) in (Role.SPINE, Role.CORE):
            what = f"host {host.name} is at {host.switch}, which is a {role}"
            yield Finding((*host.location, "at"), what, f"connect it to a leaf, or make {host.switch} a leaf")


def alias_findings(aliases: Mapping[str, str], names: Names) -> Iterator[Finding]:
    """Aliases that lead nowhere, or hide a host behind another's name; names of hosts know no case."""
    hosts = {name.casefold(): name for name in names.hosts}
    first: dict[str, str] = {}
    for alias, name in aliases.items():
        location: Location = ("aliases", alias)
        if name not in names.hosts:
            cure = "add the host, or correct the name; known: " + _some(names.hosts.keys())
            yield Finding(location, f'alias "{alias}" of unknown host "{name}"', cure)
        if (other := hosts.get(alias.casefold(), name)) != name:
            yield Finding(location, f'alias "{alias}" is the name of a host, {other}', "choose another alias")
        if (same := first.setdefault(alias.casefold(), alias)) != alias and aliases[same] != name:
            what = f'alias "{alias}" of {name} differs from "{same}" of {aliases[same]} by case alone'
            yield Finding(location, what, "names of hosts know no case: choose another alias")


def _some(names: Set[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "") or "none"


def _ports(filled: Filled, place: Place) -> Iterator[Finding]:
    first: dict[tuple[str, int], tuple[str, Location]] = {}
    for switch, port, user, location in _port_uses(filled):
        if port > MAX_PORT:
            what = f"{switch} has no port left for {user}: ports end at {MAX_PORT}"
            yield Finding(location, what, "use another switch")
        elif (switch, port) in first:
            other, where = first[switch, port]
            what = f"port {switch}:{port} is used by {other} ({place(where)}) and by {user}"
            yield Finding(location, what, "give one of them another port, or leave the port out to have one assigned")
        else:
            first[switch, port] = (user, location)


def _port_uses(filled: Filled) -> Iterator[tuple[str, int, str, Location]]:
    """(switch, port, user in words, where)."""
    for link in filled.links:
        yield link.a, link.a_port, f"the cable to {link.b}:{link.b_port}", (*link.location, "a")
        yield link.b, link.b_port, f"the cable to {link.a}:{link.a_port}", (*link.location, "b")
    for host in filled.hosts:
        yield host.switch, host.port, f"host {host.name}", (*host.location, "at")


def _rates(filled: Filled) -> Iterator[Finding]:
    cure = 'add "rate: 100G" here, or once at the top of the file for all cables'
    for link in filled.links:
        if link.rate_bps is None:
            what = f"the cable from {link.a}:{link.a_port} to {link.b}:{link.b_port} has no rate"
            yield Finding(link.location, what, cure)
    for host in filled.hosts:
        if host.rate_bps is None:
            yield Finding(host.location, f"host {host.name} has no rate", cure)


def _interface_names(filled: Filled, names: Names) -> Iterator[Finding]:
    """One finding for each name that is too long, about its longest interface."""
    highest: dict[str, int] = {}
    for switch, port, _, _ in _port_uses(filled):
        highest[switch] = max(port, highest.get(switch, 0))
    for name, location in names.switches.items():
        # A switch without a cable yet will have one some day.
        yield from _too_long("switch", name, f"{name}-eth{highest.get(name, 1)}", location)
    interfaces = {host.name: _interface(host) for host in filled.hosts}
    for name, location in names.hosts.items():
        yield from _too_long("host", name, interfaces.get(name, f"{name}-eth0"), location)


def _interface(host: FilledHost) -> str:
    """Mininet's own spelling."""
    return f"{host.name}-eth{max(host.nic - 1, 0)}"


def _device_names(filled: Filled, place: Place) -> Iterator[Finding]:
    """A bridge is a network device too, and bears the switch's name."""
    bridges = {switch.name: switch.location for switch in filled.switches}
    devices = [(f"{switch}-eth{port}", location) for switch, port, _, location in _port_uses(filled)]
    devices += [(_interface(host), host.location) for host in filled.hosts]
    for device, location in devices:
        if device in bridges:
            what = f'interface name "{device}" is also the name of a switch ({place(bridges[device])})'
            yield Finding(location, what, "rename that switch")


def _too_long(kind: str, name: str, interface: str, location: Location) -> Iterator[Finding]:
    excess = len(interface) - MAX_INTERFACE_NAME
    if excess > 0:
        what = f'interface name "{interface}" has {len(interface)} characters, Linux allows {MAX_INTERFACE_NAME}'
        plural = "s" if excess > 1 else ""
        yield Finding((*location, "name"), what, f'shorten {kind} name "{name}" by {excess} character{plural}')
