"""Decides which path each flow takes: the exact method where it applies, heuristics and a bound elsewhere.

Pure: no clock and no randomness, and the order of the demands makes no difference. Pinned demands stay while their path
lives. Which flows there are, and when to ask again, is decided by `core`.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from controller.fabric.model import Path
from controller.fabric.paths import IntArray, TwoTierPaths
from controller.placement.by_phase import place_by_phase
from controller.placement.certificate import Certificate
from controller.placement.channels import ExactPlacement, colouring_start, place_exactly
from controller.placement.cut_bounds import Bound, cut_bound
from controller.placement.effort import FULL, WORTH_MORE, Effort
from controller.placement.exchange import exchange
from controller.placement.improvement import improve
from controller.placement.instance import TOLERANCE, Instance, in_order
from controller.placement.integer_program import INTEGER_PROGRAM, solve
from controller.placement.least_loaded import least_loaded
from controller.placement.load import LoadByPort
from controller.placement.planes import plane_start
from controller.placement.problem import Demand, Placement, Problem, at_level
from controller.placement.proof import prove, prove_by_sizes
from controller.placement.routes import TwoTierRoutes, routes_for

EDGE_COLOURING = "edge-colouring"
LEAST_LOADED = "least-loaded"
IMPROVED = "+improve"
NOTHING_TO_PLACE = "nothing-to-place"
# Every flow is pinned to a live path.
KEPT = "kept"

# Flows that trading may move for each step of effort.
_TRADES = 15
# A gap that is worth solving a small problem for.
_SOLVE_ABOVE = 0.001


def place(problem: Problem, effort: Effort = FULL) -> Placement:
    """A path for every demand that has one, and how near to optimal the whole is.

    The fullest link is never fuller than the plain least-loaded heuristic leaves it (with priorities: as it leaves it
    when the flows of higher priority are where they are). Raises ValueError for flow ids used twice and for links on
    paths that have no capacity.
    """
    demands = in_order(problem.demands)
    if len({demand.priority for demand in demands}) > 1:
        return _by_priority(problem, effort)
    if problem.phases:
        return place_by_phase(problem, lambda slot: place(slot, effort))
    routes = routes_for(problem.paths, ((d.src_leaf, d.dst_leaf) for d in demands))
    if demands and isinstance(routes, TwoTierRoutes):
        exact = place_exactly(problem, demands, routes.table)
        if exact is not None:
            return _exact_answer(problem, demands, routes.table, exact)
    instance = Instance.on(problem, demands, routes)
    bound = cut_bound(instance)
    if not instance.demands:
        return answer(problem, instance, instance.chosen, NOTHING_TO_PLACE, bound)

    def found(effort: Effort) -> Placement:
        method, chosen = best_found(instance, bound, effort)
        return answer(problem, instance, *with_proof(instance, chosen, method, bound, effort))

    return harder_where_worth_it(found, effort)


def harder_where_worth_it(find: Callable[[Effort], Placement], effort: Effort) -> Placement:
    """What is found with `effort`, or with more of it where that leaves a gap worth it; with the better bound."""
    first = find(effort.once)
    if not effort.more or first.certificate.gap <= WORTH_MORE or first.certificate.method == KEPT:
        return first
    second = find(effort.again)
    best, other = sorted((first, second), key=lambda placement: placement.certificate.max_load_s)
    proof, rival = best.certificate, other.certificate
    if rival.lower_bound_s > proof.lower_bound_s * (1 + TOLERANCE):
        proof = certify(proof.max_load_s, rival.lower_bound_s, proof.method, rival.bound)
    return replace(best, certificate=proof)


def _by_priority(problem: Problem, effort: Effort) -> Placement:
    """Level by level, the highest first, each around what the levels above it have chosen."""
    settled: dict[str, Path] = {}
    for level in sorted({demand.priority for demand in problem.demands}, reverse=True):
        placement = place(at_level(problem, level, settled), effort)
        settled.update(placement.paths)
    return placement


def answer(problem: Problem, instance: Instance, chosen: IntArray, method: str, bound: Bound) -> Placement:
    """The placement in which demand i takes the links `chosen[i]`."""
    load = instance.load_s(chosen)
    ports = instance.routes.ports
    stays = (~instance.movable).tolist()
    return Placement(
        paths={
            d.flow_id: d.pinned if pinned and d.pinned else tuple([ports[i] for i in row if i >= 0])
            for d, row, pinned in zip(instance.demands, chosen.tolist(), stays, strict=True)
        },
        unplaced=instance.unplaced,
        load_s=LoadByPort(problem.capacity_bps, instance.routes.index, load[:-1]),
        certificate=certify(float(load.max()), bound.seconds, method, bound.name),
    )


def certify(max_load_s: float, lower_bound_s: float, method: str, bound: str = "") -> Certificate:
    """Compares the fullest link with the bound; completion is bounded by the fabric alone until hosts are counted."""
    # Rounding may put equal sums a last digit apart, in either direction.
    bound_s = min(lower_bound_s, max_load_s) if lower_bound_s <= max_load_s * (1 + TOLERANCE) else lower_bound_s
    return Certificate(
        max_load_s=max_load_s,
        lower_bound_s=bound_s,
        gap=max_load_s / bound_s - 1 if bound_s else 0.0,
        method=method,
        proven_optimal=max_load_s <= bound_s * (1 + TOLERANCE),
        completion_bound_s=bound_s,
        bound=bound,
    )


def best_found(instance: Instance, bound: Bound, effort: Effort) -> tuple[str, IntArray]:
    """(method, links): whichever construction leaves the fullest link lowest, improved."""
    if not instance.movable.any():
        return KEPT, instance.chosen
    if not effort.thorough:
        return _first_found(instance, bound, effort)
    enough_s = bound.seconds * (1 + TOLERANCE)

    def peak_s(chosen: IntArray) -> float:
        return float(instance.load_s(chosen).max())

    best, method = None, LEAST_LOADED
    start = colouring_start(instance) or plane_start(instance)
    if start is not None:
        best, method = least_loaded(instance, *start), EDGE_COLOURING
        if peak_s(best) <= enough_s:
            return method, best
    plain = least_loaded(instance)
    if best is None or peak_s(plain) <= peak_s(best) * (1 + TOLERANCE):
        best, method = plain, LEAST_LOADED
    improved = refine(instance, best, bound, effort)
    if peak_s(improved) > enough_s and not instance.movable.all():
        around = colouring_start(instance, around_pins=True)
        between = least_loaded(instance, *around) if around is not None else improved
        if peak_s(between) < peak_s(improved) * (1 - TOLERANCE):
            return EDGE_COLOURING, between
    return method + (IMPROVED if (improved != best).any() else ""), improved


def _first_found(instance: Instance, bound: Bound, effort: Effort) -> tuple[str, IntArray]:
    """The same from one construction: colouring, where flows are alike, else least-loaded."""
    bits = instance.bits[instance.movable]
    start = colouring_start(instance) if bits.min() == bits.max() else None
    first, method = (
        (least_loaded(instance, *start), EDGE_COLOURING) if start else (least_loaded(instance), LEAST_LOADED)
    )
    found = refine(instance, first, bound, effort)
    return method + (IMPROVED if (found != first).any() else ""), found


def refine(instance: Instance, start: IntArray, bound: Bound, effort: Effort) -> IntArray:
    """Local search from `start`, to `bound` at best: flows pushed aside first, then, where that ends, traded."""
    pushed = improve(instance, start, bound.seconds, effort.steps)
    load_s = instance.load_s(pushed)
    if not effort.thorough or effort.steps <= 0 or float(load_s.max()) <= bound.seconds * (1 + TOLERANCE):
        return pushed
    # Trading aims at a limit: one that no placement can meet only costs it steps.
    aim = prove_by_sizes(instance, load_s, bound)
    return exchange(instance, pushed, aim.seconds, _TRADES * effort.steps)


def with_proof(
    instance: Instance, chosen: IntArray, method: str, bound: Bound, effort: Effort
) -> tuple[IntArray, str, Bound]:
    """The placement, by which method, and the best bound that can be had; small problems are solved where a gap is left
    and there are steps to spend."""
    if not effort.thorough:
        return chosen, method, prove_by_sizes(instance, instance.load_s(chosen), bound)
    bound = prove(instance, chosen, bound)
    peak_s = float(instance.load_s(chosen).max())
    if peak_s <= bound.seconds * (1 + _SOLVE_ABOVE) or effort.steps <= 0:
        return chosen, method, bound
    solved = solve(instance, peak_s)
    if solved.chosen is not None and float(instance.load_s(solved.chosen).max()) < peak_s * (1 - TOLERANCE):
        chosen, method = solved.chosen, INTEGER_PROGRAM
    return chosen, method, bound.or_higher(solved.bound)


def _exact_answer(
    problem: Problem, demands: tuple[Demand, ...], paths: TwoTierPaths, exact: ExactPlacement
) -> Placement:
    ports = paths.ports
    up, down = exact.links[:, 0].tolist(), exact.links[:, 1].tolist()
    load_s = np.bincount(exact.links.ravel(), minlength=len(ports)) * exact.bits / np.float64(exact.rate_bps)
    return Placement(
        paths={d.flow_id: (ports[u], ports[v]) for d, u, v in zip(demands, up, down, strict=True)},
        unplaced=(),
        load_s=LoadByPort(problem.capacity_bps, paths.index, load_s),
        certificate=certify(float(load_s.max()), exact.lower_bound_s, EDGE_COLOURING, exact.bound),
    )
