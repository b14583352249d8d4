"""Group numbers and the order of failover buckets.

Numbers follow from what a group is for, so that a restarted controller finds its groups again and a change
elsewhere does not renumber them. What a group is *needed* for is decided in `compile`.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd

from controller.fabric.model import PortRef
from controller.pipeline.marks import LEAF_BITS
from controller.pipeline.rules import Bucket, Bundle, Group, GroupKind, Output

# OFPG_MAX is 0xffffff00; parts below it keep steering, spreading and detours apart.
_STEER_BASE, _SELECT_BASE, _DETOUR_BASE, _SPAN = 0x1000_0000, 0x2000_0000, 0x3000_0000, 0x0FFF_FFFF
# Of the detours' part, above all that a leaf's number and a count of bounces need.
_DETOUR_OVER, _DETOUR_OVER_SPAN = 0x3800_0000, 0x07FF_FFFF
_LARGEST_WEIGHT = 16


def is_ours(group_id: int) -> bool:
    """A group carries no cookie; its number says whose it is."""
    return _STEER_BASE <= group_id <= _DETOUR_BASE + _SPAN


def is_select(group_id: int) -> bool:
    """One of ours that spreads, as against those that steer."""
    return _SELECT_BASE <= group_id <= _SELECT_BASE + _SPAN


def is_detour(group_id: int) -> bool:
    """One of ours that leads round a link that died behind it."""
    return _DETOUR_BASE <= group_id <= _DETOUR_BASE + _SPAN


def detour_id(leaf_number: int, bounces: int) -> int:
    """The group towards a leaf for packets that have bounced so often."""
    return _DETOUR_BASE + (bounces << LEAF_BITS) + leaf_number


def detour_id_over(ports: Sequence[int]) -> int:
    """The group by which bounced packets go on over any of the ports."""
    return _DETOUR_OVER + (zlib.crc32(repr(tuple(ports)).encode()) & _DETOUR_OVER_SPAN)


@dataclass(slots=True)
class GroupAllocator:
    """Steering groups of one switch, keyed by (destination leaf, assigned port)."""

    _keys: set[tuple[int, int]] = field(default_factory=set)

    def want(self, key: tuple[int, int]) -> None:
        self._keys.add(key)

    def allocate(self) -> dict[tuple[int, int], int]:
        """A number for each key; on a clash of hashes the next free number, in the keys' order."""
        taken: dict[int, tuple[int, int]] = {}
        result = {}
        for key in sorted(self._keys):
            number = zlib.crc32(repr(key).encode()) & _SPAN
            while number in taken:
                number = (number + 1) & _SPAN
            taken[number] = key
            result[key] = _STEER_BASE + number
        return result

    @staticmethod
    def select_id(ports: Sequence[int]) -> int:
        return _SELECT_BASE + (zlib.crc32(repr(tuple(ports)).encode()) & _SPAN)


def spread(choices: Sequence[int], assigned: int, salt: int) -> tuple[int, ...]:
    """The assigned port first, then the alternates, rotated by `salt` so that the groups of one port, when it dies,
    fall onto different neighbours. An assigned port that is not live any more is left out."""
    others = [p for p in choices if p != assigned]
    if others:
        start = (assigned + salt) % len(others)
        others = others[start:] + others[:start]
    return (assigned, *others) if assigned in choices else tuple(others)


def failover_group(group_id: int, ports: Sequence[int], then: tuple[Bucket, ...] = ()) -> Group:
    """The first live port, or, where none is, the first live bucket of `then`."""
    return Group(group_id, GroupKind.FAST_FAILOVER, (*map(_failover_bucket, ports), *then))


# A switch has a few ports, and thousands of groups put them in order.
@lru_cache(maxsize=4096)
def _failover_bucket(port: int) -> Bucket:
    return Bucket((Output(port),), watch_port=port)


def weighted_ports(capacity: Mapping[int, int]) -> tuple[int, ...]:
    """Each port as often as its capacity is a multiple of the smallest unit, at most 16 times."""
    unit = gcd(*capacity.values()) or 1
    largest = max(capacity.values()) // unit
    scale = max(1.0, largest / _LARGEST_WEIGHT)
    return tuple(port for port, rate in sorted(capacity.items()) for _ in range(max(1, round(rate / unit / scale))))


def bundle_over(dpid: int, ports: Iterable[int], capacity: Mapping[PortRef, int]) -> Bundle:
    """Hashes over the ports by their capacities. A basis per switch, or every switch would make the same choice and
    half the fabric would idle."""
    return Bundle(weighted_ports({p: capacity[PortRef(dpid, p)] for p in ports}), basis=dpid & 0xFFFF)
