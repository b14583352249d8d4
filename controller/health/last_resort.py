"""Which links that are not up are used all the same, because nothing else joins two leaves.

A held link flaps, and one that waits has just been lost: to use either costs packets. But a leaf that is cut off costs
all of them, so damping must never be what takes the last way between two leaves.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable

from controller.fabric.discovery import Cable


def needed(
    usable: Iterable[Cable], spare: Collection[Cable], leaves: Collection[int], edges: Collection[int] = ()
) -> list[Cable]:
    """Those of `spare` without which two switches that are two cables apart would have no other switch in common, or
    without which one of the `edges` would have no way up.

    `leaves` are the switches known to be leaves. Only they must reach one another; where neither end of a spare cable
    is known to be one, both might be. `edges`, switches below leaves, join no two of them.
    """
    if not spare:
        return []
    usable, below = list(usable), frozenset(edges)
    if below:
        parts = [[c for c in cables if below.isdisjoint(end.dpid for end in c)] for cables in (usable, spare)]
        ups = _only_ways_up(usable, [c for c in spare if c not in parts[1]], below)
        return sorted([*ups, *needed(parts[0], parts[1], leaves)])
    near: dict[int, set[int]] = defaultdict(set)
    for a, b in usable:
        near[a.dpid].add(b.dpid)
        near[b.dpid].add(a.dpid)
    possible = {dpid: set(others) for dpid, others in near.items()}
    for a, b in spare:
        possible.setdefault(a.dpid, set()).add(b.dpid)
        possible.setdefault(b.dpid, set()).add(a.dpid)
    taken = []
    for cable in sorted(spare):
        ends = {end.dpid for end in cable}
        lower = (ends & set(leaves)) or ends
        if any(_only_over(end, (ends - {end}).pop(), near, possible, leaves) for end in lower if len(ends) > 1):
            taken.append(cable)
            one, other = ends
            near[one].add(other)
            near[other].add(one)
    return taken


def _only_ways_up(usable: Iterable[Cable], spare: Collection[Cable], edges: Collection[int]) -> list[Cable]:
    """One cable of `spare` for each edge switch that has none; the leaves are joined without it."""
    joined = {end.dpid for cable in usable for end in cable if end.dpid in edges}
    taken = []
    for cable in sorted(spare):
        here = {end.dpid for end in cable} & set(edges)
        if here - joined:
            taken.append(cable)
            joined |= here
    return taken


def _only_over(
    leaf: int, middle: int, near: dict[int, set[int]], possible: dict[int, set[int]], leaves: Collection[int]
) -> bool:
    """Whether some leaf beyond `middle` shares no switch with `leaf`."""
    if middle in near[leaf]:
        return False
    beyond = possible[middle] - {leaf}
    known = beyond & set(leaves)
    return any(near[leaf].isdisjoint(near[other]) for other in known or beyond)
