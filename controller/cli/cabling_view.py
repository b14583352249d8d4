"""A cabling verdict as a table, as JSON and as a picture; it decides nothing about what is wrong."""

from collections import Counter
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from controller.cli.picture_cabling import RIGHT
from controller.cli.picture_description import FabricPicture, PictureHost, PictureLink, PictureSwitch
from controller.cli.tables import plain_table, rail_text
from controller.fabric.cabling import CableEnd, CablingPlan, SeenCable, SeenEnd, SeenFabric, is_nic_port
from controller.fabric.cabling_verdict import CablingVerdict, Finding, Kind

_DRAWN_AS_PLANNED = {Kind.MISSING, Kind.MISWIRED}


def summary(found: CablingVerdict) -> str:
    """One line: how much is right, and how much of what is not."""
    counts = Counter(finding.kind for finding in found.findings)
    parts = [f"{len(found.right)} of {found.planned} cables right"]
    parts += [f"{counts[kind]} {_plural(kind, counts[kind])}" for kind in Kind if counts[kind]]
    return f"plan {found.plan}: {', '.join(parts)}"


def _plural(kind: Kind, count: int) -> str:
    return "hosts not seen" if kind is Kind.SILENT_HOST and count != 1 else str(kind)


def view(found: CablingVerdict, plan: CablingPlan) -> RenderableType:
    """Nothing but the summary when all is right."""
    parts: list[RenderableType] = [Text(summary(found), style="" if found.holds else "bold red")]
    parts += [Text(f"remark: {remark}") for remark in plan.remarks]
    if found.findings:
        table = plain_table("", "what", "expected", "found", "cure", names=("expected", "found", "cure"))
        for finding in found.findings:
            style = "bold red" if finding.fault else "yellow"
            table.add_row(Text(finding.kind, style=style), finding.expected, finding.found, finding.cure)
        parts.append(table)
    return Group(*parts)


def as_plain(found: CablingVerdict, plan: CablingPlan) -> dict[str, Any]:
    """`findings` in the order of the table; rates are bit/s, null where unknown."""
    return {
        "plan": found.plan,
        "source": plan.source,
        "holds": found.holds,
        "planned": found.planned,
        "right": len(found.right),
        "findings": [_plain_finding(finding) for finding in found.findings],
        "remarks": list(plan.remarks),
    }


def _plain_finding(finding: Finding) -> dict[str, Any]:
    planned = finding.planned
    return {
        "kind": finding.kind.value,
        "fault": finding.fault,
        "expected": finding.expected,
        "found": finding.found,
        "cure": finding.cure,
        "place": planned.place if planned else "",
        "planned": _plain_cable(planned.a, planned.b, planned.rate_bps, planned.state) if planned else None,
        "seen": [_plain_cable(c.a, c.b, c.rate_bps, c.state) for c in finding.seen],
    }


def _plain_cable(a: CableEnd | SeenEnd, b: CableEnd | SeenEnd, rate_bps: int | None, state: str) -> dict[str, Any]:
    return {"a": str(a), "b": str(b), "rate_bps": rate_bps, "state": state}


# --- the picture -----------------------------------------------------------------------------------------------------


def picture(found: CablingVerdict, seen: SeenFabric) -> FabricPicture:
    """Every cable between switches: as found, and what is missing as it was meant."""
    hosts = set(seen.hosts) | {f.planned.a.node for f in found.findings if f.kind is Kind.SILENT_HOST and f.planned}
    verdicts = _verdicts(found)
    links = [_seen_link(c, verdicts.get(c, RIGHT)) for c in seen.cables if c.state != "down" and not _ends_at(c, hosts)]
    for finding in found.findings:
        planned = finding.planned
        if finding.kind in _DRAWN_AS_PLANNED and planned and not {planned.a.node, planned.b.node} & hosts:
            links.append(_link(planned.a, planned.b, Kind.MISSING, planned.a.port, planned.b.port))
    roles = {s.name: (s.role.value, s.connected, rail_text(s.rails)) for s in seen.switches}
    nodes = dict.fromkeys([*roles, *(end for link in links for end in (link.a, link.b))])
    switches = tuple(PictureSwitch(name, *roles.get(name, ("unknown", False))) for name in nodes)
    at = {(c.a.node, c.a.name, c.b.node): str(verdicts.get(c, RIGHT)) for c in seen.cables if c.a.node in seen.hosts}
    for finding in found.findings:
        if finding.kind is Kind.SILENT_HOST and finding.planned:
            ends = (finding.planned.a, finding.planned.b)
            host, switch = ends if ends[0].node in hosts else ends[::-1]
            at.setdefault((host.node, host.port, switch.node), str(finding.kind))
    drawn_hosts = tuple(
        PictureHost(_interface(*host), switch, verdict) for (*host, switch), verdict in at.items() if switch in nodes
    )
    return FabricPicture("Cabling", switches, tuple(links), drawn_hosts, summary(found), cabling=True)


def _interface(host: str, port: str) -> str:
    return f"{host}:{port.removeprefix('nic')}" if is_nic_port(port) else host


def _verdicts(found: CablingVerdict) -> dict[SeenCable, Kind]:
    """The first finding about a cable is the gravest."""
    verdicts: dict[SeenCable, Kind] = {}
    for finding in found.findings:
        for cable in finding.seen:
            verdicts.setdefault(cable, finding.kind)
    return verdicts


def _ends_at(cable: SeenCable, hosts: set[str]) -> bool:
    return bool({cable.a.node, cable.b.node} & hosts)


def _seen_link(cable: SeenCable, kind: str) -> PictureLink:
    return _link(cable.a, cable.b, kind, _port(cable.a), _port(cable.b))


def _port(end: SeenEnd) -> str:
    return str(end).removeprefix(f"{end.node}:")


def _link(a: CableEnd | SeenEnd, b: CableEnd | SeenEnd, kind: str, at_a: str, at_b: str) -> PictureLink:
    return PictureLink(a.node, b.node, a_to_b_label=at_a, b_to_a_label=at_b, verdict=str(kind))
