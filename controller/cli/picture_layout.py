"""Decides where everything in a picture of a fabric stands, in inches from the lower left corner.

Links end at their own points on the edges of their switches, ordered by where they lead, so that the links of one
switch never cross and there is room for a number at every port. Colours and words are decided in `picture`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

Point = tuple[float, float]
# Centre x, centre y, width, height.
Box = tuple[float, float, float, float]

_MARGIN = 0.35
_HEADING = 1.0
_BOX_HEIGHT = 0.4
_HOST_Y, _LEAF_Y_WITH_HOSTS, _LEAF_Y_BARE = 0.65, 1.65, 0.85
_SMALLEST_HOST = 0.3
# Room per port and per host; the closer ones are for fabrics that would not fit a screen otherwise.
_PORT, _CLOSE_PORT = 0.44, 0.2
_HOST, _CLOSE_HOST = 0.6, 0.42
_COMFORTABLE_FIGURE, _WIDEST_FIGURE = 14.0, 20.0
_NARROWEST_FIGURE = 7.0


@dataclass(frozen=True, slots=True)
class HostBox:
    """A host, or all hosts of a leaf in one box when they would not fit side by side. `leaf_x` is where it plugs in."""

    words: str
    switch: str
    x: float
    y: float
    width: float
    leaf_x: float


@dataclass(frozen=True, slots=True)
class Layout:
    """`links[i]` holds the two ends of the i-th link; `port_spacing` is the closest that two ports of one switch
    come."""

    width: float
    height: float
    switches: dict[str, Box]
    links: tuple[tuple[Point, Point], ...]
    hosts: tuple[HostBox, ...]
    port_spacing: float


def lay_out(
    switches: Sequence[tuple[str, str]],
    links: Sequence[tuple[str, str]],
    hosts: Sequence[tuple[str, str]],
    *,
    label_width: float = 0.0,
) -> Layout:
    """From (name, role), (name, name) and (host, switch): spines over leaves and edge switches, other roles on top.

    `label_width` is the room that the number at a port wants; a large fabric cannot give it.
    """
    rows = [[name for name, role in switches if _row(role) == row] for row in range(3)]
    rows[0] = _beside_their_leaves(rows[0], {name for name, role in switches if role == "edge"}, links)
    hosts_of: dict[str, list[str]] = defaultdict(list)
    for host, switch in hosts:
        hosts_of[switch].append(host)
    degree = _degrees(links)
    width, port = _figure_width(rows, hosts_of, degree, max(_PORT, label_width + 0.06))
    heights = _row_heights(rows, width, bool(hosts))
    placed = [_boxes(row, y, width, degree, port) for row, y in zip(rows, heights, strict=True)]
    boxes = {name: box for row_boxes in placed for name, box in row_boxes.items()}
    ends, spacing = _link_ends(links, boxes)
    top = max((y for row, y in zip(rows, heights, strict=True) if row), default=_LEAF_Y_BARE)
    slot = (width - 2 * _MARGIN) / max(len(rows[0]), 1)
    host_boxes = tuple(box for name, attached in hosts_of.items() for box in _host_boxes(name, attached, boxes, slot))
    return Layout(width, top + _BOX_HEIGHT / 2 + _HEADING, boxes, ends, host_boxes, spacing)


def _row(role: str) -> int:
    return {"edge": 0, "leaf": 0, "spine": 1}.get(role, 2)


def _beside_their_leaves(row: list[str], edges: set[str], links: Sequence[tuple[str, str]]) -> list[str]:
    """The row with each edge switch behind the first leaf that it hangs on, so that few cables pass behind others."""
    leaves = [name for name in row if name not in edges]
    place = {name: number for number, name in enumerate(leaves)}
    leaf_of: dict[str, int] = {}
    for ends in links:
        for near, far in (ends, ends[::-1]):
            if near in edges and far in place:
                leaf_of[near] = min(place[far], leaf_of.get(near, len(leaves)))
    last = len(leaves)
    return sorted(row, key=lambda name: (place.get(name, leaf_of.get(name, last)), name in edges))


def _degrees(links: Sequence[tuple[str, str]]) -> dict[str, int]:
    degree: dict[str, int] = defaultdict(int)
    for ends in links:
        for end in ends:
            degree[end] += 1
    return degree


def _figure_width(
    rows: list[list[str]], hosts_of: dict[str, list[str]], degree: dict[str, int], wanted_port: float
) -> tuple[float, float]:
    """Room for the widest row, within what a page and a screen can show; and the room for each port in it."""

    def widest(port: float, host: float) -> float:
        slots = [
            [max(host * len(hosts_of.get(n, ())) + 0.3, port * degree.get(n, 0) + 0.5, 1.3) for n in row]
            for row in rows
        ]
        return max((len(slot) * max(slot) for slot in slots if slot), default=0.0) + 2 * _MARGIN

    width, port = widest(wanted_port, _HOST), wanted_port
    if width > _COMFORTABLE_FIGURE:
        width, port = max(widest(_CLOSE_PORT, _CLOSE_HOST), _COMFORTABLE_FIGURE), _CLOSE_PORT
    return min(max(width, _NARROWEST_FIGURE), _WIDEST_FIGURE), port


def _row_heights(rows: list[list[str]], width: float, with_hosts: bool) -> list[float]:
    """The wider the fabric, the higher: flat links would hide their loads behind each other."""
    leaf = _LEAF_Y_WITH_HOSTS if with_hosts else _LEAF_Y_BARE
    step = min(max(0.30 * width, 2.6), 6.0)
    spine = leaf + step if rows[0] else leaf
    return [leaf, spine, spine + step * 0.7 if rows[0] or rows[1] else leaf]


def _boxes(row: list[str], y: float, width: float, degree: dict[str, int], port: float) -> dict[str, Box]:
    slot = (width - 2 * _MARGIN) / max(len(row), 1)
    boxes = {}
    for index, name in enumerate(row):
        wanted = max(port * degree.get(name, 0) + 0.1, 1.15)
        boxes[name] = (_MARGIN + slot * (index + 0.5), y, min(wanted, slot * 0.88), _BOX_HEIGHT)
    return boxes


class _Edge(Enum):
    UPPER = "upper"
    LOWER = "lower"
    LEFT = "left"
    RIGHT = "right"


def _edge(near: Box, far: Box) -> _Edge:
    """Where a link leaves a switch: towards the other row, or sideways within its own."""
    if far[1] != near[1]:
        return _Edge.UPPER if far[1] > near[1] else _Edge.LOWER
    return _Edge.RIGHT if far[0] > near[0] else _Edge.LEFT


def _link_ends(
    links: Sequence[tuple[str, str]], boxes: dict[str, Box]
) -> tuple[tuple[tuple[Point, Point], ...], float]:
    """Each switch hands out points on its edges in the order of the far ends. Also: the closest that two come."""
    ports: dict[tuple[str, _Edge], list[tuple[float, int, int]]] = defaultdict(list)
    for index, ends in enumerate(links):
        for side, (near, far) in enumerate((ends, ends[::-1])):
            ports[near, _edge(boxes[near], boxes[far])].append((boxes[far][0], index, side))
    points: dict[tuple[int, int], Point] = {}
    spacing = float("inf")
    for (name, edge), wanted in ports.items():
        if edge in (_Edge.UPPER, _Edge.LOWER):
            spacing = min(spacing, boxes[name][2] / len(wanted))
        for position, (_, index, side) in enumerate(sorted(wanted)):
            points[index, side] = _on_edge(boxes[name], edge, (position + 0.5) / len(wanted))
    return tuple((points[index, 0], points[index, 1]) for index in range(len(links))), spacing


def _on_edge(box: Box, edge: _Edge, share: float) -> Point:
    x, y, width, height = box
    if edge in (_Edge.LEFT, _Edge.RIGHT):
        return (x + width / 2 if edge is _Edge.RIGHT else x - width / 2, y + height * (0.5 - share) * 0.8)
    return (x - width / 2 + width * share, y + height / 2 if edge is _Edge.UPPER else y - height / 2)


def _host_boxes(switch: str, attached: list[str], boxes: dict[str, Box], slot: float) -> list[HostBox]:
    x, y, leaf_width, _ = boxes[switch]
    host_y = y - (_LEAF_Y_WITH_HOSTS - _HOST_Y)
    share = slot * 0.94 / len(attached)
    if share < _SMALLEST_HOST:
        words = f"{len(attached)} hosts" if slot > 0.7 else str(len(attached))
        return [HostBox(words, switch, x, host_y, min(slot * 0.8, 1.1), x)]
    width = min(share * 0.86, 0.75)
    step = min(share, 0.9)
    left = x - step * (len(attached) - 1) / 2
    spread = leaf_width * 0.8 / len(attached)
    first = x - spread * (len(attached) - 1) / 2
    return [
        HostBox(host, switch, left + step * index, host_y, width, first + spread * index)
        for index, host in enumerate(attached)
    ]
