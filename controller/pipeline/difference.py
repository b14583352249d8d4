"""What differs between the tables a switch should hold and those it holds, thing by thing.

Nothing is compared here: what `diff` would change *is* the difference, told apart by what it is for; only what others
put there is added, which `diff` leaves alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from controller.pipeline.diff import ActualTables, stages
from controller.pipeline.groups import is_ours as is_our_group
from controller.pipeline.rules import (
    AddGroup,
    AddMeter,
    AddRule,
    DeleteGroup,
    DeleteMeter,
    DeleteRule,
    Group,
    Meter,
    Modification,
    ModifyGroup,
    ModifyMeter,
    Rule,
    SwitchTables,
)


class DifferenceKind(StrEnum):
    MISSING = "missing"
    DIFFERENT = "different"
    # Ours, and not wanted any more.
    SUPERFLUOUS = "superfluous"
    # Not ours: left alone, unless `foreign` says otherwise.
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Difference:
    """`desired` is None for what should not be there, `actual` for what is not there."""

    kind: DifferenceKind
    desired: Rule | Group | Meter | None
    actual: Rule | Group | Meter | None

    @property
    def thing(self) -> Rule | Group | Meter:
        found = self.desired or self.actual
        if found is None:
            raise ValueError("a difference is about something")
        return found


@dataclass(frozen=True, slots=True)
class SwitchComparison:
    """`unknown` says why nothing can be said of a switch; it is empty when the rest is true."""

    dpid: int
    differences: tuple[Difference, ...] = ()
    equal_rules: int = 0
    equal_groups: int = 0
    unknown: str = ""

    @property
    def equal(self) -> bool:
        """It holds all that it should and nothing else of ours."""
        return not self.unknown and all(d.kind is DifferenceKind.FOREIGN for d in self.differences)


def compare(dpid: int, desired: SwitchTables, actual: ActualTables) -> SwitchComparison:
    """Rules in the order of their tables, then groups and meters; what is foreign comes last."""
    changes = [m for part in stages(desired, actual, lambda _: False).values() for m in part]
    ours = sorted(_differences(changes, actual), key=_place)
    wrong = [difference.desired for difference in ours]
    return SwitchComparison(
        dpid,
        differences=(*ours, *sorted(_foreign(actual), key=_place)),
        equal_rules=len(desired.rules) - sum(isinstance(thing, Rule) for thing in wrong),
        equal_groups=len(desired.groups) - sum(isinstance(thing, Group) for thing in wrong),
    )


def _differences(changes: Iterable[Modification], actual: ActualTables) -> Iterable[Difference]:
    for change in changes:
        match change:
            case AddRule(rule):
                yield _wanted(rule, actual.rules.get(rule.key))
            case AddGroup(group) | ModifyGroup(group):
                yield _wanted(group, actual.groups.get(group.group_id))
            case AddMeter(meter) | ModifyMeter(meter):
                yield _wanted(meter, actual.meters.get(meter.meter_id))
            case DeleteRule(rule):
                yield Difference(DifferenceKind.SUPERFLUOUS, None, rule)
            case DeleteGroup(group_id):
                yield Difference(DifferenceKind.SUPERFLUOUS, None, actual.groups[group_id])
            case DeleteMeter(meter_id):
                yield Difference(DifferenceKind.SUPERFLUOUS, None, actual.meters[meter_id])


def _wanted(desired: Rule | Group | Meter, actual: Rule | Group | Meter | None) -> Difference:
    kind = DifferenceKind.MISSING if actual is None else DifferenceKind.DIFFERENT
    return Difference(kind, desired, actual)


def _foreign(actual: ActualTables) -> Iterable[Difference]:
    for rule in actual.foreign_rules():
        yield Difference(DifferenceKind.FOREIGN, None, rule)
    for group in actual.groups.values():
        if not is_our_group(group.group_id):
            yield Difference(DifferenceKind.FOREIGN, None, group)


def _place(difference: Difference) -> tuple[int, int, object]:
    thing = difference.thing
    match thing:
        case Rule():
            return (0, thing.table_id, (-thing.priority, thing.order))
        case Group():
            return (1, thing.group_id, ())
        case Meter():
            return (2, thing.meter_id, ())
