"""Why a flow takes the path it takes: every candidate with what it would carry. Reads a placement, changes nothing."""

from dataclasses import dataclass

from controller.fabric.model import Path
from controller.placement.capacity import effective_bps
from controller.placement.problem import Placement, Problem


@dataclass(frozen=True, slots=True)
class Candidate:
    """Load of the path's fullest link, in seconds, without and with the flow (everything else as placed), and the
    background measured on that link."""

    path: Path
    load_without_s: float
    load_with_s: float
    background_bps: float
    chosen: bool


def explain(problem: Problem, placement: Placement, flow_id: str) -> list[Candidate]:
    """The flow's live paths in the problem's order; empty when it has none. KeyError when no demand has this id."""
    demand = next((d for d in problem.demands if d.flow_id == flow_id), None)
    if demand is None:
        raise KeyError(flow_id)
    taken = placement.paths.get(flow_id, ())
    bits = 8.0 * demand.size_bytes
    result = []
    for path in problem.paths.get((demand.src_leaf, demand.dst_leaf), ()):
        links = []
        for port in path:
            background_bps = problem.background_bps.get(port, 0.0)
            own_s = bits / float(effective_bps(problem.capacity_bps[port], background_bps))
            without_s = max(placement.load_s[port] - (own_s if port in taken else 0.0), 0.0)
            links.append((without_s + own_s, without_s, background_bps))
        with_s, without_s, background_bps = max(links)
        result.append(Candidate(path, max(link[1] for link in links), with_s, background_bps, path == taken))
    return result
