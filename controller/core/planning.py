"""From announced jobs to a path for each steerable unit.

Decides what is placed together and what stays put: units that have a living path keep it, because a move reorders
RDMA; only when asked to, and for a gain, are they moved. Which path is best is `placement`'s; which rules follow is
`pipeline`'s.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType

from controller.core.detours import Around, placed_around
from controller.core.fitting import Rank, SteerRoom, fit, steer_rooms
from controller.core.remembered import Facts
from controller.core.state import JobState, State, Unit, UnitMove
from controller.fabric.edge_paths import fitted
from controller.fabric.model import Host, Path, PortRef
from controller.pipeline.refusals import NoRoom
from controller.pipeline.rules import AddRule, SwitchTables
from controller.pipeline.steering import SteeredFlow, Steering
from controller.placement.completion import with_completion
from controller.placement.effort import first_effort
from controller.placement.moves import THRESHOLD, Move, Replan
from controller.placement.phases import PhaseKey, spread
from controller.placement.problem import Demand


@dataclass(slots=True)
class UnitLoad:
    """All that is sent over one steerable unit, by whichever jobs."""

    src: Host
    dst: Host
    size_bytes: int = 0
    # The highest of the jobs that use it.
    priority: int = 0
    # Its bytes by phase; empty where no job has phases.
    phases: dict[PhaseKey, int] = field(default_factory=dict)

    @property
    def crosses(self) -> bool:
        return self.src.leaf != self.dst.leaf


def unit_id(unit: Unit) -> str:
    source, destination, port = unit
    return f"{source}>{destination}" + (f":{port}" if port else "")


def units_of(jobs: Iterable[JobState], host_by_address: Mapping[str, Host]) -> dict[Unit, UnitLoad]:
    """Every steerable unit of all jobs; flows of hosts that are not attached at present are left out."""
    result: dict[Unit, UnitLoad] = {}
    listed = tuple(jobs)
    phased = any(job.collective.phase for job in listed)
    for job in listed:
        announced = job.collective.phase
        phase = (announced.iteration, announced.number) if announced else None
        for flow in job.flows:
            source, destination = host_by_address.get(flow.src_address), host_by_address.get(flow.dst_address)
            if source is None or destination is None:
                continue
            unit = (flow.src_address, flow.dst_address, flow.udp_source_port)
            load = result.setdefault(unit, UnitLoad(source, destination))
            load.size_bytes += flow.size_bytes
            load.priority = max(load.priority, job.collective.priority)
            if phased:
                load.phases[phase] = load.phases.get(phase, 0) + flow.size_bytes
    return result


def hosts_by_address(state: State) -> dict[str, Host]:
    return {address: host for host in state.view.hosts for address in host.addresses}


def replan(
    state: State,
    background_bps: Mapping[PortRef, float],
    base: Mapping[int, SwitchTables],
    *,
    may_move: bool = False,
    better: Replan | None = None,
) -> None:
    """Places every unit that needs a path, as far as the switches have room for its rules, and leaves paths, steering,
    problem, placement and moves in the state. `base` is what the switches should hold besides. Units that could stay
    are moved only if they `may_move` and the plan gains enough by it, or to where a search has found it `better`."""
    units = units_of(state.jobs.values(), hosts_by_address(state))
    left_out = _awaiting_links(state)
    crossing = {u: load for u, load in units.items() if load.crosses and u not in left_out}
    state.waiting = _waiting(state, crossing)
    planner = _Planning(state, crossing, steer_rooms(state, base), background_bps)
    pinned, refused = _pinned(state, crossing), state.refused_units
    if better is not None:
        found = better.placement.paths
        pinned |= {unit: found[unit_id(unit)] for unit in crossing if unit_id(unit) in found}
    plan = planner.place(pinned, lambda u: u not in pinned or u in refused, THRESHOLD if may_move else inf)
    if better is not None and plan.around.found.placement.paths == better.placement.paths:
        # The same, with what the search has proven of it.
        plan = replace(plan, around=replace(plan.around, found=better))
    moves = plan.around.found.moves
    if plan.given_up:
        plan = planner.second_try(plan, pinned)
    state.problem, state.paths, state.steering = plan.around.problem, plan.paths, plan.rules
    state.given_up, state.refused_units = plan.given_up, set().union(*plan.given_up.values())
    load_s = _host_load_s(units.values())
    state.placement = with_completion(plan.around.problem, plan.around.found.placement, load_s, plan.around.whole)
    _note_moves(state, moves)


@dataclass(frozen=True, slots=True)
class _Plan:
    """`given_up[dpid]` are the units that found no room there."""

    around: Around
    paths: dict[Unit, Path]
    rules: Mapping[int, Sequence[Steering]]
    given_up: dict[int, frozenset[Unit]]


@dataclass(frozen=True, slots=True)
class _Planning:
    """All that a placement depends on but where units stay."""

    state: State
    crossing: Mapping[Unit, UnitLoad]
    rooms: Mapping[int, SteerRoom]
    background_bps: Mapping[PortRef, float]

    def second_try(self, plan: _Plan, pinned: Mapping[Unit, Path]) -> _Plan:
        """Whoever found no room is placed once more, round the switches that are full; whoever has a path keeps it.

        Placement knows of loads and not of rooms, so that the last room of one switch may stay unused while flows are
        offered to another, which is full."""

        def newly(unit: Unit) -> bool:
            return unit not in plan.paths

        full = frozenset(dpid for dpid, room in self.rooms.items() if len(plan.rules.get(dpid, ())) == room.rules)
        second = self.place({**pinned, **plan.paths}, newly, inf, avoided=full)
        if len(second.paths) <= len(plan.paths):
            return plan
        # Once more with all that was found, for a certificate about the whole fabric.
        return self.place({**pinned, **second.paths}, lambda unit: unit not in second.paths, inf, second.given_up)

    def place(
        self,
        pinned: Mapping[Unit, Path],
        rank: Rank,
        threshold: float,
        lost_before: Mapping[int, frozenset[Unit]] = MappingProxyType({}),
        avoided: frozenset[int] = frozenset(),
    ) -> _Plan:
        """Places and fits until what is placed fits, leaving out what was `lost_before`; what is not pinned crosses an
        `avoided` spine only if it must. `rank` is as in `fitting.fit`, `threshold` as in `moves.replan`."""
        given_up = dict(lost_before)
        out = set(self.state.waiting).union(*given_up.values())
        silent, group_of = silent_switches(self.state) | avoided, groups_of(self.crossing)
        while True:
            placed = {unit: load for unit, load in sorted(self.crossing.items()) if unit not in out}
            demands = tuple(
                Demand(unit_id(u), load.src.leaf, load.dst.leaf, load.size_bytes, pinned.get(u), load.priority)
                for u, load in placed.items()
            )
            phases = spread({unit_id(u): load.phases for u, load in placed.items() if load.phases})
            effort = first_effort(len(demands))
            around = placed_around(
                demands, self.state.view, silent, self.background_bps, group_of, threshold, phases, effort
            )
            found = around.found.placement.paths
            paths = {unit: path for unit in placed if (path := found.get(unit_id(unit))) is not None}
            steered = fit(self.state.near, steered_flows(self.state, paths), self.rooms, out, rank)
            if not steered.given_up:
                return _Plan(around, paths, steered.rules, given_up)
            for dpid, lost in steered.given_up.items():
                given_up[dpid] = given_up.get(dpid, frozenset()) | lost
            out |= steered.all_given_up


def groups_of(crossing: Iterable[Unit]) -> dict[str, str]:
    """What keeps together while that is as good: the queue pairs from one address to another that are told apart."""
    return {unit_id(unit): f"{unit[0]}>{unit[1]}" for unit in crossing if unit[2]}


def _note_moves(state: State, moves: Iterable[Move]) -> None:
    """Remembers the latest move of every unit that is placed; a first path is no move."""
    moved = {move.flow_id: move for move in moves if move.before}
    kept = {unit: move for unit, move in state.moves.items() if unit in state.paths}
    new = {unit: UnitMove(moved[unit_id(unit)], state.revision + 1) for unit in state.paths if unit_id(unit) in moved}
    state.moves = kept | new


def could_gain(state: State) -> bool:
    """Whether moving units that could stay might be worth it, and is wise: nowhere a switch is silent or short of room,
    and everything that is there has been seen."""
    if state.placement is None or state.learning or state.full or state.given_up or silent_switches(state):
        return False
    found = state.placement.certificate
    return found.max_load_s > found.lower_bound_s * (1 + THRESHOLD)


def silent_switches(state: State) -> frozenset[int]:
    """Switches that are away or owe an answer: their tables go on forwarding, but cannot be changed."""
    return frozenset(s.dpid for s in state.switches.values() if s.session_id is None or s.suspect)


def _where_laid(state: State, units: Iterable[Unit]) -> dict[Unit, Path]:
    """The paths that are known to be on the switches and to live."""
    ends = {end for link in state.view.links for end in (link.a, link.b)}
    laid = {**state.laid, **state.restored.paths}
    return {unit: path for unit in units if (path := laid.get(unit)) is not None and ends.issuperset(path)}


def _waiting(state: State, crossing: Mapping[Unit, UnitLoad]) -> dict[Unit, int]:
    """Units whose leaf cannot be told their path at present, and that leaf. What is laid stays and needs no telling."""
    silent = silent_switches(state)
    entering = {u: load.src.leaf for u, load in crossing.items() if load.src.leaf in silent}
    laid = _where_laid(state, entering)
    return {unit: leaf for unit, leaf in entering.items() if unit not in laid}


def _pinned(state: State, crossing: Mapping[Unit, UnitLoad]) -> dict[Unit, Path]:
    """Where units stay. A path that was chosen but is not laid is chosen anew when it needs a switch that is silent."""
    silent = silent_switches(state)
    laid = _where_laid(state, crossing)
    pinned = {**state.paths, **state.restored.paths}
    result = {}
    for unit in crossing:
        path = pinned.get(unit)
        if path is not None and not silent.isdisjoint(hop.dpid for hop in path):
            path = laid.get(unit)
        if path is not None:
            load = crossing[unit]
            result[unit] = fitted(path, load.src, load.dst, state.near.owner_of, state.near.towards)
    return result


def take_over_restored(state: State) -> None:
    """Restored paths have served as pins for the last time. Those that were kept are on the switches, also on those
    that are away and will not say so."""
    kept = {unit: path for unit, path in state.restored.paths.items() if state.paths.get(unit) == path}
    state.laid = kept | state.laid
    state.restored = Facts()


def note_laid(state: State) -> None:
    """To be called when every switch that answers holds what it should: which paths the switches are known to hold."""
    silent = silent_switches(state)
    state.laid = {
        unit: path
        for unit, path in state.paths.items()
        if silent.isdisjoint(hop.dpid for hop in path) or state.laid.get(unit) == path or path[0].dpid not in silent
    }


def _awaiting_links(state: State) -> set[Unit]:
    """Units that had a path before the restart of which not every link has shown itself yet: they may be on it still,
    and placing them elsewhere would move them."""
    if not state.learning:
        return set()
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


def steered_flows(state: State, paths: Mapping[Unit, Path]) -> list[SteeredFlow]:
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
    pairs = {unit[:2] for unit in owner}
    result = []
    for unit, path in sorted(paths.items()):
        result.append(SteeredFlow(*unit, path, owner[unit]))
        back = reverse_unit(unit)
        # A unit that was given up must not be steered after all because it is the way back of another.
        free = back not in owner and (back[2] or back[:2] not in pairs)
        if free and all(hop in far for hop in path):
            way_back = tuple(far[hop] for hop in reversed(path))
            result.append(SteeredFlow(*back, way_back, owner[unit], optional=True))
    return result


def reverse_unit(unit: Unit) -> Unit:
    source, destination, port = unit
    return (destination, source, port)


def refuse(state: State, refused: Iterable[NoRoom]) -> None:
    """Notes the units behind refused steering rules: they are the first to go when not all of them fit."""
    matches = {(r.dpid, r.modification.rule.match) for r in refused if isinstance(r.modification, AddRule)}
    for dpid, rules in state.steering.items():
        state.refused_units |= {unit for rule in rules if (dpid, rule.match) in matches for unit in rule.units}
