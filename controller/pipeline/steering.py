"""The steer table: which rule and which failover group each planned flow needs, switch by switch.

A flow is steered wherever it has a choice: at its leaf, and at a spine that has several links to the next leaf. Which
flows get a path is decided in `core.planning`; how rules are put together where room is short, in `aggregate`.
"""

import ipaddress
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from controller.fabric.model import FabricView, Path
from controller.pipeline.cookies import Kind, cookie
from controller.pipeline.detour import Detours
from controller.pipeline.groups import GroupAllocator, failover_group, spread
from controller.pipeline.neighbourhood import Neighbourhood
from controller.pipeline.rules import Bucket, Match, MatchField, Rule, SwitchTables, ToGroup, match
from controller.pipeline.tables import STEER, checked

ROCE_PORT = 4791
ROCE_V1_ETHERTYPE = 0x8915
_IPV4, _IPV6 = 0x0800, 0x86DD
_UDP = 17
_IS_UDP, _TO_ROCE = MatchField("ip_proto", _UDP), MatchField("udp_dst", ROCE_PORT)

# (source address, destination address, UDP source port or 0).
Unit = tuple[str, str, int]
# Where a steered packet goes on a switch: (destination leaf, assigned port).
Way = tuple[int, int]

EXACT_PRIORITY, PAIR_PRIORITY, PREFIX_PRIORITY = 200, 100, 50


@dataclass(frozen=True, slots=True)
class SteeredFlow:
    """A flow with its path. `udp_source_port` 0: matched by addresses and the RoCEv2 port only. An `optional` one, such
    as the way back of acknowledgements, is the first to go where room is short."""

    src_address: str
    dst_address: str
    udp_source_port: int
    path: Path
    owner: str
    optional: bool = False

    @property
    def unit(self) -> Unit:
        return (self.src_address, self.dst_address, self.udp_source_port)


@dataclass(frozen=True, slots=True)
class Steering:
    """One rule of one switch's steer table, and the flows it is there for."""

    match: Match
    priority: int
    way: Way
    owner: str
    units: tuple[Unit, ...]
    optional: bool = False

    @property
    def match_order(self) -> list[tuple[str, int, int]]:
        """Something to sort by."""
        return [(f.name, f.value, -1 if f.mask is None else f.mask) for f in self.match]


def steerings(near: Neighbourhood, flows: Iterable[SteeredFlow]) -> dict[int, list[Steering]]:
    """The finest rules of each switch: one for each flow that has a choice there."""
    result: dict[int, list[Steering]] = defaultdict(list)
    for flow in flows:
        destination = near.owner_of.get(flow.path[-1])
        if destination is None:
            # Its last link just died: until it is placed anew, routing carries it.
            continue
        priority = EXACT_PRIORITY if flow.udp_source_port else PAIR_PRIORITY
        for hop in flow.path:
            if len(near.choices(hop.dpid, destination)) > 1:
                matched, way = steer_match(flow.unit), (destination, hop.port_no)
                result[hop.dpid].append(Steering(matched, priority, way, flow.owner, (flow.unit,), flow.optional))
    return result


def way_choices(near: Neighbourhood, dpid: int, way: Way) -> tuple[int, ...]:
    """The ports of a steering group, in the order in which they are tried."""
    return spread(near.choices(dpid, way[0]), way[1], way[0])


def shared_choices(near: Neighbourhood, dpid: int, way: Way) -> tuple[int, ...]:
    """The same where groups are short: destinations that are reached by the same ports share one group."""
    return spread(near.choices(dpid, way[0]), way[1], 0)


def steer_tables(
    near: Neighbourhood,
    dpid: int,
    chosen: Sequence[Steering],
    share_groups: bool = False,
    detours: Detours | None = None,
) -> SwitchTables:
    """The rules and groups of one switch; with `detours`, groups end in the bounce that routes have there."""
    key_of: dict[Way, tuple[int, int]] = {}
    ports_of: dict[tuple[int, int], tuple[int, ...]] = {}
    back_of: dict[tuple[int, int], tuple[Bucket, ...]] = {}
    allocator = GroupAllocator()
    for way in {s.way for s in chosen}:
        ports = shared_choices(near, dpid, way) if share_groups else way_choices(near, dpid, way)
        key_of[way] = (zlib.crc32(repr(ports).encode()), way[1]) if share_groups else way
        ports_of[key_of[way]] = ports
        # A shared group does not know for which leaf a packet is.
        back_of[key_of[way]] = detours.back(dpid, way[0]) if detours is not None and not share_groups else ()
        allocator.want(key_of[way])
    number = allocator.allocate()
    rules = frozenset(
        checked(
            Rule(STEER.table_id, s.priority, s.match, cookie(Kind.STEER, s.owner), (ToGroup(number[key_of[s.way]]),))
        )
        for s in chosen
    )
    groups = (failover_group(number[key], ports, back_of[key]) for key, ports in ports_of.items())
    return SwitchTables(rules, frozenset(groups))


def compile_steering(view: FabricView, flows: Iterable[SteeredFlow]) -> dict[int, SwitchTables]:
    """The finest steering rules and groups alone; a switch without any is left out."""
    near = Neighbourhood.of(view)
    detours = Detours.of(near)
    return {dpid: steer_tables(near, dpid, here, detours=detours) for dpid, here in steerings(near, flows).items()}


# A plan is compiled again and again while it stands, and shared matches are found equal by identity.
@lru_cache(maxsize=1 << 17)
def steer_match(unit: Unit) -> Match:
    """What tells a steerable unit from others; canonical, that is sorted by name."""
    version, source, _ = _end_fields(unit[0])
    destination = _end_fields(unit[1])[2]
    eth_type = MatchField("eth_type", _IPV4 if version == 4 else _IPV6)
    fields = (eth_type, _IS_UDP, destination, source, _TO_ROCE)
    return (*fields, MatchField("udp_src", unit[2])) if unit[2] else fields


@lru_cache(maxsize=1 << 16)
def _end_fields(text: str) -> tuple[int, MatchField, MatchField]:
    """The IP version of an address, and its fields as a source and as a destination."""
    address = ipaddress.ip_address(text)
    name = f"ipv{address.version}"
    return address.version, MatchField(f"{name}_src", int(address)), MatchField(f"{name}_dst", int(address))


def prefix_match(version: int, source: tuple[int, int] | None, destination: tuple[int, int]) -> Match:
    """All RoCEv2 traffic from one prefix (None: from anywhere) to another; a prefix is (value, mask)."""
    name = "ipv4" if version == 4 else "ipv6"
    fields: dict[str, int | tuple[int, int]] = {"ip_proto": _UDP, "udp_dst": ROCE_PORT}
    fields |= {"eth_type": _IPV4 if version == 4 else _IPV6, f"{name}_dst": destination}
    if source is not None:
        fields[f"{name}_src"] = source
    return match(**fields)
