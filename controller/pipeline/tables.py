"""The tables as data: what each may match, do, and hand on to. Every rule is checked against this when it is built.

A wrong rule so dies in a unit test instead of on a switch. Which rules there are is decided in `compile`.
"""

from dataclasses import dataclass
from functools import lru_cache

from controller.pipeline.rules import (
    Action,
    Bundle,
    DecrementTtl,
    MatchField,
    Output,
    Rule,
    SetField,
    SetQueue,
    SetTtl,
    ToGroup,
)


@dataclass(frozen=True, slots=True)
class Table:
    table_id: int
    name: str
    matches: frozenset[str]
    actions: frozenset[type[Action]]
    next_tables: frozenset[int]
    may_meter: bool = False


_IP = frozenset({"eth_type", "ip_proto", "ip_dscp", "udp_dst"})

GUARD = Table(
    0,
    "guard",
    frozenset({"in_port", "eth_type", "eth_dst", "ip_proto", "icmpv6_type"}),
    frozenset({Output}),
    frozenset({1, 3}),
    may_meter=True,
)
CLASSIFY = Table(1, "classify", _IP, frozenset({SetQueue, SetField}), frozenset({2}))
STEER = Table(
    2,
    "steer",
    frozenset(
        {"eth_src", "eth_type", "ip_proto", "ipv4_src", "ipv4_dst", "ipv6_src", "ipv6_dst", "udp_src", "udp_dst"},
    ),
    frozenset({ToGroup}),
    frozenset({3}),
)
ROUTE = Table(
    3,
    "route",
    frozenset(
        {"in_port", "eth_src", "eth_dst", "eth_type", "arp_tpa", "ipv4_dst", "ipv6_dst"}
        | {"ip_proto", "icmpv6_type", "ipv6_nd_target"}
    ),
    frozenset({Output, ToGroup, Bundle, SetField, DecrementTtl, SetTtl}),
    frozenset(),
)

TABLES: dict[int, Table] = {t.table_id: t for t in (GUARD, CLASSIFY, STEER, ROUTE)}

# OpenFlow 1.3.5, section 7.2.3.8: a field may be matched only where these are matched too.
_PREREQUISITES: dict[str, tuple[tuple[str, frozenset[int]], ...]] = {
    "ip_proto": (("eth_type", frozenset({0x0800, 0x86DD})),),
    "ip_dscp": (("eth_type", frozenset({0x0800, 0x86DD})),),
    "ipv4_src": (("eth_type", frozenset({0x0800})),),
    "ipv4_dst": (("eth_type", frozenset({0x0800})),),
    "ipv6_src": (("eth_type", frozenset({0x86DD})),),
    "ipv6_dst": (("eth_type", frozenset({0x86DD})),),
    "arp_tpa": (("eth_type", frozenset({0x0806})),),
    "icmpv6_type": (("ip_proto", frozenset({58})),),
    "ipv6_nd_target": (("icmpv6_type", frozenset({135, 136})),),
    "udp_src": (("ip_proto", frozenset({17})),),
    "udp_dst": (("ip_proto", frozenset({17})),),
}

_NEEDED = frozenset(needed for conditions in _PREREQUISITES.values() for needed, _ in conditions)


class InvalidRule(Exception):
    """A rule that its table does not allow: our own fault, never the user's."""


def checked(rule: Rule) -> Rule:
    """The rule itself. Raises InvalidRule, saying what is wrong."""
    names = tuple([field.name for field in rule.match])
    conditions = tuple([field for field in rule.match if field.name in _NEEDED])
    actions = tuple(map(type, rule.actions))
    problem = _problem(rule.table_id, names, conditions, actions, rule.goto_table, rule.meter_id is not None)
    if problem:
        raise InvalidRule(problem)
    return rule


# Rules by the thousand have one shape: they differ in addresses, ports and groups, about which there is nothing to say.
@lru_cache(maxsize=4096)
def _problem(
    table_id: int,
    names: tuple[str, ...],
    conditions: tuple[MatchField, ...],
    actions: tuple[type, ...],
    goto_table: int | None,
    is_metered: bool,
) -> str | None:
    """What is wrong with a rule that matches fields of these names, those that others depend on as in `conditions`."""
    table = TABLES.get(table_id)
    if table is None:
        return f"there is no table {table_id}"
    exact = {field.name: field.value for field in conditions if field.mask is None}
    for name in names:
        if name not in table.matches:
            return f"table {table.name} does not match {name}"
        for needed, values in _PREREQUISITES.get(name, ()):
            if exact.get(needed) not in values:
                return f"{name} needs {needed} in {sorted(values)}"
    for action in actions:
        if action not in table.actions:
            return f"table {table.name} does not allow {action.__name__}"
    if goto_table is not None and goto_table not in table.next_tables:
        return f"table {table.name} does not lead to table {goto_table}"
    return f"table {table.name} does not meter" if is_metered and not table.may_meter else None
