"""How near to the best possible each method comes, every method on the same problems in the same run.

Nothing here has a clock: every method's effort is counted in steps, so a busy machine gives the same numbers later.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from _placement_cases import Case, equal, fluid_s, mixed, permutation, ring
from _placement_store import Found, Seed, Store

from controller.cli.output import libraries_aside
from controller.placement import baselines, hedera
from controller.placement.place import place
from controller.placement.splitting import place_split

WHOLE = "Heddle, whole flows"
SPLIT = {count: f"Heddle, {count} QPs, split where needed" for count in (4, 8)}


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


# Of healthy fabrics with equal flows, where the methods' results hardly vary: peers, and splitting, on so many seeds.
HEALTHY_SEEDS = 3


def methods(case: Case, seed: int, peers: bool) -> Iterator[Found]:
    """What each method finds; without `peers` only Heddle's own placement of whole flows."""
    problem = case.problem
    ideal_s = fluid_s(problem)

    def found(
        method: str, count: int, load_s: float, gap: float | None = None, proven: bool = False, share: float = 0.0
    ) -> Found:
        return Found(method, count, load_s, load_s / ideal_s, gap, proven, share)

    whole = place(problem).certificate
    yield found(WHOLE, 1, whole.max_load_s, whole.gap, whole.proven_optimal)
    if not peers:
        return
    for count, name in SPLIT.items():
        split = place_split(problem, {d.flow_id: count for d in problem.demands})
        proof = split.certificate
        share = len(split.parts) / len(problem.demands)
        yield found(name, count, proof.max_load_s, proof.gap, proof.proven_optimal, share)
    plain: Mapping[str, Callable[[], float]] = {
        "least-loaded greedy": lambda: baselines.least_loaded(problem).certificate.max_load_s,
        "greedy of arXiv 2503.05324": lambda: baselines.greedy(problem).certificate.max_load_s,
        "Hedera first fit": lambda: hedera.first_fit(problem, seed).certificate.max_load_s,
        "Hedera annealing": lambda: (
            hedera.annealing(problem, seed, destination=case.destination).certificate.max_load_s
        ),
        "ECMP": lambda: baselines.ecmp(problem, 1, seed).certificate.max_load_s,
    }
    for name, load in plain.items():
        # Whole flows: Heddle's bound holds for every method.
        load_s = load()
        yield found(name, 1, load_s, load_s / whole.lower_bound_s - 1, load_s <= whole.lower_bound_s * (1 + 1e-9))
    for count in (4, 16):
        yield found("ECMP", count, baselines.ecmp(problem, count, seed).certificate.max_load_s)
    yield found("ECMP, twice the uplinks", 1, baselines.ecmp(case.wider, 1, seed).certificate.max_load_s)
    yield found("packets sprayed evenly", 0, baselines.sprayed_load_s(problem))


@dataclass(frozen=True)
class Setting:
    """One line of the quality tables; `make` draws the problem of a seed, and peers are tried on the first seeds."""

    fabric: str
    traffic: str
    failed: float
    peers: float
    make: Callable[[int], Case]


def measure(setting: Setting, seed: int, store: Store) -> None:
    """Every method on one problem, unless the store has it."""
    key = (setting.fabric, setting.traffic, setting.failed, seed)
    if not store.has(key):
        case = setting.make(seed)
        with libraries_aside():
            found = tuple(methods(case, seed, seed < setting.peers))
        store.add(Seed(*key, len(case.problem.demands), found))


def rows_of(setting: Setting, store: Store) -> list[Row]:
    """A row for each method over all seeds in the store."""
    seeds = store.of(setting.fabric, setting.traffic, setting.failed)
    found: dict[tuple[str, int], list[Found]] = defaultdict(list)
    for seed in seeds:
        for each in seed.found:
            found[each.method, each.queue_pairs].append(each)
    flows = round(statistics.mean(seed.flows for seed in seeds)) if seeds else 0
    return [
        _row(setting.fabric, setting.traffic, setting.failed, flows, name, count, results)
        for (name, count), results in found.items()
    ]


def _row(fabric: str, traffic: str, failed: float, flows: int, name: str, count: int, results: list[Found]) -> Row:
    gaps = sorted(found.gap for found in results if found.gap is not None)
    ratios = sorted(found.to_ideal for found in results)
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
        proven=sum(found.proven for found in results) / len(results),
        split_share=statistics.mean(found.split_share for found in results),
    )


def _percentile(ordered: list[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


HEALTHY = ((4, 4, 4), (16, 8, 16), (32, 32, 32), (64, 32, 32), (64, 64, 64))
MIXED = ((4, 4, 4), (16, 8, 16), (32, 32, 32), (64, 32, 32))


def settings(leaves: int, spines: int, hosts: int) -> list[Setting]:
    """All that is measured on one fabric."""
    shape = (leaves, spines, hosts)
    name = f"{leaves} x {spines} x {hosts}"
    found: list[Setting] = []
    if shape in HEALTHY:
        found += [
            Setting(
                name,
                f"{traffic}, equal flows",
                0.0,
                HEALTHY_SEEDS,
                lambda seed, pattern=pattern: equal(*shape, pattern, seed),
            )
            for traffic, pattern in (("permutation", permutation), ("ring", ring))
        ]
    if shape in MIXED:
        found += [
            Setting(
                name,
                "4 jobs, a size per flow" if each else "4 jobs, a size per job",
                failed,
                math.inf,
                lambda seed, failed=failed, each=each: mixed(*shape, failed, seed, each),
            )
            for failed, each in product((0.0, 0.05, 0.10), (False, True))
        ]
    return found


def rows(seeds: int, fabrics: Collection[str], store: Store) -> Iterator[Row]:
    """The whole table, or that of some `fabrics`; at least `seeds` problems for each setting, and all in the store.

    Seed by seed over all settings of a fabric: what an interrupted run leaves is complete for a number of seeds.
    """
    for shape in HEALTHY:
        if fabrics and " x ".join(map(str, shape)) not in fabrics:
            continue
        of_fabric = settings(*shape)
        for seed in range(seeds):
            for setting in of_fabric:
                measure(setting, seed, store)
        for setting in of_fabric:
            yield from rows_of(setting, store)
