"""Explaining a path: every candidate, its load with and without the flow, and its background."""

from dataclasses import replace

import pytest

from controller.fabric.model import PortRef
from controller.fabric.paths import link_capacities, two_tier_paths
from controller.placement.explain import Candidate, explain
from controller.placement.place import place
from controller.placement.problem import Demand, Problem
from tests.unit.fabrics import RATE_BPS, leaf, plan, view

MEGABYTE = 1_000_000
FLOW_S = 8 * MEGABYTE / RATE_BPS

FABRIC = view(plan(leaves=2, spines=2))
PATHS = two_tier_paths(FABRIC)[leaf(1), leaf(2)]
PROBLEM = Problem(
    tuple(Demand(f, leaf(1), leaf(2), n * MEGABYTE) for f, n in (("a", 3), ("b", 2))),
    two_tier_paths(FABRIC),
    link_capacities(FABRIC),
)


def test_all_candidates_are_compared() -> None:
    placed = place(PROBLEM)
    found = explain(PROBLEM, placed, "b")
    mine, other = placed.paths["b"], placed.paths["a"]
    assert [c.path for c in found] == list(PATHS)
    by_path = {c.path: c for c in found}
    assert by_path[mine] == Candidate(mine, 0.0, pytest.approx(2 * FLOW_S), 0.0, True)
    assert by_path[other] == Candidate(other, pytest.approx(3 * FLOW_S), pytest.approx(5 * FLOW_S), 0.0, False)
    assert placed.certificate.max_load_s == pytest.approx(max(c.load_with_s for c in found if c.chosen) + FLOW_S)


def test_the_background_shown_is_that_of_the_fullest_link() -> None:
    busy = {PortRef(leaf(1), 1): 0.5 * RATE_BPS}
    problem = replace(PROBLEM, background_bps=busy)
    first = explain(problem, place(problem), "b")[0]
    assert first.background_bps == 0.5 * RATE_BPS
    assert first.load_with_s - first.load_without_s == pytest.approx(2 * FLOW_S / 0.5)


def test_a_flow_without_a_path_has_no_candidates_and_a_stranger_is_an_error() -> None:
    problem = Problem((Demand("a", 1, 2, 5),), {}, {})
    assert explain(problem, place(problem), "a") == []
    with pytest.raises(KeyError, match="nobody"):
        explain(PROBLEM, place(PROBLEM), "nobody")
