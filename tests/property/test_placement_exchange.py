"""Trading along chains and integer programming: never worse, nothing lost, pins kept, and optimal where it is known."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.placement.cut_bounds import cut_bound
from controller.placement.exchange import exchange
from controller.placement.instance import Instance
from controller.placement.integer_program import INTEGER_PROGRAM, solve
from controller.placement.least_loaded import least_loaded
from controller.placement.place import place
from controller.placement.problem import Demand, Problem
from controller.placement.proof import prove
from controller.placement.splitting import place_split
from tests.property.placement_problems import optimum_s, problems
from tests.unit.fabrics import leaf, plan, view
from tests.unit.test_placement_place import FLOW_S, MEGABYTE, fabric_without, problem_on

JUST_ABOVE = 1 + 1e-9
# The solver's own tolerance, and that sizes which differ by less count as one.
NEARLY = 1 + 1e-5


def random_start(instance: Instance, rng: random.Random) -> np.ndarray:
    start = instance.chosen.copy()
    for i in np.flatnonzero(instance.movable).tolist():
        rows = instance.candidates[i]
        start[i] = rows[rng.randrange(len(rows))]
    return start


@settings(max_examples=50)
@given(problems(pins=True), st.randoms(use_true_random=False))
def test_trading_never_makes_it_worse_and_keeps_every_flow_on_a_live_path(problem: Problem, rng: random.Random) -> None:
    instance = Instance.of(problem)
    if not instance.demands:
        return
    start = random_start(instance, rng)
    before = start.copy()
    traded = exchange(instance, start, cut_bound(instance).seconds, 2_000)
    assert (start == before).all()
    assert instance.load_s(traded).max() <= instance.load_s(start).max() * JUST_ABOVE
    for i, row in enumerate(traded):
        assert row.tolist() in instance.candidates[i].tolist()
        assert instance.movable[i] or (row == instance.chosen[i]).all()


def test_a_chain_goes_from_leaf_to_leaf_until_it_finds_room() -> None:
    """Both flows of leaf 1 are on spine 1. Spine 2 is no way to leaf 2 while a flow of leaf 4 is on it, which can only
    change places with leaf 4's other one: they stand in a row, and the last finds room."""
    ends = [(1, 2, 0), (1, 3, 0), (4, 3, 1), (4, 2, 0)]
    demands = [Demand(f"f{n}", leaf(a), leaf(b), MEGABYTE) for n, (a, b, _) in enumerate(ends)]
    instance = Instance.of(problem_on(view(plan(leaves=4, spines=2)), demands))
    start = np.array([instance.candidates[i][spine] for i, (_, _, spine) in enumerate(ends)])
    assert instance.load_s(start).max() == pytest.approx(2 * FLOW_S)
    traded = exchange(instance, start, FLOW_S, 1_000)
    assert instance.load_s(traded).max() == pytest.approx(FLOW_S)


def test_one_large_flow_is_traded_for_several_small_ones() -> None:
    """Two links: 8, 8 and 4 against four of 3. Only 4 + 3 + 3 + 3 + 3 beside 8 + 8 brings both to 16."""
    fabric = view(plan(leaves=2, spines=2))
    sizes = [8, 8, 4, 3, 3, 3, 3]
    problem = problem_on(fabric, [Demand(f"f{n}", leaf(1), leaf(2), s * MEGABYTE) for n, s in enumerate(sizes)])
    instance = Instance.of(problem)
    start = np.array([instance.candidates[i][0 if size > 3 else 1] for i, size in enumerate(sizes)])
    traded = exchange(instance, start, 16 * FLOW_S, 1_000)
    assert instance.load_s(start).max() == pytest.approx(20 * FLOW_S)
    assert instance.load_s(traded).max() == pytest.approx(16 * FLOW_S)


@settings(max_examples=50)
@given(problems())
def test_the_integer_program_finds_the_optimum(problem: Problem) -> None:
    instance = Instance.of(problem)
    if not instance.demands:
        return
    best = optimum_s(problem)
    peak = float(instance.load_s(least_loaded(instance)).max())
    solved = solve(instance, peak)
    assert solved.bound.seconds == pytest.approx(best, rel=1e-5)
    assert solved.bound.seconds <= best * JUST_ABOVE
    if solved.chosen is not None:
        assert instance.load_s(solved.chosen).max() == pytest.approx(best, rel=1e-5)


def mixed(seed: int) -> Problem:
    """Four leaves, four spines, one cable gone, a dozen flows of four sizes: more than trying everything can do."""
    rng = random.Random(seed)
    fabric = fabric_without(view(plan(leaves=4, spines=4)), (1 + seed % 4, 1 + seed // 4 % 4))
    sizes = [rng.randrange(MEGABYTE, 20 * MEGABYTE) for _ in range(4)]
    ends = [rng.sample([leaf(i) for i in range(1, 5)], 2) for _ in range(12)]
    demands = [Demand(f"f{n:02}", a, b, sizes[n % 4]) for n, (a, b) in enumerate(ends)]
    return problem_on(fabric, demands)


@pytest.mark.parametrize("seed", range(5))
def test_no_bound_is_above_the_optimum_where_brute_force_cannot_go(seed: int) -> None:
    """Whatever placement is to be proven, a poor one as well: bounds from one leaf must not be laid to another."""
    problem, rng = mixed(seed), random.Random(seed)
    demands = tuple(
        replace(d, flow_id=f"{d.flow_id}#{n}", size_bytes=d.size_bytes // 4 + (n == 0))
        for d in problem.demands
        for n in range(4)
    )
    instance = Instance.of(replace(problem, demands=demands))
    peak = float(instance.load_s(least_loaded(instance)).max())
    solved = solve(instance, peak)
    best = float(instance.load_s(solved.chosen).max()) if solved.chosen is not None else peak
    for start in (random_start(instance, rng), least_loaded(instance)):
        assert prove(instance, start, cut_bound(instance)).seconds <= best * NEARLY


@pytest.mark.parametrize("seed", range(5))
def test_small_fabrics_are_placed_as_well_as_can_be_whole_and_split(seed: int) -> None:
    problem = mixed(seed)
    assert place(problem).certificate.gap < 0.001
    split = place_split(problem, {d.flow_id: 4 for d in problem.demands})
    assert split.certificate.gap < 0.01


def test_large_problems_and_pinned_flows_are_left_alone() -> None:
    fabric = view(plan(leaves=4, spines=4, hosts=16))
    many = problem_on(fabric, [Demand(f"f{n}", leaf(1), leaf(2), (n + 1) * MEGABYTE) for n in range(60)])
    assert solve(Instance.of(many), 1.0).bound.seconds == 0.0
    one = many.demands[0]
    pinned = replace(many, demands=(replace(one, pinned=many.paths[leaf(1), leaf(2)][0]),))
    assert solve(Instance.of(pinned), 1.0).chosen is None
    assert solve(Instance.of(replace(many, demands=(one,))), 1.0).bound.name == INTEGER_PROGRAM
