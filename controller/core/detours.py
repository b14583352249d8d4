"""Places flows around switches that do not answer, while what is on such a switch already stays there.

A silent spine very likely goes on forwarding, so a flow that crosses it is not moved, which would reorder it; but
nothing new is entrusted to it while another way exists. A leaf cannot be gone round: see `planning`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from controller.fabric.edge_paths import AnyPaths, EdgePaths, planned_paths
from controller.fabric.model import FabricView, PortRef, Role
from controller.fabric.paths import Pair, link_capacities
from controller.placement.effort import FULL, Effort
from controller.placement.moves import Replan, replan
from controller.placement.place import certify
from controller.placement.problem import Demand, Phases, Placement, Problem


@dataclass(frozen=True, slots=True)
class Around:
    """The whole problem and what was decided. `whole` is False when the certificate is about a part of the fabric."""

    problem: Problem
    found: Replan
    whole: bool = True


def placed_around(
    demands: Sequence[Demand],
    view: FabricView,
    silent: frozenset[int],
    background_bps: Mapping[PortRef, float],
    group_of: Mapping[str, str],
    threshold: float,
    phases: Phases,
    effort: Effort = FULL,
) -> Around:
    """A placement in which only flows that are there already, or have no other way, cross a silent spine or core.

    `group_of` and `threshold` are as in `moves.replan`, `phases` as in `Problem`. The certificate is about the fabric
    that answers, and while a part of it does not, nothing is moved that can stay.
    """
    paths = _wanted(planned_paths(view), demands)
    problem = Problem(tuple(demands), paths, link_capacities(view), background_bps, phases)
    # Leaves above an edge switch can be gone round like spines.
    above = (Role.SPINE, Role.CORE, *([Role.LEAF] if isinstance(paths, EdgePaths) else []))
    spines = {dpid for dpid in silent if dpid in view.switches and view.switches[dpid].role in above}
    if not spines:
        return Around(problem, replan(problem, threshold if not silent else inf, effort, group_of))
    links = tuple(link for link in view.links if spines.isdisjoint((link.a.dpid, link.b.dpid)))
    open_paths = planned_paths(replace(view, links=links))
    through = tuple(d for d in demands if _must_cross(d, spines, paths, open_paths))
    crossing = {d.flow_id for d in through}
    around = tuple(d for d in demands if d.flow_id not in crossing)
    # In two tiers these share no link: one has all links of silent spines, and no others.
    parts = (
        replan(replace(problem, demands=around, paths=open_paths), inf, effort, group_of),
        replan(replace(problem, demands=through), inf, effort, group_of),
    )
    placement = _together(*(part.placement for part in parts), phased=bool(phases))
    moves = tuple(move for part in parts for move in part.moves)
    return Around(problem, Replan(placement, moves, 0.0, "switches do not answer: what can stay stays"), whole=False)


def _wanted(paths: AnyPaths, demands: Sequence[Demand]) -> AnyPaths:
    """Those of the leaves alone where no demand begins or ends at an edge switch: more is known of their structure."""
    if not isinstance(paths, EdgePaths) or any({d.src_leaf, d.dst_leaf} & paths.edges for d in demands):
        return paths
    return paths.leaves


def _must_cross(demand: Demand, spines: set[int], paths: AnyPaths, open_paths: AnyPaths) -> bool:
    pair: Pair = (demand.src_leaf, demand.dst_leaf)
    if demand.pinned is not None and paths.is_live(pair, demand.pinned):
        return any(hop.dpid in spines for hop in demand.pinned)
    if demand.src_leaf == demand.dst_leaf or not paths.joins(pair):
        return False
    # A way over a core is none where a spine joins the leaves, silent or not: routing does not know it either.
    return not open_paths.joins(pair) or _hops(open_paths, pair) != _hops(paths, pair)


def _hops(paths: AnyPaths, pair: Pair) -> int:
    return len(paths[pair][0]) if isinstance(paths, EdgePaths) else int((paths.choices(pair)[0] >= 0).sum())


def _together(around: Placement, through: Placement, *, phased: bool) -> Placement:
    """Two placements as one. Each bound holds for the whole, since the other's flows only add to it. With phases the
    fullest links of a slot may be the one's or the other's, and both together are the most that it can be."""
    if not through.paths:
        return replace(around, unplaced=around.unplaced + through.unplaced)
    load_s = {port: load + through.load_s[port] for port, load in around.load_s.items()}
    # Background is in the certificates' loads and not in every link's.
    alone = (around.certificate.max_load_s, through.certificate.max_load_s)
    alone_s = sum(alone) if phased else max(alone)
    most_s = max(alone_s, *load_s.values())
    bound_s = max(around.certificate.lower_bound_s, through.certificate.lower_bound_s)
    return Placement(
        paths={**around.paths, **through.paths},
        unplaced=around.unplaced + through.unplaced,
        load_s=load_s,
        certificate=certify(most_s, bound_s, around.certificate.method),
    )
