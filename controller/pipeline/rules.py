"""Rules, groups and modifications as values, in one canonical spelling.

Desired and actual state are compared by equality, so two things that mean the same must be spelt the same: match
fields are sorted by name, masks that cover the whole field are dropped, values are plain integers. Field names are
those of OpenFlow 1.3 (OXM), lower case.
"""

from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple

OFPP_ANY = 0xFFFFFFFF
OFPP_IN_PORT = 0xFFFFFFF8
OFPP_CONTROLLER = 0xFFFFFFFD
WHOLE_PACKET = 0xFFFF  # OFPCML_NO_BUFFER

# Field -> width in bits (OpenFlow 1.3.5, table 12).
FIELD_BITS: dict[str, int] = {
    "in_port": 32,
    "eth_dst": 48,
    "eth_src": 48,
    "eth_type": 16,
    "vlan_vid": 13,
    "ip_dscp": 6,
    "ip_ecn": 2,
    "ip_proto": 8,
    "ipv4_src": 32,
    "ipv4_dst": 32,
    "tcp_src": 16,
    "tcp_dst": 16,
    "udp_src": 16,
    "udp_dst": 16,
    "icmpv4_type": 8,
    "arp_op": 16,
    "arp_spa": 32,
    "arp_tpa": 32,
    "ipv6_src": 128,
    "ipv6_dst": 128,
    "icmpv6_type": 8,
    "icmpv6_code": 8,
    "ipv6_nd_target": 128,
}


class MatchField(NamedTuple):
    """A named tuple, because tables are compared and looked up by their matches, thousands at a time: tuples hash and
    compare without running any Python."""

    name: str
    value: int
    # None: exact.
    mask: int | None = None


Match = tuple[MatchField, ...]

_NAME, _VALUE, _MASK = itemgetter(0), itemgetter(1), itemgetter(2)


def match(**fields: int | tuple[int, int]) -> Match:
    """`match(eth_type=0x800, ipv4_dst=(value, mask))`, canonical.

    Raises ValueError on an unknown field or a value too wide for it.
    """
    result = []
    for name, given in sorted(fields.items()):
        value, mask = given if isinstance(given, tuple) else (given, None)
        bits = FIELD_BITS.get(name)
        if bits is None:
            raise ValueError(f"unknown match field {name!r}")
        full = (1 << bits) - 1
        if not 0 <= value <= full or (mask is not None and not 0 <= mask <= full):
            raise ValueError(f"{name}={value:#x} does not fit in {bits} bits")
        if mask == full:
            mask = None
        if mask == 0:
            continue
        result.append(MatchField(name, value if mask is None else value & mask, mask))
    return tuple(result)


@dataclass(frozen=True, slots=True)
class Output:
    port_no: int
    # Only meaningful towards the controller.
    max_len: int = 0


@dataclass(frozen=True, slots=True)
class ToGroup:
    group_id: int


@dataclass(frozen=True, slots=True)
class SetQueue:
    queue_id: int


@dataclass(frozen=True, slots=True)
class SetField:
    name: str
    value: int


@dataclass(frozen=True, slots=True)
class DecrementTtl:
    pass


@dataclass(frozen=True, slots=True)
class SetTtl:
    ttl: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """Nicira bundle with highest-random-weight hashing over live ports. A port listed twice has twice the weight."""

    ports: tuple[int, ...]
    basis: int
    fields: int = 3  # NX_HASH_FIELDS_SYMMETRIC_L3L4_UDP


Action = Output | ToGroup | SetQueue | SetField | DecrementTtl | SetTtl | Bundle


@dataclass(frozen=True, slots=True)
class Rule:
    """A flow entry. `actions` are applied in order; then the packet goes to `goto_table`, if any."""

    table_id: int
    priority: int
    match: Match
    cookie: int
    actions: tuple[Action, ...] = ()
    goto_table: int | None = None
    meter_id: int | None = None

    @property
    def key(self) -> tuple[int, int, Match]:
        """What OpenFlow takes as the rule's identity."""
        return (self.table_id, self.priority, self.match)

    @property
    def order(self) -> tuple[int, int, tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
        """Later tables first, then higher priorities: a packet that reaches a new rule finds what follows it."""
        masks = tuple(map(_MASK, self.match))
        compared = tuple(-1 if mask is None else mask for mask in masks) if any(masks) else ()
        return (-self.table_id, -self.priority, tuple(map(_NAME, self.match)), tuple(map(_VALUE, self.match)), compared)


class GroupKind(StrEnum):
    ALL = "all"
    SELECT = "select"
    INDIRECT = "indirect"
    FAST_FAILOVER = "fast_failover"


@dataclass(frozen=True, slots=True)
class Bucket:
    actions: tuple[Action, ...]
    # Select groups only; OpenFlow wants 0 elsewhere.
    weight: int = 0
    watch_port: int = OFPP_ANY


@dataclass(frozen=True, slots=True)
class Group:
    group_id: int
    kind: GroupKind
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True, slots=True)
class Meter:
    meter_id: int
    packets_per_second: int
    burst_packets: int


@dataclass(frozen=True, slots=True)
class SwitchTables:
    """Everything a switch holds, or should hold."""

    rules: frozenset[Rule] = frozenset()
    groups: frozenset[Group] = frozenset()
    meters: frozenset[Meter] = frozenset()


# --- modifications: what a batch is made of ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddRule:
    """Adds, or overwrites the rule with the same key and keeps its counters."""

    rule: Rule


@dataclass(frozen=True, slots=True)
class DeleteRule:
    """Strict: only the rule with this very key."""

    rule: Rule


@dataclass(frozen=True, slots=True)
class AddGroup:
    group: Group


@dataclass(frozen=True, slots=True)
class ModifyGroup:
    group: Group


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    group_id: int


@dataclass(frozen=True, slots=True)
class AddMeter:
    meter: Meter


@dataclass(frozen=True, slots=True)
class ModifyMeter:
    meter: Meter


@dataclass(frozen=True, slots=True)
class DeleteMeter:
    meter_id: int


@dataclass(frozen=True, slots=True)
class Barrier:
    pass


Modification = (
    AddRule | DeleteRule | AddGroup | ModifyGroup | DeleteGroup | AddMeter | ModifyMeter | DeleteMeter | Barrier
)
