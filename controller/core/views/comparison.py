"""What switches should hold against what they hold, in words. What differs is decided in `pipeline.difference`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from controller.core.comparing import compare_switch
from controller.core.machine import Core
from controller.core.views.common import find_switches, owners, port_namer
from controller.pipeline.difference import Difference, SwitchComparison
from controller.pipeline.rules import Group, Meter, Rule
from controller.pipeline.words import cookie_kind, group_words, meter_words, rule_words, table_name


@dataclass(frozen=True, slots=True)
class DifferenceView:
    kind: str
    what: str
    desired: str
    actual: str
    table: str
    rule_kind: str
    job_id: str


@dataclass(frozen=True, slots=True)
class SwitchDiffView:
    switch: str
    dpid: int
    state: str
    reason: str
    differences: tuple[DifferenceView, ...]
    equal_rules: int
    equal_groups: int


@dataclass(frozen=True, slots=True)
class DiffView:
    switches: tuple[SwitchDiffView, ...]
    equal: bool


def diff(core: Core, switch: str) -> DiffView:
    """Of one switch, or of all when `switch` is empty, as last read and acknowledged. Raises UnknownSwitch."""
    return diff_of(core, [compare_switch(core.state, dpid) for dpid in sorted(find_switches(core, switch))])


def diff_of(core: Core, comparisons: Iterable[SwitchComparison]) -> DiffView:
    """Of comparisons that the core has made. No switch at all is nothing known, hence not equal."""
    owner = owners(core)
    found = [(comparison, _switch(core, comparison, owner)) for comparison in comparisons]
    return DiffView(tuple(view for _, view in found), bool(found) and all(c.equal for c, _ in found))


def _switch(core: Core, comparison: SwitchComparison, owner: Mapping[int, str]) -> SwitchDiffView:
    port_words = port_namer(core, comparison.dpid)
    return SwitchDiffView(
        switch=core.plan.name(comparison.dpid),
        dpid=comparison.dpid,
        state="unknown" if comparison.unknown else "equal" if comparison.equal else "different",
        reason=comparison.unknown,
        differences=tuple(_difference(difference, port_words, owner) for difference in comparison.differences),
        equal_rules=comparison.equal_rules,
        equal_groups=comparison.equal_groups,
    )


def _difference(found: Difference, port_words: Callable[[int], str], owner: Mapping[int, str]) -> DifferenceView:
    thing = found.thing
    desired, actual = _words(found.desired, port_words), _words(found.actual, port_words)
    if desired == actual and isinstance(found.desired, Rule) and isinstance(found.actual, Rule):
        # They do the same for another owner.
        desired += f", cookie {found.desired.cookie:#x}"
        actual += f", cookie {found.actual.cookie:#x}"
    return DifferenceView(
        kind=found.kind.value,
        what=type(thing).__name__.lower(),
        desired=desired,
        actual=actual,
        table=table_name(thing.table_id) if isinstance(thing, Rule) else "",
        rule_kind=cookie_kind(thing.cookie) if isinstance(thing, Rule) else "",
        job_id=owner.get(thing.cookie, "") if isinstance(thing, Rule) else "",
    )


def _words(thing: Rule | Group | Meter | None, port_words: Callable[[int], str]) -> str:
    match thing:
        case Rule():
            return rule_words(thing, port_words)
        case Group():
            return group_words(thing, port_words)
        case Meter():
            return meter_words(thing)
        case None:
            return ""
