"""Pictures: what the figure holds, not how it looks."""

import struct
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Polygon

from controller.cli.picture import (
    DOTS_PER_INCH,
    FabricPicture,
    LinkState,
    PictureHost,
    PictureLink,
    PictureSwitch,
    draw,
    save,
)
from controller.cli.picture_layout import lay_out


def fabric(leaves: int, spines: int, hosts: int = 2, cables: int = 1, load: float | None = 0.5) -> FabricPicture:
    switches = [PictureSwitch(f"leaf{n}", "leaf") for n in range(1, leaves + 1)]
    switches += [PictureSwitch(f"spine{n}", "spine") for n in range(1, spines + 1)]
    links = [
        PictureLink(f"leaf{leaf}", f"spine{spine}", load, load)
        for leaf in range(1, leaves + 1)
        for spine in range(1, spines + 1)
        for _ in range(cables)
    ]
    attached = [
        PictureHost(f"h{leaf}_{n}", f"leaf{leaf}") for leaf in range(1, leaves + 1) for n in range(1, hosts + 1)
    ]
    return FabricPicture("a fabric", tuple(switches), tuple(links), tuple(attached))


def artists(figure: Figure, prefix: str, kind: type) -> list[object]:
    return [a for a in figure.axes[0].get_children() if isinstance(a, kind) and str(a.get_gid()).startswith(prefix)]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize(("leaves", "spines", "cables"), [(1, 1, 1), (2, 2, 1), (4, 4, 1), (3, 2, 2), (32, 8, 1)])
def test_every_direction_of_every_link_is_drawn(leaves: int, spines: int, cables: int) -> None:
    figure = draw(fabric(leaves, spines, cables=cables))
    assert len(artists(figure, "load:", Polygon)) == 2 * leaves * spines * cables
    assert len(artists(figure, "switch:", FancyBboxPatch)) == leaves + spines


def test_a_png_has_the_figures_size_and_is_not_empty(tmp_path: Path) -> None:
    file = tmp_path / "fabric.png"
    picture = fabric(4, 4)
    save(picture, file)
    data = file.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    inches = draw(picture).get_size_inches()
    assert (width, height) == pytest.approx(tuple(inches * DOTS_PER_INCH), abs=1)
    assert len(data) > 20_000


def test_the_half_at_a_switch_shows_what_it_sends() -> None:
    """Up is full and down is idle: the leaf's half is wide and dark, and the numbers stand at their ports."""
    picture = FabricPicture(
        "x", (PictureSwitch("l", "leaf"), PictureSwitch("s", "spine")), (PictureLink("l", "s", 0.92, 0.0),)
    )
    figure = draw(picture)
    (up,), (down,) = artists(figure, "load:l>s", Polygon), artists(figure, "load:s>l", Polygon)
    assert isinstance(up, Polygon)
    assert isinstance(down, Polygon)
    assert sum(up.get_facecolor()[:3]) < sum(down.get_facecolor()[:3])  # Darker.
    assert _width(up) > 2 * _width(down)
    (full,) = [text for text in figure.axes[0].texts if text.get_text() == "92%"]
    (idle,) = [text for text in figure.axes[0].texts if text.get_text() == "0%"]
    assert full.get_position()[1] < idle.get_position()[1]


def _width(arrow: Polygon) -> float:
    (x1, _), (x2, _) = arrow.get_xy()[0], arrow.get_xy()[-2]
    return abs(float(x1 - x2))


def test_darkness_rises_with_load_throughout() -> None:
    """So the scale reads the same with any colour vision, and in grey."""
    loads = [step / 10 for step in range(11)]
    switches = (PictureSwitch("l", "leaf"), PictureSwitch("s", "spine"))
    figure = draw(FabricPicture("x", switches, tuple(PictureLink("l", "s", load, load) for load in loads)))
    shades = sorted({_luminance(a) for a in artists(figure, "load:", Polygon)}, reverse=True)
    assert len(shades) == len(loads)
    by_load = [_luminance(a) for a in artists(figure, "load:l>s", Polygon)]
    assert by_load == shades  # Fuller links are drawn later.


def _luminance(artist: object) -> float:
    """CIE relative luminance of an sRGB colour (IEC 61966-2-1)."""
    assert isinstance(artist, Polygon)
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in artist.get_facecolor()[:3]]
    return float(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])


def test_links_that_are_down_or_unknown_are_told_apart_without_colour() -> None:
    links = (
        PictureLink("leaf1", "spine1", state=LinkState.DOWN),
        PictureLink("leaf1", "spine2", None, None),
        PictureLink("leaf2", "spine1", 0.1, 0.1, state=LinkState.ONE_WAY),
    )
    figure = draw(FabricPicture("x", fabric(2, 2).switches, links))
    assert len(artists(figure, "down:leaf1-spine1", Line2D)) == 1
    assert len(artists(figure, "load:leaf1>spine1", Polygon)) == 0
    assert texts(figure).count("?") == 2
    (one_way,) = artists(figure, "load:leaf2>spine1", Polygon)
    assert isinstance(one_way, Polygon)
    assert one_way.get_linestyle() == ":"
    assert "1 of 3 links down" in " ".join(texts(figure))


def test_labels_of_ones_own_replace_percents() -> None:
    link = PictureLink("leaf1", "spine1", 0.5, 0.25, "4 flows", "2 flows")
    words = texts(draw(FabricPicture("x", fabric(1, 1).switches, (link,))))
    assert {"4 flows", "2 flows"} <= set(words)
    assert "50%" not in words


def test_title_subtitle_and_the_fullest_link() -> None:
    words = texts(draw(fabric(2, 2, load=0.925)))
    assert "a fabric" in words
    assert any(text.startswith("fullest link: ") and text.endswith(", 92 %") for text in words)
    own = FabricPicture("x", fabric(2, 2).switches, (), subtitle="my own words")
    assert "my own words" in texts(draw(own))


def test_numbers_are_left_out_where_they_could_not_be_read() -> None:
    words = texts(draw(fabric(64, 32, hosts=0)))
    assert "50%" not in words
    assert any("too many links for numbers" in text for text in words)


def test_overload_is_drawn_as_full_and_written_as_it_is() -> None:
    words = texts(draw(fabric(1, 1, load=1.37)))
    assert words.count("137%") == 2


def test_many_hosts_share_one_box() -> None:
    figure = draw(fabric(32, 4, hosts=16))
    assert len(artists(figure, "host:", FancyBboxPatch)) == 32
    few = draw(fabric(4, 4, hosts=3))
    assert len(artists(few, "host:", FancyBboxPatch)) == 12


def test_unknown_switches_in_links_and_hosts_are_all_named() -> None:
    picture = FabricPicture(
        "x", (PictureSwitch("leaf1", "leaf"),), (PictureLink("leaf1", "gone"),), (PictureHost("h", "lost"),)
    )
    with pytest.raises(ValueError, match="link leaf1-gone: no switch gone; host h: no switch lost"):
        draw(picture)


def test_an_empty_fabric_is_drawn() -> None:
    assert "no loads measured yet" in texts(draw(FabricPicture("nothing", (), ())))


# --- where things stand ----------------------------------------------------------------------------------------------


def test_spines_are_above_leaves_and_hosts_below() -> None:
    layout = lay_out([("s", "spine"), ("l", "leaf"), ("c", "core")], [("l", "s"), ("s", "c")], [("h", "l")])
    assert layout.hosts[0].y < layout.switches["l"][1] < layout.switches["s"][1] < layout.switches["c"][1]


def test_links_of_one_switch_never_cross_and_have_points_of_their_own() -> None:
    names = [(f"leaf{n}", "leaf") for n in range(4)] + [(f"spine{n}", "spine") for n in range(3)]
    links = [(f"leaf{leaf}", f"spine{spine}") for spine in (2, 0, 1) for leaf in (3, 1, 0, 2)]
    layout = lay_out(names, links, [])
    for leaf in range(4):
        ends = [layout.links[i] for i, link in enumerate(links) if link[0] == f"leaf{leaf}"]
        near = sorted(start[0] for start, _ in ends)
        assert len(set(near)) == 3
        assert [start[0] for start, _ in sorted(ends, key=lambda pair: pair[1][0])] == near


@pytest.mark.parametrize(("leaves", "spines", "hosts"), [(1, 1, 0), (4, 4, 4), (8, 8, 8), (64, 16, 32), (3, 12, 1)])
def test_everything_is_within_the_picture_and_no_boxes_overlap(leaves: int, spines: int, hosts: int) -> None:
    names = [(f"l{n}", "leaf") for n in range(leaves)] + [(f"s{n}", "spine") for n in range(spines)]
    links = [(f"l{a}", f"s{b}") for a in range(leaves) for b in range(spines)]
    layout = lay_out(names, links, [(f"h{a}_{n}", f"l{a}") for a in range(leaves) for n in range(hosts)])
    boxes = [*layout.switches.values(), *[(host.x, host.y, host.width, 0.3) for host in layout.hosts]]
    for x, y, width, height in boxes:
        assert width / 2 <= x <= layout.width - width / 2
        assert height / 2 <= y <= layout.height - 1.0
    rows: dict[float, list[tuple[float, float]]] = {}
    for x, y, width, _ in boxes:
        rows.setdefault(y, []).append((x - width / 2, x + width / 2))
    for row in rows.values():
        row.sort()
        assert all(left[1] <= right[0] for left, right in pairwise(row))


def test_edge_switches_stand_beside_their_leaves() -> None:
    names = [("l1", "leaf"), ("l2", "leaf"), ("l3", "leaf"), ("s", "spine"), ("d1", "edge"), ("d2", "edge")]
    links = [("l1", "s"), ("l2", "s"), ("l3", "s"), ("d1", "l2"), ("l1", "d2"), ("l2", "d2")]
    boxes = lay_out(names, links, [("h", "d1")]).switches
    row = sorted((box[0], name) for name, box in boxes.items() if name != "s")
    assert [name for _, name in row] == ["l1", "d2", "l2", "d1", "l3"]
    assert len({boxes[name][1] for _, name in row}) == 1
