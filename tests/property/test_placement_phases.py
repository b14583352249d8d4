"""Placement by phase: paths are live, pins stay, the bound holds for every placement, as one is never much better."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fabric.model import Path, PortRef
from controller.placement.moves import replan
from controller.placement.phases import PhaseKey, spread
from controller.placement.place import place
from controller.placement.problem import Demand, Problem
from controller.placement.splitting import place_parts, place_split
from tests.property.placement_problems import problems, seconds
from tests.unit.fabrics import leaf, plan, view
from tests.unit.test_placement_place import problem_on

JUST_ABOVE = 1 + 1e-9
KEYS: tuple[PhaseKey, ...] = (None, ("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2))


@st.composite
def phased(draw: st.DrawFn, keys: tuple[PhaseKey, ...] = KEYS, pins: bool = False) -> Problem:
    """Each demand in one phase, or its bytes dealt over two."""
    problem = draw(problems(pins=pins))
    sizes: dict[str, dict[PhaseKey, int]] = {}
    for demand in problem.demands:
        first, second = draw(st.sampled_from(keys)), draw(st.sampled_from(keys))
        part = draw(st.sampled_from([1, 1, 2, 4])) * demand.size_bytes // 4
        sizes[demand.flow_id] = {first: demand.size_bytes}
        if first != second:
            sizes[demand.flow_id] = {first: part, second: demand.size_bytes - part}
    return replace(problem, phases=spread(sizes))


def whole_s(problem: Problem, paths: Mapping[str, Path]) -> float:
    """Slot after slot what its fullest link needs, counted the plain way."""
    load: dict[tuple[int, PortRef], float] = defaultdict(float)
    for flow_id, path in paths.items():
        for slot, size in problem.phases[flow_id] if problem.phases else ((0, sizes_of(problem)[flow_id]),):
            for port in path:
                load[slot, port] += seconds(problem, port, size)
    return sum(max(value for (at, _), value in load.items() if at == slot) for slot in {slot for slot, _ in load})


def sizes_of(problem: Problem) -> dict[str, int]:
    return {d.flow_id: d.size_bytes for d in problem.demands}


def optimum_s(problem: Problem) -> float:
    choices = [(d.flow_id, problem.paths.get((d.src_leaf, d.dst_leaf), ())) for d in problem.demands]
    live = [(flow_id, paths) for flow_id, paths in choices if paths]
    names = [flow_id for flow_id, _ in live]
    return min(
        whole_s(problem, dict(zip(names, taken, strict=True))) for taken in product(*(paths for _, paths in live))
    )


@settings(max_examples=40)
@given(phased(pins=True))
def test_every_flow_has_a_live_path_and_the_certificate_says_what_it_needs(problem: Problem) -> None:
    placed = place(problem)
    for demand in problem.demands:
        paths = problem.paths.get((demand.src_leaf, demand.dst_leaf), ())
        assert (demand.flow_id in placed.unplaced) == (not paths)
        if paths:
            assert placed.paths[demand.flow_id] in paths
            assert demand.pinned not in paths or placed.paths[demand.flow_id] == demand.pinned
    assert placed.certificate.max_load_s == pytest.approx(whole_s(problem, placed.paths))
    assert placed.certificate.lower_bound_s <= placed.certificate.max_load_s * JUST_ABOVE
    as_one = place(replace(problem, phases={}))
    assert placed.certificate.max_load_s <= whole_s(problem, as_one.paths) * (1 + 0.0011)


@settings(max_examples=40)
@given(phased())
def test_the_bound_holds_for_every_placement(problem: Problem) -> None:
    few = replace(problem, demands=problem.demands[:4])
    assert place(few).certificate.lower_bound_s <= optimum_s(few) * JUST_ABOVE


@settings(max_examples=40)
@given(phased(keys=(("a", 1), ("a", 2))), st.integers(1, 3))
def test_parts_know_the_phases_of_their_flow(problem: Problem, queue_pairs: int) -> None:
    split = place_split(problem, {d.flow_id: queue_pairs for d in problem.demands})
    assert split.whole.keys() | split.parts.keys() == place(problem).paths.keys()
    load: dict[PortRef, float] = defaultdict(float)
    for demand in problem.demands:
        whole = (split.whole[demand.flow_id],) if demand.flow_id in split.whole else ()
        for path in split.parts.get(demand.flow_id) or whole:
            for port in path:
                parts = len(split.parts.get(demand.flow_id, (None,)))
                load[port] += seconds(problem, port, demand.size_bytes) / parts
    for port, value in split.load_s.items():
        assert value == pytest.approx(load.get(port, 0.0), rel=1e-4)


@settings(max_examples=40)
@given(phased(keys=(("a", 1), ("a", 2), None), pins=True))
def test_flows_move_only_where_all_phases_together_gain(problem: Problem) -> None:
    stays = replan(problem, threshold=float("inf"))
    again = replan(problem)
    before, after = (found.placement.certificate.max_load_s for found in (stays, again))
    assert after <= before * JUST_ABOVE
    if again.gain:
        assert after <= before * (1 - 0.05) * JUST_ABOVE
        assert after == pytest.approx(whole_s(problem, again.placement.paths))
    else:
        assert again.placement.paths == stays.placement.paths


def test_queue_pairs_that_keep_together_do_so_in_every_phase() -> None:
    # Two leaves, two spines: whatever is sent in one phase fits on one path for each flow.
    flows = [Demand(f"{name}:{port}", leaf(1), leaf(2), 1_000_000) for name in ("p", "q") for port in (1, 2)]
    problem = problem_on(view(plan(leaves=2, spines=2)), flows)
    phases = spread({d.flow_id: {("i", 1): 1_000_000, ("i", 2): 500_000} for d in flows})
    placed = place_parts(replace(problem, phases=phases), {d.flow_id: d.flow_id.split(":")[0] for d in flows})
    assert placed.paths["p:1"] == placed.paths["p:2"] != placed.paths["q:1"] == placed.paths["q:2"]
    assert placed.certificate.proven_optimal
