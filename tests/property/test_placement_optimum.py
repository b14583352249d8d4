"""Placement against an oracle that tries everything: bounds are true, the exact method is exact, answers add up."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.placement import baselines
from controller.placement.bounds import lower_bound_s
from controller.placement.certificate import Certificate
from controller.placement.channels import colouring_start
from controller.placement.effort import FIRST, Effort
from controller.placement.instance import Instance
from controller.placement.least_loaded import least_loaded
from controller.placement.place import EDGE_COLOURING, place
from controller.placement.problem import Placement, Problem
from tests.property.placement_problems import loads, optimum_s, problems

JUST_ABOVE = 1 + 1e-9


@given(problems())
def test_no_placement_is_below_the_bound(problem: Problem) -> None:
    assert lower_bound_s(problem) <= optimum_s(problem) * JUST_ABOVE


@given(problems(pins=True))
def test_the_certificate_tells_the_truth(problem: Problem) -> None:
    certificate = place(problem).certificate
    best = optimum_s(problem)
    assert certificate.lower_bound_s <= best * JUST_ABOVE
    assert certificate.max_load_s * JUST_ABOVE >= optimum_s(problem, keep_pins=True)
    if certificate.proven_optimal:
        assert certificate.max_load_s == pytest.approx(best, rel=1e-8)
    if certificate.lower_bound_s:
        assert certificate.gap == pytest.approx(certificate.max_load_s / certificate.lower_bound_s - 1)


@given(problems(symmetric=True))
def test_equal_flows_on_a_symmetric_fabric_are_placed_optimally_and_proven_so(problem: Problem) -> None:
    certificate = place(problem).certificate
    assert certificate.proven_optimal
    assert certificate.max_load_s == pytest.approx(optimum_s(problem))
    assert certificate.lower_bound_s == pytest.approx(lower_bound_s(problem))
    assert not problem.demands or certificate.method == EDGE_COLOURING


@given(problems())
def test_never_worse_than_least_loaded(problem: Problem) -> None:
    plain = baselines.least_loaded(problem).certificate
    assert place(problem).certificate.max_load_s <= plain.max_load_s * JUST_ABOVE


@given(problems(pins=True), st.sampled_from([0, 4_000]))
def test_never_worse_than_the_colouring_it_may_start_from(problem: Problem, steps: int) -> None:
    instance = Instance.of(problem)
    start = colouring_start(instance)
    if start is not None:
        coloured = instance.load_s(least_loaded(instance, *start)).max()
        assert place(problem, Effort(steps)).certificate.max_load_s <= coloured * JUST_ABOVE


@given(problems(pins=True))
def test_every_path_is_live_and_every_load_adds_up(problem: Problem) -> None:
    check_answer(problem, place(problem))


@settings(max_examples=40)
@given(problems(pins=True))
def test_so_it_is_with_little_effort_which_is_never_worse_than_least_loaded(problem: Problem) -> None:
    placed = place(problem, FIRST)
    check_answer(problem, placed)
    equal = len({d.size_bytes for d in problem.demands}) < 2
    plain = baselines.least_loaded(problem).certificate
    assert equal or placed.certificate.max_load_s <= plain.max_load_s * JUST_ABOVE
    assert placed.certificate.lower_bound_s <= optimum_s(problem) * JUST_ABOVE or not placed.paths


@given(problems(pins=True), st.integers(1, 4), st.integers(0, 5))
def test_baselines_give_live_paths_too(problem: Problem, queue_pairs: int, seed: int) -> None:
    hashed = baselines.ecmp(problem, queue_pairs, seed)
    bits = sum(8 * d.size_bytes for d in problem.demands if problem.paths[d.src_leaf, d.dst_leaf])
    check_answer(replace(problem, demands=tuple(replace(d, pinned=None) for d in problem.demands)), hashed, queue_pairs)
    uplinks = {path[0] for path in hashed.paths.values()}
    assert (sum(hashed.load_s[port] for port in uplinks) > 0) == (bits > 0)
    check_answer(problem, baselines.least_loaded(problem))


def check_answer(problem: Problem, placement: Placement, queue_pairs: int = 1) -> None:
    live = [d for d in problem.demands if problem.paths[d.src_leaf, d.dst_leaf]]
    assert set(placement.unplaced) == {
        name for d in problem.demands if d not in live for name in _names(d.flow_id, queue_pairs)
    }
    assert set(placement.paths) == {name for d in live for name in _names(d.flow_id, queue_pairs)}
    for demand in live:
        paths = problem.paths[demand.src_leaf, demand.dst_leaf]
        for name in _names(demand.flow_id, queue_pairs):
            path = placement.paths[name]
            assert path in paths
            assert len({port.dpid for port in path}) == len(path), "a loop"
            assert demand.pinned not in paths or path == demand.pinned
    assert placement.load_s.keys() == problem.capacity_bps.keys()
    if queue_pairs == 1:
        counted = loads(problem, dict(placement.paths))
        for port, load in placement.load_s.items():
            assert load == pytest.approx(counted.get(port, 0.0), rel=1e-9)
    assert placement.certificate.max_load_s == max(placement.load_s.values(), default=0.0)


def _names(flow_id: str, queue_pairs: int) -> list[str]:
    return [flow_id] if queue_pairs == 1 else [f"{flow_id}#{n}" for n in range(queue_pairs)]


@given(problems(pins=True), st.randoms(use_true_random=False))
def test_the_order_of_asking_makes_no_difference(problem: Problem, rng: random.Random) -> None:
    def shuffled(mapping: dict) -> dict:
        items = list(mapping.items())
        rng.shuffle(items)
        return dict(items)

    demands = list(problem.demands)
    rng.shuffle(demands)
    again = Problem(
        tuple(demands),
        problem.paths if not isinstance(problem.paths, dict) else shuffled(problem.paths),
        shuffled(dict(problem.capacity_bps)),
        shuffled(dict(problem.background_bps)),
    )
    assert place(again) == place(problem)


@given(problems(pins=True))
def test_placing_again_what_is_placed_moves_nothing(problem: Problem) -> None:
    first = place(problem)
    kept = tuple(replace(d, pinned=first.paths.get(d.flow_id)) for d in problem.demands)
    second = place(replace(problem, demands=kept))
    assert second.paths == first.paths
    assert second.certificate.max_load_s == pytest.approx(first.certificate.max_load_s)


@given(problems())
def test_a_link_that_dies_only_moves_the_flows_that_were_on_it(problem: Problem) -> None:
    first = place(problem)
    if not first.paths:
        return
    dead = max(first.paths.values())[0]
    left = {
        (d.src_leaf, d.dst_leaf): tuple(p for p in problem.paths[d.src_leaf, d.dst_leaf] if dead not in p)
        for d in problem.demands
    }
    kept = tuple(replace(d, pinned=first.paths.get(d.flow_id)) for d in problem.demands)
    second = place(Problem(kept, left, problem.capacity_bps, problem.background_bps))
    moved = {flow for flow, path in first.paths.items() if second.paths.get(flow) != path}
    assert moved == {flow for flow, path in first.paths.items() if dead in path}


def test_a_certificate_is_a_value() -> None:
    assert place(Problem((), {}, {})).certificate == Certificate(0.0, 0.0, 0.0, "nothing-to-place", True, 0.0)
