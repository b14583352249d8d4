"""Splitting over queue pairs: never worse than whole flows, few splits, nothing lost, bounds true for the parts."""

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.placement.baselines import least_loaded
from controller.placement.effort import FIRST
from controller.placement.place import place
from controller.placement.problem import Demand, Problem
from controller.placement.splitting import place_split
from tests.property.placement_problems import optimum_s, problems, seconds
from tests.unit.fabrics import leaf, plan, view
from tests.unit.test_placement_place import FLOW_S, problem_on

MEGABYTE = 1_000_000
JUST_ABOVE = 1 + 1e-9


@given(problems(pins=True), st.integers(1, 4))
def test_parts_add_up_and_nothing_gets_worse(problem: Problem, queue_pairs: int) -> None:
    split = place_split(problem, {d.flow_id: queue_pairs for d in problem.demands})
    whole = place(problem)
    assert split.certificate.max_load_s <= whole.certificate.max_load_s * JUST_ABOVE
    assert split.certificate.lower_bound_s <= split.certificate.max_load_s * JUST_ABOVE
    assert split.whole.keys() | split.parts.keys() == whole.paths.keys()
    assert not split.whole.keys() & split.parts.keys()
    assert set(split.unplaced) == set(whole.unplaced)
    load: dict[object, float] = defaultdict(float)
    for demand in problem.demands:
        paths = problem.paths.get((demand.src_leaf, demand.dst_leaf), ())
        taken = split.parts.get(demand.flow_id) or ((split.whole[demand.flow_id],) if paths else ())
        assert all(path in paths for path in taken)
        assert demand.pinned not in paths or taken == (demand.pinned,)
        for path in taken:
            for port in path:
                load[port] += seconds(problem, port, demand.size_bytes) / len(taken)
    for port, value in split.load_s.items():
        # Parts differ by a byte where the size does not divide.
        assert value == pytest.approx(load.get(port, 0.0), rel=1e-4)


@given(problems(), st.integers(2, 3))
def test_the_bound_holds_for_every_way_of_placing_the_parts(problem: Problem, queue_pairs: int) -> None:
    few = replace(problem, demands=problem.demands[:3])
    split = place_split(few, {d.flow_id: queue_pairs for d in few.demands})
    parts = tuple(
        replace(d, flow_id=f"{d.flow_id}#{n}", size_bytes=d.size_bytes // queue_pairs)
        for d in few.demands
        for n in range(queue_pairs)
    )
    best = optimum_s(replace(few, demands=parts))
    assert split.certificate.lower_bound_s <= best * (1 + 1e-4)


@settings(max_examples=40)
@given(problems(pins=True), st.integers(2, 4))
def test_with_little_effort_parts_are_never_worse_than_least_loaded_or_whole_flows(
    problem: Problem, queue_pairs: int
) -> None:
    split = place_split(problem, {d.flow_id: queue_pairs for d in problem.demands}, FIRST)
    parts = tuple(
        replace(
            d, flow_id=f"{d.flow_id}#{n}", size_bytes=d.size_bytes // queue_pairs + (n < d.size_bytes % queue_pairs)
        )
        for d in problem.demands
        for n in range(queue_pairs)
    )
    apart = least_loaded(replace(problem, demands=parts)).certificate.max_load_s
    whole = place(problem, FIRST).certificate.max_load_s
    assert split.certificate.max_load_s <= max(apart, whole) * JUST_ABOVE
    assert split.certificate.lower_bound_s <= split.certificate.max_load_s * JUST_ABOVE
    assert split.whole.keys() | split.parts.keys() == place(problem).paths.keys()


def test_three_flows_over_two_links_need_one_split() -> None:
    problem = problem_on(
        view(plan(leaves=2, spines=2)), [Demand(f, leaf(1), leaf(2), MEGABYTE) for f in ("a", "b", "c")]
    )
    split = place_split(problem, dict.fromkeys("abc", 2))
    assert split.certificate.max_load_s == pytest.approx(1.5 * FLOW_S)
    assert split.certificate.proven_optimal
    assert len(split.parts) == 1
    (paths,) = split.parts.values()
    assert len(set(paths)) == 2


def test_nothing_is_split_where_nothing_is_gained() -> None:
    problem = problem_on(view(plan(leaves=2, spines=2)), [Demand(f, leaf(1), leaf(2), MEGABYTE) for f in ("a", "b")])
    split = place_split(problem, dict.fromkeys("ab", 8))
    assert (dict(split.parts), split.certificate) == ({}, place(problem).certificate)
    alone = place_split(problem, {})
    assert alone.whole == place(problem).paths


def test_only_flows_whose_ports_are_known_are_split() -> None:
    problem = problem_on(
        view(plan(leaves=2, spines=2)), [Demand(f, leaf(1), leaf(2), MEGABYTE) for f in ("a", "b", "c")]
    )
    assert set(place_split(problem, {"b": 2}).parts) == {"b"}
