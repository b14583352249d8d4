"""Places flows around switches that do not answer, while what is on such a switch already stays there.

A silent spine very likely goes on forwarding, so a flow that crosses it is not moved, which would reorder it; but
nothing new is entrusted to it while another way exists. A leaf cannot be gone round: see `planning`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.fabric.model import FabricView, PortRef, Role
from controller.fabric.paths import Pair, TwoTierPaths, link_capacities
from controller.fabric.three_tiers import ThreeTierPaths, fabric_paths
from controller.placement.place import certify, place
from controller.placement.problem import Demand, Placement, Problem

Paths = TwoTierPaths | ThreeTierPaths


def placed_around(
    demands: Sequence[Demand], view: FabricView, silent: frozenset[int], background_bps: Mapping[PortRef, float]
) -> tuple[Problem, Placement]:
    """The whole problem, and a placement in which only flows that are there already, or have no other way, cross a
    silent spine or core. The certificate then is about the fabric that answers."""
    capacity = link_capacities(view)
    paths = fabric_paths(view)
    problem = Problem(tuple(demands), paths, capacity, background_bps)
    above = (Role.SPINE, Role.CORE)
    spines = {dpid for dpid in silent if dpid in view.switches and view.switches[dpid].role in above}
    if not spines:
        return problem, place(problem)
    links = tuple(link for link in view.links if spines.isdisjoint((link.a.dpid, link.b.dpid)))
    open_paths = fabric_paths(replace(view, links=links))
    through = [d for d in demands if _must_cross(d, spines, paths, open_paths)]
    crossing = {d.flow_id for d in through}
    around = tuple(d for d in demands if d.flow_id not in crossing)
    # In two tiers these share no link: one has all links of silent spines, and no others.
    parts = (
        place(Problem(around, open_paths, capacity, background_bps)),
        place(Problem(tuple(through), paths, capacity, background_bps)),
    )
    return problem, _together(*parts)


def _must_cross(demand: Demand, spines: set[int], paths: Paths, open_paths: Paths) -> bool:
    pair: Pair = (demand.src_leaf, demand.dst_leaf)
    if demand.pinned is not None and paths.is_live(pair, demand.pinned):
        return any(hop.dpid in spines for hop in demand.pinned)
    if demand.src_leaf == demand.dst_leaf or not paths.joins(pair):
        return False
    # A way over a core is none where a spine joins the leaves, silent or not: routing does not know it either.
    return not open_paths.joins(pair) or _hops(open_paths, pair) != _hops(paths, pair)


def _hops(paths: Paths, pair: Pair) -> int:
    return int((paths.choices(pair)[0] >= 0).sum())


def _together(around: Placement, through: Placement) -> Placement:
    """Two placements as one. Each bound holds for the whole, since the other's flows only add to it."""
    if not through.paths:
        return replace(around, unplaced=around.unplaced + through.unplaced)
    load_s = {port: load + through.load_s[port] for port, load in around.load_s.items()}
    # Background is in the certificates' loads and not in every link's.
    alone_s = max(around.certificate.max_load_s, through.certificate.max_load_s)
    most_s = max(alone_s, *load_s.values())
    bound_s = max(around.certificate.lower_bound_s, through.certificate.lower_bound_s)
    return Placement(
        paths={**around.paths, **through.paths},
        unplaced=around.unplaced + through.unplaced,
        load_s=load_s,
        certificate=certify(most_s, bound_s, around.certificate.method),
    )
