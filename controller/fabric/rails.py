"""Which rail each leaf carries, inferred from where the interfaces of servers are plugged in.

In a rail-optimised pod the n-th interface of every server is on the n-th leaf of its group, so that what interfaces of
one number say to one another stays on one leaf. What most servers of a group do is taken for its pattern; an interface
elsewhere is named. This decides names and remarks only: no path depends on it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

# Interfaces named one by one before the rest is only counted.
_NAMED = 8


@dataclass(frozen=True, slots=True, order=True)
class Nic:
    """The interface `number` (from 1) of a server, and the leaf it is on."""

    server: str
    number: int
    leaf: int


@dataclass(frozen=True, slots=True)
class Rails:
    """`of_leaf` has the rails of each leaf that carries any, counted from 1 and sorted; `problems` are sentences."""

    of_leaf: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def infer(seen: Iterable[Nic], name: Callable[[int], str], meant: Iterable[Nic] = ()) -> Rails:
    """What is `meant` by a plan counts beside what is seen, so that few servers in wrong ports make no other pattern.
    Servers with interfaces on one leaf alone say nothing of rails. `name` tells what a leaf is called."""
    present = set(seen)
    by_server: dict[str, list[Nic]] = defaultdict(list)
    for nic in sorted(present.union(meant)):
        by_server[nic.server].append(nic)
    spread = {server: found for server, found in by_server.items() if len({nic.leaf for nic in found}) > 1}
    group_of = _groups(spread.values())
    rail_at: dict[tuple[int, int], int] = {}
    problems: list[str] = []
    home = {
        server: Counter(group_of[nic.leaf] for nic in found).most_common(1)[0][0] for server, found in spread.items()
    }
    for group in sorted(set(home.values())):
        members = [nic for server, found in spread.items() if home[server] == group for nic in found]
        found, unclear = _pattern(members, name)
        if len(set(found.values())) > 1:
            rail_at |= {(group, number): leaf for number, leaf in found.items()}
        problems += unclear
    of_leaf: dict[int, set[int]] = defaultdict(set)
    for (_, number), leaf in rail_at.items():
        of_leaf[leaf].add(number)
    rails = {leaf: tuple(sorted(numbers)) for leaf, numbers in of_leaf.items()}
    in_order = (nic for found in spread.values() for nic in found if nic in present)
    problems += _misplaced(in_order, home, rail_at, rails, name)
    return Rails(rails, tuple(problems))


def _groups(servers: Collection[list[Nic]]) -> dict[int, int]:
    """Leaf -> its group's lowest leaf. Two leaves are of one group when more than half of the servers of one of them
    are on the other as well, so that a single interface in the wrong rack does not make two groups one."""
    on: Counter[int] = Counter()
    shared: Counter[tuple[int, int]] = Counter()
    for nics in servers:
        leaves = sorted({nic.leaf for nic in nics})
        on.update(leaves)
        shared.update((a, b) for a in leaves for b in leaves if a < b)
    group = {leaf: leaf for leaf in on}

    def top(leaf: int) -> int:
        while group[leaf] != leaf:
            group[leaf] = leaf = group[group[leaf]]
        return leaf

    for (a, b), together in sorted(shared.items()):
        if 2 * together > min(on[a], on[b]):
            low, high = sorted((top(a), top(b)))
            group[high] = low
    return {leaf: top(leaf) for leaf in group}


def _pattern(members: Iterable[Nic], name: Callable[[int], str]) -> tuple[dict[int, int], list[str]]:
    """(rail -> leaf of one group's servers, sentences on the rails that no leaf has most of)."""
    leaves: dict[int, Counter[int]] = defaultdict(Counter)
    for nic in members:
        leaves[nic.number][nic.leaf] += 1
    found, unclear = {}, []
    for number, votes in sorted(leaves.items()):
        leaf, most = min(votes.items(), key=lambda vote: (-vote[1], vote[0]))
        if 2 * most > votes.total():
            found[number] = leaf
        else:
            places = " and ".join(f"{name(leaf)} ({count})" for leaf, count in sorted(votes.items()))
            unclear.append(f"rail {number} cannot be told: the servers' NIC {number} is on {places}")
    return found, unclear


def _misplaced(
    nics: Iterable[Nic],
    home: Mapping[str, int],
    rail_at: Mapping[tuple[int, int], int],
    rails: Mapping[int, Collection[int]],
    name: Callable[[int], str],
) -> Iterator[str]:
    """One sentence for each interface that is not where those of its number are in its server's group."""
    odd = [nic for nic in nics if rail_at.get((home[nic.server], nic.number), nic.leaf) != nic.leaf]
    own = {(group, leaf) for (group, _), leaf in rail_at.items()}
    for nic in sorted(odd)[:_NAMED]:
        wanted = rail_at[home[nic.server], nic.number]
        where = _rail_words(rails.get(nic.leaf, ()), (home[nic.server], nic.leaf), own)
        yield f"{nic.server}'s NIC {nic.number} is on {name(nic.leaf)}, {where}; rail {nic.number} is {name(wanted)}"
    if len(odd) > _NAMED:
        yield f"{len(odd) - _NAMED} more NICs are not on the leaf of their rail"


def _rail_words(rails: Collection[int], place: tuple[int, int], own: Set[tuple[int, int]]) -> str:
    if not rails:
        return "which carries no rail"
    words = f"rail{'s' if len(rails) > 1 else ''} {' and '.join(map(str, rails))}"
    return words if place in own else f"{words} of another group"
