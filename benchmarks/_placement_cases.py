"""Fabrics and traffic for the placement benchmarks; everything follows from a seed."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from controller.fabric.model import FabricView, Link, PortRef, Role, Switch
from controller.fabric.paths import link_capacities, two_tier_paths
from controller.fabric.three_tiers import three_tier_paths
from controller.placement.problem import Demand, Problem

RATE_BPS = 400_000_000_000
SIZE_BYTES = 1 << 30
# What one flow of a job carries: 64 MiB to 2 GiB, as likely in any octave.
OCTAVES = (26, 31)
JOBS = 4


@dataclass(frozen=True)
class Case:
    """A problem, and the host each flow goes to, which Hedera's annealing wants to know."""

    problem: Problem
    destination: dict[str, str]
    # The same with twice the spines, for hashing to show what more hardware buys.
    wider: Problem


def fabric(leaves: int, spines: int, failed: float = 0.0, seed: int = 0) -> FabricView:
    """Leaves 1.., spines 10001..; of all cables the share `failed`, at random, is down."""
    switches = {1 + i: Switch(1 + i, f"leaf{i}", Role.LEAF, True) for i in range(leaves)}
    switches |= {10_001 + j: Switch(10_001 + j, f"spine{j}", Role.SPINE, True) for j in range(spines)}
    links = [
        Link(PortRef(1 + i, 1 + j), PortRef(10_001 + j, 1 + i), RATE_BPS) for i in range(leaves) for j in range(spines)
    ]
    down = set(random.Random(seed).sample(range(len(links)), round(failed * len(links))))
    return FabricView(switches, tuple(link for i, link in enumerate(links) if i not in down), ())


def three_tier_fabric(pods: int, leaves: int, spines: int, cores: int) -> FabricView:
    """Leaves 1.., spines 100001.., cores 200001..: spine n of every pod has the same `cores` cores."""
    switches: dict[int, Switch] = {}
    links = []
    for pod in range(pods):
        for n in range(spines):
            spine = 100_001 + pod * spines + n
            switches[spine] = Switch(spine, f"spine{spine}", Role.SPINE, True)
            for m in range(leaves):
                leaf = 1 + pod * leaves + m
                switches[leaf] = Switch(leaf, f"leaf{leaf}", Role.LEAF, True)
                links.append(Link(PortRef(leaf, 1 + n), PortRef(spine, 1 + m), RATE_BPS))
            for k in range(cores):
                core = 200_001 + n * cores + k
                switches[core] = Switch(core, f"core{core}", Role.CORE, True)
                links.append(Link(PortRef(spine, 1 + leaves + k), PortRef(core, 1 + pod), RATE_BPS))
    return FabricView(switches, tuple(links), ())


Ends = list[tuple[int, int]]


def permutation(hosts: list[int], rng: random.Random) -> Ends:
    """Every host sends to another one, or to itself."""
    targets = hosts[:]
    rng.shuffle(targets)
    return list(zip(hosts, targets, strict=True))


def ring(hosts: list[int], rng: random.Random) -> Ends:
    """Every host sends to the next one of a ring in random order: as a scheduler that knows no leaves makes it."""
    order = hosts[:]
    rng.shuffle(order)
    return list(zip(order, order[1:] + order[:1], strict=True))


def equal(leaves: int, spines: int, hosts: int, pattern: Callable[[list[int], random.Random], Ends], seed: int) -> Case:
    """One job over all hosts, every flow of one size."""
    ends = pattern(list(range(leaves * hosts)), random.Random(seed))
    flows = [(f"job/{a}-{b}", a, b, SIZE_BYTES) for a, b in ends]
    return _case(leaves, spines, hosts, flows, 0.0, seed)


def mixed(leaves: int, spines: int, hosts: int, failed: float, seed: int, per_flow: bool = False) -> Case:
    """Four jobs on random hosts, two rings and two permutations, each with flows of a size of its own, or, `per_flow`,
    every flow with one of its own."""
    rng = random.Random(seed)
    order = list(range(leaves * hosts))
    rng.shuffle(order)
    share = len(order) // JOBS
    flows = []
    for job in range(JOBS):
        size = _size(rng)
        pattern = ring if job % 2 == 0 else permutation
        flows += [
            (f"job{job}/{a}-{b}", a, b, _size(rng) if per_flow else size)
            for a, b in pattern(order[job * share : (job + 1) * share], rng)
        ]
    return _case(leaves, spines, hosts, flows, failed, seed)


def _size(rng: random.Random) -> int:
    return int(2 ** rng.uniform(*OCTAVES))


def _case(
    leaves: int, spines: int, hosts: int, flows: list[tuple[str, int, int, int]], failed: float, seed: int
) -> Case:
    crossing = [flow for flow in flows if flow[1] // hosts != flow[2] // hosts]
    demands = tuple(Demand(name, 1 + a // hosts, 1 + b // hosts, size) for name, a, b, size in crossing)
    made, wide = (_problem(fabric(leaves, n * spines, failed, seed), demands) for n in (1, 2))
    return Case(made, {name: str(b) for name, _, b, _ in crossing}, wide)


def _problem(view: FabricView, demands: tuple[Demand, ...]) -> Problem:
    """Demands that no spine serves are left out, so that every method has the same to do."""
    paths = two_tier_paths(view)
    live = tuple(d for d in demands if paths.joins((d.src_leaf, d.dst_leaf)))
    return Problem(live, paths, link_capacities(view))


def three_tier(pods: int, leaves: int, spines: int, cores: int, hosts: int, flows: int) -> Problem:
    """Permutations of all hosts, one after the other, until there are so many flows between leaves."""
    view = three_tier_fabric(pods, leaves, spines, cores)
    paths = three_tier_paths(view)
    rng = random.Random(1)
    ends = _endless(list(range(pods * leaves * hosts)), rng)
    crossing = ((a, b) for a, b in ends if a // hosts != b // hosts)
    demands = tuple(
        Demand(f"job/{n}", 1 + a // hosts, 1 + b // hosts, SIZE_BYTES)
        for n, (a, b) in zip(range(flows), crossing, strict=False)
    )
    return Problem(demands, paths, link_capacities(view))


def _endless(hosts: list[int], rng: random.Random) -> Iterator[tuple[int, int]]:
    while True:
        yield from permutation(hosts, rng)


def fluid_s(problem: Problem) -> float:
    """What ideal packet spraying cannot beat: everything that leaves or enters a leaf, over all its live links."""
    sent: dict[int, int] = {}
    received: dict[int, int] = {}
    for demand in problem.demands:
        sent[demand.src_leaf] = sent.get(demand.src_leaf, 0) + demand.size_bytes
        received[demand.dst_leaf] = received.get(demand.dst_leaf, 0) + demand.size_bytes
    paths = problem.paths
    up: dict[int, int] = {}
    down: dict[int, int] = {}
    for row, leaf in enumerate(paths.leaves):
        up[leaf] = sum(problem.capacity_bps[paths.ports[i]] for i in paths.up[row].tolist() if i >= 0)
        down[leaf] = sum(problem.capacity_bps[paths.ports[i]] for i in paths.down[row].tolist() if i >= 0)
    return max(8 * size / rate[leaf] for loads, rate in ((sent, up), (received, down)) for leaf, size in loads.items())


def pinned(problem: Problem, paths_by_flow: dict[str, tuple[PortRef, ...]]) -> tuple[Demand, ...]:
    return tuple(replace(d, pinned=paths_by_flow[d.flow_id]) for d in problem.demands)
