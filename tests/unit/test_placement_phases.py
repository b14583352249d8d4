"""What falls into which slot of time, and that flows which never meet are not kept apart at others' cost."""

from dataclasses import replace

import pytest
from fabrics import leaf, plan, view
from test_placement_place import FLOW_S, problem_on

from controller.placement.moves import replan
from controller.placement.phases import MOST_PHASES, PhaseKey, in_slot, spread
from controller.placement.place import place
from controller.placement.problem import Demand, Problem

SIZE = 1_000_000
FORWARD: PhaseKey = ("train", 1)
BACKWARD: PhaseKey = ("train", 2)


def two_phases() -> Problem:
    """Two flows forth in each of two phases, two spines: balanced as one, either phase may still share one spine."""
    demands = [Demand(f"{phase}{n}", leaf(1), leaf(2), SIZE) for phase in "ab" for n in (1, 2)]
    problem = problem_on(view(plan(leaves=2, spines=2)), demands)
    sizes = {d.flow_id: {FORWARD if d.flow_id[0] == "a" else BACKWARD: SIZE} for d in demands}
    return replace(problem, phases=spread(sizes))


def test_each_phase_has_all_links_to_itself() -> None:
    problem = two_phases()
    placed = place(problem)
    assert placed.paths["a1"] != placed.paths["a2"]
    assert placed.paths["b1"] != placed.paths["b2"]
    assert placed.certificate.max_load_s == pytest.approx(2 * FLOW_S)
    assert placed.certificate.proven_optimal
    assert placed.certificate.method == "by phase: edge-colouring"


def test_flows_that_collide_in_a_phase_move_though_their_links_are_balanced_over_both() -> None:
    problem = two_phases()
    first, second = problem.paths[leaf(1), leaf(2)]
    pinned = tuple(replace(d, pinned=first if d.flow_id[0] == "a" else second) for d in problem.demands)
    found = replan(replace(problem, demands=pinned))
    assert found.gain == pytest.approx(0.5)
    assert len(found.moves) == 2
    assert found.placement.certificate.max_load_s == pytest.approx(2 * FLOW_S)
    assert not replan(replace(problem, demands=pinned, phases={})).moves


def test_what_one_flow_sends_in_two_phases_goes_one_way() -> None:
    demands = [Demand(name, leaf(1), leaf(2), 2 * SIZE) for name in ("both", "first", "second")]
    problem = problem_on(view(plan(leaves=2, spines=2)), demands)
    sizes = {"both": {FORWARD: SIZE, BACKWARD: SIZE}, "first": {FORWARD: 2 * SIZE}, "second": {BACKWARD: 2 * SIZE}}
    placed = place(replace(problem, phases=spread(sizes)))
    assert placed.paths["first"] == placed.paths["second"] != placed.paths["both"]
    assert placed.certificate.max_load_s == pytest.approx(4 * FLOW_S)


def test_what_may_be_sent_at_any_time_is_dealt_over_the_phases() -> None:
    found = spread({"a": {FORWARD: 300}, "b": {BACKWARD: 100}, "c": {None: 1000}})
    assert found == {"a": ((0, 300),), "b": ((1, 100),), "c": ((0, 750), (1, 250))}


def test_without_phases_or_with_one_all_is_one() -> None:
    assert spread({"a": {None: 300}, "b": {None: 100}}) == {}
    assert spread({"a": {FORWARD: 300}, "b": {None: 100}}) == {}
    assert spread({"a": {FORWARD: 300}, "b": {BACKWARD: 0}}) == {}


def test_phases_of_two_iterations_do_not_keep_step() -> None:
    other: PhaseKey = ("other", 1)
    found = spread({"a": {FORWARD: 300}, "b": {BACKWARD: 100}, "c": {other: 400}})
    # Slots by size: the other iteration's own, forward, backward; each iteration has half of all bytes.
    assert found["a"] == ((0, 150), (1, 150))
    assert found["b"] == ((0, 50), (2, 50))
    assert found["c"] == ((0, 200), (1, 150), (2, 50))


@pytest.mark.parametrize("iterations", [1, 3])
def test_too_many_phases_share_a_slot_by_iteration(iterations: int) -> None:
    sizes: dict[str, dict[PhaseKey, int]] = {
        f"{i}/{n}": {(f"i{i}", n): 1000 + n} for i in range(iterations) for n in range(2 * MOST_PHASES)
    }
    found = spread(sizes)
    assert len({slot for parts in found.values() for slot, _ in parts}) == MOST_PHASES
    assert all(sum(size for _, size in found[flow]) == sum(parts.values()) for flow, parts in sizes.items())


def test_with_too_many_iterations_phases_tell_nothing() -> None:
    assert spread({f"{i}/{n}": {(f"i{i}", n): 10} for i in range(MOST_PHASES) for n in range(2)}) == {}


def test_a_flow_without_bytes_has_a_path_all_the_same() -> None:
    problem = two_phases()
    empty = Demand("empty", leaf(1), leaf(2), 0)
    sizes = {
        "empty": {FORWARD: 0},
        **{flow: {FORWARD: SIZE} if flow[0] == "a" else {BACKWARD: SIZE} for flow in problem.phases},
    }
    whole = replace(problem, demands=(*problem.demands, empty), phases=spread(sizes))
    assert "empty" in place(whole).paths


def test_a_slot_is_a_problem_without_phases() -> None:
    problem = two_phases()
    slot = in_slot(problem, 1, {}, {"b1", "b2"})
    assert [d.flow_id for d in slot.demands] == ["b1", "b2"]
    assert not slot.phases
