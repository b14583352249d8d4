"""Fabrics for the flow simulator: from a plan, by dimensions, or with every spine and core twice.

Decides names and numbers of what it makes; they are those of topology files where these can say as much.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from controller.fabric.model import FabricView, Host, Link, PortRef, Role, Switch
from controller.fabric.plan import FabricPlan

_LEAF, _SPINE, _CORE = 0x1_0000, 0x4_0000, 0x8_0000
# Added to the datapath id and port numbers of the second copy.
_TWIN = 0x100_0000


@dataclass(frozen=True, slots=True)
class Shape:
    """`leaves` and `spines` are those of each pod, `cores` those above the n-th spine of every pod (0: two tiers)."""

    leaves: int
    spines: int
    hosts_per_leaf: int
    uplink_bps: int
    host_bps: int
    links_per_pair: int = 1
    pods: int = 1
    cores: int = 0
    core_bps: int = 0


def planned_view(plan: FabricPlan) -> FabricView:
    """The plan with everything up."""
    dpid = {s.name: s.dpid for s in plan.switches}
    cables = ((PortRef(dpid[k.a], k.a_port), PortRef(dpid[k.b], k.b_port), k.rate_bps) for k in plan.links)
    hosts = (Host(h.name, h.mac, (h.ipv4,), PortRef(dpid[h.switch], h.port), h.rate_bps, nic=h.nic) for h in plan.hosts)
    switches = {s.dpid: Switch(s.dpid, s.name, s.role, True) for s in plan.switches}
    return FabricView(switches, tuple(_link(a, b, rate) for a, b, rate in cables), tuple(hosts))


def _link(a: PortRef, b: PortRef, rate_bps: int) -> Link:
    return Link(min(a, b), max(a, b), rate_bps)


def shaped_view(shape: Shape) -> FabricView:
    """Leaves and spines are numbered through all pods from 1 on; host n of leaf i is "hI_N"."""
    switches: dict[int, Switch] = {}
    for role, first, count in (
        (Role.LEAF, _LEAF, shape.pods * shape.leaves),
        (Role.SPINE, _SPINE, shape.pods * shape.spines),
        (Role.CORE, _CORE, shape.spines * shape.cores),
    ):
        for number in range(1, count + 1):
            switches[first + number] = Switch(first + number, f"{role}{number}", role, True)
    return FabricView(switches, tuple(_cables(shape)), tuple(_hosts(shape)))


def _cables(shape: Shape) -> Iterator[Link]:
    parallel = shape.links_per_pair
    for pod in range(shape.pods):
        for j in range(shape.spines):
            spine = _SPINE + 1 + pod * shape.spines + j
            for i in range(shape.leaves):
                leaf = _LEAF + 1 + pod * shape.leaves + i
                for n in range(1, parallel + 1):
                    ends = PortRef(leaf, j * parallel + n), PortRef(spine, i * parallel + n)
                    yield Link(*ends, shape.uplink_bps)
            for k in range(shape.cores):
                core = _CORE + 1 + j * shape.cores + k
                yield Link(PortRef(spine, shape.leaves * parallel + 1 + k), PortRef(core, 1 + pod), shape.core_bps)


def _hosts(shape: Shape) -> Iterator[Host]:
    for i in range(1, shape.pods * shape.leaves + 1):
        for n in range(1, shape.hosts_per_leaf + 1):
            port = PortRef(_LEAF + i, shape.spines * shape.links_per_pair + n)
            yield Host(f"h{i}_{n}", "", (f"h{i}_{n}",), port, shape.host_bps)


def widened(view: FabricView) -> FabricView:
    """The same with every spine and core twice, so that each leaf has twice the uplinks."""
    upper = {dpid: s for dpid, s in view.switches.items() if s.role in (Role.SPINE, Role.CORE)}
    twins = {dpid + _TWIN: replace(s, dpid=dpid + _TWIN, name=f"{s.name}b") for dpid, s in upper.items()}

    def twin(port: PortRef) -> PortRef:
        in_upper = port.dpid in upper
        return PortRef(port.dpid + _TWIN, port.port_no) if in_upper else PortRef(port.dpid, port.port_no + _TWIN)

    copies = tuple(_link(twin(link.a), twin(link.b), link.capacity_bps) for link in view.links)
    return FabricView({**view.switches, **twins}, view.links + copies, view.hosts)
