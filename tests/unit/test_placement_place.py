"""Placement on fabrics one can draw: what is exact, what failures and pins do, what is refused."""

import random
from dataclasses import replace

import pytest

from controller.fabric.model import FabricView, PortRef
from controller.fabric.paths import link_capacities, two_tier_paths
from controller.placement import baselines
from controller.placement.bounds import lower_bound_s
from controller.placement.completion import counted_background, with_completion
from controller.placement.effort import FULL, USUAL, Effort
from controller.placement.place import IMPROVED, certify, harder_where_worth_it, place
from controller.placement.problem import Demand, Placement, Problem
from tests.unit.fabrics import RATE_BPS, leaf, plan, spine, view

MEGABYTE = 1_000_000
FLOW_S = 8 * MEGABYTE / RATE_BPS


def fabric_without(fabric: FabricView, *cut: tuple[int, int]) -> FabricView:
    """Less every cable between leaf i and spine j for (i, j) in `cut`."""
    gone = {frozenset((leaf(i), spine(j))) for i, j in cut}
    return replace(fabric, links=tuple(k for k in fabric.links if frozenset((k.a.dpid, k.b.dpid)) not in gone))


def problem_on(fabric: FabricView, demands: list[Demand], **background: float) -> Problem:
    return Problem(tuple(demands), two_tier_paths(fabric), link_capacities(fabric))


def ring(leaves: int, hosts: int, size_bytes: int = MEGABYTE) -> list[Demand]:
    """Host n of each leaf to host n of the next leaf."""
    return [
        Demand(f"ring/{i}-{n}", leaf(i), leaf(i % leaves + 1), size_bytes)
        for i in range(1, leaves + 1)
        for n in range(hosts)
    ]


def flows_on(placement: Placement, port: PortRef) -> int:
    return sum(port in path for path in placement.paths.values())


@pytest.mark.parametrize("spines", [1, 2, 3, 4, 5, 6, 7, 8, 12])
@pytest.mark.parametrize("hosts", [1, 3, 8, 13])
def test_every_link_carries_its_fair_share_whatever_the_fabric(spines: int, hosts: int) -> None:
    fabric = view(plan(leaves=5, spines=spines, hosts=hosts))
    placed = place(problem_on(fabric, ring(5, hosts)))
    certificate = placed.certificate
    share = -(-hosts // spines)
    assert (certificate.method, certificate.proven_optimal, certificate.gap) == ("edge-colouring", True, 0.0)
    assert certificate.max_load_s == certificate.lower_bound_s == pytest.approx(share * FLOW_S)
    for port, load_s in placed.load_s.items():
        assert hosts // spines <= flows_on(placed, port) <= share
        assert load_s == pytest.approx(flows_on(placed, port) * FLOW_S)


def test_parallel_cables_are_used_like_spines() -> None:
    fabric = view(plan(leaves=3, spines=2, hosts=4, parallel=2))
    placed = place(problem_on(fabric, ring(3, 4)))
    assert placed.certificate.proven_optimal
    assert set(placed.load_s.values()) == {FLOW_S}


def test_few_flows_rest_on_different_spines() -> None:
    fabric = view(plan(leaves=8, spines=8, hosts=1))
    placed = place(problem_on(fabric, ring(8, 1)))
    assert {path[1].dpid for path in placed.paths.values()} == {spine(j) for j in range(1, 9)}


@pytest.mark.parametrize("cut", [[(2, 3)], [(2, 3), (2, 4)], [(2, 3), (4, 3)], [(1, 1), (3, 3)]])
def test_with_cables_down_a_full_fabric_is_still_placed_optimally(cut: list[tuple[int, int]]) -> None:
    fabric = fabric_without(view(plan(leaves=5, spines=8)), *cut)
    down = [sum(i == number for i, _ in cut) for number in range(1, 6)]
    # As many flows as each leaf has cables left: no placement may leave one of them idle, nor use one twice.
    demands = [d for d in ring(5, 8) if int(d.flow_id.split("-")[1]) < 8 - max(down)]
    placed = place(problem_on(fabric, demands))
    assert placed.certificate.proven_optimal
    assert placed.certificate.max_load_s == pytest.approx(FLOW_S)
    assert placed.certificate.method == "edge-colouring"


def test_a_faster_spine_takes_more() -> None:
    fabric = view(plan(leaves=4, spines=2, hosts=6))
    links = tuple(
        replace(k, capacity_bps=2 * RATE_BPS) if spine(1) in (k.a.dpid, k.b.dpid) else k for k in fabric.links
    )
    placed = place(problem_on(replace(fabric, links=links), ring(4, 6)))
    assert placed.certificate.proven_optimal
    assert {flows_on(placed, PortRef(leaf(i), 1)) for i in range(1, 5)} == {4}
    assert {flows_on(placed, PortRef(leaf(i), 2)) for i in range(1, 5)} == {2}


def test_background_is_left_room_for_and_noise_is_not() -> None:
    fabric = view(plan(leaves=2, spines=2))
    problem = problem_on(fabric, ring(2, 1))
    busy = PortRef(leaf(1), 1)
    avoided = place(replace(problem, background_bps={busy: 0.8 * RATE_BPS}))
    assert avoided.paths["ring/1-0"][0] == PortRef(leaf(1), 2)
    # Discovery frames are no reason to see a difference.
    assert place(replace(problem, background_bps={busy: 0.005 * RATE_BPS})) == place(problem)
    # A link said to be more than full is slow, not gone.
    full = dict.fromkeys(problem.capacity_bps, 3.0 * RATE_BPS)
    assert place(replace(problem, background_bps=full)).certificate.max_load_s == pytest.approx(FLOW_S / 0.05)


def test_pinned_flows_stay_and_new_ones_go_around_them() -> None:
    fabric = view(plan(leaves=2, spines=2))
    first = place(problem_on(fabric, [Demand("a", leaf(1), leaf(2), MEGABYTE)]))
    both = [Demand("a", leaf(1), leaf(2), MEGABYTE, first.paths["a"]), Demand("b", leaf(1), leaf(2), MEGABYTE)]
    second = place(problem_on(fabric, both))
    assert second.paths["a"] == first.paths["a"]
    assert second.paths["b"] != first.paths["a"]
    assert second.certificate.proven_optimal


def test_pins_that_collide_are_kept_and_the_gap_says_what_they_cost() -> None:
    fabric = view(plan(leaves=2, spines=2))
    path = two_tier_paths(fabric)[leaf(1), leaf(2)][0]
    placed = place(problem_on(fabric, [Demand(f, leaf(1), leaf(2), MEGABYTE, path) for f in "ab"]))
    assert set(placed.paths.values()) == {path}
    assert placed.certificate.method == "kept"
    assert placed.certificate.gap == pytest.approx(1.0)
    assert not placed.certificate.proven_optimal


def test_only_a_flow_whose_path_died_moves() -> None:
    fabric = view(plan(leaves=2, spines=3))
    before = place(problem_on(fabric, ring(2, 3)))
    pinned = [replace(d, pinned=before.paths[d.flow_id]) for d in ring(2, 3)]
    after = place(problem_on(fabric_without(fabric, (1, 2)), pinned))
    moved = {flow for flow in before.paths if after.paths[flow] != before.paths[flow]}
    assert moved == {flow for flow, path in before.paths.items() if path[1].dpid == spine(2)}


def test_flows_without_a_path_are_named_and_the_rest_is_placed() -> None:
    fabric = fabric_without(view(plan(leaves=3, spines=1)), (3, 1))
    placed = place(problem_on(fabric, [*ring(3, 1), Demand("stranger", leaf(1), leaf(9), MEGABYTE)]))
    assert placed.unplaced == ("ring/2-0", "ring/3-0", "stranger")
    assert set(placed.paths) == {"ring/1-0"}


def test_nothing_to_place() -> None:
    placed = place(problem_on(view(plan()), []))
    assert (placed.paths, placed.unplaced) == ({}, ())
    assert set(placed.load_s.values()) == {0.0}
    assert placed.certificate.method == "nothing-to-place"
    assert placed.certificate.proven_optimal
    stranded = place(Problem((Demand("a", 1, 2, 5),), {}, {}))
    assert stranded.unplaced == ("a",)
    assert stranded.certificate.method == "nothing-to-place"


def test_three_tiers_are_placed_too() -> None:
    """Leaf 1 reaches leaf 2 over two aggregation switches and two cores each, and over a direct cable."""
    up, over, down = PortRef(1, 1), [PortRef(10, n) for n in (1, 2)], [PortRef(20 + n, 1) for n in (1, 2)]
    paths = {(1, 2): (*((up, o, d) for o, d in zip(over, down, strict=True)), (PortRef(1, 9),))}
    capacities = dict.fromkeys((*over, *down, PortRef(1, 9)), RATE_BPS) | {up: 2 * RATE_BPS}
    placed = place(Problem(tuple(Demand(f, 1, 2, MEGABYTE) for f in "abc"), paths, capacities))
    assert set(placed.paths.values()) == set(paths[1, 2])
    assert placed.certificate.max_load_s == pytest.approx(FLOW_S)
    assert placed.certificate.proven_optimal


def test_one_flow_may_push_another_aside() -> None:
    """Least-loaded lays 3, 3, 2, 2, 2 as 7 and 5; the optimum is 6 and 6, and only a swap leads there."""
    fabric = view(plan(leaves=2, spines=2))
    sizes = [3, 3, 2, 2, 2]
    demands = [Demand(f"f{i}", leaf(1), leaf(2), size * MEGABYTE) for i, size in enumerate(sizes)]
    problem = problem_on(fabric, demands)
    assert baselines.least_loaded(problem).certificate.max_load_s == pytest.approx(7 * FLOW_S)
    placed = place(problem)
    assert placed.certificate.max_load_s == pytest.approx(6 * FLOW_S)
    assert placed.certificate.proven_optimal
    assert placed.certificate.method == "least-loaded+improve"
    assert place(problem, effort=Effort(0)).certificate.max_load_s == pytest.approx(7 * FLOW_S)


def test_the_better_start_is_taken() -> None:
    """Nearly equal flows with cables down: least-loaded lays three on one link where colouring needs two."""
    rng = random.Random(68)
    cut = [(rng.randint(1, 5), rng.randint(1, 4)) for _ in range(rng.randint(1, 3))]
    sources = [leaf(i) for i in range(1, 6) for _ in range(4)]
    destinations = sources[:]
    rng.shuffle(destinations)
    demands = [
        Demand(f"f{i}", a, b, MEGABYTE + rng.randint(0, 3) * 10_000)
        for i, (a, b) in enumerate(zip(sources, destinations, strict=True))
        if a != b
    ]
    problem = problem_on(fabric_without(view(plan(leaves=5, spines=4)), *cut), demands)
    assert baselines.least_loaded(problem).certificate.max_load_s > 3 * FLOW_S
    coloured = place(problem, effort=Effort(0)).certificate
    assert (coloured.method, coloured.proven_optimal) == ("edge-colouring", False)
    assert 2 * FLOW_S < coloured.max_load_s < 2.1 * FLOW_S
    improved = place(problem).certificate
    assert (improved.method, improved.proven_optimal) == ("edge-colouring+improve", True)


def test_least_loaded_begins_with_the_largest() -> None:
    fabric = view(plan(leaves=2, spines=2))
    demands = [Demand(f"f{i}", leaf(1), leaf(2), size * MEGABYTE) for i, size in enumerate((1, 1, 2))]
    assert baselines.least_loaded(problem_on(fabric, demands)).certificate.max_load_s == pytest.approx(2 * FLOW_S)


def test_paths_that_are_no_full_two_tiers_are_taken_as_listed() -> None:
    """Of two parallel cables on each side, only the first with the first and the second with the second is allowed."""
    every = two_tier_paths(view(plan(leaves=2, spines=1, parallel=2)))[leaf(1), leaf(2)]
    allowed = (every[0], every[3])
    capacities = {port: RATE_BPS for path in every for port in path}
    demands = tuple(Demand(f, leaf(1), leaf(2), MEGABYTE) for f in "ab")
    placed = place(Problem(demands, {(leaf(1), leaf(2)): allowed}, capacities))
    assert set(placed.paths.values()) == set(allowed)
    assert placed.certificate.proven_optimal


def test_hashing_collides_where_placement_does_not() -> None:
    fabric = view(plan(leaves=4, spines=8, hosts=8))
    problem = problem_on(fabric, ring(4, 8))
    optimum_s = place(problem).certificate.max_load_s
    hashed = [baselines.ecmp(problem, seed=seed).certificate for seed in range(20)]
    assert min(c.max_load_s for c in hashed) > optimum_s
    assert {c.lower_bound_s for c in hashed} == {optimum_s}
    assert len({baselines.ecmp(problem, seed=seed).certificate.max_load_s for seed in range(20)}) > 1
    assert baselines.ecmp(problem, seed=3) == baselines.ecmp(problem, seed=3)
    # More queue pairs even hashing out, but not to the optimum.
    sixteen = [baselines.ecmp(problem, queue_pairs=16, seed=seed).certificate.max_load_s for seed in range(20)]
    assert optimum_s < sum(sixteen) / 20 < sum(c.max_load_s for c in hashed) / 20


def test_flow_ids_used_twice_are_refused_by_name() -> None:
    twice = [Demand("job/0-1", leaf(1), leaf(2), 5)] * 2
    with pytest.raises(ValueError, match="flow ids used more than once: job/0-1"):
        place(problem_on(view(plan()), twice))


def test_links_without_a_capacity_are_refused_by_name() -> None:
    problem = problem_on(view(plan(spines=1)), ring(2, 1))
    known = dict(problem.capacity_bps)
    del known[PortRef(leaf(1), 1)]
    with pytest.raises(ValueError, match=r"no capacity_bps for 101:1, which are on paths"):
        place(replace(problem, capacity_bps=known))


def test_a_capacity_of_nothing_does_not_divide_by_zero() -> None:
    problem = problem_on(view(plan(spines=1)), ring(2, 1))
    placed = place(replace(problem, capacity_bps=dict.fromkeys(problem.capacity_bps, 0)))
    assert placed.certificate.max_load_s == 8 * MEGABYTE


def test_host_links_bound_completion_and_nothing_else() -> None:
    problem = problem_on(view(plan()), ring(2, 1))
    placed = place(problem)
    assert placed.certificate.completion_bound_s == pytest.approx(FLOW_S)
    slow = with_completion(problem, placed, 5.0)
    assert slow == replace(placed, certificate=replace(placed.certificate, completion_bound_s=5.0))
    assert with_completion(problem, placed, 0.0) == placed


def test_background_is_left_its_room_but_bounds_no_run() -> None:
    """Half of every link is taken, by whom nobody knows: the plan reckons with it, the promise about runs does not."""
    plain = problem_on(view(plan()), ring(2, 1))
    problem = replace(plain, background_bps=dict.fromkeys(plain.capacity_bps, RATE_BPS / 2))
    placed = with_completion(problem, place(problem), 0.0)
    assert placed.certificate.lower_bound_s == pytest.approx(2 * FLOW_S)
    assert placed.certificate.completion_bound_s == pytest.approx(FLOW_S)
    assert counted_background(problem) == tuple(sorted(plain.capacity_bps))
    assert counted_background(plain) == ()
    # Where the placement went round a part of the fabric its bound says nothing about the whole.
    around = with_completion(plain, replace(placed), 0.0, whole=False)
    assert around.certificate.completion_bound_s == pytest.approx(FLOW_S)


def test_the_bound_knows_that_flows_are_indivisible() -> None:
    fabric = view(plan(leaves=2, spines=2))
    # Three equal flows over two uplinks: some uplink carries two.
    assert lower_bound_s(problem_on(fabric, ring(2, 3))) == pytest.approx(2 * FLOW_S)
    # One large flow among small ones is not spread.
    one = [Demand("big", leaf(1), leaf(2), 10 * MEGABYTE), Demand("small", leaf(1), leaf(2), MEGABYTE)]
    assert lower_bound_s(problem_on(fabric, one)) == pytest.approx(10 * FLOW_S)


def test_the_higher_priority_is_placed_as_if_the_lower_did_not_exist() -> None:
    """Placed together, 3 | 2 + 2 would be best; but the two important flows must not share a link."""
    fabric = view(plan(leaves=2, spines=2))
    sizes = {"big": (3, 0), "vip1": (2, 1), "vip2": (2, 1)}
    demands = [Demand(f, leaf(1), leaf(2), size * MEGABYTE, priority=level) for f, (size, level) in sizes.items()]
    problem = problem_on(fabric, demands)
    placed = place(problem)
    assert placed.paths["vip1"] != placed.paths["vip2"]
    assert placed.certificate.max_load_s == pytest.approx(5 * FLOW_S)
    alike = place(replace(problem, demands=tuple(replace(d, priority=0) for d in demands)))
    assert alike.paths["vip1"] == alike.paths["vip2"]
    assert alike.certificate.max_load_s == pytest.approx(4 * FLOW_S)
    # The certificate is about all flows, whatever their priority: here it says what the priority costs.
    assert placed.certificate.lower_bound_s == pytest.approx(4 * FLOW_S)
    same = place(replace(problem, demands=tuple(replace(d, priority=5) for d in demands)))
    assert same == alike


def test_new_flows_fit_between_pinned_ones_exactly() -> None:
    """Half of a full ring is pinned as placed before; the other half fits into what is left, and nothing moves."""
    fabric = view(plan(leaves=6, spines=8, hosts=8))
    whole = place(problem_on(fabric, ring(6, 8)))
    pinned = [replace(d, pinned=whole.paths[d.flow_id]) if int(d.flow_id.split("-")[1]) % 2 else d for d in ring(6, 8)]
    placed = place(problem_on(fabric, pinned))
    assert placed.certificate.proven_optimal
    assert placed.certificate.max_load_s == pytest.approx(FLOW_S)
    assert all(placed.paths[d.flow_id] == d.pinned for d in pinned if d.pinned)


@pytest.mark.parametrize(
    ("demands", "bound"),
    [
        ([Demand("a", leaf(1), leaf(2), MEGABYTE)], "leaf uplinks"),
        ([Demand(f"{n}", leaf(i), leaf(3), MEGABYTE) for n, i in enumerate((1, 1, 2))], "leaf downlinks"),
        ([Demand(f"{n}", leaf(1), leaf(2), size * MEGABYTE) for n, size in enumerate((6, 6, 3, 3, 3))], "packing"),
        ([], ""),
    ],
)
def test_the_certificate_says_which_bound_it_rests_on(demands: list[Demand], bound: str) -> None:
    certificate = place(problem_on(view(plan(leaves=3, spines=2)), demands)).certificate
    assert certificate.bound == bound


def test_loads_are_a_mapping_of_every_known_port() -> None:
    problem = problem_on(view(plan(leaves=2, spines=2)), ring(2, 1))
    load = place(replace(problem, capacity_bps={**problem.capacity_bps, PortRef(7, 7): 5})).load_s
    assert load[PortRef(7, 7)] == 0.0
    assert len(load) == len(problem.capacity_bps) + 1
    assert dict(load) == dict(load.items())
    assert sum(load.values()) == pytest.approx(4 * FLOW_S)
    assert repr(load).startswith("LoadByPort({PortRef(")
    assert PortRef(9, 9) not in load
    with pytest.raises(KeyError):
        load[PortRef(9, 9)]


def test_more_effort_is_spent_where_a_gap_is_left_and_the_better_bound_is_kept() -> None:
    problem = problem_on(view(plan(leaves=2, spines=2)), [Demand(n, leaf(1), leaf(2), MEGABYTE) for n in "ab"])
    optimal = place(problem)
    seen: list[Effort] = []

    def finding(*found: tuple[float, float]) -> Placement:
        """Of each search: seconds of the fullest link, and the bound."""
        answers = iter(found)

        def find(effort: Effort) -> Placement:
            seen.append(effort)
            return replace(optimal, certificate=certify(*next(answers), IMPROVED, "test"))

        return harder_where_worth_it(find, FULL)

    assert finding((1.019, 1.0)).certificate.gap == pytest.approx(0.019)
    assert seen == [USUAL]
    improved = finding((1.03, 1.0), (1.01, 0.99)).certificate
    assert (improved.max_load_s, improved.lower_bound_s) == (1.01, 1.0)
    assert seen[1:] == [USUAL, Effort(FULL.more)]
    same = finding((1.03, 0.98), (1.05, 1.0)).certificate
    assert (same.max_load_s, same.lower_bound_s) == (1.03, 1.0)
    assert same.gap == pytest.approx(0.03)
