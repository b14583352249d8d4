"""How long placement takes: the whole answer, with paths, loads and certificate, next to textbook edge colouring."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from _placement_cases import equal, mixed, permutation, pinned, three_tier
from placement_speed import check_reference, medians_ms, reference_colouring

from controller.fabric.model import PortRef
from controller.placement.effort import FIRST, FULL
from controller.placement.place import place
from controller.placement.problem import Placement, Problem
from controller.placement.splitting import place_parts


@dataclass(frozen=True)
class SpeedRow:
    """Medians of CPU milliseconds; `limit_ms` is promised, `reference_ms` is plain edge colouring in the same run."""

    case: str
    flows: int
    median_ms: float
    limit_ms: float | None
    reference_ms: float | None
    gap: float
    proven: bool
    moved: int | None = None


def speed(repeat: int) -> Iterator[SpeedRow]:
    yield _fresh(64, 32, 32, repeat, 5.0)
    yield _fresh(256, 64, 64, repeat, 50.0)
    problem = three_tier(16, 32, 32, 32, 32, 100_000)
    yield _row("three tiers, 16,384 hosts", problem, lambda: place(problem), min(repeat, 5), 1000.0)
    yield _after_failure(repeat)
    yield from _queue_pairs(min(repeat, 5))


def growth(repeat: int) -> Iterator[SpeedRow]:
    """Four sizes, each about four times the one before."""
    for leaves, spines, hosts in ((16, 8, 8), (32, 16, 16), (64, 32, 32), (256, 64, 32)):
        yield _fresh(leaves, spines, hosts, repeat, None)


def _fresh(leaves: int, spines: int, hosts: int, repeat: int, limit_ms: float | None) -> SpeedRow:
    problem = equal(leaves, spines, hosts, permutation, 1).problem
    edges = [(d.src_leaf, d.dst_leaf) for d in problem.demands]
    check_reference(edges, reference_colouring(edges, spines), spines)
    name = f"{leaves} x {spines} x {hosts}, a permutation"
    return _row(name, problem, lambda: place(problem), repeat, limit_ms, lambda: reference_colouring(edges, spines))


def _after_failure(repeat: int) -> SpeedRow:
    """All flows are placed; one cable dies; those on it get new paths and the rest stays."""
    problem = equal(64, 32, 32, permutation, 1).problem
    before = place(problem)
    kept = pinned(problem, dict(before.paths))
    dead = (PortRef(5, 7), PortRef(10_007, 5))

    def again() -> Placement:
        return place(Problem(kept, problem.paths.without(dead), problem.capacity_bps))

    moved = sum(before.paths[flow] != path for flow, path in again().paths.items())
    row = _row("64 x 32 x 32, re-plan after one cable died", problem, again, repeat, 5.0)
    return replace(row, moved=moved)


def _queue_pairs(repeat: int) -> Iterator[SpeedRow]:
    """Four jobs with a size each on a fabric with a tenth of its cables down, each flow with four queue pairs whose UDP
    source ports are known: what the controller places at once, and with the effort that it spends aside."""
    problem = mixed(64, 32, 32, 0.10, 1).problem
    pairs = {f"{d.flow_id}#{n}": (d, n) for d in problem.demands for n in range(4)}
    demands = tuple(
        replace(d, flow_id=name, size_bytes=d.size_bytes // 4 + (n < d.size_bytes % 4))
        for name, (d, n) in pairs.items()
    )
    problem, group_of = replace(problem, demands=demands), {name: d.flow_id for name, (d, _) in pairs.items()}
    for title, effort in (("at once", FIRST), ("full effort", FULL)):
        yield _row(
            f"64 x 32 x 32, 10 % failed, 4 QPs, {title}",
            problem,
            lambda effort=effort: place_parts(problem, group_of, effort),
            repeat,
            None,
        )


def _row(
    case: str,
    problem: Problem,
    action: Callable[[], Placement],
    repeat: int,
    limit_ms: float | None,
    reference: Callable[[], object] | None = None,
) -> SpeedRow:
    certificate = action().certificate
    median_ms, *other_ms = medians_ms([action, *([reference] if reference else [])], repeat)
    return SpeedRow(
        case=case,
        flows=len(problem.demands),
        median_ms=median_ms,
        limit_ms=limit_ms,
        reference_ms=other_ms[0] if other_ms else None,
        gap=certificate.gap,
        proven=certificate.proven_optimal,
    )
