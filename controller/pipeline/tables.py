"""The tables as data: what each may match, do, and hand on to. Every rule is checked against this when it is built.

A wrong rule so dies in a unit test instead of on a switch. Which rules there are is decided in `compile`.
"""

from dataclasses import dataclass

from controller.pipeline.rules import Action, Bundle, DecrementTtl, Output, Rule, SetField, SetQueue, SetTtl, ToGroup


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
    frozenset({"in_port", "eth_type", "eth_dst"}),
    frozenset({Output}),
    frozenset({1, 3}),
    may_meter=True,
)
CLASSIFY = Table(1, "classify", _IP, frozenset({SetQueue, SetField}), frozenset({2}))
STEER = Table(
    2,
    "steer",
    frozenset({"eth_type", "ip_proto", "ipv4_src", "ipv4_dst", "ipv6_src", "ipv6_dst", "udp_src", "udp_dst"}),
    frozenset({ToGroup}),
    frozenset({3}),
)
ROUTE = Table(
    3,
    "route",
    frozenset({"in_port", "eth_type", "arp_tpa", "ipv4_dst", "ipv6_dst"}),
    frozenset({Output, ToGroup, Bundle, DecrementTtl, SetTtl}),
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
    "udp_src": (("ip_proto", frozenset({17})),),
    "udp_dst": (("ip_proto", frozenset({17})),),
}


class InvalidRule(Exception):
    """A rule that its table does not allow: our own fault, never the user's."""


def checked(rule: Rule) -> Rule:
    """The rule itself. Raises InvalidRule, saying what is wrong."""
    table = TABLES.get(rule.table_id)
    if table is None:
        raise InvalidRule(f"there is no table {rule.table_id}")
    exact = {f.name: f.value for f in rule.match if f.mask is None}
    for field in rule.match:
        if field.name not in table.matches:
            raise InvalidRule(f"table {table.name} does not match {field.name}")
        for needed, values in _PREREQUISITES.get(field.name, ()):
            if exact.get(needed) not in values:
                raise InvalidRule(f"{field.name} needs {needed} in {sorted(values)}")
    for action in rule.actions:
        if type(action) not in table.actions:
            raise InvalidRule(f"table {table.name} does not allow {type(action).__name__}")
    if rule.goto_table is not None and rule.goto_table not in table.next_tables:
        raise InvalidRule(f"table {table.name} does not lead to table {rule.goto_table}")
    if rule.meter_id is not None and not table.may_meter:
        raise InvalidRule(f"table {table.name} does not meter")
    return rule
