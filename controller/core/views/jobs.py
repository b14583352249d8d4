"""A job's certificate in words: the fullest links, the cut that bounds them, and which flows have no path and why."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from controller.core.machine import Core
from controller.core.requests import unit_of
from controller.core.state import JobState, Unit
from controller.core.views.bounds import BoundView, bound_view, cut_words, present_cuts
from controller.core.views.common import HopView, Surroundings, UnknownJob, certificate, hops, seconds_text
from controller.core.views.plans import PlannedFlowView, planned_flow
from controller.fabric.model import PortRef
from controller.jobs.collective import Flow
from controller.placement.bounds import Cut
from controller.placement.by_phase import PHASES
from controller.placement.capacity import effective_bps
from controller.placement.certificate import Certificate
from controller.placement.completion import counted_background
from controller.placement.integer_program import INTEGER_PROGRAM
from controller.placement.packing_bounds import PACKING
from controller.placement.pattern_bounds import PATTERNS

# Enough to see what is full and what bounds it; `heddle explain link` shows any other.
_FULLEST, _BOUNDS = 8, 4
# What proves a bound that no single cut explains.
_PROOFS = {
    PACKING: "how whole flows pack onto the links of one leaf",
    PATTERNS: "how flows of these sizes can fill the links of one leaf",
    PHASES: "what each phase's own fullest links must carry",
    INTEGER_PROGRAM: "a search through all placements of flows that do not divide",
}
# Loads are sums of floats.
_SAME = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class FullLinkView:
    port: HopView
    load_s: float
    job_load_s: float
    flows: int
    job_flows: int


@dataclass(frozen=True, slots=True)
class UnplacedFlowView:
    flow: PlannedFlowView
    reason: str


@dataclass(frozen=True, slots=True)
class JobExplanationView:
    job_id: str
    certificate: Certificate
    fullest: tuple[FullLinkView, ...]
    bounds: tuple[BoundView, ...]
    unplaced: tuple[UnplacedFlowView, ...]
    planned_flows: int
    local_flows: int
    sentences: tuple[str, ...]
    moved: tuple[PlannedFlowView, ...] = ()


def explain_job(core: Core, job_id: str) -> JobExplanationView:
    """Raises UnknownJob."""
    job = core.state.jobs.get(job_id)
    if job is None:
        raise UnknownJob(f"no job {job_id!r} is announced")
    about = Surroundings.of(core)
    flows = [(unit_of(flow), planned_flow(core, flow, about)) for flow in job.flows]
    states = Counter(flow.state for _, flow in flows)
    found = present_cuts(core)
    return JobExplanationView(
        job_id=job_id,
        certificate=certificate(core),
        fullest=_fullest(core, job, about),
        bounds=tuple(bound_view(core, cut) for cut in found[:_BOUNDS]),
        unplaced=tuple(
            UnplacedFlowView(flow, _why_unplaced(core, unit, about)) for unit, flow in flows if flow.state == "ecmp"
        ),
        planned_flows=states["planned"],
        local_flows=states["local"],
        sentences=_sentences(core, found),
        moved=tuple(flow for _, flow in flows if flow.moved_because),
    )


def _fullest(core: Core, job: JobState, about: Surroundings) -> tuple[FullLinkView, ...]:
    problem, placed = core.state.problem, core.state.placement
    if placed is None:
        return ()
    every = _flows_on([flow for other in core.state.jobs.values() for flow in other.flows], core)
    own_bytes: dict[PortRef, int] = defaultdict(int)
    for flow in job.flows:
        for port in core.state.paths.get(unit_of(flow), ()):
            own_bytes[port] += flow.size_bytes
    own = _flows_on(job.flows, core)
    loaded = sorted((port for port, load_s in placed.load_s.items() if load_s), key=lambda p: (-placed.load_s[p], p))
    shown = []
    for port in loaded[:_FULLEST]:
        left_bps = float(effective_bps(problem.capacity_bps[port], problem.background_bps.get(port, 0.0)))
        (hop,) = hops(core, (port,), about.far)
        own_s = 8 * own_bytes[port] / left_bps
        shown.append(FullLinkView(hop, placed.load_s[port], own_s, every[port], own[port]))
    return tuple(shown)


def _flows_on(flows: Iterable[Flow], core: Core) -> Counter[PortRef]:
    """How many of the flows each link direction carries."""
    return Counter(port for flow in flows for port in core.state.paths.get(unit_of(flow), ()))


def _why_unplaced(core: Core, unit: Unit, about: Surroundings) -> str:
    name, state = core.plan.name, core.state
    missing = [address for address in unit[:2] if address not in about.hosts]
    if missing:
        return f"{' and '.join(core.hosts.name_of(address) for address in missing)} is not attached at present"
    if unit in state.waiting:
        return f"{name(state.waiting[unit])} does not answer: it cannot be told the path"
    full = sorted(name(dpid) for dpid, units in state.given_up.items() if unit in units)
    if full:
        return f"{', '.join(full)} has no room for its rule"
    source, destination = (about.hosts[address].leaf for address in unit[:2])
    if not state.problem.paths.get((source, destination)):
        return f"no path from {name(source)} to {name(destination)} is live"
    return "the placement is being renewed"


def _sentences(core: Core, found: list[Cut]) -> tuple[str, ...]:
    """What the certificate of all announced jobs means."""
    proof, placed = certificate(core), core.state.placement
    if not proof.max_load_s or placed is None:
        return ("Nothing announced crosses the spine: there is nothing to place.",)
    said = [_fullest_sentence(core, proof)]
    if found:
        said.append(_bound_sentence(core, found[0], proof))
    completion = seconds_text(proof.completion_bound_s)
    if counted := len(counted_background(core.state.problem)):
        where = "1 link direction has" if counted == 1 else f"{counted} link directions have"
        said.append(
            f"{where} measured background, which these figures leave its room; it may be what a job sent by hash "
            f"before it was announced. Should it give way, a run still takes {completion} at least."
        )
    elif proof.completion_bound_s > proof.lower_bound_s * _SAME:
        said.append(f"The hosts' own links take {completion}: no placement can make a run shorter.")
    return tuple(said)


def _fullest_sentence(core: Core, proof: Certificate) -> str:
    placed, needed = core.state.placement, seconds_text(proof.max_load_s)
    if core.state.problem.phases or placed is None:
        return f"Phase after phase, the fullest link of each needs {needed} in all ({proof.method})."
    full = sum(load_s * _SAME >= proof.max_load_s for load_s in placed.load_s.values())
    where = "One link direction is the fullest" if full == 1 else f"{full} link directions are the fullest"
    return f"{where}: each run of everything announced needs {needed} there ({proof.method})."


def _bound_sentence(core: Core, cut: Cut, proof: Certificate) -> str:
    gap = "The plan reaches that" if proof.proven_optimal else f"The plan is {proof.gap:.1%} above that"
    # A bound over more than one cut has no single cause, nor has one from what does not divide.
    because = _PROOFS.get(proof.bound, "several cuts together")
    if cut.bound_s * _SAME >= proof.lower_bound_s:
        because = cut_words(core, cut)
    return f"No placement needs less than {seconds_text(proof.lower_bound_s)}, because of {because}. {gap}."
