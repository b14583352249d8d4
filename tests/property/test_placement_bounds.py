"""Every bound against the optimum found by trying everything, and the fast form of cuts against the plain one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.placement.bounds import instance_bound_s
from controller.placement.cut_bounds import NOTHING, cut_bound
from controller.placement.fluid_bounds import linear_program_bound, weighted_bound
from controller.placement.instance import Instance
from controller.placement.packing_bounds import bins_needed, fullest_sum, packing_bound, whole_units
from controller.placement.pattern_bounds import least_peak, pattern_bound
from controller.placement.place import place
from controller.placement.problem import Demand, Problem
from controller.placement.proof import prove
from tests.property.placement_problems import optimum_s, problems
from tests.unit.fabrics import leaf, plan, view
from tests.unit.test_placement_place import FLOW_S, MEGABYTE, fabric_without, problem_on

JUST_ABOVE = 1 + 1e-9


def rows_of(instance: Instance, problem: Problem) -> np.ndarray:
    """The rows of links that `place` chooses."""
    placed = place(problem).paths
    rows = [
        instance.routes.row_of(pair, placed[demand.flow_id])
        for demand, pair in zip(instance.demands, instance.candidates.pairs, strict=True)
    ]
    return np.array(rows, dtype=np.intp).reshape(instance.chosen.shape)


@given(problems(pins=True))
def test_all_cuts_at_once_say_what_they_say_one_by_one(problem: Problem) -> None:
    instance = Instance.of(problem)
    assert cut_bound(instance).seconds == pytest.approx(instance_bound_s(instance), rel=1e-9)


@given(problems())
def test_no_placement_is_below_any_bound(problem: Problem) -> None:
    instance = Instance.of(problem)
    if not instance.demands:
        assert cut_bound(instance) == NOTHING
        return
    best = optimum_s(problem)
    chosen = rows_of(instance, problem)
    load = instance.load_s(chosen)
    bounds = [
        cut_bound(instance),
        packing_bound(instance, load, 0.0),
        packing_bound(instance, load, cut_bound(instance).seconds),
        pattern_bound(instance, load, 0.0),
        pattern_bound(instance, load, cut_bound(instance).seconds),
        linear_program_bound(instance),
        weighted_bound(instance, load, float(load.max())),
        prove(instance, chosen, cut_bound(instance)),
    ]
    for bound in bounds:
        assert bound.seconds <= best * JUST_ABOVE, bound


@given(problems())
def test_weights_never_prove_more_than_the_linear_program(problem: Problem) -> None:
    instance = Instance.of(problem)
    if instance.demands:
        load = instance.load_s(rows_of(instance, problem))
        program = linear_program_bound(instance)
        assert weighted_bound(instance, load, float(load.max())).seconds <= program.seconds * (1 + 1e-5)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=7), st.integers(1, 4))
def test_packing_bounds_hold_for_every_way_of_packing(sizes: list[int], links: int) -> None:
    best = min_peak(sorted(sizes, reverse=True), [0] * links)
    ordered = np.array(sorted(sizes), dtype=np.float64)
    assert fullest_sum(ordered, links) <= best
    assert whole_units(ordered, links) <= best
    assert bins_needed(ordered, float(best)) <= links
    assert least_peak(ordered, links, 0.0, float(sum(sizes))) <= best * JUST_ABOVE


def min_peak(sizes: list[int], load: list[int]) -> int:
    """The least possible fullest link, by trying every way."""
    if not sizes:
        return max(load)
    found = []
    for i in range(len(load)):
        if load[i] in load[:i]:
            continue
        load[i] += sizes[0]
        found.append(min_peak(sizes[1:], load))
        load[i] -= sizes[0]
    return min(found)


def test_weights_find_a_cut_around_a_subset_of_spines() -> None:
    """Leaf 1 reaches leaves 2 and 3 over spines 1 and 2 only: what goes to both of them crosses two uplinks, while the
    cut around the leaf sees three, and each pair of leaves alone sees half of it."""
    fabric = fabric_without(view(plan(leaves=4, spines=3)), (2, 3), (3, 3))
    demands = [Demand(f"{i}{n}", leaf(1), leaf(i), MEGABYTE) for i in (2, 3) for n in range(4)]
    problem = problem_on(fabric, [*demands, Demand("free", leaf(1), leaf(4), MEGABYTE)])
    instance = Instance.of(problem)
    assert cut_bound(instance).seconds == pytest.approx(3 * FLOW_S)
    assert linear_program_bound(instance).seconds == pytest.approx(4 * FLOW_S, rel=1e-5)
    load = instance.load_s(rows_of(instance, problem))
    assert weighted_bound(instance, load, float(load.max())).seconds == pytest.approx(4 * FLOW_S, rel=0.05)
    certificate = place(problem).certificate
    assert (certificate.max_load_s, certificate.bound) == (pytest.approx(4 * FLOW_S), "linear program")
    assert certificate.gap < 1e-5


def test_flows_of_one_job_lie_on_links_in_whole_numbers() -> None:
    # Five flows of 7 over two links: no link can carry 17.5.
    assert fullest_sum(np.full(5, 7.0), 2) == 21
    # 3 x 5 and 2 x 3: the fair share is 10.5, the next sum above it is 11.
    assert fullest_sum(np.array([3.0, 3.0, 5.0, 5.0, 5.0]), 2) == 11
    # Too many sizes to tell.
    assert fullest_sum(np.arange(1.0, 20.0), 2) == 0.0
    assert fullest_sum(np.zeros(3), 2) == 0.0
    # Every 4 counts as a whole 3, and so does the 5: of five units over two links some link carries three.
    assert whole_units(np.array([3.0, 4.0, 4.0, 4.0, 5.0]), 2) == pytest.approx(9)


def test_fillings_see_what_sums_and_halves_do_not() -> None:
    # Three links, three of 5 and six of 4: the fair share is 13, and 13 = 5 + 4 + 4 is a sum; so it fits.
    assert least_peak(np.array([4.0] * 6 + [5.0] * 3), 3, 0.0, 30.0) == 13
    # Two links, two of 6 and five of 4: the share is 16 = 4 x 4, which leaves 6 + 6 + 4 for the other; it fits.
    assert least_peak(np.array([4.0] * 5 + [6.0] * 2), 2, 0.0, 30.0) == 16
    # Three links, seven of 5 and one of 2: the share is 12.3, sums above it are 15 and 12 + 5; 15 = 3 x 5 is needed.
    assert least_peak(np.array([2.0] + [5.0] * 7), 3, 0.0, 40.0) == 15
    # Some other leaf needs 13: this one, which could do with 12, proves nothing about the 16 that are its next sum.
    assert least_peak(np.array([4.0] * 6), 2, 13.0, 24.0) == 13
    assert least_peak(np.array([4.0] * 6), 2, 11.0, 24.0) == 12
    # Too many sizes: nothing is said.
    assert least_peak(np.arange(1.0, 9.0), 2, 7.0, 40.0) == 7.0


def test_flows_larger_than_half_a_link_need_a_link_each() -> None:
    assert bins_needed(np.array([6.0, 6.0, 6.0]), 10.0) == 3
    # Beside each 6 only 4 are left, so that 5 finds no room there.
    assert bins_needed(np.array([5.0, 6.0, 6.0]), 10.0) == 3
    assert bins_needed(np.array([4.0, 4.0, 6.0, 6.0]), 10.0) == 2
    assert bins_needed(np.array([11.0]), 10.0) == 2
