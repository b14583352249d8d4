"""Static rules for a fabric without a controller: routes by destination, and chosen uplinks for chosen flows.

For measuring the lab itself and for tests of it; it knows two tiers, no failures and no ECMP.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lab_namespace import LabError

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink

if TYPE_CHECKING:
    from lab_fabric import FabricLab

_ROUTE_PRIORITY = 100
_FLOW_PRIORITY = 200


def lay_static_rules(lab: "FabricLab", spine_of: Mapping[tuple[str, str], str] | None = None) -> None:
    """Routes all hosts, teaches them their neighbours, and steers (source host, destination host) over a spine.

    What `spine_of` does not name goes over the first spine in the plan.
    """
    rules = static_rules(lab.plan, spine_of or {})
    for switch, lines in rules.items():
        lab.ovs.ofctl("add-flows", switch, "-", stdin="\n".join(lines) + "\n")
    lab.teach_neighbours()


def static_rules(plan: FabricPlan, spine_of: Mapping[tuple[str, str], str]) -> dict[str, list[str]]:
    """Switch name -> `ovs-ofctl add-flows` lines."""
    hosts = {h.name: h for h in plan.hosts}
    first_spine = next((s.name for s in plan.switches if s.role == Role.SPINE), "")
    rules: dict[str, list[str]] = {s.name: [] for s in plan.switches}
    for switch in plan.switches:
        for host in plan.hosts:
            towards = first_spine if switch.role == Role.LEAF else host.switch
            out = host.port if host.switch == switch.name else _port_towards(plan.links, switch.name, towards)
            if out:
                rules[switch.name].append(f"priority={_ROUTE_PRIORITY},ip,nw_dst={host.ipv4},actions=output:{out}")
    for (source, target), spine in spine_of.items():
        leaf = hosts[source].switch
        if leaf != hosts[target].switch:
            rules[leaf].append(_flow_rule(plan, hosts[source], hosts[target], leaf, spine))
    return rules


def _flow_rule(plan: FabricPlan, source: PlannedHost, target: PlannedHost, leaf: str, spine: str) -> str:
    out = _port_towards(plan.links, leaf, spine)
    if not out:
        raise LabError(f"no cable between {leaf!r} and {spine!r} for {source.name} to {target.name}")
    return f"priority={_FLOW_PRIORITY},ip,nw_src={source.ipv4},nw_dst={target.ipv4},actions=output:{out}"


def _port_towards(links: tuple[PlannedLink, ...], switch: str, neighbour: str) -> int:
    """0 when there is no cable."""
    for link in links:
        if (link.a, link.b) == (switch, neighbour):
            return link.a_port
        if (link.b, link.a) == (switch, neighbour):
            return link.b_port
    return 0
