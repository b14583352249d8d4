"""Says what about a plan cannot be built here, before anything is made: all faults at once, each with its cure."""

import re
from collections import Counter
from collections.abc import Iterator

from lab_namespace import LabError

from controller.fabric.plan import FabricPlan, PlannedHost

# IFNAMSIZ without the terminating zero (Linux, net/if.h).
LONGEST_INTERFACE_NAME = 15
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def interface_name(node: str, port_no: int) -> str:
    """Mininet's own spelling."""
    return f"{node}-eth{port_no}"


def host_interface(host: PlannedHost) -> str:
    """The host's own end of its cable: the n-th of several interfaces counts from 0."""
    return interface_name(host.name, max(host.nic - 1, 0))


def check_plan(plan: FabricPlan) -> None:
    """Raises LabError with one line per fault."""
    faults = [*_names(plan), *_references(plan), *_ports(plan), *_identities(plan), *_rates(plan)]
    if faults:
        raise LabError(f"the fabric {plan.name!r} cannot be built:\n" + "\n".join(f"  - {fault}" for fault in faults))


def _names(plan: FabricPlan) -> Iterator[str]:
    highest: dict[str, int] = {s.name: 0 for s in plan.switches}
    for host in plan.hosts:
        highest[host.name] = max(highest.get(host.name, 0), host.nic - 1)
    for switch, port in _all_ports(plan):
        highest[switch] = max(highest.get(switch, 0), port)
    for node, port in highest.items():
        name = interface_name(node, port)
        if not _NAME.fullmatch(node):
            yield f"{node!r} is no interface name: start with a letter, then letters, digits and . _ -"
        elif len(name) > LONGEST_INTERFACE_NAME:
            spare = LONGEST_INTERFACE_NAME - len(name) + len(node)
            yield f"{node}: its interface {name} has {len(name)} characters, 15 at most; use a name of {spare} or fewer"
    for name, times in Counter([s.name for s in plan.switches] + [h.name for h in plan.hosts if h.nic <= 1]).items():
        if times > 1:
            yield f"{name}: {times} switches or hosts have this name; give each its own"


def _references(plan: FabricPlan) -> Iterator[str]:
    switches = {s.name for s in plan.switches}
    for switch, port in _all_ports(plan):
        if switch not in switches:
            yield f"{switch}: port {port} is used but there is no such switch"


def _ports(plan: FabricPlan) -> Iterator[str]:
    for (switch, port), times in Counter(_all_ports(plan)).items():
        if times > 1:
            yield f"{switch}: port {port} is used by {times} cables"
        # OpenFlow 1.3, OFPP_MAX is 0xffffff00; Open vSwitch takes requests up to 65279.
        if not 1 <= port <= 65279:
            yield f"{switch}: port {port} is outside 1 to 65279"


def _identities(plan: FabricPlan) -> Iterator[str]:
    for what, values in (
        ("dpid", [f"{s.dpid:#x}" for s in plan.switches]),
        ("MAC", [h.mac.lower() for h in plan.hosts]),
        ("address", [h.ipv4 for h in plan.hosts]),
    ):
        for value, times in Counter(values).items():
            if times > 1:
                yield f"{what} {value} is used {times} times"


def _rates(plan: FabricPlan) -> Iterator[str]:
    for link in plan.links:
        if link.rate_bps <= 0:
            yield f"link {link.a}:{link.a_port} to {link.b}:{link.b_port}: rate {link.rate_bps} bit/s is not above 0"
    for host in plan.hosts:
        if host.rate_bps <= 0:
            yield f"host {host.label}: rate {host.rate_bps} bit/s is not above 0"


def _all_ports(plan: FabricPlan) -> list[tuple[str, int]]:
    ports = [end for link in plan.links for end in ((link.a, link.a_port), (link.b, link.b_port))]
    return ports + [(host.switch, host.port) for host in plan.hosts]
