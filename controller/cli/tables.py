"""The controller's answers as tables and sentences for a terminal. It renders what it is given and decides no figures.

Every state is a word as well as a colour, so that nothing depends on seeing colours.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from controller.cli.paths_text import path_text
from controller.cli.units import gap_text, rate_text, size_text, time_text

if TYPE_CHECKING:
    from heddle.v1 import collective_pb2, fabric_pb2

_STATE_STYLES = {
    "up": "green",
    "yes": "green",
    "placed": "green",
    "planned": "green",
    "suspect": "yellow",
    "held": "yellow",
    "gray": "yellow",
    "drained": "cyan",
    "leaving": "yellow",
    "used": "yellow",
    "degraded": "yellow",
    "ecmp": "yellow",
    "down": "bold red",
    "no": "bold red",
    "refused": "bold red",
}


# States of links that work and are kept free of traffic.
AVOIDED = ("gray", "drained")


def state_text(state: str) -> Text:
    return Text(state, style=_STATE_STYLES.get(state, ""))


def _yes_no(value: bool) -> Text:
    return state_text("yes" if value else "no")


def plain_table(title: str, *columns: str, numbers: Iterable[str] = (), names: Iterable[str] = ()) -> Table:
    """A table whose columns in `numbers` are set right. When the terminal is narrow, the widest of those in `names`
    give way first and fold over lines, because a name cut short names nothing; paths find a shorter spelling."""
    table = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.padding = (0, 1, 0, 0)
    right, folding = frozenset(numbers), frozenset(names)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column not in folding)
    return table


# --- the fabric ------------------------------------------------------------------------------------------------------


def topology_view(topology: "fabric_pb2.GetTopologyResponse") -> RenderableType:
    """Alarms come first, where a terminal too short for the rest still shows them. Empty tables are left out."""
    parts: list[RenderableType] = [topology_summary(topology)]
    parts += [Text.assemble(("! ", "bold red"), alarm) for alarm in topology.alarms]
    parts.append(Text())
    if topology.switches:
        parts.append(switch_table(topology.switches))
    else:
        parts.append(Text("no switch has connected yet: point each at the controller, as in"))
        parts.append(Text("  ovs-vsctl set-controller BRIDGE tcp:CONTROLLER:6653"))
    if topology.links:
        parts += [link_table(topology.links), *link_reasons(topology.links)]
    if topology.hosts:
        parts.append(host_table(topology.hosts))
    if topology.neighbours:
        parts.append(neighbour_table(topology.neighbours))
    # Whoever speaks LLDP is in the table above.
    odd = [count for count in topology.packet_counts if count.kind not in _EVERYDAY]
    if odd:
        parts.append(packet_count_table(odd))
    return Group(*parts)


_EVERYDAY = ("lldp_foreign", "beacon_stale")


def topology_summary(topology: "fabric_pb2.GetTopologyResponse") -> Text:
    """One line: how much is there, how much of it works, and whether the switches hold what they should."""
    connected = sum(switch.connected for switch in topology.switches)
    up = sum(link.state == "up" for link in topology.links)
    alarms = f"{len(topology.alarms)} alarm{'s' * (len(topology.alarms) != 1)}"
    return Text.assemble(
        f"{connected} of {len(topology.switches)} switches connected, ",
        f"{up} of {len(topology.links)} links up, {len(topology.hosts)} hosts, ",
        ("in sync" if topology.in_sync else "not in sync", "green" if topology.in_sync else "bold yellow"),
        f", {alarms} (revision {topology.revision})",
    )


def switch_table(switches: Iterable["fabric_pb2.Switch"]) -> Table:
    """`foreign` counts rules that Heddle did not install; that column, and those of pods and rails, appear only when
    there are any."""
    switches = sorted(switches, key=lambda s: (s.role, s.name))
    foreign, pods, rails = (any(getattr(s, what) for s in switches) for what in ("foreign_rules", "pod", "rails"))
    columns = ["name", "dpid", "role", *(["pod"] if pods else []), *(["rail"] if rails else [])]
    columns += ["connected", "in sync", "rules", "groups", *(["foreign"] if foreign else [])]
    table = plain_table("switches", *columns, numbers=("dpid", "rules", "groups", "foreign"), names=("name",))
    for switch in switches:
        cells: list[RenderableType] = [switch.name, f"{switch.dpid:x}", switch.role]
        cells += ([switch.pod] if pods else []) + ([", ".join(map(str, switch.rails))] if rails else [])
        cells += [_yes_no(switch.connected), _yes_no(switch.in_sync), str(switch.rules), str(switch.groups)]
        if foreign:
            cells.append(str(switch.foreign_rules))
        table.add_row(*cells)
    return table


def rail_text(rails: Sequence[int]) -> str:
    """ "rail 3", "rails 1, 2", or nothing."""
    return f"rail{'s' if len(rails) > 1 else ''} {', '.join(map(str, rails))}" if rails else ""


def link_table(links: Iterable["fabric_pb2.Link"]) -> Table:
    table = plain_table(
        "links", "a", "b", "state", "rate", "a→b", "b→a", "flows →", "←", numbers=_LINK_NUMBERS, names=("a", "b")
    )
    for link in sorted(links, key=lambda k: (k.a.switch, k.a.port_no, k.b.switch, k.b.port_no)):
        table.add_row(
            endpoint_text(link.a),
            endpoint_text(link.b),
            state_text(link.state),
            rate_text(link.capacity_bps) if link.capacity_bps else "?",
            rate_text(link.a_to_b_bps) if link.HasField("a_to_b_bps") else "?",
            rate_text(link.b_to_a_bps) if link.HasField("b_to_a_bps") else "?",
            str(link.a_to_b_flows),
            str(link.b_to_a_flows),
        )
    return table


def link_reasons(links: Iterable["fabric_pb2.Link"]) -> list[Text]:
    """Why links are not up, what needs a person first: a switch that is off takes many links with it."""
    wanting = [link for link in links if link.reason]
    wanting.sort(key=lambda k: (k.state not in _WANTING, k.a.switch, k.a.port_no, k.b.switch, k.b.port_no))
    lines = [
        Text.assemble(f"{endpoint_text(k.a)} - {endpoint_text(k.b)}: ", state_text(k.state), f", {k.reason}")
        for k in wanting[:_MOST_REASONS]
    ]
    more = len(wanting) - _MOST_REASONS
    return lines + ([Text(f"… and {more} more links that are not up", style="dim")] if more > 0 else [])


_MOST_REASONS = 10
_WANTING = ("suspect", "held", "gray")
_LINK_NUMBERS = ("rate", "a→b", "b→a", "flows →", "←")


def host_table(hosts: Iterable["fabric_pb2.Host"]) -> Table:
    """Servers with several interfaces have a row for each, numbered as they count them."""
    hosts = sorted(hosts, key=lambda h: (h.port.switch, h.port.port_no, h.name))
    several, named = any(host.nic for host in hosts), any(host.server not in ("", host.name) for host in hosts)
    columns = ["name", *(["server"] if named else []), *(["NIC"] if several else [])]
    columns += ["addresses", "mac", "port", "rate"]
    table = plain_table("hosts", *columns, numbers=("NIC", "rate"), names=("name", "server", "addresses", "port"))
    for host in hosts:
        rate = rate_text(host.capacity_bps) if host.capacity_bps else "?"
        cells = [host.name, *([host.server] if named else []), *([str(host.nic or "")] if several else [])]
        table.add_row(*cells, "\n".join(host.addresses), host.mac, endpoint_text(host.port), rate)
    return table


def neighbour_table(neighbours: Iterable["fabric_pb2.Neighbour"]) -> Table:
    """Everybody who speaks LLDP and is no switch of ours."""
    about = ("name", "its port", "at", "says of itself")
    table = plain_table("neighbours", "kind", *about, names=("name", "its port", "says of itself"))
    for said in neighbours:
        known = (said.system_description, said.port_description, *said.management_addresses)
        words = ", ".join(text for text in known if text and text != said.port_name)
        table.add_row(said.kind, said.name, said.port_name, endpoint_text(said.port), words)
    return table


def packet_count_table(counts: Iterable["fabric_pb2.PacketCount"]) -> Table:
    table = plain_table("odd packets", "at", "packets", "what", numbers=("packets",), names=("what",))
    for count in counts:
        table.add_row(endpoint_text(count.port), str(count.packets), count.meaning)
    return table


def endpoint_text(endpoint: "fabric_pb2.Endpoint") -> str:
    return f"{endpoint.switch or format(endpoint.dpid, 'x')}:{endpoint.port_no}"


# --- plans -----------------------------------------------------------------------------------------------------------

# Moved flows named for one reason before the rest is counted.
_MOVED_SHOWN = 8


def plans_view(plans: Iterable["collective_pb2.Plan"], *, limit: int | None = None) -> RenderableType:
    plans = list(plans)
    if not plans:
        return Text("no job is announced: 'heddle announce --help' shows how to announce one")
    return Group(
        *(part for plan in plans for part in _plan_parts(plan, limit)), _certificate_line(plans[0].certificate)
    )


def plan_view(plan: "collective_pb2.Plan", *, limit: int | None = None) -> RenderableType:
    """Headline, at most `limit` flows (None: all), notes, and the certificate."""
    return Group(*_plan_parts(plan, limit), _certificate_line(plan.certificate))


def _plan_parts(plan: "collective_pb2.Plan", limit: int | None) -> list[RenderableType]:
    headline = Text.assemble(("job ", "bold"), (plan.job_id, "bold"), ": ", state_text(plan.state))
    headline.append(f", {len(plan.flows)} flows (revision {plan.revision})")
    parts: list[RenderableType] = [headline, flow_table(plan, limit=limit)]
    hidden = len(plan.flows) - limit if limit is not None else 0
    if hidden > 0:
        parts.append(Text(f"… and {hidden} more flows: --all shows them", style="dim"))
    parts += [Text(line) for line in moved_lines(plan.job_id, plan.flows)]
    return parts + [Text.assemble(("note: ", "bold yellow"), note) for note in plan.notes]


def moved_lines(job_id: str, flows: Iterable["collective_pb2.PlannedFlow"]) -> list[str]:
    """Which flows were moved and why, those with one reason together, the latest first."""
    moved: dict[tuple[int, str], list[str]] = {}
    for flow in flows:
        if flow.moved_because:
            name = f"{flow.flow_id.removeprefix(f'{job_id}/')} (was {path_text(flow.path_before).spellings[-1]})"
            moved.setdefault((flow.moved_revision, flow.moved_because), []).append(name)
    return [
        f"moved at revision {revision}, {because}: {', '.join(names[:_MOVED_SHOWN])}"
        + (f" and {len(names) - _MOVED_SHOWN} more" if len(names) > _MOVED_SHOWN else "")
        for (revision, because), names in sorted(moved.items(), reverse=True)
    ]


def _certificate_line(certificate: "collective_pb2.Certificate") -> Text:
    """A certificate is about all announced flows together, whichever job's plan it came with."""
    return Text.assemble(("all jobs together: ", "bold"), certificate_text(certificate))


def certificate_text(certificate: "collective_pb2.Certificate") -> Text:
    if certificate.max_load_s == 0:
        return Text("nothing crosses the spine: there is nothing to place")
    verdict = "proven optimal" if certificate.proven_optimal else "not proven optimal"
    text = Text.assemble(
        f"fullest link {time_text(certificate.max_load_s)}, lower bound {time_text(certificate.lower_bound_s)}, ",
        (f"gap {gap_text(certificate.gap)}", "green" if certificate.proven_optimal else "yellow"),
        f", {verdict} ({certificate.method}{f'; by {certificate.bound}' if certificate.bound else ''})",
    )
    if certificate.completion_bound_s:
        text.append(f"; no run can finish in less than {time_text(certificate.completion_bound_s)}")
    return text


def flow_table(plan: "collective_pb2.Plan", *, limit: int | None = None) -> Table:
    """Flow ids without their job; they are "SRC RANK-DST RANK", and ":UDP PORT" where that is part of the match."""
    columns = ("flow", "from", "to", "size", "QPs", "state", "path")
    table = plain_table("", *columns, numbers=("size", "QPs"), names=("flow", "from", "to", "path"))
    for flow in plan.flows[:limit]:
        table.add_row(
            flow.flow_id.removeprefix(f"{plan.job_id}/"),
            flow.src_host,
            flow.dst_host,
            size_text(flow.size_bytes),
            str(flow.queue_pairs),
            state_text(flow.state),
            path_text(flow.path) if flow.path or flow.state == "local" else "by hash",
        )
    return table


# --- explanations ----------------------------------------------------------------------------------------------------


def explained_view(flows: Iterable["collective_pb2.ExplainedFlow"]) -> RenderableType:
    return Group(*(_explained(flow) for flow in flows))


def _explained(explained: "collective_pb2.ExplainedFlow") -> RenderableType:
    flow = explained.flow
    headline = Text.assemble(("flow ", "bold"), (flow.flow_id, "bold"), f": {flow.src_host} → {flow.dst_host}, ")
    headline.append(f"{size_text(flow.size_bytes)}, ")
    headline.append_text(state_text(flow.state))
    parts: list[RenderableType] = [headline]
    if explained.candidates:
        parts.append(candidate_table(explained.candidates))
    parts.append(Text.assemble(("why: ", "bold"), explained.reason))
    if explained.HasField("certificate"):
        parts.append(_certificate_line(explained.certificate))
    return Group(*parts)


def candidate_table(candidates: Iterable["collective_pb2.Candidate"]) -> Table:
    numbers = ("without", "with it", "background")
    table = plain_table(
        "fullest link of each path, without and with this flow", "", "path", *numbers, numbers=numbers, names=("path",)
    )
    for candidate in candidates:
        table.add_row(
            Text("chosen", style="green") if candidate.chosen else "",
            path_text(candidate.path),
            time_text(candidate.load_without_s),
            time_text(candidate.load_with_s),
            rate_text(candidate.background_bps),
            style="bold" if candidate.chosen else "",
        )
    return table
