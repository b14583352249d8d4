"""Fits steering into what the switches can hold: finer rules where there is room, wider ones where it is short, and
the whole flow left to ECMP, on every switch, where even those do not fit.

Decides which flows give up their rules. How rules are put together is `pipeline.aggregate`'s; what a switch can hold
is learned in `capacity`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.core.state import State, Unit
from controller.pipeline.aggregate import by_pair, by_prefix
from controller.pipeline.detour import Detours
from controller.pipeline.neighbourhood import Neighbourhood
from controller.pipeline.rules import SwitchTables
from controller.pipeline.steering import (
    SteeredFlow,
    Steering,
    Way,
    shared_choices,
    steer_tables,
    steerings,
    way_choices,
)
from controller.pipeline.tables import STEER

# Lower is kept rather.
Rank = Callable[[Unit], int]


@dataclass(frozen=True, slots=True)
class SteerRoom:
    """What steering may use on one switch; None is without limit. `shared`: its groups serve several destinations."""

    rules: int | None
    groups: int | None
    shared: bool


@dataclass(frozen=True, slots=True)
class Fitted:
    """`given_up[dpid]` are the units that had to go for want of room there."""

    rules: Mapping[int, Sequence[Steering]]
    given_up: Mapping[int, frozenset[Unit]]

    @property
    def all_given_up(self) -> frozenset[Unit]:
        return frozenset().union(*self.given_up.values())


def steer_rooms(state: State, base: Mapping[int, SwitchTables]) -> dict[int, SteerRoom]:
    """For the switches of which some limit is known: what the rest of our rules, and others' rules, leave."""
    result = {}
    for dpid, room in state.rooms.items():
        most, groups = room.most_rules(STEER.table_id), room.most_groups()
        known = base.get(dpid, SwitchTables())
        actual = state.switches[dpid].actual if dpid in state.switches else None
        foreign = actual.foreign_rules() if actual else []
        if most is not None:
            most -= sum(r.table_id == STEER.table_id for r in (*known.rules, *foreign))
        if groups is not None:
            groups -= len(known.groups)
        if most is not None or groups is not None:
            result[dpid] = SteerRoom(
                None if most is None else max(0, most), None if groups is None else max(0, groups), room.shared_groups
            )
    return result


def fit(
    near: Neighbourhood,
    flows: Sequence[SteeredFlow],
    rooms: Mapping[int, SteerRoom],
    left_out: Collection[Unit],
    rank: Rank,
) -> Fitted:
    """The rules of every switch for the flows that can keep their paths; a flow that does not fit on one of its
    switches is given up on all."""
    finest = steerings(near, flows)
    out, given_up = set(left_out), defaultdict[int, set[Unit]](set)
    again = True
    while again:
        again = False
        chosen: dict[int, list[Steering]] = {}
        for dpid, rules in sorted(finest.items()):
            chosen[dpid] = [rule for rule in rules if out.isdisjoint(rule.units)]
            if dpid in rooms:
                chosen[dpid], lost = _fit_one(near, dpid, chosen[dpid], rooms[dpid], out, rank)
                given_up[dpid] |= lost
                # Switches that come later need not make room for what this one has given up; earlier ones look again.
                out |= lost
                again = again or bool(lost)
    return Fitted(chosen, {dpid: frozenset(units) for dpid, units in given_up.items() if units})


def _fit_one(
    near: Neighbourhood, dpid: int, rules: list[Steering], room: SteerRoom, out: Collection[Unit], rank: Rank
) -> tuple[list[Steering], set[Unit]]:
    """(the rules that fit, the units behind those that do not)."""
    choices = shared_choices if room.shared else way_choices

    def group_of(way: Way) -> tuple[int, ...]:
        # Unshared groups differ by destination even where their ports do not.
        return choices(near, dpid, way) if room.shared else way

    def fits(tried: Sequence[Steering]) -> bool:
        if room.rules is not None and len(tried) > room.rules:
            return False
        return room.groups is None or len({group_of(rule.way) for rule in tried}) <= room.groups

    if fits(rules):
        return rules, set()
    # Ways back are a comfort: they make room before any flow has to give up its path.
    tried = [rule for rule in rules if not rule.optional]
    if room.rules is not None and len(tried) > room.rules:
        tried = by_pair(tried, out)
    if room.rules is not None and len(tried) > room.rules:
        tried = by_prefix(near, dpid, tried, out)
    kept = _best_groups(tried, group_of, room.groups)
    # A rule that an earlier flow needs is kept, whoever else has come to share it.
    kept.sort(key=lambda rule: (min(map(rank, rule.units)), -len(rule.units), rule.match_order))
    kept = kept[: room.rules]
    keeps = {id(rule) for rule in kept}
    return kept, {unit for rule in tried if id(rule) not in keeps for unit in rule.units}


def _best_groups(
    rules: Iterable[Steering], group_of: Callable[[Way], tuple[int, ...]], most: int | None
) -> list[Steering]:
    """The rules that the `most` most used groups serve."""
    rules = list(rules)
    if most is None:
        return rules
    uses: Counter[tuple[int, ...]] = Counter()
    for rule in rules:
        uses[group_of(rule.way)] += len(rule.units)
    best = set(sorted(uses, key=lambda group: (-uses[group], group))[:most])
    return [rule for rule in rules if group_of(rule.way) in best]


def tables(state: State) -> dict[int, SwitchTables]:
    """The steering rules and groups that were fitted last; a switch without any is left out."""
    detours = Detours.of(state.near)
    result = {}
    for dpid, rules in state.steering.items():
        if rules:
            room = state.rooms.get(dpid)
            shared, without = (False, False) if room is None else (room.shared_groups, room.without_detours)
            result[dpid] = steer_tables(state.near, dpid, rules, shared, None if without else detours)
    return result
