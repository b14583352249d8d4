"""Draws the links of a fabric and the numbers at their ports. Where they end is decided in `picture_layout`."""

from functools import cache
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.patches import Polygon

from controller.cli.picture_description import FabricPicture, LinkState, PictureLink
from controller.cli.picture_layout import Layout, Point
from controller.cli.picture_text import INK, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NARROWEST_IN, WIDEST_IN = 0.022, 0.095
# Below this spacing of ports the numbers would run into each other, however they are turned.
SMALLEST_SPACING_IN = 0.125
LABEL_SIZE = 7.5
_UNKNOWN_LOAD = "#b3bbc4"
_DOWN = "#3a3f46"


@cache
def colours() -> Colormap:
    """Pale to dark: inferno without its ends, which vanish on white paper and into black text."""
    inferno = mpl.colormaps["inferno_r"]
    return ListedColormap([inferno(0.10 + 0.72 * step / 255) for step in range(256)], name="load")


def labels_of(link: PictureLink) -> tuple[str, str]:
    """What is written at the port of `a` and at that of `b`."""
    pairs = ((link.a_to_b_label, link.a_to_b), (link.b_to_a_label, link.b_to_a))
    there, back = (label or ("?" if load is None else f"{100 * load:.0f}%") for label, load in pairs)
    return there, back


def fullest_of(link: PictureLink) -> float:
    """Full links are drawn last, on top: they are what the picture is about."""
    return max(link.a_to_b or 0.0, link.b_to_a or 0.0)


def meeting_point(ends: tuple[Point, Point], widest: float) -> Point:
    """About halfway, earlier or later by the link's slant: in a regular fabric many links share one midpoint, and all
    their arrowheads would meet there. `widest` is the largest horizontal reach of any link."""
    (x, y), (far_x, far_y) = ends
    rising = 1.0 if far_y >= y else -1.0
    share = 0.5 + 0.13 * rising * (far_x - x) / widest
    return (x + (far_x - x) * share, y + (far_y - y) * share)


def draw_link(axes: "Axes", link: PictureLink, ends: tuple[Point, Point], middle: Point) -> None:
    start, end = ends
    if link.state is LinkState.DOWN:
        (line,) = axes.plot([start[0], end[0]], [start[1], end[1]], gid=f"down:{link.a}-{link.b}")
        line.set(color=_DOWN, linewidth=1.1, linestyle=(0, (3, 3)), zorder=3.2)
        for colour, width in (("white", 5.0), (_DOWN, 2.0)):  # A white halo keeps the cross apart from what it crosses.
            axes.plot([middle[0]], [middle[1]], marker="x", color=colour, ms=9, mew=width, zorder=5)
        return
    for source, target, origin, load in ((link.a, link.b, start, link.a_to_b), (link.b, link.a, end, link.b_to_a)):
        arrow = _arrow(origin, middle, width_of(load))
        arrow.set(facecolor=colour_of(load), gid=f"load:{source}>{target}", zorder=2 + min(load or 0.0, 1.0))
        arrow.set(edgecolor=_DOWN if link.state is LinkState.ONE_WAY else "white", linewidth=0.6)
        arrow.set_linestyle(":" if link.state is LinkState.ONE_WAY else "-")
        axes.add_patch(arrow)


def width_of(load: float | None) -> float:
    return NARROWEST_IN + (WIDEST_IN - NARROWEST_IN) * min(max(load or 0.0, 0.0), 1.0)


def colour_of(load: float | None) -> tuple[float, float, float, float] | str:
    return _UNKNOWN_LOAD if load is None else colours()(min(max(load, 0.0), 1.0))


def _arrow(origin: Point, tip: Point, width: float) -> Polygon:
    """A shaft and a head from `origin` to `tip`; the head is a little wider than the shaft."""
    (x, y), (dx, dy) = origin, (tip[0] - origin[0], tip[1] - origin[1])
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    along, across = (dx / length, dy / length), (-dy / length, dx / length)
    head = min(0.11 + width, length / 2)
    outline = [(0.0, width / 2), (length - head, width / 2), (length - head, width / 2 + 0.045), (length, 0.0)]
    outline += [(u, -v) for u, v in reversed(outline[:-1])]
    return Polygon([(x + u * along[0] + v * across[0], y + u * along[1] + v * across[1]) for u, v in outline])


def draw_numbers(axes: "Axes", picture: FabricPicture, layout: Layout) -> None:
    """The load of each direction beside the port that sends it, turned upright where ports are close together."""
    if layout.port_spacing < SMALLEST_SPACING_IN:
        return
    labels = [labels_of(link) for link in picture.links]
    widest = max((text_width(words, LABEL_SIZE) for pair in labels for words in pair), default=0.0)
    turned = layout.port_spacing < widest
    size = min(LABEL_SIZE, 72 * layout.port_spacing * 0.62) if turned else LABEL_SIZE
    distance = 0.12 + (widest / 2 if turned else 0.08)
    for link, (start, end), (there, back) in zip(picture.links, layout.links, labels, strict=True):
        if link.state is LinkState.DOWN:
            continue
        for origin, other, words in ((start, end, there), (end, start, back)):
            x, y = _beside_port(origin, other, distance, layout.port_spacing)
            box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.9}
            text = axes.text(x, y, words, fontsize=size, color=INK, ha="center", va="center", zorder=6, bbox=box)
            text.set_rotation(90 if turned else 0)


def _beside_port(origin: Point, other: Point, distance: float, spacing: float) -> Point:
    """A point near the link, `distance` inches above or below the port, never so far along a flat link that the
    number would stand over a neighbouring port; over the link where it joins two switches of one row."""
    dx, dy = other[0] - origin[0], other[1] - origin[1]
    if dy == 0:
        return (origin[0] + (0.25 if dx > 0 else -0.25), origin[1] + 0.15)
    height = distance if dy >= 0 else -distance
    slide = dx * distance / max(abs(dy), distance)
    return (origin[0] + min(max(slide, -0.35 * spacing), 0.35 * spacing), origin[1] + height)
