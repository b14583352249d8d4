"""Small placement problems of every kind, and an oracle that tries all placements of them."""

from collections import defaultdict
from collections.abc import Mapping

from hypothesis import strategies as st

from controller.fabric.model import FabricView, Link, Path, PortRef, Role, Switch
from controller.fabric.paths import link_capacities, two_tier_paths
from controller.placement.capacity import effective_bps
from controller.placement.problem import Demand, Problem

GIGABIT = 1_000_000_000


@st.composite
def views(draw: st.DrawFn, max_leaves: int = 3, max_spines: int = 3, symmetric: bool = False) -> FabricView:
    """Leaves 1.., spines 101..; any cables between them unless `symmetric`, then all, alike."""
    leaves = range(1, 1 + draw(st.integers(2, max_leaves)))
    spines = range(101, 101 + draw(st.integers(1, max_spines)))
    parallel = draw(st.integers(1, 2 if len(spines) == 1 else 1))
    rates = st.just(10) if symmetric else st.sampled_from([10, 10, 10, 25, 40])
    cables = [(leaf, spine, n) for leaf in leaves for spine in spines for n in range(parallel)]
    kept = cables if symmetric else draw(st.lists(st.sampled_from(cables), unique=True))
    links = tuple(
        Link(PortRef(leaf, (spine - 100) * 2 + n), PortRef(spine, leaf * 2 + n), draw(rates) * GIGABIT)
        for leaf, spine, n in kept
    )
    switches = {dpid: Switch(dpid, f"leaf{dpid}", Role.LEAF, True) for dpid in leaves}
    switches |= {dpid: Switch(dpid, f"spine{dpid}", Role.SPINE, True) for dpid in spines}
    return FabricView(switches, draw(st.permutations(links)), ())


@st.composite
def demands(draw: st.DrawFn, view: FabricView, equal: bool, max_flows: int = 6) -> tuple[Demand, ...]:
    leaves = [dpid for dpid, switch in view.switches.items() if switch.role == Role.LEAF]
    ends = st.lists(st.sampled_from(leaves), min_size=2, max_size=2, unique=True)
    sizes = st.just(1_000_000) if equal else st.integers(1, 20).map(lambda n: n * 100_000)
    count = draw(st.integers(0, max_flows))
    return tuple(Demand(f"job/{i}", *draw(ends), draw(sizes)) for i in range(count))


@st.composite
def problems(draw: st.DrawFn, symmetric: bool = False, pins: bool = False) -> Problem:
    """`symmetric`: equal flows on a symmetric fabric without background."""
    view = draw(views(symmetric=symmetric))
    paths, capacities = two_tier_paths(view), link_capacities(view)
    wanted = draw(demands(view, equal=symmetric or draw(st.booleans())))
    if pins:
        wanted = tuple(_pinned(draw, demand, paths[demand.src_leaf, demand.dst_leaf]) for demand in wanted)
    background = {}
    if not symmetric and capacities:
        some = draw(st.lists(st.sampled_from(sorted(capacities)), unique=True, max_size=4))
        background = {port: capacities[port] * draw(st.sampled_from([0.001, 0.3, 0.9, 1.5])) for port in some}
    given: Mapping[tuple[int, int], tuple[Path, ...]] = draw(st.sampled_from([paths, dict(paths)]))
    if not symmetric and draw(st.booleans()):
        # No two tiers at all: for each pair, any of the paths.
        given = {pair: tuple(path for path in listed if draw(st.integers(0, 3))) for pair, listed in paths.items()}
    return Problem(wanted, given, capacities, background)


def _pinned(draw: st.DrawFn, demand: Demand, paths: tuple[Path, ...]) -> Demand:
    dead = (PortRef(demand.src_leaf, 999), PortRef(999, 1))
    pin = draw(st.sampled_from([None, dead, *paths]))
    return Demand(demand.flow_id, demand.src_leaf, demand.dst_leaf, demand.size_bytes, pin)


def seconds(problem: Problem, port: PortRef, size_bytes: int) -> float:
    return 8 * size_bytes / float(effective_bps(problem.capacity_bps[port], problem.background_bps.get(port, 0.0)))


def loads(problem: Problem, paths: dict[str, Path]) -> dict[PortRef, float]:
    """What each link carries, counted the plain way."""
    result: dict[PortRef, float] = defaultdict(float)
    for demand in problem.demands:
        for port in paths.get(demand.flow_id, ()):
            result[port] += seconds(problem, port, demand.size_bytes)
    return result


def optimum_s(problem: Problem, keep_pins: bool = False) -> float:
    """The least possible load of the fullest link, by trying every placement (branch and bound)."""
    choices = []
    for demand in problem.demands:
        paths = problem.paths.get((demand.src_leaf, demand.dst_leaf), ())
        if keep_pins and demand.pinned in paths:
            paths = (demand.pinned,)
        if paths:
            choices.append((demand.size_bytes, paths))
    load: dict[PortRef, float] = defaultdict(float)
    best = float("inf")

    def descend(i: int, peak: float) -> None:
        nonlocal best
        if peak >= best:
            return
        if i == len(choices):
            best = peak
            return
        size_bytes, paths = choices[i]
        for path in paths:
            added = [seconds(problem, port, size_bytes) for port in path]
            for port, more in zip(path, added, strict=True):
                load[port] += more
            descend(i + 1, max(peak, *(load[port] for port in path)))
            for port, more in zip(path, added, strict=True):
                load[port] -= more

    descend(0, 0.0)
    return best
