"""Small fabrics for tests, made by hand so that they depend on nothing but the nouns."""

from controller.fabric.model import FabricView, Host, Link, Port, PortRef, Role, Switch
from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink, PlannedSwitch

RATE_BPS = 10_000_000


def leaf(number: int) -> int:
    return 0x100 + number


def spine(number: int) -> int:
    return 0x200 + number


def plan(leaves: int = 2, spines: int = 2, hosts: int = 2, parallel: int = 1, rate_bps: int = RATE_BPS) -> FabricPlan:
    """Leaf i: uplinks on ports 1.., then hosts; spine j: `parallel` ports for each leaf in turn."""
    switches = [PlannedSwitch(f"leaf{i}", leaf(i), Role.LEAF) for i in range(1, leaves + 1)]
    switches += [PlannedSwitch(f"spine{j}", spine(j), Role.SPINE) for j in range(1, spines + 1)]
    links = [
        PlannedLink(f"leaf{i}", (j - 1) * parallel + p, f"spine{j}", (i - 1) * parallel + p, rate_bps)
        for i in range(1, leaves + 1)
        for j in range(1, spines + 1)
        for p in range(1, parallel + 1)
    ]
    attached = [
        PlannedHost(
            name=f"h{i}{n}",
            switch=f"leaf{i}",
            port=spines * parallel + n,
            mac=f"02:00:00:00:{i:02x}:{n:02x}",
            ipv4=f"10.0.{i}.{n}",
            prefix_length=8,
            rate_bps=rate_bps,
        )
        for i in range(1, leaves + 1)
        for n in range(1, hosts + 1)
    ]
    return FabricPlan("test", tuple(switches), tuple(links), tuple(attached))


def view(of: FabricPlan, nicira: bool = True) -> FabricView:
    """The view the core would have when everything in the plan is up and seen."""
    dpid = {s.name: s.dpid for s in of.switches}
    links = tuple(
        Link(*sorted((PortRef(dpid[k.a], k.a_port), PortRef(dpid[k.b], k.b_port))), k.rate_bps) for k in of.links
    )
    hosts = tuple(Host(h.name, h.mac, (h.ipv4,), PortRef(dpid[h.switch], h.port), h.rate_bps) for h in of.hosts)
    return FabricView(
        switches={s.dpid: Switch(s.dpid, s.name, s.role, True, nicira) for s in of.switches},
        links=links,
        hosts=hosts,
    )


def port(ref: PortRef, up: bool = True) -> Port:
    return Port(ref, f"p{ref.port_no}", f"02:01:00:00:{ref.dpid & 0xFF:02x}:{ref.port_no:02x}", up)
