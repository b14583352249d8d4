"""Drains for a terminal: what is avoided and why, and what a drain costs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from controller.cli.tables import certificate_text, plain_table, state_text
from controller.cli.units import time_text

if TYPE_CHECKING:
    from heddle.v1 import maintenance_pb2


def drains_view(drains: Sequence["maintenance_pb2.Drain"]) -> RenderableType:
    """A table, and a line for each that is not drained yet or is used all the same."""
    if not drains:
        return Text("nothing is drained or avoided")
    table = plain_table("", "target", "state", "by", "reason", names=("target", "reason"))
    for drain in drains:
        by = drain.origin + (", by force" if drain.forced else "")
        table.add_row(drain.target, state_text(drain.state), by, drain.reason or "-")
    return Group(table, *notes(drains))


def notes(drains: Sequence["maintenance_pb2.Drain"]) -> list[Text]:
    return [Text(f"{drain.target} is {drain.state}: {drain.note}") for drain in drains if drain.note]


def drained_view(answer: "maintenance_pb2.DrainResponse", *, dry_run: bool) -> RenderableType:
    parts: list[RenderableType] = _forecast(answer.forecast, would=dry_run)
    if dry_run:
        return Group(*parts, Text("nothing was changed"))
    changed = answer.rules_changed
    parts.append(Text(f"{changed} rules changed on the switches" if changed else "nothing changed: it was so already"))
    done = [Text(f"{drain.target} is drained") for drain in answer.drains if drain.state == "drained"]
    return Group(*parts, *done, *notes(answer.drains))


def _forecast(forecast: "maintenance_pb2.DrainForecast", *, would: bool) -> list[RenderableType]:
    verb = "would move" if would else "moved"
    jobs = f" ({', '.join(forecast.jobs)})" if forecast.jobs else ""
    lines = [Text(f"{forecast.flows_to_move} of {forecast.flows} flows{jobs} {verb}")]
    if forecast.flows_without_path:
        lines.append(Text(f"{forecast.flows_without_path} flows are left without a path", style="bold red"))
    if forecast.flows:
        before, after = time_text(forecast.max_load_before_s), time_text(forecast.max_load_after_s)
        lines.append(Text(f"fullest link: {before} before, {after} after"))
        lines.append(Text.assemble("the plan then: ", certificate_text(forecast.certificate)))
    cut = "this would cut off" if would else "this cuts off"
    return [*lines, *(Text(f"{cut} {sentence}", style="bold red") for sentence in forecast.cut_off)]


def undrained_view(answer: "maintenance_pb2.UndrainResponse") -> RenderableType:
    changed = answer.rules_changed
    parts = [Text(f"{changed} rules changed on the switches" if changed else "nothing changed: it was in use already")]
    for drain in answer.drains:
        why = f": {drain.reason}" if drain.reason else ""
        parts.append(Text(f"still avoided: {drain.target} ({drain.origin}{why})"))
    return Group(*parts)
