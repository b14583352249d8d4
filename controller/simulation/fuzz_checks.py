"""What must hold whenever a fuzzed fabric has come to rest. Each check answers sentences; none means that it holds.

When the checks are made, and what has happened before, is decided in `fuzz_run`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from controller.core.commands import ReadPortStatistics, ReadTables, SendBatch, SendPacket
from controller.core.machine import Core
from controller.core.planning import hosts_by_address, silent_switches, unit_id, units_of
from controller.core.state import Unit
from controller.fabric.model import Path, PortRef
from controller.fabric.paths import link_capacities
from controller.pipeline.cookies import is_ours
from controller.pipeline.groups import is_ours as is_our_group
from controller.pipeline.packet import Packet, udp
from controller.pipeline.rules import SwitchTables
from controller.placement.capacity import effective_bps
from controller.simulation.hosts import ModelHost
from controller.simulation.network import ModelNetwork
from controller.simulation.record import Record
from controller.simulation.walk import Reachability, Violation, check_delivery, walk

# Two tiers: leaf, spine, leaf.
LONGEST_PATH = 3
_SOME_PORT = 50001
# Relative; sums of the same numbers in another order differ in their last bits.
_TOLERANCE = 1e-9
_NAMED = 4
_RETRY_BATCHES = 6


def probes(units: Iterable[Unit]) -> "Probes":
    """Tries a packet that no job announced and one of every steered flow between two hosts."""
    ports: dict[tuple[str, str], list[int]] = defaultdict(lambda: [_SOME_PORT])
    for source, destination, port in units:
        if port:
            ports[source, destination].append(port)
    return Probes(ports)


class Probes:
    """The packets to try between two hosts, by their addresses."""

    def __init__(self, ports: Mapping[tuple[str, str], Sequence[int]]) -> None:
        self._ports = ports

    def __call__(self, source: ModelHost, destination: ModelHost) -> list[Packet]:
        ends = (source.ipv4_text, destination.ipv4_text, source.mac_text, destination.mac_text)
        return [udp(*ends, port) for port in self._ports.get((source.ipv4_text, destination.ipv4_text), [_SOME_PORT])]


def delivery(network: ModelNetwork, core: Core) -> dict[str, list[str]]:
    """By what is wrong: every pair of hosts is reached where cables allow, once, without a loop."""
    found: dict[str, list[str]] = defaultdict(list)
    for violation in check_delivery(network, probes=probes(core.state.paths), longest_path=LONGEST_PATH):
        found[violation.wrong.value].append(str(violation))
    return found


def worded(violations: Sequence[tuple[float, Violation]]) -> list[str]:
    """What a watch saw, with its times."""
    return [f"at {at_s:.4f} s {violation}" for at_s, violation in violations]


def tables(network: ModelNetwork, core: Core) -> Iterator[str]:
    """Every switch with a session holds exactly what it should, and the core knows what it holds."""
    for switch in network.wiring.switches.values():
        session, known = network.sessions.get(switch.dpid), core.state.switches.get(switch.dpid)
        if session is None or not (session.open_at_core and session.open_at_switch):
            if not network.is_off(switch.name):
                yield f"{switch.name} is on but has no session"
            continue
        held, desired = switch.tables(), core.state.desired.get(switch.dpid)
        if known is None or desired is None:
            yield f"{switch.name} has a session, and nothing is desired of it"
            continue
        yield from (f"{switch.name} {text}" for text in _differences(desired, held))
        if known.actual is None:
            yield f"{switch.name} has not been read"
        else:
            believed = SwitchTables(frozenset(known.actual.rules.values()), frozenset(known.actual.groups.values()))
            yield from (
                f"{switch.name}, believes the core, {text}" for text in _differences(desired, believed, meters=False)
            )


def _differences(desired: SwitchTables, held: SwitchTables, *, meters: bool = True) -> Iterator[str]:
    ours = {rule for rule in held.rules if is_ours(rule.cookie)}
    groups = {group for group in held.groups if is_our_group(group.group_id)}
    kinds = (
        ("lacks rule", desired.rules - ours),
        ("has superfluous rule", ours - desired.rules),
        ("lacks group", desired.groups - groups),
        ("has superfluous group", groups - desired.groups),
        ("lacks meter", desired.meters - held.meters if meters else frozenset()),
    )
    for text, entries in kinds:
        yield from (f"{text} {entry}" for entry in sorted(map(str, entries))[:_NAMED])


def foreign(network: ModelNetwork, added: Mapping[str, SwitchTables], *, removed: bool) -> Iterator[str]:
    """Nothing that others laid has been touched; but their rules have gone where that is the policy."""
    for name, theirs in added.items():
        held = network.switch(name).tables()
        if removed:
            yield from (f"{name} still has foreign {rule}" for rule in theirs.rules & held.rules)
        for kind in ("groups", "meters") if removed else ("rules", "groups", "meters"):
            yield from (f"{name} lost foreign {entry}" for entry in getattr(theirs, kind) - getattr(held, kind))


def reservations(core: Core) -> Iterator[str]:
    """Reserved load is the sum over the planned flows, and every flow that can have a path has one."""
    state = core.state
    units, silent = units_of(state.jobs.values(), hosts_by_address(state)), silent_switches(state)
    capacity_bps = link_capacities(state.view)
    load_s: dict[PortRef, float] = dict.fromkeys(capacity_bps, 0.0)
    background_bps = state.problem.background_bps
    free_bps = {hop: float(effective_bps(rate, background_bps.get(hop, 0.0))) for hop, rate in capacity_bps.items()}
    for unit, path in state.paths.items():
        if unit not in units or not units[unit].crosses:
            yield f"{unit_id(unit)} has a path, and no job needs it"
            continue
        dead = [hop for hop in path if hop not in capacity_bps]
        if dead:
            yield f"{unit_id(unit)} is planned over {dead[0]}, which is not usable"
            continue
        for hop in path:
            load_s[hop] += 8 * units[unit].size_bytes / free_bps[hop]
    reserved_s = state.placement.load_s if state.placement else {}
    for hop, expected_s in load_s.items():
        if abs(reserved_s.get(hop, 0.0) - expected_s) > _TOLERANCE * max(1.0, expected_s):
            yield f"{reserved_s.get(hop, 0.0)} s are reserved on {hop}; its flows need {expected_s} s"
    yield from (
        f"{load_s} s are reserved on {hop}, no link" for hop, load_s in reserved_s.items() if hop not in capacity_bps
    )
    for unit, load in units.items():
        # A leaf that is away cannot be told a path.
        waits = unit in state.waiting and load.src.leaf in silent
        possible = load.crosses and unit not in state.refused_units and not waits
        if possible and unit not in state.paths and state.problem.paths.get((load.src.leaf, load.dst.leaf)):
            yield f"{unit_id(unit)} has no path although there is one"


def planned_paths(network: ModelNetwork, core: Core) -> Iterator[str]:
    """Packets of planned flows take the planned path."""
    by_address = {host.ipv4_text: host for host in network.hosts.values()}
    reach = Reachability(network)
    for unit, path in core.state.paths.items():
        source, destination = by_address[unit[0]], by_address[unit[1]]
        if not reach.connected(source.name, destination.name):
            continue  # A host whose cable failed silently stays planned: nothing but its own silence could tell.
        ends = (source.ipv4_text, destination.ipv4_text, source.mac_text, destination.mac_text)
        result = walk(network, udp(*ends, unit[2] or _SOME_PORT), source.name)
        # Paths begin and end at the leaf of a host below an edge switch that has no other.
        first = int(source.port.dpid != path[0].dpid)
        if result.ports[first : first + len(path)] != _named(network, path):
            yield f"{unit_id(unit)} should take {_named(network, path)}: {result.explain()}"


def _named(network: ModelNetwork, path: Path) -> tuple[tuple[str, int], ...]:
    return tuple((network.wiring.by_dpid[hop.dpid].name, hop.port_no) for hop in path)


def unlimited(core: Core) -> Iterator[str]:
    """A switch with room for everything refuses nothing."""
    if core.state.refused_units or core.state.full:
        yield f"{len(core.state.refused_units)} flows count as refused, {len(core.state.full)} switches as full"


def quiet_traffic(network: ModelNetwork, core: Core, record: Record, seconds: float, *, limited: bool) -> Iterator[str]:
    """At rest only beacons, host probes, statistics and audits pass, at the rates they are set to.

    Where room is `limited` the core tries again now and then whether more fits; one round takes some batches.
    """
    settings, switches = core.settings, len(network.wiring.switches)
    ports = sum(len(switch.ports) for switch in network.wiring.switches.values())
    beacons = ports * (seconds / (0.9 * settings.beacon_period_s) + 1)
    host_probes = len(network.hosts) * (seconds / settings.statistics_period_s + 1)
    beats = switches * (seconds / settings.heartbeat_period_s + 1) if settings.heartbeat_period_s else 0.0
    limits = {
        SendBatch: float(_RETRY_BATCHES * switches if limited else 0),
        SendPacket: beacons + host_probes + beats,
        ReadTables: switches * (seconds / settings.audit_period_s + 1),
        ReadPortStatistics: switches * (seconds / settings.statistics_period_s + 1) + beats,
    }
    for kind, most in limits.items():
        count = len(record.commands_of(kind))
        if count > most:
            yield f"{count} x {kind.__name__} in {seconds} s at rest, {most:.0f} at most are due"
