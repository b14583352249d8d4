"""Two-tier paths against a graph search, and what is asked of them piecemeal."""

import random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.fabric.model import FabricView, Link, PortRef, Role, Switch
from controller.fabric.paths import TwoTierPaths, link_capacities, two_tier_paths
from tests.property.placement_problems import views
from tests.unit.fabrics import leaf, plan, spine, view


def searched(fabric: FabricView, a: int, b: int) -> set[tuple[PortRef, ...]]:
    """All ways over one spine, by networkx."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(fabric.switches)
    for link in fabric.links:
        graph.add_edge(link.a.dpid, link.b.dpid, key=link.a)
        graph.add_edge(link.b.dpid, link.a.dpid, key=link.b)
    return {tuple(key for *_, key in path) for path in nx.all_simple_edge_paths(graph, a, b, cutoff=2)}


@given(views(max_leaves=4, max_spines=4))
def test_exactly_the_paths_a_graph_search_finds(fabric: FabricView) -> None:
    paths = two_tier_paths(fabric)
    assert len(dict(paths)) == len(paths)
    for (a, b), found in paths.items():
        assert set(found) == searched(fabric, a, b)
        assert len(set(found)) == len(found)
        assert all(paths.is_live((a, b), path) for path in found)


@given(views(max_leaves=4, max_spines=4))
def test_the_order_of_links_makes_no_difference(fabric: FabricView) -> None:
    turned = FabricView(fabric.switches, fabric.links[::-1], ())
    assert dict(two_tier_paths(turned)) == dict(two_tier_paths(fabric))


def test_parallel_links_are_separate_paths_sorted_by_spine_uplink_downlink() -> None:
    paths = two_tier_paths(view(plan(leaves=2, spines=2, parallel=2)))[leaf(1), leaf(2)]
    assert [(up.port_no, down.dpid, down.port_no) for up, down in paths] == [
        (up, spine(j), down) for j, ups in ((1, (1, 2)), (2, (3, 4))) for up in ups for down in (3, 4)
    ]


def test_leaves_that_no_spine_joins_have_no_paths_and_strangers_no_entry() -> None:
    fabric = view(plan(leaves=3, spines=1))
    cut = FabricView(fabric.switches, tuple(k for k in fabric.links if leaf(2) not in (k.a.dpid, k.b.dpid)), ())
    paths = two_tier_paths(cut)
    assert paths[leaf(1), leaf(2)] == ()
    assert len(paths[leaf(1), leaf(3)]) == 1
    assert set(paths) == {(leaf(a), leaf(b)) for a in (1, 2, 3) for b in (1, 2, 3) if a != b}
    for stranger in ((leaf(1), leaf(1)), (leaf(1), leaf(9)), (leaf(1), spine(1))):
        with pytest.raises(KeyError):
            paths[stranger]


def test_links_outside_the_two_tiers_carry_no_path() -> None:
    roles = {1: Role.LEAF, 2: Role.LEAF, 3: Role.SPINE, 4: Role.SPINE, 5: Role.UNKNOWN}
    ends = [(1, 3), (2, 3), (1, 2), (3, 4), (1, 5), (2, 5)]
    links = tuple(Link(PortRef(a, b), PortRef(b, a), 10) for a, b in ends)
    fabric = FabricView({d: Switch(d, str(d), role, True) for d, role in roles.items()}, links, ())
    assert two_tier_paths(fabric)[1, 2] == ((PortRef(1, 3), PortRef(3, 2)),)


@pytest.mark.parametrize(
    "path",
    [
        (),
        (PortRef(leaf(1), 1),),
        (PortRef(leaf(1), 1), PortRef(spine(2), 2)),
        (PortRef(leaf(2), 1), PortRef(spine(1), 2)),
        (PortRef(leaf(1), 1), PortRef(spine(1), 1)),
        (PortRef(leaf(1), 9), PortRef(spine(1), 2)),
        (PortRef(leaf(1), 1), PortRef(spine(1), 2), PortRef(leaf(2), 1)),
    ],
)
def test_what_is_no_path_is_not_live(path: tuple[PortRef, ...]) -> None:
    paths = two_tier_paths(view(plan(leaves=2, spines=2)))
    assert paths.is_live((leaf(1), leaf(2)), (PortRef(leaf(1), 1), PortRef(spine(1), 2)))
    assert not paths.is_live((leaf(1), leaf(2)), path)


def test_an_empty_fabric_has_no_paths() -> None:
    assert dict(two_tier_paths(FabricView())) == {}
    assert dict(TwoTierPaths({}, {}, leaves=[1])) == {}
    assert TwoTierPaths({}, {}, leaves=[1, 2])[1, 2] == ()


def test_capacities_are_for_both_directions() -> None:
    fabric = view(plan(leaves=1, spines=1, rate_bps=7))
    assert link_capacities(fabric) == {PortRef(leaf(1), 1): 7, PortRef(spine(1), 1): 7}


@given(views(max_leaves=4, max_spines=4), st.randoms(use_true_random=False))
def test_without_links_it_is_as_if_made_anew(fabric: FabricView, rng: random.Random) -> None:
    dead = [link for link in fabric.links if rng.random() < 0.3]
    left = two_tier_paths(fabric).without([end for link in dead for end in (link.a, link.b)] + [PortRef(999, 9)])
    anew = two_tier_paths(FabricView(fabric.switches, tuple(k for k in fabric.links if k not in dead), ()))
    assert {pair: set(found) for pair, found in left.items()} == {pair: set(found) for pair, found in anew.items()}
    assert all(left.joins(pair) == bool(found) for pair, found in anew.items())
    for pair, found in two_tier_paths(fabric).items():
        assert all(left.is_live(pair, path) == (path in anew[pair]) for path in found)


def test_ports_are_told_apart_though_their_hash_is_plain() -> None:
    ports = [PortRef(dpid, port) for dpid in (1, 2, 2**64 - 1) for port in range(1, 50)]
    assert len(set(ports)) == len(ports)
    assert hash(PortRef(7, 3)) == hash(PortRef(7, 3))
