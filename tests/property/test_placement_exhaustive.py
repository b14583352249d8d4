"""The exact method on all small symmetric cases, not on a sample: it equals brute force in every one."""

from itertools import combinations_with_replacement, permutations

import pytest

from controller.fabric.paths import link_capacities, two_tier_paths
from controller.placement.place import EDGE_COLOURING, place
from controller.placement.problem import Demand, Problem
from tests.property.placement_problems import optimum_s
from tests.unit.fabrics import leaf, plan, view


@pytest.mark.parametrize(
    ("leaves", "spines", "parallel", "most"),
    [(2, 2, 1, 6), (2, 1, 2, 6), (3, 1, 1, 5), (3, 2, 1, 4), (3, 3, 1, 3), (4, 2, 1, 3)],
)
def test_equal_flows_on_every_small_fabric(leaves: int, spines: int, parallel: int, most: int) -> None:
    fabric = view(plan(leaves=leaves, spines=spines, parallel=parallel))
    paths, capacity = two_tier_paths(fabric), link_capacities(fabric)
    pairs = list(permutations(range(1, leaves + 1), 2))
    cases = 0
    for count in range(1, most + 1):
        for chosen in combinations_with_replacement(pairs, count):
            demands = tuple(Demand(f"f{n}", leaf(a), leaf(b), 1_000_000) for n, (a, b) in enumerate(chosen))
            problem = Problem(demands, paths, capacity)
            certificate = place(problem).certificate
            assert certificate.method == EDGE_COLOURING
            assert certificate.proven_optimal
            assert certificate.max_load_s == pytest.approx(optimum_s(problem), rel=1e-9)
            cases += 1
    assert cases > 20
