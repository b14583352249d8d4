"""Draws a fabric with its link loads: spines above, leaves below them, hosts at the bottom.

It takes a plain description and knows nothing of controllers, so the demo and the benchmarks draw with it too. Where
everything stands is decided in `picture_layout`; this module decides colours, widths and words.

Each cable is two arrows that meet halfway: the half at a switch shows what that switch sends, and the number at its
port says it too. The scale of colours rises evenly in lightness, so it reads the same with any colour vision and in
print; width repeats it.
"""

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Polygon

from controller.cli.picture_layout import Layout, Point, lay_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOTS_PER_INCH = 150


class LinkState(StrEnum):
    UP = "up"
    ONE_WAY = "one-way"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class PictureSwitch:
    """`role` is "spine", "leaf" or anything else, which is drawn in a row of its own on top."""

    name: str
    role: str
    connected: bool = True


@dataclass(frozen=True, slots=True)
class PictureLink:
    """A cable between two switches, by name. Loads are fractions of the link's rate, None where nothing is known.

    A label is what is written at the port that sends; left empty, it is the load in percent.
    """

    a: str
    b: str
    a_to_b: float | None = None
    b_to_a: float | None = None
    a_to_b_label: str = ""
    b_to_a_label: str = ""
    state: LinkState = LinkState.UP


@dataclass(frozen=True, slots=True)
class PictureHost:
    name: str
    switch: str


@dataclass(frozen=True, slots=True)
class FabricPicture:
    """What is to be drawn. `subtitle` empty: the fullest link is named there."""

    title: str
    switches: tuple[PictureSwitch, ...]
    links: tuple[PictureLink, ...]
    hosts: tuple[PictureHost, ...] = ()
    subtitle: str = ""


# Okabe and Ito's blue and bluish green, darkened: white names on them have a contrast above 4.5.
_SWITCH_COLOURS = {"spine": "#00568a", "leaf": "#006b50"}
_OTHER_SWITCH = "#5f6670"
_INK, _FAINT, _LINE = "#1d2733", "#66717d", "#c3cad2"
_UNKNOWN_LOAD = "#b3bbc4"
_DOWN = "#3a3f46"
_NARROWEST_IN, _WIDEST_IN = 0.022, 0.095
# Below this spacing of ports the numbers would run into each other, however they are turned.
_SMALLEST_SPACING_IN = 0.125
# Points, and the width of an average letter of the default font relative to its size.
_LABEL_SIZE, _LETTER_WIDTH = 7.5, 0.62
_SCALE_WIDTH_IN = 1.9


def save(picture: FabricPicture, file: Path) -> None:
    """Writes the picture as PNG. OSError when the file cannot be written; ValueError as in `draw`."""
    figure = draw(picture)
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH)


def draw(picture: FabricPicture) -> Figure:
    """The picture as a matplotlib figure. ValueError names every link or host whose switch is not described.

    Artists carry group ids: "load:A>B" for each direction of a link, "down:A-B", "switch:NAME", "host:NAME".
    """
    _check_names(picture)
    layout = lay_out(
        [(switch.name, switch.role) for switch in picture.switches],
        [(link.a, link.b) for link in picture.links],
        [(host.name, host.switch) for host in picture.hosts],
        label_width=max(
            (_text_width(label, _LABEL_SIZE) for link in picture.links for label in _labels(link)), default=0.0
        ),
    )
    figure = Figure(figsize=(layout.width, layout.height), dpi=DOTS_PER_INCH, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, layout.width), ylim=(0, layout.height), aspect="equal")
    axes.axis("off")
    steepness = max((abs(end[0] - start[0]) for start, end in layout.links), default=0.0) or 1.0
    for link, ends in sorted(zip(picture.links, layout.links, strict=True), key=lambda pair: _fullest(pair[0])):
        _draw_link(axes, link, ends, _meeting_point(ends, steepness))
    _draw_hosts(axes, layout)
    for switch in picture.switches:
        _draw_switch(axes, switch, layout)
    _draw_numbers(axes, picture, layout)
    _draw_words(axes, picture, layout)
    _draw_scale(figure, layout)
    return figure


def _check_names(picture: FabricPicture) -> None:
    known = {switch.name for switch in picture.switches}
    missing = [f"link {k.a}-{k.b}: no switch {end}" for k in picture.links for end in (k.a, k.b) if end not in known]
    missing += [f"host {host.name}: no switch {host.switch}" for host in picture.hosts if host.switch not in known]
    if missing:
        raise ValueError("; ".join(missing))


def _labels(link: PictureLink) -> tuple[str, str]:
    """What is written at the port of `a` and at that of `b`."""
    pairs = ((link.a_to_b_label, link.a_to_b), (link.b_to_a_label, link.b_to_a))
    there, back = (label or ("?" if load is None else f"{100 * load:.0f}%") for label, load in pairs)
    return there, back


def _text_width(words: str, size: float) -> float:
    """About how wide the words are, inches; matplotlib knows exactly only once it has drawn them."""
    return len(words) * _LETTER_WIDTH * size / 72


def _size_to_fit(words: str, width: float, largest: float) -> float:
    """The font size in points at which the words take at most `width` inches."""
    return min(largest, 72 * width / (_LETTER_WIDTH * max(len(words), 1)))


def _fullest(link: PictureLink) -> float:
    """Full links are drawn last, on top: they are what the picture is about."""
    return max(link.a_to_b or 0.0, link.b_to_a or 0.0)


def _colours() -> Colormap:
    """Pale to dark: inferno without its ends, which vanish on white paper and into black text."""
    inferno = mpl.colormaps["inferno_r"]
    return ListedColormap([inferno(0.10 + 0.72 * step / 255) for step in range(256)], name="load")


# --- links -----------------------------------------------------------------------------------------------------------


def _meeting_point(ends: tuple[Point, Point], widest: float) -> Point:
    """About halfway, earlier or later by the link's slant: in a regular fabric many links share one midpoint, and all
    their arrowheads would meet there. `widest` is the largest horizontal reach of any link."""
    (x, y), (far_x, far_y) = ends
    rising = 1.0 if far_y >= y else -1.0
    share = 0.5 + 0.13 * rising * (far_x - x) / widest
    return (x + (far_x - x) * share, y + (far_y - y) * share)


def _draw_link(axes: "Axes", link: PictureLink, ends: tuple[Point, Point], middle: Point) -> None:
    start, end = ends
    if link.state is LinkState.DOWN:
        (line,) = axes.plot([start[0], end[0]], [start[1], end[1]], gid=f"down:{link.a}-{link.b}")
        line.set(color=_DOWN, linewidth=1.1, linestyle=(0, (3, 3)), zorder=3.2)
        for colour, width in (("white", 5.0), (_DOWN, 2.0)):  # A white halo keeps the cross apart from what it crosses.
            axes.plot([middle[0]], [middle[1]], marker="x", color=colour, ms=9, mew=width, zorder=5)
        return
    for source, target, origin, load in ((link.a, link.b, start, link.a_to_b), (link.b, link.a, end, link.b_to_a)):
        arrow = _arrow(origin, middle, _width(load))
        arrow.set(facecolor=_colour(load), gid=f"load:{source}>{target}", zorder=2 + min(load or 0.0, 1.0))
        arrow.set(edgecolor=_DOWN if link.state is LinkState.ONE_WAY else "white", linewidth=0.6)
        arrow.set_linestyle(":" if link.state is LinkState.ONE_WAY else "-")
        axes.add_patch(arrow)


def _width(load: float | None) -> float:
    return _NARROWEST_IN + (_WIDEST_IN - _NARROWEST_IN) * min(max(load or 0.0, 0.0), 1.0)


def _colour(load: float | None) -> tuple[float, float, float, float] | str:
    return _UNKNOWN_LOAD if load is None else _colours()(min(max(load, 0.0), 1.0))


def _arrow(origin: Point, tip: Point, width: float) -> Polygon:
    """A shaft and a head from `origin` to `tip`; the head is a little wider than the shaft."""
    (x, y), (dx, dy) = origin, (tip[0] - origin[0], tip[1] - origin[1])
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    along, across = (dx / length, dy / length), (-dy / length, dx / length)
    head = min(0.11 + width, length / 2)
    outline = [(0.0, width / 2), (length - head, width / 2), (length - head, width / 2 + 0.045), (length, 0.0)]
    outline += [(u, -v) for u, v in reversed(outline[:-1])]
    return Polygon([(x + u * along[0] + v * across[0], y + u * along[1] + v * across[1]) for u, v in outline])


def _draw_numbers(axes: "Axes", picture: FabricPicture, layout: Layout) -> None:
    """The load of each direction beside the port that sends it, turned upright where ports are close together."""
    if layout.port_spacing < _SMALLEST_SPACING_IN:
        return
    labels = [_labels(link) for link in picture.links]
    widest = max((_text_width(words, _LABEL_SIZE) for pair in labels for words in pair), default=0.0)
    turned = layout.port_spacing < widest
    size = min(_LABEL_SIZE, 72 * layout.port_spacing * 0.62) if turned else _LABEL_SIZE
    distance = 0.12 + (widest / 2 if turned else 0.08)
    for link, (start, end), (there, back) in zip(picture.links, layout.links, labels, strict=True):
        if link.state is LinkState.DOWN:
            continue
        for origin, other, words in ((start, end, there), (end, start, back)):
            x, y = _beside_port(origin, other, distance, layout.port_spacing)
            box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.9}
            text = axes.text(x, y, words, fontsize=size, color=_INK, ha="center", va="center", zorder=6, bbox=box)
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


# --- switches and hosts ----------------------------------------------------------------------------------------------


def _draw_switch(axes: "Axes", switch: PictureSwitch, layout: Layout) -> None:
    x, y, width, height = layout.switches[switch.name]
    colour = _SWITCH_COLOURS.get(switch.role, _OTHER_SWITCH)
    box = FancyBboxPatch(
        (x - width / 2, y - height / 2),
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.09",
        gid=f"switch:{switch.name}",
    )
    box.set(facecolor=colour if switch.connected else "white", edgecolor=colour, linewidth=1.4, zorder=4)
    if not switch.connected:
        box.set_linestyle("--")
    axes.add_patch(box)
    words = switch.name if switch.connected else f"{switch.name} (away)"
    ink = "white" if switch.connected else colour
    size = _size_to_fit(words, width * 0.92, 10.5)
    axes.text(x, y, words, color=ink, fontsize=size, fontweight="bold", ha="center", va="center_baseline", zorder=5)


def _draw_hosts(axes: "Axes", layout: Layout) -> None:
    for host in layout.hosts:
        _, leaf_y, _, leaf_height = layout.switches[host.switch]
        axes.plot([host.x, host.leaf_x], [host.y, leaf_y - leaf_height / 2], color=_LINE, linewidth=1.2, zorder=1)
        half = host.width / 2
        box = FancyBboxPatch((host.x - half, host.y - 0.15), host.width, 0.3, boxstyle="round,pad=0,rounding_size=0.05")
        box.set(facecolor="#eef1f4", edgecolor="#8b96a2", linewidth=0.9, zorder=3, gid=f"host:{host.words}")
        axes.add_patch(box)
        size = _size_to_fit(host.words, host.width * 0.92, 8.5)
        axes.text(host.x, host.y, host.words, color=_INK, fontsize=size, ha="center", va="center_baseline", zorder=5)


# --- words and scale -------------------------------------------------------------------------------------------------


def _draw_words(axes: "Axes", picture: FabricPicture, layout: Layout) -> None:
    top = layout.height
    room = layout.width - _SCALE_WIDTH_IN - 1.1
    subtitle = picture.subtitle or _fullest_sentence(picture)
    # Bold letters are a tenth wider.
    size = _size_to_fit(picture.title, room / 1.1, 15)
    axes.text(0.3, top - 0.38, picture.title, color=_INK, fontsize=size, fontweight="bold", va="center")
    axes.text(0.3, top - 0.68, subtitle, color=_FAINT, fontsize=_size_to_fit(subtitle, room, 9.5), va="center")
    caption = "each number and half arrow: what the switch beside it sends, as a share of the link's rate"
    if any(link.a_to_b_label or link.b_to_a_label for link in picture.links):
        caption = "each number and half arrow: what the switch beside it sends"
    if layout.port_spacing < _SMALLEST_SPACING_IN:
        caption = "each half arrow: what the switch beside it sends; too many links for numbers"
    axes.text(0.3, 0.2, caption, color=_FAINT, fontsize=7.5, va="center")


def _fullest_sentence(picture: FabricPicture) -> str:
    directions = [(k.a_to_b, k.a, k.b) for k in picture.links] + [(k.b_to_a, k.b, k.a) for k in picture.links]
    known = [(load, source, target) for load, source, target in directions if load is not None]
    down = sum(link.state is LinkState.DOWN for link in picture.links)
    sentence = f"; {down} of {len(picture.links)} links down" if down else ""
    if not known:
        return f"no loads measured yet{sentence}"
    load, source, target = max(known)
    return f"fullest link: {source} → {target}, {100 * load:.0f} %{sentence}"


def _draw_scale(figure: Figure, layout: Layout) -> None:
    """The scale of colours, top right, drawn with the widths it stands for."""
    width, height = _SCALE_WIDTH_IN, 0.12
    left, bottom = layout.width - width - 0.35, layout.height - 0.5
    axes = figure.add_axes((left / layout.width, bottom / layout.height, width / layout.width, height / layout.height))
    axes.set(xlim=(0, 1), ylim=(-_WIDEST_IN, _WIDEST_IN))
    steps = [step / 60 for step in range(61)]
    norm, colours = Normalize(0, 1), _colours()
    for low, high in pairwise(steps):
        axes.fill_between(
            [low, high],
            [-_width(low) / 2, -_width(high) / 2],
            [_width(low) / 2, _width(high) / 2],
            color=colours(norm((low + high) / 2)),
            linewidth=0.4,
        )
    axes.set_xticks([0, 0.5, 1], ["0 %", "50 %", "100 %"], fontsize=7.5, color=_FAINT)
    axes.set_yticks([])
    axes.tick_params(length=0, pad=1)
    axes.set_title("link load", fontsize=8, color=_FAINT, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
