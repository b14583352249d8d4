"""From announced jobs to a path for each steerable unit.

Decides what is placed together and what stays put: units that have a living path keep it, because a move reorders
RDMA. Which path is best is `placement`'s; which rules follow is `pipeline`'s.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.core.state import JobState, State, Unit
from controller.fabric.model import Host, PortRef
from controller.fabric.paths import link_capacities, two_tier_paths
from controller.pipeline.rules import Match
from controller.pipeline.steering import SteeredFlow, steer_match
from controller.placement.bounds import with_host_links
from controller.placement.place import place
from controller.placement.problem import Demand, Problem


@dataclass(slots=True)
class UnitLoad:
    """All that is sent over one steerable unit, by whichever jobs."""

    src: Host
    dst: Host
    size_bytes: int = 0

    @property
    def crosses(self) -> bool:
        return self.src.port.dpid != self.dst.port.dpid


def unit_id(unit: Unit) -> str:
    source, destination, port = unit
    return f"{source}>{destination}" + (f":{port}" if port else "")


def units_of(jobs: Iterable[JobState], host_by_address: Mapping[str, Host]) -> dict[Unit, UnitLoad]:
    """Every steerable unit of all jobs; flows of hosts that are not attached at present are left out."""
    result: dict[Unit, UnitLoad] = {}
    for job in jobs:
        for flow in job.flows:
            source, destination = host_by_address.get(flow.src_address), host_by_address.get(flow.dst_address)
            if source is None or destination is None:
                continue
            unit = (flow.src_address, flow.dst_address, flow.udp_source_port)
            load = result.setdefault(unit, UnitLoad(source, destination))
            load.size_bytes += flow.size_bytes
    return result


def hosts_by_address(state: State) -> dict[str, Host]:
    return {address: host for host in state.view.hosts for address in host.addresses}


def replan(state: State, background_bps: Mapping[PortRef, float]) -> None:
    """Places every unit that needs a path and leaves paths, problem and placement in the state."""
    units = units_of(state.jobs.values(), hosts_by_address(state))
    state.refused_units &= units.keys()
    waiting = _awaiting_links(state)
    left_out = state.refused_units | waiting
    crossing = {u: load for u, load in units.items() if load.crosses and u not in left_out}
    pinned = {**state.paths, **state.restored.paths}
    state.problem = Problem(
        demands=tuple(
            Demand(unit_id(u), load.src.port.dpid, load.dst.port.dpid, load.size_bytes, pinned=pinned.get(u))
            for u, load in sorted(crossing.items())
        ),
        paths=two_tier_paths(state.view),
        capacity_bps=link_capacities(state.view),
        background_bps=background_bps,
    )
    placement = place(state.problem)
    state.paths = {u: path for u in crossing if (path := placement.paths.get(unit_id(u))) is not None}
    state.placement = with_host_links(placement, _host_load_s(units.values()))


def _awaiting_links(state: State) -> set[Unit]:
    """Units that had a path before the restart of which not every link has shown itself yet: they may be on it still,
    and placing them elsewhere would move them."""
    ends = {end for link in state.view.links for end in (link.a, link.b)}
    return {unit for unit, path in state.restored.paths.items() if not ends.issuperset(path)}


def _host_load_s(units: Iterable[UnitLoad]) -> float:
    """Seconds that the busiest host link needs for one run of everything announced."""
    sent: dict[PortRef, int] = defaultdict(int)
    received: dict[PortRef, int] = defaultdict(int)
    rate: dict[PortRef, int] = {}
    for unit in units:
        sent[unit.src.port] += unit.size_bytes
        received[unit.dst.port] += unit.size_bytes
        rate[unit.src.port], rate[unit.dst.port] = unit.src.capacity_bps, unit.dst.capacity_bps
    return max((8 * size / rate[port] for loads in (sent, received) for port, size in loads.items()), default=0.0)


def steered_flows(state: State) -> list[SteeredFlow]:
    """What compilation needs: every unit's path, and the way back for its acknowledgements.

    RDMA acknowledges to the same UDP port pair with the addresses exchanged. Hashed, several such streams may meet on
    a link that a data flow fills; on the reverse of its own path each finds as much room as it leaves elsewhere. A
    unit that carries data of its own keeps its own path. The owner is the first job, by name, that uses the unit.
    """
    far = {end: link.other(end) for link in state.view.links for end in (link.a, link.b)}
    owner: dict[Unit, str] = {}
    for job_id in sorted(state.jobs):
        for flow in state.jobs[job_id].flows:
            owner.setdefault((flow.src_address, flow.dst_address, flow.udp_source_port), job_id)
    result = []
    for unit, path in sorted(state.paths.items()):
        result.append(SteeredFlow(*unit, path, owner[unit]))
        back = reverse_unit(unit)
        wanted = back not in state.paths and all(hop in far for hop in path)
        if wanted and state.full.isdisjoint(far[hop].dpid for hop in path):
            result.append(SteeredFlow(*back, tuple(far[hop] for hop in reversed(path)), owner[unit]))
    return result


def reverse_unit(unit: Unit) -> Unit:
    source, destination, port = unit
    return (destination, source, port)


def units_with_matches(state: State, matches: Iterable[Match]) -> set[Unit]:
    """The units behind steering rules, by what the rules match."""
    by_match = {steer_match(unit): unit for unit in state.paths}
    return {by_match[m] for m in matches if m in by_match}
