"""Draws how cables were found: right ones faint, every fault in a line style of its own, with the ports' names.

It decides looks only; which cable is what is the verdict's. Styles differ in dash and in lightness as well as in
colour, so that they can be told apart in print and with any colour vision.
"""

from typing import TYPE_CHECKING

from controller.cli.picture_description import FabricPicture, PictureLink
from controller.cli.picture_layout import HostBox, Layout, Point
from controller.cli.picture_text import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RIGHT = "right"
# Colour (Okabe and Ito's), dashes as matplotlib takes them, width in points, and words for the legend.
_STYLES: dict[str, tuple[str, object, float, str]] = {
    RIGHT: ("#b3bbc4", "-", 1.0, "right"),
    "missing": ("#d55e00", (0, (2, 2)), 1.8, "missing: meant to be here"),
    "miswired": ("#d55e00", "-", 2.6, "miswired: goes where it should not"),
    "wrong rate": ("#0072b2", (0, (7, 2)), 2.2, "wrong rate"),
    "one-way": ("#cc79a7", (0, (1, 1)), 2.4, "works in one direction only"),
    "unplanned": ("#1d2733", (0, (6, 2, 1, 2)), 1.8, "nobody planned it"),
    "two names": ("#009e73", (0, (4, 1)), 1.6, "names differ, same port?"),
    "host not seen": ("#8b96a2", (0, (1, 2)), 1.4, "host not seen yet"),
}
_LABEL_SIZE = 6.5
_LEGEND_SIZE = 7.5


def draw_cables(axes: "Axes", picture: FabricPicture, layout: Layout) -> None:
    """Right cables lie under the others. Each line's id is "cable:VERDICT:A-B"."""
    pairs = list(zip(picture.links, layout.links, strict=True))
    for link, (start, end) in sorted(pairs, key=lambda pair: pair[0].verdict != RIGHT):
        colour, dashes, width, _ = _STYLES[link.verdict or RIGHT]
        (line,) = axes.plot([start[0], end[0]], [start[1], end[1]], gid=f"cable:{link.verdict}:{link.a}-{link.b}")
        line.set(color=colour, linewidth=width, linestyle=dashes, zorder=2 if link.verdict == RIGHT else 3)
        if link.verdict != RIGHT:
            _draw_ports(axes, link, start, end, colour)


def draw_host_cable(axes: "Axes", host: HostBox, start: Point, end: Point, verdict: str) -> None:
    """The cable of a host of which something is to be said; its id is "cable:VERDICT:SWITCH-HOST"."""
    colour, dashes, width, _ = _STYLES[verdict]
    (line,) = axes.plot([start[0], end[0]], [start[1], end[1]], gid=f"cable:{verdict}:{host.switch}-{host.words}")
    line.set(color=colour, linewidth=width, linestyle=dashes, zorder=2)


def _draw_ports(axes: "Axes", link: PictureLink, start: Point, end: Point, colour: str) -> None:
    for origin, other, words in ((start, end, link.a_to_b_label), (end, start, link.b_to_a_label)):
        if not words:
            continue
        length = ((other[0] - origin[0]) ** 2 + (other[1] - origin[1]) ** 2) ** 0.5 or 1.0
        share = min(0.32 / length, 0.3)
        x, y = origin[0] + (other[0] - origin[0]) * share, origin[1] + (other[1] - origin[1]) * share
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": colour, "linewidth": 0.6}
        axes.text(x, y, words, fontsize=_LABEL_SIZE, color=INK, ha="center", va="center", zorder=6, bbox=box)


def draw_legend(axes: "Axes", picture: FabricPicture, layout: Layout) -> None:
    """The styles that occur, top right."""
    found = {link.verdict for link in picture.links} | {host.verdict for host in picture.hosts}
    used = [style for style in _STYLES if style in found]
    x = layout.width - 2.6  # Room for the longest words.
    for row, style in enumerate(used):
        y = layout.height - 0.12 - 0.15 * row
        colour, dashes, width, words = _STYLES[style]
        (line,) = axes.plot([x, x + 0.45], [y, y])
        line.set(color=colour, linewidth=width, linestyle=dashes)
        axes.text(x + 0.55, y, words, color=FAINT, fontsize=_LEGEND_SIZE, va="center")
