"""The differences between desired and actual tables for a terminal. It renders, it decides nothing."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from heddle.v1 import fabric_pb2

_KINDS = {"missing": "bold red", "different": "bold yellow", "superfluous": "yellow", "foreign": "magenta"}
_STATES = {"equal": "green", "different": "bold red", "unknown": "bold yellow"}
_PLURALS = {"rule": "rules", "group": "groups", "meter": "meters"}


def diff_view(answer: "fabric_pb2.GetDiffResponse", *, limit: int | None = None) -> RenderableType:
    """Switches with differences first; at most `limit` differences of each (None: all)."""
    if not answer.switches:
        return Text("no switch has connected yet: there is nothing to compare")
    switches = sorted(answer.switches, key=lambda s: (s.state == "equal" and not s.differences, s.switch))
    return Group(*(part for switch in switches for part in _switch(switch, limit)))


def _switch(switch: "fabric_pb2.SwitchDiff", limit: int | None) -> list[RenderableType]:
    headline = Text.assemble((switch.switch, "bold"), ": ", (switch.state, _STATES.get(switch.state, "")))
    if switch.reason:
        headline.append(f": {switch.reason}")
    counts = Counter((d.kind, d.what) for d in switch.differences)
    if counts:
        headline.append(": ").append(", ".join(_count(n, kind, what) for (kind, what), n in sorted(counts.items())))
    if switch.state != "unknown":
        headline.append(f" ({switch.equal_rules} rules and {switch.equal_groups} groups equal)")
    parts: list[RenderableType] = [headline]
    if switch.differences:
        shown = switch.differences[:limit]
        parts.append(Padding(_table(shown), (0, 0, 0, 2)))
        hidden = len(switch.differences) - len(shown)
        if hidden:
            parts.append(Text(f"  … and {hidden} more differences: --all shows them", style="dim"))
    return parts


def _count(number: int, kind: str, what: str) -> str:
    return f"{number} {kind} {what if number == 1 else _PLURALS.get(what, what)}"


def _table(differences: Sequence["fabric_pb2.Difference"]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in ("kind", "where", "what"):
        grid.add_column(overflow="fold")
    for difference in differences:
        kind = Text(difference.kind, style=_KINDS.get(difference.kind, ""))
        grid.add_row(kind, difference.table or difference.what, _what(difference))
    return grid


def _what(difference: "fabric_pb2.Difference") -> Text:
    job = f" [job {difference.job_id}]" if difference.job_id else ""
    if difference.desired and difference.actual:
        return Text(f"should be {difference.desired}{job}\nis {difference.actual}")
    return Text((difference.desired or difference.actual) + job)
