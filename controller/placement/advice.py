"""Which hosts a job should run on and in which order its ranks should lie, so that the least crosses the spines.

Neighbours on a ring, partners of halving and doubling, branches of a tree: which pairs of ranks exchange most is the
algorithm's to say; which of them share a leaf is the order's. Decides nothing for anybody: it is advice, with the gain
that is predicted by expanding the collective and placing it alone on the fabric as it is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller.fabric.model import Path, PortRef
from controller.jobs.collective import Algorithm, Collective, Flow, Operation
from controller.jobs.edges import SUPPORTED
from controller.jobs.flows import expand
from controller.placement.effort import first_effort
from controller.placement.place import place
from controller.placement.problem import Demand, Problem


@dataclass(frozen=True, slots=True)
class Site:
    """Where jobs can run: `leaf_of[host]` and the rate of each host's link, and the fabric as `Problem` has it.

    A host of several interfaces is one for each of them here; `server_of` says which are one server.
    """

    leaf_of: Mapping[str, int]
    host_bps: Mapping[str, int]
    paths: Mapping[tuple[int, int], tuple[Path, ...]]
    capacity_bps: Mapping[PortRef, int]
    server_of: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prediction:
    """One run of the collective on certain hosts. `completion_s` counts the hosts' own links too; flows that cross and
    have no live path are `stranded`."""

    leaves: int
    crossing_flows: int
    crossing_bytes: int
    fullest_link_s: float
    completion_s: float
    stranded: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """`ranks[i]` is the host advised for rank i. `gain` is the share of the completion time that it saves."""

    ranks: tuple[str, ...]
    given: Prediction
    advised: Prediction
    gain: float
    sentences: tuple[str, ...]


def advise(collective: Collective, site: Site, candidates: Sequence[str] = ()) -> Advice:
    """The best of the orders tried, never worse than the one given.

    `collective.ranks` are host names of `site`. With `candidates`, any of them may be chosen instead of the hosts
    given, which count as candidates too only if they are among them; servers of several ranks are consecutive in both.
    ValueError when the candidates are too few, not whole servers, or unknown.
    """
    servers = _servers(collective.ranks, collective.ranks_per_host)
    pool = _servers(tuple(candidates), collective.ranks_per_host) if candidates else servers
    _check(collective, site, pool, len(servers))
    given = predict(collective, site)
    best, advised = collective, given
    for order in _orders(collective, site, servers, pool):
        tried = replace(collective, ranks=order)
        found = predict(tried, site)
        if _worth(found) < _worth(advised):
            best, advised = tried, found
    gain = 1 - advised.completion_s / given.completion_s if given.completion_s else 0.0
    sentences = (*_sentences(collective, best, given, advised, gain), *_rail_sentence(best, site, advised))
    return Advice(best.ranks, given, advised, gain, sentences)


def _rail_sentence(best: Collective, site: Site, advised: Prediction) -> Iterator[str]:
    """What it would be worth to go rail by rail, on servers whose ranks have interfaces on different leaves."""
    servers = _servers(best.ranks, best.ranks_per_host)
    split = any(len({site.leaf_of[host] for host in server}) > 1 for server in servers)
    by_rail = replace(best, algorithm=Algorithm.HIERARCHICAL, ports=())
    if not split or best.algorithm == by_rail.algorithm or (best.operation, by_rail.algorithm) not in SUPPORTED:
        return
    found = predict(by_rail, site)
    if _worth(found) < _worth(advised):
        yield (
            f"these servers have rails: rail by rail (algorithm {by_rail.algorithm}) one run takes "
            f"{found.completion_s:.6g} s, and {found.crossing_bytes:,} bytes cross the spines"
        )


def predict(collective: Collective, site: Site) -> Prediction:
    """What one run of the collective, alone on the fabric, needs at least, its flows placed by `place`."""
    flows = expand(collective, lambda host: (site.server_of.get(host, host), host))
    crossing = [f for f in flows if site.leaf_of[f.src_address] != site.leaf_of[f.dst_address]]
    demands = tuple(
        Demand(f.flow_id, site.leaf_of[f.src_address], site.leaf_of[f.dst_address], f.size_bytes) for f in crossing
    )
    # Several orders are tried while a caller waits.
    placed = place(Problem(demands, site.paths, site.capacity_bps), first_effort(len(demands)))
    fullest_s = placed.certificate.max_load_s
    return Prediction(
        leaves=len({site.leaf_of[host] for host in collective.ranks}),
        crossing_flows=len(crossing),
        crossing_bytes=sum(f.size_bytes for f in crossing),
        fullest_link_s=fullest_s,
        completion_s=max(fullest_s, _hosts_s(flows, site)),
        stranded=len(placed.unplaced),
    )


def _worth(prediction: Prediction) -> tuple[int, float, int]:
    """Sorts the better first; what differs by rounding only is equal."""
    return (prediction.stranded, float(f"{prediction.completion_s:.9e}"), prediction.crossing_bytes)


def _hosts_s(flows: Sequence[Flow], site: Site) -> float:
    sent: dict[str, int] = defaultdict(int)
    received: dict[str, int] = defaultdict(int)
    for flow in flows:
        sent[flow.src_address] += flow.size_bytes
        received[flow.dst_address] += flow.size_bytes
    return max(
        (8 * size / site.host_bps[host] for loads in (sent, received) for host, size in loads.items()), default=0
    )


def _servers(ranks: Sequence[str], together: int) -> tuple[tuple[str, ...], ...]:
    size = max(together, 1)
    return tuple(tuple(ranks[i : i + size]) for i in range(0, len(ranks), size))


def _check(collective: Collective, site: Site, pool: Sequence[tuple[str, ...]], needed: int) -> None:
    unknown = sorted({h for server in pool for h in server} | set(collective.ranks) - site.leaf_of.keys())
    unknown = [host for host in unknown if host not in site.leaf_of]
    if unknown:
        raise ValueError(f"hosts of which no leaf is known: {', '.join(unknown[:8])}")
    if any(len(server) != max(collective.ranks_per_host, 1) for server in pool):
        raise ValueError(f"candidates: list whole servers of {collective.ranks_per_host} ranks, one after the other")
    if len(pool) < needed:
        raise ValueError(f"candidates: {len(pool)} servers for {needed}; list as many as the job has, at least")


def _orders(
    collective: Collective, site: Site, servers: Sequence[tuple[str, ...]], pool: Sequence[tuple[str, ...]]
) -> Iterator[tuple[str, ...]]:
    """Orders of hosts worth trying: by leaf, over the fewest leaves; by leaf as they come; dealt out to the leaves."""
    home = _by_leaf(site, _connected(site, pool, len(servers)))
    chosen = _fewest_leaves(home, len(servers))
    taken = [server for group in chosen for server in group]
    yield _laid(collective, taken)
    first = {server: i for i, server in reversed(list(enumerate(pool)))}
    as_they_come = _by_leaf(site, sorted(taken, key=first.__getitem__))
    yield _laid(collective, [server for group in as_they_come for server in group])
    widest = max(len(group) for group in chosen)
    yield _laid(collective, [group[i] for i in range(widest) for group in chosen if i < len(group)])


def _connected(site: Site, pool: Sequence[tuple[str, ...]], needed: int) -> Sequence[tuple[str, ...]]:
    """Without servers on leaves that have no live path to any other leaf of the pool, if enough are left."""
    leaves = sorted({site.leaf_of[host] for server in pool for host in server})
    joined = {a for a in leaves if any(a != b and site.paths.get((a, b)) and site.paths.get((b, a)) for b in leaves)}
    kept = [server for server in pool if all(site.leaf_of[host] in joined for host in server)]
    return kept if len(kept) >= needed else pool


def _by_leaf(site: Site, pool: Sequence[tuple[str, ...]]) -> list[list[tuple[str, ...]]]:
    """Servers that hang on the same leaves together, in the order of the pool."""
    groups: dict[tuple[int, ...], list[tuple[str, ...]]] = defaultdict(list)
    # A host that carries several ranks is listed several times; each listing is a place for one.
    for server, places in Counter(pool).items():
        groups[tuple(site.leaf_of[host] for host in server)] += [server] * places
    return list(groups.values())


def _fewest_leaves(groups: Sequence[list[tuple[str, ...]]], needed: int) -> list[list[tuple[str, ...]]]:
    """The largest groups until the rest fits one, then the smallest that holds the rest: no choice uses fewer."""
    free = sorted(groups, key=len, reverse=True)
    chosen = []
    while needed > 0:
        holding = [group for group in free if len(group) >= needed]
        group = holding[-1] if holding else free[0]
        free.remove(group)
        chosen.append(group[:needed])
        needed -= len(chosen[-1])
    return chosen


def _laid(collective: Collective, servers: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Hosts by rank, such that the servers follow one another on the first ring, where one is given."""
    together = max(collective.ranks_per_host, 1)
    ring = collective.rings[0] if collective.rings else range(len(collective.ranks))
    place_of = list(dict.fromkeys(rank // together for rank in ring))
    result: list[str] = [""] * len(collective.ranks)
    for number, server in zip(place_of, servers, strict=True):
        result[number * together : (number + 1) * together] = server
    return tuple(result)


def _sentences(
    collective: Collective, best: Collective, given: Prediction, advised: Prediction, gain: float
) -> Iterator[str]:
    if best.ranks == collective.ranks:
        yield "nothing to gain: no order or choice tried is better than the one given"
        if collective.operation == Operation.ALL_TO_ALL and collective.algorithm == Algorithm.DIRECT:
            yield "in an all-to-all everybody sends to everybody: the order of the ranks makes no difference"
        return
    if gain > 1e-9:
        yield f"one run takes {gain:.1%} less time: {advised.completion_s:.6g} s instead of {given.completion_s:.6g} s"
    else:
        yield "alone on the fabric the job runs no faster, but it leaves more of the spines to others"
    yield (
        f"{advised.crossing_bytes:,} bytes in {advised.crossing_flows} flows cross the spines instead of "
        f"{given.crossing_bytes:,} in {given.crossing_flows}"
    )
    if advised.leaves != given.leaves:
        yield f"the job is on {advised.leaves} leaves instead of {given.leaves}"
