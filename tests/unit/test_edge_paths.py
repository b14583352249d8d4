"""Paths from and to edge switches with a choice of leaves: the ways that routing knows, which certificates count."""

from random import Random

import pytest

from controller.fabric.edge_paths import EdgePaths, fitted, planned_paths
from controller.fabric.model import FabricView, Host, Link, Path, PortRef, Role, Switch
from controller.fabric.paths import link_capacities
from controller.pipeline.neighbourhood import Neighbourhood
from controller.placement.place import place
from controller.placement.problem import Demand, Problem

EDGE, OTHER = 0x401, 0x402
_FIRST = {Role.EDGE: 0x400, Role.LEAF: 0x100, Role.SPINE: 0x200, Role.CORE: 0x300}


def fabric(cables: list[tuple[int, int]], rate_bps: int = 10**9) -> FabricView:
    """Cables join datapath ids whose upper bits tell the role; a host is on each edge switch and leaf."""
    ports: dict[int, int] = {}
    links = []
    for ends in cables:
        refs = []
        for dpid in ends:
            ports[dpid] = ports.get(dpid, 0) + 1
            refs.append(PortRef(dpid, ports[dpid]))
        links.append(Link(*sorted(refs), rate_bps))
    role = {dpid: next(r for r, first in _FIRST.items() if dpid & 0xF00 == first) for dpid in ports}
    hosts = tuple(
        Host(f"h{d:x}", "", (f"10.0.{d >> 8}.{d & 0xFF}",), PortRef(d, 99), rate_bps)
        for d, r in role.items()
        if r in (Role.EDGE, Role.LEAF)
    )
    return FabricView({d: Switch(d, f"{d:x}", r, True) for d, r in role.items()}, tuple(links), hosts)


def two_leaves_each(spines: int = 2) -> FabricView:
    """Two edge switches on two leaves each, with two cables to one of them, and a leaf beside them."""
    below = [(EDGE, 0x101), (EDGE, 0x102), (EDGE, 0x102), (OTHER, 0x103), (OTHER, 0x104)]
    return fabric(below + [(leaf, 0x200 + s) for leaf in range(0x101, 0x106) for s in range(1, spines + 1)])


def routed(view: FabricView, source: int, destination: int) -> set[Path]:
    """Every way that a packet may take by what the switches hold."""
    near = Neighbourhood.of(view)
    found: set[Path] = set()

    def walk(here: int, path: Path) -> None:
        if here == destination:
            found.add(path)
            return
        for port in near.choices(here, destination):
            ref = PortRef(here, port)
            walk(near.owner_of[ref], (*path, ref))

    walk(source, ())
    return found


@pytest.mark.parametrize("seed", range(20))
def test_they_are_the_ways_that_routing_knows(seed: int) -> None:
    """Cables at random, some doubled, in two and in three tiers."""
    random = Random(seed)
    cores = random.choice([0, 2])
    candidates = [(0x400 + e, 0x100 + leaf) for e in (1, 2) for leaf in range(1, 5)]
    candidates += [(0x100 + leaf, 0x200 + spine) for leaf in range(1, 5) for spine in range(1, 4)]
    candidates += [(0x200 + spine, 0x300 + core) for spine in range(1, 4) for core in range(1, cores + 1)]
    # Plugged in by mistake, past the leaves.
    candidates += [(0x401, 0x201)] * (seed % 3 == 0)
    view = fabric([c for c in candidates if random.random() < 0.6 for _ in range(random.choice([1, 1, 2]))])
    paths = planned_paths(view)
    ends = sorted(d for d, s in view.switches.items() if s.role in (Role.EDGE, Role.LEAF))
    edges = {EDGE, OTHER}
    for pair in ((a, b) for a in ends for b in ends if a != b and {a, b} & edges):
        assert set(paths.get(pair, ())) == routed(view, *pair), pair
        assert paths.joins(pair) == bool(routed(view, *pair))


def test_an_edge_switch_without_hosts_costs_nothing() -> None:
    view = two_leaves_each()
    bare = FabricView(view.switches, view.links, tuple(h for h in view.hosts if h.port.dpid < 0x400))
    assert not isinstance(planned_paths(bare), EdgePaths)


def test_the_certificate_counts_the_choice_of_leaf() -> None:
    """Two flows leave their edge switch for one leaf each; fixed to one of them, they would share a cable. Three find
    only two cables down to the leaf that they are for."""
    view = two_leaves_each()
    demands = tuple(Demand(f"f{n}", EDGE, 0x105, 10**6) for n in range(3))
    placed = place(Problem(demands, planned_paths(view), link_capacities(view)))
    assert placed.certificate.max_load_s == pytest.approx(2 * 8e-3)
    assert placed.certificate.proven_optimal
    two = place(Problem(demands[:2], planned_paths(view), link_capacities(view)))
    assert two.certificate.max_load_s == pytest.approx(8e-3)
    assert len({path[0] for path in two.paths.values()}) == 2


def test_a_path_is_fitted_to_where_paths_begin_now() -> None:
    view = two_leaves_each()
    near = Neighbourhood.of(view)
    source = next(h for h in view.hosts if h.port.dpid == EDGE)
    target = next(h for h in view.hosts if h.port.dpid == OTHER)
    whole = planned_paths(view)[EDGE, OTHER][0]
    lone = [Host(h.name, "", h.addresses, h.port, 1, below_leaf=leaf) for h, leaf in ((source, 0x101), (target, 0x103))]
    maps = (near.owner_of, near.towards)
    assert fitted(whole, source, target, *maps) == whole
    assert fitted(whole, lone[0], lone[1], *maps) == whole[1:-1]
    assert fitted(whole[1:-1], source, target, *maps) == whole
