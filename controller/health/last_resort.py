"""Which links that are not up are used all the same, because nothing else joins two leaves.

A held link flaps, and one that waits has just been lost: to use either costs packets. But a leaf that is cut off costs
all of them, so damping must never be what takes the last way between two leaves.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable

from controller.fabric.discovery import Cable


def needed(usable: Iterable[Cable], spare: Collection[Cable], leaves: Collection[int]) -> list[Cable]:
    """Those of `spare` without which two switches that are two cables apart would have no other switch in common.

    `leaves` are the switches known to be leaves. Only they must reach one another; where neither end of a spare cable
    is known to be one, both might be.
    """
    if not spare:
        return []
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


def _only_over(
    leaf: int, middle: int, near: dict[int, set[int]], possible: dict[int, set[int]], leaves: Collection[int]
) -> bool:
    """Whether some leaf beyond `middle` shares no switch with `leaf`."""
    if middle in near[leaf]:
        return False
    beyond = possible[middle] - {leaf}
    known = beyond & set(leaves)
    return any(near[leaf].isdisjoint(near[other]) for other in known or beyond)
