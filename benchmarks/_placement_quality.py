"""How near to the best possible each method comes, every method on the same problems in the same run."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from _placement_cases import Case, equal, fluid_s, mixed, permutation, ring

from controller.placement import baselines, hedera
from controller.placement.place import place
from controller.placement.splitting import place_split

WHOLE = "Heddle, whole flows"
SPLIT = {count: f"Heddle, {count} QPs, split where needed" for count in (4, 8)}


@dataclass(frozen=True)
class Found:
    """Of one method on one problem, seconds; `gap` only where a bound for just this way of sending is known."""

    load_s: float
    gap: float | None = None
    proven: bool = False
    split_share: float = 0.0


@dataclass
class Row:
    """One method in one setting over all seeds: the fullest link as a multiple of what ideal spraying could do, and the
    gap to the bound (which knows that flows, or their queue pairs, do not divide)."""

    fabric: str
    traffic: str
    failed: float
    flows: int
    method: str
    queue_pairs: int
    seeds: int
    to_ideal_median: float
    to_ideal_p99: float
    gap_median: float | None
    gap_p99: float | None
    gap_max: float | None
    proven: float
    split_share: float


# Peers that take longer than everything else together are tried on so many seeds; each row says on how many it was.
SLOW_SEEDS = 20
SLOW = "Hedera annealing"
# Of healthy fabrics with equal flows, where the methods' results hardly vary: peers, and splitting, on so many seeds.
HEALTHY_SEEDS = 3


def methods(case: Case, seed: int, others: int) -> Iterator[tuple[str, int, Found]]:
    """(method, queue pairs, what it found); from the seed `others` on only Heddle's own placement of whole flows."""
    problem = case.problem
    whole = place(problem).certificate
    yield WHOLE, 1, Found(whole.max_load_s, whole.gap, whole.proven_optimal)
    if seed >= others:
        return
    for count, name in SPLIT.items():
        split = place_split(problem, {d.flow_id: count for d in problem.demands})
        proof = split.certificate
        share = len(split.parts) / len(problem.demands)
        yield name, count, Found(proof.max_load_s, proof.gap, proof.proven_optimal, share)

    def against(load_s: float) -> Found:
        # Whole flows: Heddle's bound holds for every method.
        return Found(load_s, load_s / whole.lower_bound_s - 1, load_s <= whole.lower_bound_s * (1 + 1e-9))

    plain: Mapping[str, Callable[[], float]] = {
        "least-loaded greedy": lambda: baselines.least_loaded(problem).certificate.max_load_s,
        "greedy of arXiv 2503.05324": lambda: baselines.greedy(problem).certificate.max_load_s,
        "Hedera first fit": lambda: hedera.first_fit(problem, seed).certificate.max_load_s,
        SLOW: lambda: hedera.annealing(problem, seed, destination=case.destination).certificate.max_load_s,
        "ECMP": lambda: baselines.ecmp(problem, 1, seed).certificate.max_load_s,
    }
    for name, load in plain.items():
        if name != SLOW or seed < SLOW_SEEDS:
            yield name, 1, against(load())
    for count in (4, 16):
        yield "ECMP", count, Found(baselines.ecmp(problem, count, seed).certificate.max_load_s)
    yield "ECMP, twice the uplinks", 1, Found(baselines.ecmp(case.wider, 1, seed).certificate.max_load_s)
    yield "packets sprayed evenly", 0, Found(baselines.sprayed_load_s(problem))


@dataclass
class _Gathered:
    found: dict[tuple[str, int], list[tuple[Found, float]]] = field(default_factory=lambda: defaultdict(list))
    flows: list[int] = field(default_factory=list)


def measure(
    fabric: str, traffic: str, failed: float, seeds: range, make: Callable[[int], Case], others: int
) -> list[Row]:
    gathered = _Gathered()
    for seed in seeds:
        case = make(seed)
        ideal_s = fluid_s(case.problem)
        gathered.flows.append(len(case.problem.demands))
        for name, count, found in methods(case, seed, others):
            gathered.found[name, count].append((found, found.load_s / ideal_s))
    return [
        _row(fabric, traffic, failed, round(statistics.mean(gathered.flows)), name, count, results)
        for (name, count), results in gathered.found.items()
    ]


def _row(
    fabric: str, traffic: str, failed: float, flows: int, name: str, count: int, results: list[tuple[Found, float]]
) -> Row:
    gaps = sorted(found.gap for found, _ in results if found.gap is not None)
    ratios = sorted(ratio for _, ratio in results)
    return Row(
        fabric=fabric,
        traffic=traffic,
        failed=failed,
        flows=flows,
        method=name,
        queue_pairs=count,
        seeds=len(results),
        to_ideal_median=statistics.median(ratios),
        to_ideal_p99=_percentile(ratios, 0.99),
        gap_median=statistics.median(gaps) if gaps else None,
        gap_p99=_percentile(gaps, 0.99) if gaps else None,
        gap_max=gaps[-1] if gaps else None,
        proven=sum(found.proven for found, _ in results) / len(results),
        split_share=statistics.mean(found.split_share for found, _ in results),
    )


def _percentile(ordered: list[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


HEALTHY = ((4, 4, 4), (16, 8, 16), (32, 32, 32), (64, 32, 32), (64, 64, 64))
MIXED = ((4, 4, 4), (16, 8, 16), (32, 32, 32), (64, 32, 32))


def rows(seeds: int, fabrics: Collection[str] = ()) -> Iterator[Row]:
    """The whole table, or that of some `fabrics`; `seeds` problems for each setting."""
    for leaves, spines, hosts in HEALTHY:
        name = f"{leaves} x {spines} x {hosts}"
        if fabrics and name not in fabrics:
            continue
        for traffic, pattern in (("permutation", permutation), ("ring", ring)):
            yield from measure(
                name,
                f"{traffic}, equal flows",
                0.0,
                range(seeds),
                lambda seed, shape=(leaves, spines, hosts), pattern=pattern: equal(*shape, pattern, seed),
                HEALTHY_SEEDS,
            )
    for leaves, spines, hosts in MIXED:
        name = f"{leaves} x {spines} x {hosts}"
        for failed, each in product((0.0, 0.05, 0.10), (False, True)) if not fabrics or name in fabrics else ():
            yield from measure(
                name,
                "4 jobs, a size per flow" if each else "4 jobs, a size per job",
                failed,
                range(seeds),
                lambda seed, shape=(leaves, spines, hosts), failed=failed, each=each: mixed(*shape, failed, seed, each),
                seeds,
            )
