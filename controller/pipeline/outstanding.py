"""What one switch still lacks of what it should hold, kept up to date change by change.

A switch holds hundreds of rules and a plan touches a few of them; comparing all of them at every look was most of what
an announcement of few flows took. So this remembers which rules may differ: those that a change of mind or an
acknowledged modification has touched, and whatever was still open before. Which stages follow is decided in `diff`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from controller.pipeline.cookies import is_ours
from controller.pipeline.diff import ActualTables, RuleKey, Stage, in_stages, is_steering, opens_way
from controller.pipeline.rules import Modification, Rule, SwitchTables

Found = Mapping[Stage, tuple[Modification, ...]]


@dataclass(slots=True)
class Outstanding:
    """Mutable; belongs to one switch. `is_unwanted` tells the foreign rules that are to go as well."""

    is_unwanted: Callable[[Rule], bool]
    _desired: SwitchTables = field(default_factory=SwitchTables)
    _actual: ActualTables = field(default_factory=ActualTables)
    _wanted: dict[RuleKey, Rule] = field(default_factory=dict)
    # Whatever is not in here is held as wanted, or is foreign and stays.
    _open: set[RuleKey] = field(default_factory=set)
    _changes: int = 0
    # What was found last, and for which uplinks; None: something has changed since.
    _found: tuple[Collection[int] | None, Found] | None = None

    def stages(self, desired: SwitchTables, actual: ActualTables, uplinks: Collection[int] | None) -> Found:
        """As `diff.stages` finds them. `uplinks` are a leaf's ports to the spines; None: the switch is no leaf."""
        self._catch_up(desired, actual)
        if self._found is None or self._found[0] != uplinks:
            self._found = (uplinks, self._compare(uplinks))
        return self._found[1]

    def _catch_up(self, desired: SwitchTables, actual: ActualTables) -> None:
        if desired is not self._desired:
            self._found = None
            for rule in self._desired.rules - desired.rules:
                self._wanted.pop(rule.key, None)
                self._open.add(rule.key)
            for rule in desired.rules - self._desired.rules:
                self._wanted[rule.key] = rule
                self._open.add(rule.key)
            self._desired = desired
        if actual is not self._actual:
            self._found, self._actual = None, actual
            self._open = {*self._wanted, *actual.rules}
        elif actual.changes != self._changes:
            self._found = None
            self._open |= actual.touched
        self._changes = actual.changes
        actual.touched.clear()

    def _compare(self, uplinks: Collection[int] | None) -> Found:
        wanted, held = self._wanted, self._actual.rules
        changed, superfluous = [], []
        for key in self._open:
            rule, there = wanted.get(key), held.get(key)
            if rule is None:
                if there is not None and (is_ours(there.cookie) or self.is_unwanted(there)):
                    superfluous.append(there)
            elif there is not rule and there != rule:
                changed.append(rule)
        self._open = {rule.key for rule in changed} | {rule.key for rule in superfluous}

        def is_ingress(rule: Rule) -> bool:
            return uplinks is not None and (is_steering(rule) or opens_way(rule, self._desired, self._actual, uplinks))

        return in_stages(self._desired, self._actual, changed, superfluous, is_ingress)
