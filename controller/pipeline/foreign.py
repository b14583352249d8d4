"""Rules and groups on a switch that are not ours: what is said about them, and which of them may be removed.

The default leaves all of them. Removing takes a setting, names every rule by its full match, and spares the cookies on
the exception list. Groups carry no cookie that could tell whose they are, so they are only reported.
"""

from dataclasses import dataclass

from controller.pipeline.cookies import is_ours
from controller.pipeline.diff import ActualTables
from controller.pipeline.groups import is_ours as is_our_group
from controller.pipeline.rules import Rule


@dataclass(frozen=True, slots=True)
class CookieMask:
    """Cookies that agree with `value` in all bits of `mask`."""

    value: int
    mask: int

    def covers(self, cookie: int) -> bool:
        return cookie & self.mask == self.value & self.mask


@dataclass(frozen=True, slots=True)
class ForeignPolicy:
    """`spared` counts only where foreign rules are removed."""

    remove: bool = False
    spared: tuple[CookieMask, ...] = ()

    def unwanted(self, rule: Rule) -> bool:
        """Whether a rule that is not ours is to go."""
        return self.remove and not is_ours(rule.cookie) and not any(m.covers(rule.cookie) for m in self.spared)


@dataclass(frozen=True, slots=True)
class ForeignHoldings:
    """How many rules and groups on a switch are not ours, and how many of the rules are to go."""

    rules: int = 0
    groups: int = 0
    unwanted: int = 0

    @classmethod
    def of(cls, tables: ActualTables | None, policy: ForeignPolicy) -> "ForeignHoldings":
        if tables is None:
            return cls()
        rules = tables.foreign_rules()
        groups = sum(not is_our_group(group_id) for group_id in tables.groups)
        return cls(len(rules), groups, sum(map(policy.unwanted, rules)))

    def in_words(self) -> str:
        fate = f"{self.unwanted} of the rules will be removed" if self.unwanted else "they are left alone"
        return f"holds {self.rules} rules and {self.groups} groups that are not ours; {fate}"


def describe(rule: Rule) -> str:
    """A rule by everything that identifies it, in OpenFlow's own words."""
    fields = [f.name + f"={f.value:#x}" + ("" if f.mask is None else f"/{f.mask:#x}") for f in rule.match]
    return ",".join([f"table={rule.table_id}", f"priority={rule.priority}", f"cookie={rule.cookie:#x}", *fields])
