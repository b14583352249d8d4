"""From what a switch holds to what it should hold: ordered modifications, in three stages.

1. PREPARE: meters and groups, a barrier, then every rule that is not an ingress decision, later tables first.
2. SWITCH: the ingress rules that move traffic onto what was prepared, be it a planned path or an uplink more.
3. REMOVE: rules no longer wanted, a barrier, then groups and meters that nothing uses any more.

A stage is begun only when the stage before is done on *every* switch (`core.reconcile` sees to that), so traffic
never meets a path that is half there; unless what is prepared concerns each switch alone.
Nothing is ever deleted that is not named one by one.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter

from controller.pipeline.cookies import Kind, is_ours, kind_of
from controller.pipeline.groups import is_ours as is_our_group
from controller.pipeline.rules import (
    AddGroup,
    AddMeter,
    AddRule,
    Barrier,
    Bundle,
    DeleteGroup,
    DeleteMeter,
    DeleteRule,
    Group,
    Match,
    Meter,
    Modification,
    ModifyGroup,
    ModifyMeter,
    Output,
    Rule,
    SwitchTables,
    ToGroup,
)

RuleKey = tuple[int, int, Match]
_ORDER = attrgetter("order")


class Stage(IntEnum):
    PREPARE = 1
    SWITCH = 2
    REMOVE = 3


@dataclass(slots=True)
class ActualTables:
    """What a switch is known to hold, kept up to date by every acknowledged modification."""

    rules: dict[RuleKey, Rule] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    meters: dict[int, Meter] = field(default_factory=dict)
    # How often `apply` has been called, and which rules it has touched since somebody cleared this.
    changes: int = field(default=0, compare=False)
    touched: set[RuleKey] = field(default_factory=set, compare=False)

    @classmethod
    def of(cls, tables: SwitchTables) -> "ActualTables":
        return cls(
            {r.key: r for r in tables.rules},
            {g.group_id: g for g in tables.groups},
            {m.meter_id: m for m in tables.meters},
        )

    def apply(self, modification: Modification) -> None:
        self.changes += 1
        match modification:
            case AddRule(rule):
                self.rules[rule.key] = rule
                self.touched.add(rule.key)
            case DeleteRule(rule):
                self.rules.pop(rule.key, None)
                self.touched.add(rule.key)
            case AddGroup(group) | ModifyGroup(group):
                self.groups[group.group_id] = group
            case DeleteGroup(group_id):
                self.groups.pop(group_id, None)
            case AddMeter(meter) | ModifyMeter(meter):
                self.meters[meter.meter_id] = meter
            case DeleteMeter(meter_id):
                self.meters.pop(meter_id, None)
            case Barrier():
                pass

    def has_ours(self) -> bool:
        return any(is_ours(rule.cookie) for rule in self.rules.values())

    def foreign_rules(self) -> list[Rule]:
        return [rule for rule in self.rules.values() if not is_ours(rule.cookie)]


def stages(
    desired: SwitchTables,
    actual: ActualTables,
    is_ingress: Callable[[Rule], bool],
    is_unwanted: Callable[[Rule], bool] = lambda _: False,
) -> Mapping[Stage, tuple[Modification, ...]]:
    """The modifications of each stage that has any. `is_ingress(rule)` tells the rules that decide where traffic
    enters its path, `is_unwanted(rule)` the foreign ones that are to go as well."""
    wanted = {rule.key: rule for rule in desired.rules}
    changed = [rule for key, rule in wanted.items() if actual.rules.get(key) != rule]
    superfluous = [r for key, r in actual.rules.items() if key not in wanted and (is_ours(r.cookie) or is_unwanted(r))]
    return in_stages(desired, actual, changed, superfluous, is_ingress)


def in_stages(
    desired: SwitchTables,
    actual: ActualTables,
    changed: Iterable[Rule],
    superfluous: Iterable[Rule],
    is_ingress: Callable[[Rule], bool],
) -> Mapping[Stage, tuple[Modification, ...]]:
    """The stages when it is known already which wanted rules are not held, and which held ones are to go."""
    ordered = sorted(changed, key=_ORDER)
    prepared = [AddRule(r) for r in ordered if not is_ingress(r)]
    groups = _group_changes(desired, actual)
    prepare = (*groups, Barrier(), *prepared) if groups else tuple(prepared)
    switch = tuple(AddRule(r) for r in ordered if is_ingress(r))
    result = {Stage.PREPARE: prepare, Stage.SWITCH: switch, Stage.REMOVE: _removals(desired, superfluous, actual)}
    return {stage: modifications for stage, modifications in result.items() if modifications}


def _group_changes(desired: SwitchTables, actual: ActualTables) -> list[Modification]:
    result: list[Modification] = []
    for meter in sorted(desired.meters, key=lambda m: m.meter_id):
        held_meter = actual.meters.get(meter.meter_id)
        if held_meter != meter:
            result.append(AddMeter(meter) if held_meter is None else ModifyMeter(meter))
    for group in sorted(desired.groups, key=lambda g: g.group_id):
        held = actual.groups.get(group.group_id)
        if held != group:
            result.append(AddGroup(group) if held is None else ModifyGroup(group))
    return result


def _removals(desired: SwitchTables, superfluous: Iterable[Rule], actual: ActualTables) -> tuple[Modification, ...]:
    """Earlier tables first. Meters stay: a meter takes the rules that use it along."""
    rules = sorted(superfluous, key=_ORDER, reverse=True)
    kept = {g.group_id for g in desired.groups}
    groups = sorted(g for g in actual.groups if g not in kept and is_our_group(g))
    deleted: list[Modification] = [DeleteRule(r) for r in rules]
    if groups:
        deleted += [Barrier(), *(DeleteGroup(g) for g in groups)]
    return tuple(deleted)


def adds_no_rules(modifications: Sequence[Modification]) -> bool:
    """Whether all that comes or changes is groups and meters."""
    return not any(isinstance(m, AddRule) for m in modifications)


def only_adds(modifications: Sequence[Modification], actual: ActualTables) -> bool:
    """Whether nothing that the switch holds is changed or removed."""
    return all(
        isinstance(m, AddGroup | AddMeter | Barrier) or (isinstance(m, AddRule) and m.rule.key not in actual.rules)
        for m in modifications
    )


def is_steering(rule: Rule) -> bool:
    return is_ours(rule.cookie) and kind_of(rule.cookie) == Kind.STEER


def opens_way(rule: Rule, desired: SwitchTables, actual: ActualTables, uplinks: Collection[int]) -> bool:
    """Whether a rule that spreads traffic over uplinks takes one that it has not taken so far.

    What is at the far end must be prepared first. To give an uplink up needs no waiting, and must not.
    """
    if not is_ours(rule.cookie) or kind_of(rule.cookie) not in (Kind.ROUTE, Kind.DETOUR):
        return False
    ports = _ports(rule, {group.group_id: group for group in desired.groups}) & set(uplinks)
    held = actual.rules.get(rule.key)
    return not ports <= (_ports(held, actual.groups) if held is not None else set())


def _ports(rule: Rule, groups: Mapping[int, Group]) -> set[int]:
    """Every port by which the rule may send."""
    found: set[int] = set()
    for action in rule.actions:
        match action:
            case Output(port_no):
                found.add(port_no)
            case Bundle():
                found.update(action.ports)
            case ToGroup(group_id) if group_id in groups:
                buckets = groups[group_id].buckets
                found |= {a.port_no for bucket in buckets for a in bucket.actions if isinstance(a, Output)}
    return found


def guard_only(found: Mapping[Stage, tuple[Modification, ...]]) -> dict[Stage, tuple[Modification, ...]]:
    """What discovery needs to work at all: missing meters and guard rules. Everything else waits."""
    kept = tuple(
        m
        for m in found.get(Stage.PREPARE, ())
        if isinstance(m, AddMeter | Barrier) or (isinstance(m, AddRule) and kind_of(m.rule.cookie) == Kind.GUARD)
    )
    return {Stage.PREPARE: kept} if any(not isinstance(m, Barrier) for m in kept) else {}
