"""Three-tier paths against a graph search, and placement on three tiers: exact, with failures, re-planned."""

import random
from dataclasses import replace

import networkx as nx
import pytest

from controller.fabric.model import FabricView, Link, Path, PortRef, Role, Switch
from controller.fabric.paths import TwoTierPaths, link_capacities
from controller.fabric.three_tiers import ThreeTierPaths, fabric_paths, three_tier_paths
from controller.placement import baselines
from controller.placement.instance import Instance
from controller.placement.place import place
from controller.placement.problem import Demand, Problem
from tests.unit.fabrics import plan, view

RATE_BPS = 10_000_000
SIZE = 1_000_000
FLOW_S = 8 * SIZE / RATE_BPS


def pods(
    count: int = 2, leaves: int = 2, spines: int = 2, cores: int = 2, planes: bool = True, parallel: int = 1
) -> FabricView:
    """Leaves 1.., spines 101.., cores 201... With `planes`, each spine of a pod has `cores` cores of its own, the same
    in every pod; without, all spines share `cores` cores."""
    switches: dict[int, Switch] = {}
    links: list[Link] = []
    used: dict[int, int] = {}

    def join(a: int, b: int) -> None:
        for _ in range(parallel):
            ends = []
            for dpid in (a, b):
                used[dpid] = used.get(dpid, 0) + 1
                ends.append(PortRef(dpid, used[dpid]))
            links.append(Link(ends[0], ends[1], RATE_BPS))

    for pod in range(count):
        for n in range(spines):
            spine = 101 + pod * spines + n
            switches[spine] = Switch(spine, f"spine{spine}", Role.SPINE, True)
            for m in range(leaves):
                leaf = 1 + pod * leaves + m
                switches[leaf] = Switch(leaf, f"leaf{leaf}", Role.LEAF, True)
                join(leaf, spine)
            for k in range(cores):
                core = 201 + (n * cores if planes else 0) + k
                switches[core] = Switch(core, f"core{core}", Role.CORE, True)
                join(spine, core)
    return FabricView(switches, tuple(links), ())


def without(fabric: FabricView, *numbers: int) -> FabricView:
    return replace(fabric, links=tuple(link for i, link in enumerate(fabric.links) if i not in numbers))


def searched(fabric: FabricView, a: int, b: int) -> set[Path]:
    """Up and down once, by networkx; over cores only where no spine joins the leaves."""
    tier = {Role.LEAF: 0, Role.SPINE: 1, Role.CORE: 2}
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(fabric.switches)
    for link in fabric.links:
        graph.add_edge(link.a.dpid, link.b.dpid, key=link.a)
        graph.add_edge(link.b.dpid, link.a.dpid, key=link.b)
    found: dict[int, set[Path]] = {2: set(), 4: set()}
    for path in nx.all_simple_edge_paths(graph, a, b, cutoff=4):
        heights = [tier[fabric.switches[v].role] for _, v, _ in path]
        if heights in ([1, 0], [1, 2, 1, 0]):
            found[len(path)].add(tuple(key for *_, key in path))
    return found[2] or found[4]


@pytest.mark.parametrize("shape", [{}, {"planes": False}, {"parallel": 2, "cores": 1}, {"count": 3, "spines": 3}])
@pytest.mark.parametrize("seed", range(6))
def test_exactly_the_paths_a_graph_search_finds(shape: dict, seed: int) -> None:
    fabric = pods(**shape)
    rng = random.Random(seed)
    fabric = without(fabric, *rng.sample(range(len(fabric.links)), seed))
    paths = three_tier_paths(fabric)
    assert len(dict(paths)) == len(paths)
    for (a, b), found in paths.items():
        assert set(found) == searched(fabric, a, b)
        assert len(set(found)) == len(found)
        assert paths.joins((a, b)) == bool(found)
        rows = {tuple(row) for row in paths.choices((a, b)).tolist()}
        assert {paths.row_of((a, b), path) for path in found} == rows


@pytest.mark.parametrize("planes", [True, False])
def test_without_links_it_is_as_if_made_anew(planes: bool) -> None:
    fabric = pods(count=3, planes=planes)
    rng = random.Random(5)
    for _ in range(20):
        numbers = rng.sample(range(len(fabric.links)), 4)
        dead = [end for i in numbers for end in (fabric.links[i].a, fabric.links[i].b)]
        left = three_tier_paths(fabric).without([*dead, PortRef(999, 1)])
        anew = three_tier_paths(without(fabric, *numbers))
        assert {pair: set(found) for pair, found in left.items()} == {pair: set(anew.get(pair, ())) for pair in left}
        assert all(left.joins(pair) == bool(left[pair]) for pair in left)


def test_what_is_no_path_is_not_live() -> None:
    paths = three_tier_paths(pods())
    (short, *_), (long, *_) = paths[1, 2], paths[1, 3]
    assert len(short) == 2
    assert len(long) == 4
    for pair, path in (
        ((1, 2), long),
        ((1, 3), short),
        ((1, 2), ()),
        ((1, 2), short[:1]),
        ((2, 1), short),
        ((1, 3), (*long[:3], PortRef(999, 1))),
        ((1, 1), short),
    ):
        assert not paths.is_live(pair, path)
    assert not paths.joins((1, 99))
    with pytest.raises(KeyError):
        paths.choices((1, 1))


def test_a_core_makes_three_tiers() -> None:
    assert isinstance(fabric_paths(pods()), ThreeTierPaths)
    assert isinstance(fabric_paths(view(plan())), TwoTierPaths)


def permutation(leaves: int, hosts: int, seed: int) -> tuple[Demand, ...]:
    rng = random.Random(seed)
    sources = [1 + i for i in range(leaves) for _ in range(hosts)]
    targets = sources[:]
    rng.shuffle(targets)
    ends = enumerate(zip(sources, targets, strict=True))
    return tuple(Demand(f"f{n}", a, b, SIZE) for n, (a, b) in ends if a != b)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("hosts", [1, 4, 11])
def test_equal_flows_on_a_full_fabric_are_placed_optimally(seed: int, hosts: int) -> None:
    fabric = pods(count=3, leaves=4, spines=4, cores=4)
    problem = Problem(permutation(12, hosts, seed), three_tier_paths(fabric), link_capacities(fabric))
    certificate = place(problem).certificate
    assert (certificate.method, certificate.proven_optimal) == ("edge-colouring", True)
    assert certificate.bound in ("leaf uplinks", "leaf downlinks")


def test_one_core_link_of_a_pod_bounds_it() -> None:
    fabric = pods(count=2, leaves=4, spines=1, cores=1)
    demands = tuple(Demand(f"f{n}", 1 + n, 5 + n, SIZE) for n in range(4))
    certificate = place(Problem(demands, three_tier_paths(fabric), link_capacities(fabric))).certificate
    assert certificate.max_load_s == certificate.lower_bound_s == pytest.approx(4 * FLOW_S)
    assert certificate.bound == "pod uplinks"


@pytest.mark.parametrize("seed", range(10))
def test_with_links_down_paths_are_live_and_no_worse_than_least_loaded(seed: int) -> None:
    fabric = pods(count=3, leaves=3, spines=3, cores=2, planes=seed % 2 == 0)
    rng = random.Random(seed)
    fabric = without(fabric, *rng.sample(range(len(fabric.links)), 5))
    sizes = [SIZE, 3 * SIZE] if seed % 3 else [SIZE]
    demands = tuple(replace(d, size_bytes=rng.choice(sizes)) for d in permutation(9, 4, seed))
    paths = three_tier_paths(fabric)
    problem = Problem(demands, paths, link_capacities(fabric))
    placed = place(problem)
    live = {d.flow_id: paths.get((d.src_leaf, d.dst_leaf), ()) for d in demands}
    assert all(path in live[flow_id] for flow_id, path in placed.paths.items())
    assert set(placed.unplaced) == {flow_id for flow_id, choices in live.items() if not choices}
    assert placed.certificate.lower_bound_s <= placed.certificate.max_load_s * (1 + 1e-9)
    assert placed.certificate.max_load_s <= baselines.least_loaded(problem).certificate.max_load_s * (1 + 1e-9)


def test_only_flows_on_a_dead_link_move() -> None:
    fabric = pods(count=3, leaves=4, spines=4, cores=4)
    paths, capacity = three_tier_paths(fabric), link_capacities(fabric)
    demands = permutation(12, 3, 1)
    first = place(Problem(demands, paths, capacity))
    dead = next(path for path in first.paths.values() if len(path) == 4)[1]
    kept = tuple(replace(d, pinned=first.paths[d.flow_id]) for d in demands)
    second = place(Problem(kept, paths.without([dead]), capacity))
    moved = {flow for flow, path in first.paths.items() if second.paths[flow] != path}
    assert moved == {flow for flow, path in first.paths.items() if dead in path}


def test_plain_mappings_of_three_tiers_say_the_same() -> None:
    fabric = pods()
    demands = permutation(4, 2, 2)
    structured = Problem(demands, three_tier_paths(fabric), link_capacities(fabric))
    listed = replace(structured, paths=dict(structured.paths))
    assert Instance.of(listed).demands == Instance.of(structured).demands
    assert place(listed).certificate.max_load_s == pytest.approx(place(structured).certificate.max_load_s)
