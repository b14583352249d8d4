"""Which switches with hosts a fabric's links join, and which hosts lose one another when links go.

It knows the ways that routing takes (`tiers`): up, one turn, down. What is done about a loss is decided by others.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace

from controller.fabric.model import FabricView, Host, Link, PortRef
from controller.fabric.tiers import Tiers

# In order: a < b.
Pair = tuple[int, int]

_NAMED = 4


def without(view: FabricView, links: Collection[Link]) -> FabricView:
    """The same view less some links."""
    gone = set(links)
    return replace(view, links=tuple(link for link in view.links if link not in gone)) if gone else view


def reached(start: Collection[int], cables: Iterable[tuple[PortRef, PortRef]]) -> set[int]:
    """The switches from which a series of cables, whichever, leads to one of these, themselves included."""
    neighbours: dict[int, set[int]] = defaultdict(set)
    for a, b in cables:
        neighbours[a.dpid].add(b.dpid)
        neighbours[b.dpid].add(a.dpid)
    found, left = set(start), list(start)
    while left:
        for dpid in neighbours[left.pop()] - found:
            found.add(dpid)
            left.append(dpid)
    return found


def joined(view: FabricView) -> frozenset[Pair]:
    """Every two switches with hosts between which routing has a way."""
    tiers = Tiers.of(view)
    homes = sorted({host.port.dpid for host in view.hosts})
    return frozenset((a, b) for i, a in enumerate(homes) for b in homes[i + 1 :] if tiers.reaches(a, b))


def cut_off(before: FabricView, after: FabricView) -> tuple[str, ...]:
    """A sentence about each switch whose hosts reach others in `before` and do not in `after`; who loses most comes
    first, and a loss is told from one side only."""
    lost = set(joined(before) - joined(after))
    sentences = []
    while lost:
        counts = Counter(end for pair in lost for end in pair)
        worst = min(counts, key=lambda dpid: (-counts[dpid], dpid))
        others = {a if b == worst else b for a, b in lost if worst in (a, b)}
        lost = {pair for pair in lost if worst not in pair}
        sentences.append(_sentence(before, worst, others))
    return tuple(sentences)


def _sentence(view: FabricView, home: int, others: Collection[int]) -> str:
    here = [host for host in view.hosts if host.port.dpid == home]
    everywhere = {host.port.dpid for host in view.hosts} - {home} <= set(others)
    there = [host for host in view.hosts if host.port.dpid in others]
    from_whom = "all other hosts" if everywhere else f"{_named(there)} at {_switches(view, others)}"
    return f"{_named(here)} at {_switches(view, [home])} from {from_whom}"


def _named(hosts: Iterable[Host]) -> str:
    return _listed(dict.fromkeys(host.name for host in hosts))


def _switches(view: FabricView, dpids: Iterable[int]) -> str:
    return _listed(view.switches[dpid].name for dpid in sorted(dpids))


def _listed(words: Iterable[str]) -> str:
    every = list(words)
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more
