"""What no placement can beat: lower bounds on the fullest link, cut by cut.

Decides nothing; a certificate compares a placement with these. Pins are left out of account: a bound here holds for
every placement of the same flows, also for those that move pinned ones, so a gap can be the price of not moving.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np

from controller.fabric.model import PortRef
from controller.fabric.paths import IntArray, Pair
from controller.placement.instance import FloatArray, Instance
from controller.placement.problem import Problem

# With unequal links every distinct size costs a pass, and a bound from some of them is as true as one from all.
_PASSES = 16

# Source and destination leaf; None: any.
Ends = tuple[int | None, int | None]


def lower_bound_s(problem: Problem) -> float:
    """Seconds that the fullest link needs in every placement of `problem`; 0.0 when nothing has a path."""
    return instance_bound_s(Instance.of(problem))


def instance_bound_s(instance: Instance) -> float:
    """The largest of: what leaves a leaf over its uplinks, what enters one over its downlinks, what one pair of leaves
    exchanges over its own paths (which covers each flow on its best path)."""
    return max((bound_s for *_, bound_s in _bounds(instance)), default=0.0)


@dataclass(frozen=True, slots=True)
class Cut:
    """All that must go from one leaf (None: any) to another (None: any), and what no placement of it can beat.

    It has `ways` to go: uplinks, downlinks, or paths; `links` are the link directions that they consist of.
    """

    src_leaf: int | None
    dst_leaf: int | None
    flow_ids: tuple[str, ...]
    size_bytes: int
    ways: int
    links: frozenset[PortRef]
    bound_s: float


def cuts(problem: Problem) -> list[Cut]:
    """Every cut whose bound enters the certificate, highest bound first; the first is what bounds the whole."""
    instance = Instance.of(problem)
    found = [_cut(instance, *bound) for bound in _bounds(instance)]
    return sorted(found, key=lambda c: (-c.bound_s, c.src_leaf or 0, c.dst_leaf or 0))


def _cut(instance: Instance, pair: Ends, flows: Sequence[int], rows: IntArray, bound_s: float) -> Cut:
    demands = [instance.demands[i] for i in flows]
    links = frozenset(instance.routes.ports[i] for i in np.unique(rows[rows >= 0]).tolist())
    one_link_each = rows.shape[1] == 1
    return Cut(
        *pair,
        flow_ids=tuple(demand.flow_id for demand in demands),
        size_bytes=sum(demand.size_bytes for demand in demands),
        ways=len(links) if one_link_each else len(rows),
        links=links,
        bound_s=bound_s,
    )


def _bounds(instance: Instance) -> Iterator[tuple[Ends, Sequence[int], IntArray, float]]:
    """The leaves at both ends (None: any), the flows between them, the links to go by with a row for each way, and the
    bound in seconds."""
    flows: dict[Pair, list[int]] = defaultdict(list)
    for i, demand in enumerate(instance.demands):
        flows[demand.src_leaf, demand.dst_leaf].append(i)
    rows = {pair: instance.candidates[numbers[0]] for pair, numbers in flows.items()}
    for pair, numbers in flows.items():
        yield pair, numbers, rows[pair], pair_bound_s(instance, numbers, rows[pair])
    for side, hop in ((0, 0), (1, -1)):
        members: dict[int, list[Pair]] = defaultdict(list)
        for pair in flows:
            members[pair[side]].append(pair)
        for leaf, pairs in members.items():
            crossing = [i for p in pairs for i in flows[p]]
            links = np.concatenate([rows[p][:, hop] for p in pairs])
            ends: Ends = (leaf, None) if side == 0 else (None, leaf)
            yield ends, crossing, links[:, np.newaxis], _spread_s(instance, crossing, links)


def pair_bound_s(instance: Instance, flows: list[int], rows: IntArray) -> float:
    slowest_hop = instance.rates_bps[rows].min(axis=1)
    if len(flows) == 1:
        return float(instance.bits[flows[0]] / slowest_hop.max())
    if len(np.unique(rows[rows >= 0])) == np.count_nonzero(rows >= 0):
        # No two paths share a link: each is as good as one link of its slowest hop's rate.
        return spread_bound_s(_largest_first(instance, flows), slowest_hop)
    largest = float(instance.bits[flows].max() / slowest_hop.max())
    return max(largest, *(_spread_s(instance, flows, rows[:, hop]) for hop in (0, -1)))


def _spread_s(instance: Instance, flows: Iterable[int], links: IntArray) -> float:
    """Bound for `flows` that must each cross one of `links`; 0.0 when some path has no link at that hop."""
    if (links < 0).any():
        return 0.0
    return spread_bound_s(_largest_first(instance, list(flows)), instance.rates_bps[np.unique(links)])


def _largest_first(instance: Instance, flows: list[int]) -> FloatArray:
    return np.sort(instance.bits[flows])[::-1]


def spread_bound_s(bits: FloatArray, rates_bps: FloatArray) -> float:
    """Seconds needed at least to send indivisible flows over parallel links: `bits` largest first, one rate per link.

    The sum over all links is the fluid bound. Beyond it, take the j largest flows: by the pigeonhole principle some
    link carries ceil(j / links) of them, and at best the smallest ones. With unequal links, the j largest count as
    equal to the smallest among them, and equal flows are spread exactly.
    """
    if not bits[0]:
        return 0.0
    fluid = float(bits.sum() / rates_bps.sum())
    if rates_bps.min() == rates_bps.max():
        total = np.concatenate(([0.0], np.cumsum(bits)))
        j = np.arange(1, len(bits) + 1)
        return max(fluid, float((total[j] - total[j - -(-j // len(rates_bps))]).max() / rates_bps[0]))
    last_of_size = np.flatnonzero(np.append(bits[1:] < bits[:-1], True))
    if len(last_of_size) > _PASSES:
        last_of_size = last_of_size[np.linspace(0, len(last_of_size) - 1, _PASSES).astype(np.intp)]
    return max(fluid, *(equal_spread_s(int(j) + 1, rates_bps) * float(bits[j]) for j in last_of_size))


def equal_spread_s(count: int, rates_bps: FloatArray) -> float:
    """Seconds per bit of flow size, at the least, to send `count` equal indivisible flows over parallel links."""
    # Nobody finishes later for taking the whole part of its fair share; what is left is dealt out one by one.
    share = np.floor(count * rates_bps / rates_bps.sum() * (1 - 1e-12)).astype(np.intp)
    heap = [((n + 1) / rate, n + 1, rate) for n, rate in zip(share.tolist(), rates_bps.tolist(), strict=True)]
    heapify(heap)
    slowest = float((share / rates_bps).max())
    for _ in range(count - int(share.sum())):
        at, n, rate = heap[0]
        slowest = max(slowest, at)
        heapreplace(heap, ((n + 1) / rate, n + 1, rate))
    return slowest
