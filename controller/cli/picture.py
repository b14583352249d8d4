"""Draws a fabric with its link loads: spines above, leaves below them, hosts at the bottom.

It takes a plain description and knows nothing of controllers, so the demo and the benchmarks draw with it too. Where
everything stands is decided in `picture_layout`; `picture_links` draws the links.

Each cable is two arrows that meet halfway: the half at a switch shows what that switch sends, and the number at its
port says it too. The scale of colours rises evenly in lightness, so it reads the same with any colour vision and in
print; width repeats it.
"""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from controller.cli.picture_cabling import RIGHT, draw_cables, draw_host_cable, draw_legend
from controller.cli.picture_description import FabricPicture, LinkState, PictureHost, PictureLink, PictureSwitch
from controller.cli.picture_layout import Layout, lay_out
from controller.cli.picture_links import (
    LABEL_SIZE,
    SMALLEST_SPACING_IN,
    WIDEST_IN,
    colours,
    draw_link,
    draw_numbers,
    fullest_of,
    labels_of,
    meeting_point,
    width_of,
)
from controller.cli.picture_text import FAINT, INK, size_to_fit, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FabricPicture", "LinkState", "PictureHost", "PictureLink", "PictureSwitch", "draw", "save"]

DOTS_PER_INCH = 150


# Okabe and Ito's blue and bluish green, darkened: white names on them have a contrast above 4.5.
_SWITCH_COLOURS = {"spine": "#00568a", "leaf": "#006b50"}
_OTHER_SWITCH = "#5f6670"
_HOST_LINE = "#c3cad2"
_SCALE_WIDTH_IN = 1.9


def save(picture: FabricPicture, file: Path) -> None:
    """Writes the picture as PNG. OSError when the file cannot be written; ValueError as in `draw`."""
    figure = draw(picture)
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH)


def draw(picture: FabricPicture) -> Figure:
    """The picture as a matplotlib figure. ValueError names every link or host whose switch is not described.

    Artists carry group ids: "load:A>B" for each direction of a link, "down:A-B", "cable:VERDICT:A-B" (of hosts: where
    something is to be said), "switch:NAME", "host:NAME".
    """
    _check_names(picture)
    layout = lay_out(
        [(switch.name, switch.role) for switch in picture.switches],
        [(link.a, link.b) for link in picture.links],
        [(host.name, host.switch) for host in picture.hosts],
        label_width=max(
            (text_width(label, LABEL_SIZE) for link in picture.links for label in labels_of(link)), default=0.0
        ),
    )
    figure = Figure(figsize=(layout.width, layout.height), dpi=DOTS_PER_INCH, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, layout.width), ylim=(0, layout.height), aspect="equal")
    axes.axis("off")
    if picture.cabling:
        draw_cables(axes, picture, layout)
    else:
        _draw_links(axes, picture, layout)
    _draw_hosts(axes, picture, layout)
    for switch in picture.switches:
        _draw_switch(axes, switch, layout)
    if picture.cabling:
        draw_legend(axes, picture, layout)
    else:
        draw_numbers(axes, picture, layout)
        _draw_scale(figure, layout)
    _draw_words(axes, picture, layout)
    return figure


def _draw_links(axes: "Axes", picture: FabricPicture, layout: Layout) -> None:
    reach = max((abs(end[0] - start[0]) for start, end in layout.links), default=0.0) or 1.0
    for link, ends in sorted(zip(picture.links, layout.links, strict=True), key=lambda pair: fullest_of(pair[0])):
        draw_link(axes, link, ends, meeting_point(ends, reach))


def _check_names(picture: FabricPicture) -> None:
    known = {switch.name for switch in picture.switches}
    missing = [f"link {k.a}-{k.b}: no switch {end}" for k in picture.links for end in (k.a, k.b) if end not in known]
    missing += [f"host {host.name}: no switch {host.switch}" for host in picture.hosts if host.switch not in known]
    if missing:
        raise ValueError("; ".join(missing))


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
    size = size_to_fit(words, width * 0.92, 10.5)
    placed: dict[str, Any] = {"color": ink, "ha": "center", "va": "center_baseline", "zorder": 5}
    axes.text(x, y + (0.075 if switch.note else 0), words, fontsize=size, fontweight="bold", **placed)
    if switch.note:
        axes.text(x, y - 0.115, switch.note, fontsize=size_to_fit(switch.note, width * 0.92, 7), **placed)


def _draw_hosts(axes: "Axes", picture: FabricPicture, layout: Layout) -> None:
    odd = {(host.name, host.switch): host.verdict for host in picture.hosts if host.verdict not in ("", RIGHT)}
    # Of hosts that share a box, one that is not right stands for all.
    of_switch = {switch: verdict for (_, switch), verdict in odd.items()}
    names = {(host.name, host.switch) for host in picture.hosts}
    for host in layout.hosts:
        _, leaf_y, _, leaf_height = layout.switches[host.switch]
        start, end = (host.x, host.y), (host.leaf_x, leaf_y - leaf_height / 2)
        alone = (host.words, host.switch) in names
        verdict = odd.get((host.words, host.switch)) if alone else of_switch.get(host.switch)
        if verdict is not None:
            draw_host_cable(axes, host, start, end, verdict)
        else:
            axes.plot([start[0], end[0]], [start[1], end[1]], color=_HOST_LINE, linewidth=1.2, zorder=1)
        half = host.width / 2
        box = FancyBboxPatch((host.x - half, host.y - 0.15), host.width, 0.3, boxstyle="round,pad=0,rounding_size=0.05")
        box.set(facecolor="#eef1f4", edgecolor="#8b96a2", linewidth=0.9, zorder=3, gid=f"host:{host.words}")
        axes.add_patch(box)
        size = size_to_fit(host.words, host.width * 0.92, 8.5)
        axes.text(host.x, host.y, host.words, color=INK, fontsize=size, ha="center", va="center_baseline", zorder=5)


# --- words and scale -------------------------------------------------------------------------------------------------


def _draw_words(axes: "Axes", picture: FabricPicture, layout: Layout) -> None:
    top = layout.height
    room = layout.width - _SCALE_WIDTH_IN - 1.1
    subtitle = picture.subtitle or _fullest_sentence(picture)
    # Bold letters are a tenth wider.
    size = size_to_fit(picture.title, room / 1.1, 15)
    axes.text(0.3, top - 0.38, picture.title, color=INK, fontsize=size, fontweight="bold", va="center")
    axes.text(0.3, top - 0.68, subtitle, color=FAINT, fontsize=size_to_fit(subtitle, room, 9.5), va="center")
    caption = "each number and half arrow: what the switch beside it sends, as a share of the link's rate"
    if picture.cabling:
        caption = "each line is one cable; the port's name stands at each end of a cable that is not right"
    elif any(link.a_to_b_label or link.b_to_a_label for link in picture.links):
        caption = "each number and half arrow: what the switch beside it sends"
    if layout.port_spacing < SMALLEST_SPACING_IN and not picture.cabling:
        caption = "each half arrow: what the switch beside it sends; too many links for numbers"
    axes.text(0.3, 0.2, caption, color=FAINT, fontsize=7.5, va="center")


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
    axes.set(xlim=(0, 1), ylim=(-WIDEST_IN, WIDEST_IN))
    steps = [step / 60 for step in range(61)]
    for low, high in pairwise(steps):
        axes.fill_between(
            [low, high],
            [-width_of(low) / 2, -width_of(high) / 2],
            [width_of(low) / 2, width_of(high) / 2],
            color=colours()((low + high) / 2),
            linewidth=0.4,
        )
    axes.set_xticks([0, 0.5, 1], ["0 %", "50 %", "100 %"], fontsize=7.5, color=FAINT)
    axes.set_yticks([])
    axes.tick_params(length=0, pad=1)
    axes.set_title("link load", fontsize=8, color=FAINT, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
