"""A packet's trace for a terminal: switch by switch, table by table, like ofproto/trace. It decides no figures.

Where a hash chooses among ways on which a packet meets the same rules, the first way is shown in full and the others
are named.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from heddle.v1 import trace_pb2

_ARROW = "→ "
_KINDS = {
    "fast_failover": "fast failover, the first live bucket",
    "select": "select, one live bucket by hash",
    "all": "all, every bucket",
    "indirect": "indirect",
    "bundle": "bundle, one live member by hash",
}


def trace_view(trace: "trace_pb2.PacketTrace") -> RenderableType:
    parts: list[RenderableType] = [Text.assemble(("packet: ", "bold"), trace.packet)]
    for alike in _grouped(trace.switches):
        parts += [Text(), *_switch(alike)]
    return Group(*parts, Text(), *_ends(trace))


# --- switches --------------------------------------------------------------------------------------------------------


def _grouped(switches: Iterable["trace_pb2.TracedSwitch"]) -> list[list["trace_pb2.TracedSwitch"]]:
    """Those that only a hash tells apart, together, in the order of the trace."""
    groups: dict[object, list[trace_pb2.TracedSwitch]] = {}
    for number, switch in enumerate(switches):
        groups.setdefault(_likeness(switch) if switch.by_hash else number, []).append(switch)
    return list(groups.values())


def _likeness(switch: "trace_pb2.TracedSwitch") -> object:
    """What two alternatives have in common when a reader need not see both."""
    rules = tuple((t.table, t.rule.priority, t.rule.kind, t.rule.job_id, t.rule.next_table) for t in switch.tables)
    leads_to = tuple((output.to, output.queue_id, output.dscp) for output in switch.outputs)
    return (rules, leads_to, bool(switch.drops), switch.note)


def _switch(alike: Sequence["trace_pb2.TracedSwitch"]) -> list[RenderableType]:
    shown, others = alike[0], alike[1:]
    headline = Text.assemble((shown.switch, "bold"), f", in by port {shown.in_port} from {shown.sender}")
    if shown.by_hash:
        headline.append(f", if the hash takes this way{' (1 of ' + str(len(alike)) + ' alike)' if others else ''}")
    parts: list[RenderableType] = [headline]
    if shown.note:
        parts.append(Text.assemble(("  ! ", "bold yellow"), shown.note))
    parts.append(Padding(_tables(shown.tables), (0, 0, 0, 2)))
    parts += _outputs(shown.outputs)
    parts += [Text.assemble(("  dropped: ", "bold red"), reason) for reason in shown.drops]
    if others:
        ways = ", ".join(f"{other.switch} by port {other.in_port} from {other.sender}" for other in others)
        parts.append(Text(f"  likewise: {ways}", style="dim"))
    return parts


def _tables(tables: Iterable["trace_pb2.TracedTable"]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name in ("table", "priority", "match and actions", "for"):
        grid.add_column(name, overflow="fold", justify="right" if name == "priority" else "left")
    for table in tables:
        if not table.HasField("rule"):
            grid.add_row(table.table, "", Text("no rule matches", style="bold red"), "")
            continue
        grid.add_row(table.table, str(table.rule.priority), _rule(table), _owner(table.rule))
    return grid


def _rule(table: "trace_pb2.TracedTable") -> Text:
    rule = table.rule
    does = [*rule.actions, *([_ARROW + rule.next_table] if rule.next_table else [])]
    if rule.meter_id:
        does.insert(0, f"meter {rule.meter_id}")
    text = Text.assemble((rule.match, "cyan"), ": ", ", ".join(does) or "nothing")
    for choice in table.choices:
        text.append("\n").append_text(_choice(choice))
    for rival in table.rivals:
        text.append(f"\n! of the same priority: {rival.match} ({rival.kind}); which applies is open", style="yellow")
    return text


def _owner(rule: "trace_pb2.TracedRule") -> Text:
    if rule.kind == "foreign":
        return Text(f"foreign, cookie {rule.cookie:#x}", style="bold yellow")
    return Text(f"{rule.kind}, job {rule.job_id}" if rule.job_id else rule.kind, style="dim")


def _choice(choice: "trace_pb2.TracedChoice") -> Text:
    name = f"group {choice.group_id:#x} " if choice.group_id else ""
    text = Text(f"{name}({_KINDS.get(choice.kind, choice.kind)}):")
    weights = {member.weight for member in choice.members}
    for member in choice.members:
        weight = f", weight {member.weight}" if len(weights) > 1 else ""
        text.append("\n").append_text(_member(member, weight, by_hash=choice.by_hash))
    return text


def _member(member: "trace_pb2.TracedMember", weight: str, *, by_hash: bool) -> Text:
    if member.taken:
        return Text(f"  ▶ {member.action}{weight}: {'one of these' if by_hash else 'taken'}", style="green")
    if not member.live:
        return Text(f"    {member.action}{weight}: not live", style="red")
    return Text(f"    {member.action}{weight}")


def _outputs(outputs: Iterable["trace_pb2.TracedOutput"]) -> list[Text]:
    """One line for each; those of which a hash takes one, together."""
    hashed: dict[str, list[str]] = {}
    lines = []
    for output in outputs:
        marks = f", queue {output.queue_id}" if output.HasField("queue_id") else ""
        marks += f", DSCP {output.dscp}" if output.HasField("dscp") else ""
        way = f"port {output.port_no} to {output.to or 'what is not known'}"
        if output.by_hash:
            hashed.setdefault(marks, []).append(way)
        else:
            lines.append(Text.assemble(("  out", "bold"), f" by {way}{marks}"))
    lines += [Text.assemble(("  out", "bold"), f" by one of: {'; '.join(w)}{marks}") for marks, w in hashed.items()]
    return lines


# --- ends ------------------------------------------------------------------------------------------------------------


def _ends(trace: "trace_pb2.PacketTrace") -> list[Text]:
    """Each end once, with the number of ways that lead to it."""
    counted = Counter(_end(end, trace.dst_host) for end in trace.ends)
    lines = []
    for (words, style), ways in counted.items():
        lines.append(Text.assemble(("end: ", "bold"), (words, style), f" ({ways} ways)" if ways > 1 else ""))
    return lines or [Text.assemble(("end: ", "bold"), ("nothing is known of this packet", "yellow"))]


def _end(end: "trace_pb2.TraceEnd", meant: str) -> tuple[str, str]:
    match end.kind:
        case "host" if end.host == meant:
            return f"{end.host} receives it, by {end.switch}:{end.port_no}", "green"
        case "host":
            return f"{end.host} receives it, which is not {meant}, by {end.switch}:{end.port_no}", "bold red"
        case "punted":
            return f"{end.switch} hands it to the controller ({end.reason})", "yellow"
        case "dropped":
            return f"{end.switch} drops it: {end.reason}", "bold red"
        case "looped":
            return f"it loops: {end.switch}, port {end.port_no}: {end.reason}", "bold red"
        case _:
            return f"not known beyond {end.switch}: {end.reason}", "yellow"
