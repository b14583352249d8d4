"""What is on a link, and what a job's certificate means, for a terminal. It renders and decides no figures."""

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from controller.cli.tables import certificate_text, endpoint_text, moved_lines, plain_table, state_text
from controller.cli.units import rate_text, size_text, time_text

if TYPE_CHECKING:
    from heddle.v1 import collective_pb2, fabric_pb2


def link_view(answer: "fabric_pb2.ExplainLinkResponse", *, limit: int | None = None) -> RenderableType:
    """Each direction with its flows, at most `limit` of them (None: all), and the certificate."""
    parts: list[RenderableType] = []
    for direction in answer.directions:
        parts += [*_direction(direction, limit), Text()]
    return Group(*parts, Text.assemble(("all jobs together: ", "bold"), certificate_text(answer.certificate)))


def _direction(direction: "fabric_pb2.LinkDirection", limit: int | None) -> list[RenderableType]:
    ends = f"{endpoint_text(direction.sender)} → {endpoint_text(direction.receiver)}"
    headline = Text.assemble((ends, "bold"), ": ", state_text(direction.state))
    headline.append(f", {rate_text(direction.capacity_bps) if direction.capacity_bps else 'rate not known'}")
    parts: list[RenderableType] = [headline, Text(f"  {_rates(direction)}")]
    flows = len(direction.flows)
    placed = "1 flow placed here needs" if flows == 1 else f"{flows} flows placed here need"
    load = f"  {placed} {time_text(direction.load_s)}"
    parts.append(Text(load if flows else "  no announced flow is placed here"))
    if direction.HasField("bound"):
        parts.append(Text(f"  bound: {bound_words(direction.bound)}"))
    if flows:
        parts.append(_flow_table(direction, limit))
        if limit is not None and flows > limit:
            parts.append(Text(f"  … and {flows - limit} more flows: --all shows them", style="dim"))
    return parts


def _rates(direction: "fabric_pb2.LinkDirection") -> str:
    measured = rate_text(direction.measured_bps) if direction.HasField("measured_bps") else "not known"
    if not direction.HasField("background_bps"):
        return f"measured now: {measured}; placement does not use this link"
    background, left = rate_text(direction.background_bps), rate_text(direction.left_bps)
    return f"measured now: {measured}; background: {background}; placement counts on {left}"


def _flow_table(direction: "fabric_pb2.LinkDirection", limit: int | None) -> RenderableType:
    numbers = ("size", "load")
    table = plain_table("", "flow", "job", "from", "to", *numbers, numbers=numbers, names=("flow", "job", "from", "to"))
    for flow in direction.flows[:limit]:
        short = flow.flow_id.removeprefix(f"{flow.job_id}/")
        size, load = size_text(flow.size_bytes), time_text(flow.load_s)
        table.add_row(short, flow.job_id, flow.src_host, flow.dst_host, size, load)
    return table


def bound_words(bound: "collective_pb2.Bound") -> str:
    """What cannot be beaten, where, and by how much of what."""
    what = f"{bound.flows} flow{'s' * (bound.flows != 1)}, {size_text(bound.size_bytes)}"
    return f"{bound.cut} takes at least {time_text(bound.bound_s)} ({what})"


def job_view(answer: "collective_pb2.ExplainJobResponse", *, limit: int | None = None) -> RenderableType:
    """Sentences, the fullest links, the cuts, and at most `limit` unplaced flows (None: all)."""
    counts = f"{answer.planned_flows} flows planned, {answer.local_flows} local, {len(answer.unplaced)} without a path"
    parts: list[RenderableType] = [Text.assemble(("job ", "bold"), (answer.job_id, "bold"), f": {counts}")]
    parts += [Text(sentence) for sentence in answer.sentences]
    if answer.fullest:
        parts.append(_full_table(answer))
    if answer.bounds:
        parts.append(Text("what bounds the fullest link", style="bold"))
        parts += [Text(f"  {bound_words(bound)}") for bound in answer.bounds]
    parts += [Text(line) for line in moved_lines(answer.job_id, answer.moved)]
    if answer.unplaced:
        parts += _unplaced(answer, limit)
    return Group(*parts, Text.assemble(("all jobs together: ", "bold"), certificate_text(answer.certificate)))


def _full_table(answer: "collective_pb2.ExplainJobResponse") -> RenderableType:
    numbers = ("load", "of this job", "flows", "its own")
    table = plain_table("fullest links", "sends", "to", *numbers, numbers=numbers, names=("sends", "to"))
    for link in answer.fullest:
        loads = (time_text(link.load_s), time_text(link.job_load_s))
        sends = f"{link.port.switch}:{link.port.port_no}"
        table.add_row(sends, link.port.to, *loads, str(link.flows), str(link.job_flows))
    return table


def _unplaced(answer: "collective_pb2.ExplainJobResponse", limit: int | None) -> list[RenderableType]:
    table = plain_table(
        "flows without a path of their own, on ECMP", "flow", "from", "to", "why", names=("flow", "why")
    )
    for unplaced in answer.unplaced[:limit]:
        flow = unplaced.flow
        table.add_row(flow.flow_id.removeprefix(f"{answer.job_id}/"), flow.src_host, flow.dst_host, unplaced.reason)
    hidden = len(answer.unplaced) - len(answer.unplaced[:limit])
    return [table, *([Text(f"… and {hidden} more: --all shows them", style="dim")] if hidden else [])]
