"""How a path is written in a table cell: in full where there is room, shorter in steps where there is not."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

if TYPE_CHECKING:
    from heddle.v1 import collective_pb2

ARROW = " → "


class PathText:
    """A table cell. `spellings` go from the longest to the shortest; the first that fits the column is shown."""

    def __init__(self, spellings: Iterable[str]) -> None:
        self.spellings = tuple(spellings)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        chosen = next((s for s in self.spellings if len(s) <= options.max_width), self.spellings[-1])
        yield Text(chosen, no_wrap=True, overflow="ellipsis")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        shortest, longest = len(self.spellings[-1]), len(self.spellings[0])
        return Measurement(min(shortest, options.max_width), min(longest, options.max_width))


def path_text(hops: Iterable["collective_pb2.Hop"]) -> PathText:
    """ "leaf1:5 → spine2:3 → leaf3", else without ports, else only what lies between the leaves: "via spine2"."""
    hops = tuple(hops)
    if not hops:
        return PathText(["within the leaf"])
    with_ports = ARROW.join([*(f"{hop.switch}:{hop.port_no}" for hop in hops), hops[-1].to])
    bare = ARROW.join([*(hop.switch for hop in hops), hops[-1].to])
    between = [hop.switch for hop in hops[1:]]
    spellings = [with_ports, bare]
    if between:
        spellings.append(f"via {', '.join(between)}")
    if len(between) > 1:
        spellings.append(f"via {between[0]} … {between[-1]}")
    return PathText(sorted(spellings, key=len, reverse=True))
