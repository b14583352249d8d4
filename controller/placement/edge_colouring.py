"""Colours the edges of a bipartite multigraph so that no two of one colour meet; decides nothing about links.

König (1916): as many colours as the largest degree always suffice. The graph is padded until every vertex has the same
degree, then halved along Euler tours until the degree is 1 (Gabow 1976); an odd degree first gives up one perfect
matching, which is found by halving too (Alon 2003, "A simple algorithm for edge-coloring bipartite multigraphs"). Tours
are not walked: at every vertex the edges are paired, and pointer jumping (Wyllie 1979) finds for all tours at once
which edges lie an even number of steps apart. All parts of one level are halved together, so with a power of two the
whole colouring is about log(degree) x log(edges) array operations.

SciPy's maximum_bipartite_matching is no substitute: parallel edges make it corrupt memory (scipy/scipy issue 26160,
seen in 1.17), and it can take exponential time (issue 26147). Halving takes the same time whatever the graph.
"""

import numpy as np
import numpy.typing as npt

from controller.fabric.paths import IntArray

BoolArray = npt.NDArray[np.bool_]


def colour(left: IntArray, right: IntArray, colours: int) -> IntArray:
    """A colour in range(colours) for each edge (left[i], right[i]); edges that share an end differ.

    Vertices of each side are numbered from 0. Raises ValueError when some vertex has more edges than `colours`.
    """
    edges = len(left)
    if not edges:
        return np.empty(0, dtype=np.intp)
    vertices = int(max(left.max(), right.max())) + 1
    left_degree, right_degree = np.bincount(left, minlength=vertices), np.bincount(right, minlength=vertices)
    largest = int(max(left_degree.max(), right_degree.max()))
    if largest > colours:
        raise ValueError(f"a vertex with {largest} edges cannot be coloured with {colours} colours")
    degree = _padded_degree(largest, colours)
    every = np.arange(vertices)
    left = np.concatenate((left, np.repeat(every, degree - left_degree)))
    right = np.concatenate((right, np.repeat(every, degree - right_degree)))
    return _colour_regular(left, right, vertices, degree)[:edges]


def _padded_degree(largest: int, colours: int) -> int:
    """A power of two, where the colours allow one, needs no matchings."""
    power = 1 << (largest - 1).bit_length()
    return power if power <= colours else largest


def _colour_regular(left: IntArray, right: IntArray, vertices: int, degree: int) -> IntArray:
    """Colours a graph in which every vertex has exactly `degree` edges."""
    result = np.zeros(len(left), dtype=np.intp)
    # Edge numbers sorted by (part, end): the edges of one vertex in one part lie next to each other, `degree` of them.
    by_left, by_right = np.argsort(left, kind="stable"), np.argsort(right, kind="stable")
    part = np.zeros(len(left), dtype=np.intp)
    parts = 1
    while degree > 1:
        if degree % 2:
            matched = _perfect_matching(left + vertices * part, right + vertices * part, by_left, vertices, degree)
            degree -= 1
            result[matched] += degree
            by_left, by_right = by_left[~matched[by_left]], by_right[~matched[by_right]]
        degree //= 2
        upper = _half(by_left, by_right, len(left))
        result[upper] += degree
        part[upper] += parts
        parts *= 2
        by_left, by_right = _upper_last(by_left, upper), _upper_last(by_right, upper)
    return result


def _upper_last(order: IntArray, upper: BoolArray) -> IntArray:
    chosen = upper[order]
    return np.concatenate((order[~chosen], order[chosen]))


def _half(by_left: IntArray, by_right: IntArray, edges: int) -> BoolArray:
    """Half of the edges of every vertex, where all degrees are even; edges not listed are False."""
    across_left, across_right = _partners(by_left, edges), _partners(by_right, edges)
    # Two steps along the tour: out at the left end, on at the right end. An edge and its left partner are never in the
    # same orbit, because tours of a bipartite graph have even length; so comparing the orbits' smallest members
    # gives every pair, left or right, one edge on each side.
    step = across_right[across_left]
    label = np.minimum(np.arange(edges), step)
    while True:
        step = step[step]
        lower = np.minimum(label, label[step])
        if np.array_equal(lower, label):
            return label > label[across_left]
        label = lower


def _partners(order: IntArray, edges: int) -> IntArray:
    partner = np.arange(edges)
    partner[order[0::2]] = order[1::2]
    partner[order[1::2]] = order[0::2]
    return partner


def _perfect_matching(left: IntArray, right: IntArray, listed: IntArray, vertices: int, degree: int) -> BoolArray:
    """One edge at every vertex of every part, among the `listed` ones, of which every vertex has `degree`.

    `left` and `right` number the ends through all parts, `vertices` to a part. Every edge counts many times, so often
    that the degree is all but a power of two; false edges from each left vertex to its namesake make up the rest. Then
    the graph is halved, each part keeping the half with fewer false edges, until the degree is 1: by then none is left.
    """
    total, edges = len(left), len(listed)
    namesakes = np.arange(edges // degree)
    left, right = np.concatenate((left[listed], namesakes)), np.concatenate((right[listed], namesakes))
    by_left, by_right = np.argsort(left, kind="stable"), np.argsort(right, kind="stable")
    part = left // vertices
    halvings = (degree * vertices - 1).bit_length()
    times, rest = divmod(1 << halvings, degree)
    count = np.repeat((times, rest), (edges, len(namesakes)))
    for _ in range(halvings):
        # What counts an even number of times is halved as it stands; only one copy of the rest needs a tour.
        odd = count % 2 == 1
        upper = count // 2 + (odd & _half(by_left[odd[by_left]], by_right[odd[by_right]], len(count)))
        false_upper, false_all = (np.bincount(part[edges:], weights=c[edges:]) for c in (upper, count))
        count = np.where((2 * false_upper < false_all)[part], upper, count - upper)
    matched = np.zeros(total, dtype=np.bool_)
    matched[listed] = count[:edges] > 0
    return matched
