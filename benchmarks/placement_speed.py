"""How fast placement answers, next to plain edge colouring by alternating paths in the same run.

    .venv/bin/python benchmarks/placement_speed.py [--repeat 9] [--json]

Every host sends one flow to another host (a random permutation, as large rings look to the fabric). Times are medians
of CPU milliseconds: "place" is the whole answer (checks, paths, loads, certificate), "colouring" the part of it that
chooses spines, "reference" the same choice as textbooks make it (König's proof, one edge at a time, in plain Python);
"ratio" is reference / colouring. Where the fabric is not symmetric or the flows are not equal, there is no reference:
what counts there is the gap.
"""

import argparse
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from controller.fabric.model import FabricView, Link, PortRef, Role, Switch
from controller.fabric.paths import link_capacities, two_tier_paths
from controller.placement import baselines
from controller.placement.channels import colour_around
from controller.placement.place import place
from controller.placement.problem import Demand, Problem

RATE_BPS = 400_000_000_000
SIZE_BYTES = 1 << 30


@dataclass(frozen=True)
class Row:
    """One line of the table; times are medians of CPU milliseconds, None where there is nothing to compare."""

    case: str
    flows: int
    method: str
    gap: float
    proven_optimal: bool
    place_ms: float
    colouring_ms: float | None
    reference_ms: float | None
    ratio: float | None
    # Fullest link of plain hashing and of plain least-loaded, as multiples of placement's.
    ecmp: float
    least_loaded: float


def fabric(leaves: int, spines: int, cables_down: int = 0) -> FabricView:
    """Leaves 1.., spines 10001..; the first `cables_down` leaves lack one cable each, to different spines."""
    switches = {1 + i: Switch(1 + i, f"leaf{i}", Role.LEAF, True) for i in range(leaves)}
    switches |= {10_001 + j: Switch(10_001 + j, f"spine{j}", Role.SPINE, True) for j in range(spines)}
    links = tuple(
        Link(PortRef(1 + i, 1 + j), PortRef(10_001 + j, 1 + i), RATE_BPS)
        for i in range(leaves)
        for j in range(spines)
        if not (i < cables_down and j == i % spines)
    )
    return FabricView(switches, links, ())


def permutation(leaves: int, hosts: int, size: Callable[[random.Random], int]) -> tuple[Demand, ...]:
    """One flow from every host; flows that stay on their leaf are left out."""
    rng = random.Random(1)
    sources = [1 + i for i in range(leaves) for _ in range(hosts)]
    destinations = sources[:]
    rng.shuffle(destinations)
    ends = zip(sources, destinations, strict=True)
    return tuple(Demand(f"job/{n}", a, b, size(rng)) for n, (a, b) in enumerate(ends) if a != b)


def reference_colouring(edges: list[tuple[int, int]], colours: int) -> list[int]:
    """Edge colouring one edge at a time, with alternating paths; vertices of more than `colours` edges are split."""
    # By vertex and colour: the edge that has it there, or -1. A leaf's vertices are made as its edges come.
    at: list[list[int]] = []
    newest: dict[tuple[int, int], int] = {}
    used: list[int] = []
    ends: list[tuple[int, int]] = []
    result: list[int] = []
    for edge, pair in enumerate(edges):
        found = []
        for side, leaf in enumerate(pair):
            vertex = newest.get((side, leaf))
            if vertex is None or used[vertex] == colours:
                vertex = newest[side, leaf] = len(at)
                at.append([-1] * colours)
                used.append(0)
            used[vertex] += 1
            found.append(vertex)
        left, right = found
        one, other = at[left].index(-1), at[right].index(-1)
        path, vertex, wanted = [], right, one
        while one != other and (following := at[vertex][wanted]) >= 0:
            path.append(following)
            a, b = ends[following]
            vertex, wanted = a + b - vertex, one + other - wanted
        for member in path:
            for end in ends[member]:
                at[end][result[member]] = -1
        for member in path:
            result[member] = one + other - result[member]
            for end in ends[member]:
                at[end][result[member]] = member
        ends.append((left, right))
        result.append(one)
        at[left][one] = at[right][one] = edge
    return result


def check_reference(edges: list[tuple[int, int]], colouring: list[int], colours: int) -> None:
    """A reference that were wrong would be no reference: each leaf has its fair share of each colour, at most."""
    for side in (0, 1):
        flows = Counter(edge[side] for edge in edges)
        share = Counter((edge[side], c) for edge, c in zip(edges, colouring, strict=True))
        if any(count > -(-flows[leaf] // colours) for (leaf, _), count in share.items()):
            raise AssertionError("the reference colouring is not proper")


def medians_ms(actions: list[Callable[[], object]], repeat: int) -> list[float]:
    """CPU time of each, taking turns, so that whatever slows the machine slows them all."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(repeat):
        for action, taken in zip(actions, times, strict=True):
            start = time.process_time()
            action()
            taken.append((time.process_time() - start) * 1e3)
    return [statistics.median(taken) for taken in times]


def measure(case: str, view: FabricView, demands: tuple[Demand, ...], repeat: int, reference: bool) -> Row:
    problem = Problem(demands, two_tier_paths(view), link_capacities(view))
    placed = place(problem)
    actions: list[Callable[[], object]] = [lambda: place(problem)]
    if reference:
        edges = [(d.src_leaf, d.dst_leaf) for d in demands]
        spines = sum(switch.role == Role.SPINE for switch in view.switches.values())
        check_reference(edges, reference_colouring(edges, spines), spines)
        source, destination = (np.array([edge[side] - 1 for edge in edges], dtype=np.intp) for side in (0, 1))
        whole = np.zeros((len(view.switches), spines), dtype=np.bool_)
        actions.append(lambda: colour_around(source, destination, whole, whole))
        actions.append(lambda: reference_colouring(edges, spines))
    place_ms, *both_ms = medians_ms(actions, repeat)
    certificate = placed.certificate
    return Row(
        case=case,
        flows=len(demands),
        method=certificate.method,
        gap=certificate.gap,
        proven_optimal=certificate.proven_optimal,
        place_ms=place_ms,
        colouring_ms=both_ms[0] if both_ms else None,
        reference_ms=both_ms[1] if both_ms else None,
        ratio=both_ms[1] / both_ms[0] if both_ms else None,
        ecmp=baselines.ecmp(problem).certificate.max_load_s / certificate.max_load_s,
        least_loaded=baselines.least_loaded(problem).certificate.max_load_s / certificate.max_load_s,
    )


def rows(repeat: int) -> Iterator[Row]:
    def equal(_: random.Random) -> int:
        return SIZE_BYTES

    for leaves, spines, hosts in ((4, 2, 4), (16, 8, 16), (32, 16, 16), (64, 32, 32), (64, 31, 31), (64, 32, 256)):
        name = f"{leaves} x {spines} x {hosts}"
        yield measure(name, fabric(leaves, spines), permutation(leaves, hosts, equal), repeat, reference=True)
    for down in (1, 8):
        case = f"64 x 32 x 31, {down} cable{'s' if down > 1 else ''} down"
        yield measure(case, fabric(64, 32, down), permutation(64, 31, equal), repeat, reference=False)
    for leaves, spines, hosts in ((4, 2, 8), (16, 8, 16), (64, 32, 32)):
        demands = permutation(leaves, hosts, lambda rng: rng.randrange(SIZE_BYTES // 100, SIZE_BYTES))
        case = f"{leaves} x {spines} x {hosts}, unequal sizes"
        yield measure(case, fabric(leaves, spines), demands, repeat, reference=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9, help="runs per median (default: 9)")
    parser.add_argument("--json", action="store_true", help="one JSON array instead of a table")
    arguments = parser.parse_args()
    found = rows(max(arguments.repeat, 1))
    if arguments.json:
        print(json.dumps([asdict(row) for row in found], indent=2))
        return
    heads = f"{'flows':>6} {'place':>9} {'colouring':>10} {'reference':>10} {'ratio':>6} {'gap':>8}"
    print(f"{'leaves x spines x hosts':34} {heads}  method")
    for row in found:
        reference = " " * 28
        if row.ratio is not None:
            reference = f"{row.colouring_ms:7.2f} ms {row.reference_ms:7.2f} ms {row.ratio:6.1f}"
        proof = f"{row.gap:8.2%}  {row.method}{' (proven)' if row.proven_optimal else ''}"
        against = f"; hashing {row.ecmp:.2f}x, least-loaded {row.least_loaded:.2f}x"
        print(f"{row.case:34} {row.flows:6} {row.place_ms:6.2f} ms {reference} {proof}{against}")


if __name__ == "__main__":
    main()
