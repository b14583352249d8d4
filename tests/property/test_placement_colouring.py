"""Edge colouring and Kempe chains on any bipartite multigraph."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.placement.edge_colouring import colour
from controller.placement.kempe import settle

edge_lists = st.integers(1, 8).flatmap(
    lambda n: st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), min_size=1, max_size=40)
)


def columns(edges: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    left, right = zip(*edges, strict=True)
    return np.array(left, dtype=np.intp), np.array(right, dtype=np.intp)


def largest_degree(edges: list[tuple[int, int]]) -> int:
    graph = nx.MultiGraph()
    graph.add_edges_from((("left", a), ("right", b)) for a, b in edges)
    return max(degree for _, degree in graph.degree())


def assert_proper(edges: list[tuple[int, int]], colours: np.ndarray, available: int) -> None:
    assert colours.shape == (len(edges),)
    assert colours.min() >= 0
    assert colours.max() < available
    for side in (0, 1):
        seen = [(edge[side], c) for edge, c in zip(edges, colours.tolist(), strict=True)]
        assert len(set(seen)) == len(seen), "two edges of one colour meet"


@given(edge_lists, st.integers(0, 9))
def test_as_many_colours_as_the_largest_degree_suffice(edges: list[tuple[int, int]], spare: int) -> None:
    available = largest_degree(edges) + spare
    assert_proper(edges, colour(*columns(edges), available), available)


@given(edge_lists)
def test_fewer_colours_are_refused(edges: list[tuple[int, int]]) -> None:
    degree = largest_degree(edges)
    with pytest.raises(ValueError, match=rf"a vertex with {degree} edges cannot be coloured with {degree - 1} colours"):
        colour(*columns(edges), degree - 1)


def test_no_edges_no_colours() -> None:
    none = np.empty(0, dtype=np.intp)
    assert colour(none, none, 0).tolist() == []


@given(edge_lists, st.data())
def test_one_edge_always_gets_the_colour_it_wants(edges: list[tuple[int, int]], data: st.DataObject) -> None:
    available = largest_degree(edges)
    edge, aim = data.draw(st.integers(0, len(edges) - 1)), data.draw(st.integers(0, available - 1))
    before = colour(*columns(edges), available)
    after = settle(*columns(edges), before, available, {edge: aim})
    assert_proper(edges, after, available)
    assert after[edge] == aim


@given(edge_lists, st.data())
def test_all_edges_of_one_vertex_get_any_colours_they_want(edges: list[tuple[int, int]], data: st.DataObject) -> None:
    available = largest_degree(edges)
    mine = [i for i, edge in enumerate(edges) if edge[0] == edges[0][0]]
    aims = data.draw(st.permutations(range(available)))
    wanted = dict(zip(mine, aims, strict=False))
    after = settle(*columns(edges), colour(*columns(edges), available), available, wanted)
    assert_proper(edges, after, available)
    assert {edge: int(after[edge]) for edge in mine} == wanted


@given(edge_lists, st.data())
def test_wishes_that_clash_leave_a_proper_colouring(edges: list[tuple[int, int]], data: st.DataObject) -> None:
    available = largest_degree(edges)
    wanted = data.draw(st.dictionaries(st.integers(0, len(edges) - 1), st.integers(0, available - 1)))
    effort = data.draw(st.integers(0, 200))
    before = colour(*columns(edges), available)
    assert_proper(edges, settle(*columns(edges), before, available, wanted, effort), available)
    # What comes first is served, and nothing that comes later undoes it.
    after = settle(*columns(edges), before, available, wanted)
    assert all(after[edge] == aim for edge, aim in list(wanted.items())[:1])
