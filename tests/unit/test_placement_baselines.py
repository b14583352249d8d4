"""The methods Heddle is compared with are as strong as their papers make them, and their answers are placements."""

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.placement import baselines, hedera
from controller.placement.place import place
from controller.placement.problem import Demand, Problem
from tests.property.placement_problems import loads, problems
from tests.unit.fabrics import leaf, plan, view
from tests.unit.test_placement_place import FLOW_S, MEGABYTE, fabric_without, problem_on, ring

JUST_ABOVE = 1 + 1e-9


@settings(deadline=None)
@given(problems(pins=True), st.integers(0, 3))
def test_every_baseline_gives_live_paths_whose_loads_add_up(problem: Problem, seed: int) -> None:
    for placed in (
        baselines.greedy(problem),
        hedera.first_fit(problem, seed),
        hedera.annealing(problem, seed, iterations=20),
    ):
        assert set(placed.paths) == {d.flow_id for d in problem.demands if problem.paths[d.src_leaf, d.dst_leaf]}
        for demand in problem.demands:
            if demand.flow_id in placed.paths:
                assert placed.paths[demand.flow_id] in problem.paths[demand.src_leaf, demand.dst_leaf]
        counted = loads(problem, dict(placed.paths))
        assert all(load == pytest.approx(counted.get(port, 0.0)) for port, load in placed.load_s.items())
        assert placed.certificate.lower_bound_s <= placed.certificate.max_load_s * JUST_ABOVE


def test_the_greedy_leaves_no_flow_that_would_gain_by_moving() -> None:
    problem = problem_on(view(plan(leaves=5, spines=4)), ring(5, 4))
    placed = baselines.greedy(problem)
    load = placed.load_s
    for demand in problem.demands:
        mine = placed.paths[demand.flow_id]
        now = max(load[port] for port in mine)
        for path in problem.paths[demand.src_leaf, demand.dst_leaf]:
            assert max(load[port] + (port not in mine) * FLOW_S for port in path) >= now * (1 - 1e-9)


def test_first_fit_finds_room_where_hashing_collides() -> None:
    problem = problem_on(view(plan(leaves=2, spines=4)), ring(2, 4))
    assert hedera.first_fit(problem).certificate.max_load_s == pytest.approx(FLOW_S)
    assert baselines.ecmp(problem, seed=1).certificate.max_load_s > FLOW_S * 1.5


def test_annealing_moves_all_flows_of_a_destination_together_and_gets_better() -> None:
    problem = problem_on(view(plan(leaves=4, spines=4, hosts=4)), ring(4, 4))
    hosts = {d.flow_id: f"{d.dst_leaf}/{i % 2}" for i, d in enumerate(problem.demands)}
    placed = hedera.annealing(problem, seed=3, destination=hosts)
    spines = defaultdict(set)
    for flow_id, path in placed.paths.items():
        spines[hosts[flow_id]].add(path[1].dpid)
    assert all(len(found) == 1 for found in spines.values())
    short, long = (hedera.annealing(problem, seed=3, iterations=n).certificate.max_load_s for n in (1, 2000))
    assert long <= short
    assert hedera.annealing(problem, seed=3) == hedera.annealing(problem, seed=3)
    assert hedera.annealing(replace(problem, demands=())).paths == {}


def test_spraying_is_even_and_pays_for_missing_links() -> None:
    fabric = view(plan(leaves=3, spines=2))
    one = [Demand("f", leaf(1), leaf(2), MEGABYTE)]
    assert baselines.sprayed_load_s(problem_on(fabric, one)) == pytest.approx(FLOW_S / 2)
    cut = fabric_without(fabric, (2, 1))
    both = [*one, Demand("g", leaf(1), leaf(3), MEGABYTE)]
    # "f" has spine 2 alone, and half of "g" goes there too.
    assert baselines.sprayed_load_s(problem_on(cut, both)) == pytest.approx(1.5 * FLOW_S)


def test_heddle_is_no_worse_than_any_of_them_on_equal_flows() -> None:
    problem = problem_on(view(plan(leaves=6, spines=5, hosts=5)), ring(6, 5))
    best = place(problem).certificate.max_load_s
    for other in (baselines.greedy, baselines.least_loaded, baselines.ecmp, hedera.first_fit, hedera.annealing):
        assert best <= other(problem).certificate.max_load_s * JUST_ABOVE
