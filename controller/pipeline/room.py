"""What a switch has shown to hold, and how a change is made on one that has no room for old and new at once.

Limits come from the switch's own report and from what it refused, and are believed until its session ends or a retry
is due. What is given up where room is short is decided in `core.fitting`; this only makes room for what was decided.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.pipeline.cookies import is_ours
from controller.pipeline.detour import is_detour_rule
from controller.pipeline.diff import ActualTables, RuleKey, Stage, is_steering
from controller.pipeline.groups import is_ours as is_our_group
from controller.pipeline.rules import (
    AddGroup,
    AddRule,
    Barrier,
    DeleteGroup,
    DeleteRule,
    Modification,
    Rule,
    ToGroup,
)
from controller.pipeline.tables import TABLES

# `max_entries` of a table without a limit (ofproto/ofproto.c, query_tables), and the largest group number there can be.
_NO_LIMIT_IN_OVS = 1_000_000
_OFPG_MAX = 0xFFFFFF00


@dataclass(slots=True)
class Room:
    """One switch's limits, and what follows from them. Mutable; belongs to one session."""

    # Table -> most rules it can hold, as the switch reported and as its refusals showed; and the same of groups.
    reported: Mapping[int, int] = field(default_factory=dict)
    rules: dict[int, int] = field(default_factory=dict)
    reported_groups: int | None = None
    groups: int | None = None
    # Routes to other leaves are prefixes; steering groups are shared; what is bound for a leaf takes one link.
    prefixes: bool = False
    shared_groups: bool = False
    unspread: bool = False
    # Links that fail behind this switch wait for the controller.
    without_detours: bool = False
    # Steering has made way for routes and classes, and whether that helped is not known yet.
    yielded: bool = False
    # Rules other than steering that it refused.
    withheld: frozenset[RuleKey] = frozenset()
    # Steering, or what is withheld, is tried again then; the waiting time doubles with every failure.
    retry_due_s: float | None = None
    backoff_s: float = 0.0
    # It holds other than was believed when its limits were learnt: they are tried again as soon as that is put right.
    misjudged: bool = False

    @property
    def is_full(self) -> bool:
        """Whether the switch has refused something."""
        return bool(self.rules or self.withheld or self.unspread or self.groups is not None)

    def most_rules(self, table_id: int) -> int | None:
        """None: no limit is known."""
        known = [limits[table_id] for limits in (self.reported, self.rules) if table_id in limits]
        return min(known, default=None)

    def most_groups(self) -> int | None:
        """None: no limit is known."""
        return min((most for most in (self.reported_groups, self.groups) if most is not None), default=None)


def reported_room(table_limits: Mapping[int, int], max_groups: int | None) -> Room | None:
    """The room that a switch says it has, as far as that tells anything about our tables; None when it does not.

    Switches that do not know say 0, and Open vSwitch says a million where it has set itself no limit.
    """
    limits = {
        table_id: most
        for table_id, most in table_limits.items()
        if table_id in TABLES and most not in (0, _NO_LIMIT_IN_OVS)
    }
    groups = max_groups if max_groups and max_groups < _OFPG_MAX else None
    if not limits and groups is None:
        return None
    # Groups are shared from the start where their number is limited: to change over later would touch them all.
    return Room(reported=limits, reported_groups=groups, shared_groups=groups is not None)


def make_room(
    room: Room, found: Mapping[Stage, Sequence[Modification]], actual: ActualTables
) -> tuple[Modification, ...]:
    """What must go before `found` can be carried out; () where there is room for old and new together.

    What goes is steering, below which routing delivers; routes go only in exchange for a prefix that covers them.
    """
    changes = [*found.get(Stage.PREPARE, ()), *found.get(Stage.SWITCH, ())]
    superfluous = [m.rule for m in found.get(Stage.REMOVE, ()) if isinstance(m, DeleteRule)]
    added = [m.rule for m in changes if isinstance(m, AddRule) and m.rule.key not in actual.rules]
    held = Counter(rule.table_id for rule in actual.rules.values())
    wanted = Counter(rule.table_id for rule in added)
    short = {
        table_id: held[table_id] + count - most
        for table_id, count in wanted.items()
        if (most := room.most_rules(table_id)) is not None and held[table_id] + count > most
    }
    groups = _groups_first(room, changes, found.get(Stage.REMOVE, ()), actual)
    if groups:
        return groups
    # Detours have been given up to make room, and nothing needs them while no link is down.
    detours = [rule for rule in superfluous if is_detour_rule(rule)] if room.without_detours else []
    if detours:
        return tuple(DeleteRule(rule) for rule in detours)
    # Whichever table is short: many switches keep all of them in one memory.
    steering = [rule for rule in superfluous if is_steering(rule)] if short else []
    if steering:
        return tuple(DeleteRule(rule) for rule in steering)
    return tuple(_exchanged(short, added, superfluous))


def _groups_first(
    room: Room, changes: Iterable[Modification], removals: Iterable[Modification], actual: ActualTables
) -> tuple[Modification, ...]:
    """Removes groups that nothing will use, with the steering rules that still do, where new ones would not fit."""
    added = sum(isinstance(m, AddGroup) for m in changes)
    most = room.most_groups()
    if most is None or not added or len(actual.groups) + added <= most:
        return ()
    superfluous = {m.group_id for m in removals if isinstance(m, DeleteGroup) and is_our_group(m.group_id)}
    users = [r for r in actual.rules.values() if is_ours(r.cookie) and _groups_of(r) & superfluous]
    # A group that routing uses stays until routing has found another way.
    superfluous -= {group_id for rule in users if not is_steering(rule) for group_id in _groups_of(rule)}
    if not superfluous:
        return ()
    rules = sorted((r for r in users if is_steering(r) and _groups_of(r) & superfluous), key=lambda r: r.order)
    return (*map(DeleteRule, rules), Barrier(), *map(DeleteGroup, sorted(superfluous)))


def _groups_of(rule: Rule) -> set[int]:
    return {action.group_id for action in rule.actions if isinstance(action, ToGroup)}


def _exchanged(short: Mapping[int, int], added: Sequence[Rule], superfluous: Sequence[Rule]) -> list[Modification]:
    """Routes for the prefixes that cover them. Only where the table has no slot free does a single host wait for the
    blink between two messages."""
    result: list[Modification] = []
    free: Counter[int] = Counter()
    wanted = Counter(rule.table_id for rule in added)
    for table_id, missing in short.items():
        free[table_id] = wanted[table_id] - missing
    for rule in added:
        if rule.table_id not in short:
            continue
        covered = [DeleteRule(old) for old in superfluous if covers(rule, old)]
        if not covered:
            continue
        if not free[rule.table_id]:
            result += [covered.pop(0), Barrier()]
            free[rule.table_id] += 1
        result += [AddRule(rule), Barrier(), *covered, Barrier()]
        free[rule.table_id] += len(covered) - 1
    return result


def covers(wide: Rule, narrow: Rule) -> bool:
    """Whether every packet that the narrow rule matches is matched by the wide one, in the same table."""
    if wide.table_id != narrow.table_id or wide.key == narrow.key:
        return False
    of_narrow = {f.name: f for f in narrow.match}
    for field_ in wide.match:
        other = of_narrow.get(field_.name)
        if other is None:
            return False
        if field_.mask is None:
            if other.mask is not None or other.value != field_.value:
                return False
        elif (other.mask is not None and other.mask & field_.mask != field_.mask) or (
            other.value & field_.mask != field_.value
        ):
            return False
    return True
