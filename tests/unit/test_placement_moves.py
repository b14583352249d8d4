"""Re-planning: what must move moves, what can stay stays unless the gain is worth it, and every move has its reason."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given

from controller.placement.moves import replan
from controller.placement.place import place
from controller.placement.problem import Demand, Problem
from tests.property.placement_problems import optimum_s, problems
from tests.unit.fabrics import leaf, plan, view
from tests.unit.test_placement_place import FLOW_S, MEGABYTE, fabric_without, problem_on, ring

JUST_ABOVE = 1 + 1e-9


@given(problems(pins=True))
def test_moves_are_the_difference_and_never_make_it_worse(problem: Problem) -> None:
    found = replan(problem)
    kept = place(problem)
    before = {d.flow_id: d.pinned or () for d in problem.demands}
    different = {flow for flow, path in found.placement.paths.items() if path != before[flow]}
    assert {move.flow_id for move in found.moves} == different
    for move in found.moves:
        assert move.before == before[move.flow_id]
        assert move.after == found.placement.paths[move.flow_id]
        assert move.reason
        pair = next((d.src_leaf, d.dst_leaf) for d in problem.demands if d.flow_id == move.flow_id)
        assert move.forced == (move.before not in problem.paths.get(pair, ()))
    assert found.placement.certificate.max_load_s <= kept.certificate.max_load_s * JUST_ABOVE
    assert found.placement.certificate.max_load_s * JUST_ABOVE >= optimum_s(problem)
    if found.gain:
        assert found.placement.certificate.max_load_s <= kept.certificate.max_load_s * (1 - 0.05)


def collided(count: int, spines: int) -> Problem:
    """`count` flows, all pinned to the first path."""
    problem = problem_on(view(plan(leaves=2, spines=spines)), [])
    path = problem.paths[leaf(1), leaf(2)][0]
    demands = tuple(Demand(f"f{n}", leaf(1), leaf(2), MEGABYTE, path) for n in range(count))
    return replace(problem, demands=demands)


def test_flows_that_collide_part_with_as_few_moves_as_it_takes() -> None:
    found = replan(collided(4, 4))
    assert found.gain == pytest.approx(0.75)
    assert len(found.moves) == 3
    assert found.placement.certificate.max_load_s == pytest.approx(FLOW_S)
    assert found.placement.certificate.proven_optimal
    assert {move.reason for move in found.moves} == {"with 3 moves the fullest link falls by 75.0%"}
    assert found.reason == "3 flows that could stay are moved: the fullest link falls by 75.0%"


def test_a_gain_below_the_threshold_moves_nothing() -> None:
    found = replan(collided(4, 4), threshold=0.8)
    assert found.moves == ()
    assert found.gain == 0.0
    assert found.reason == "no flow is moved that can stay: 75.0% gained is less than 80.0%"


def test_a_link_that_comes_back_moves_no_healthy_flow() -> None:
    """16 flows placed well: nothing collides, so the link that returns is left idle (open-kilda issue 577)."""
    fabric = view(plan(leaves=4, spines=5, hosts=4))
    less = problem_on(fabric_without(fabric, *((i, 3) for i in range(1, 5))), ring(4, 4))
    first = place(less)
    assert first.certificate.proven_optimal
    pinned = tuple(replace(d, pinned=first.paths[d.flow_id]) for d in less.demands)
    found = replan(problem_on(fabric, list(pinned)))
    assert found.moves == ()
    assert found.placement.paths == first.paths


def test_a_dead_path_is_left_and_the_rest_stays() -> None:
    fabric = view(plan(leaves=2, spines=4, hosts=3))
    first = place(problem_on(fabric, ring(2, 3)))
    pinned = [replace(d, pinned=first.paths[d.flow_id]) for d in ring(2, 3)]
    dead = first.paths["ring/1-0"][1].dpid - 0x200
    found = replan(problem_on(fabric_without(fabric, (1, dead)), pinned))
    assert {move.flow_id for move in found.moves} == {
        flow for flow, path in first.paths.items() if path[1].dpid == 0x200 + dead
    }
    assert {(move.forced, move.reason) for move in found.moves} == {(True, "its path is gone")}
    assert found.gain == 0.0


def test_new_flows_are_no_moves_of_old_ones() -> None:
    problem = problem_on(view(plan(leaves=2, spines=2)), ring(2, 1))
    found = replan(problem)
    assert {(m.before, m.forced, m.reason) for m in found.moves} == {((), True, "it had no path")}


def test_flows_are_moved_for_their_own_priority_and_never_for_a_lower_one() -> None:
    problem = collided(3, 3)
    mixed = (replace(problem.demands[0], priority=1), *problem.demands[1:])
    found = replan(replace(problem, demands=mixed))
    assert {move.flow_id for move in found.moves} == {"f1", "f2"}
    assert found.placement.certificate.max_load_s == pytest.approx(FLOW_S)
    # The one of lower priority shares its path with one of two higher ones: they are content, so it is it that goes.
    first, second = problem.paths[leaf(1), leaf(2)][:2]
    settled = (
        Demand("high1", leaf(1), leaf(2), MEGABYTE, first, priority=1),
        Demand("high2", leaf(1), leaf(2), MEGABYTE, second, priority=1),
        Demand("low", leaf(1), leaf(2), MEGABYTE, first),
    )
    found = replan(replace(problem, demands=settled))
    assert [move.flow_id for move in found.moves] == ["low"]
    assert found.reason == "1 flow that could stay is moved: the fullest link falls by 50.0%"


def test_an_infinite_threshold_moves_nothing_that_can_stay() -> None:
    found = replan(collided(4, 4), threshold=inf)
    assert found.moves == ()
    assert found.placement.certificate.gap == pytest.approx(3.0)


def test_parts_of_one_flow_are_moved_one_by_one() -> None:
    """Four queue pairs of one flow on one path of four: three of them leave it."""
    problem = collided(4, 4)
    found = replan(problem, group_of=dict.fromkeys((d.flow_id for d in problem.demands), "flow"))
    assert len(found.moves) == 3
    assert found.placement.certificate.max_load_s == pytest.approx(FLOW_S)
