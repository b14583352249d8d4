"""Mininet's nodes and cables for a plan, made in bulk: one `ip -batch` for all cables, one script per host.

The bridges themselves are Open vSwitch's affair (`lab_bridges`). Nothing of the machine is touched: Mininet's own
start would raise the machine's limits and sysctls, so that step is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab_checks import host_interface, interface_name
from lab_namespace import LabError, run

from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink

try:
    from mininet.link import Link
    from mininet.net import Mininet
    from mininet.node import Host, Switch
except ImportError as error:
    raise SystemExit(
        f"Mininet's Python package cannot be imported ({error}): apt-get install mininet, then start by the launcher "
        "`heddle fabric`, or link /usr/lib/python3/dist-packages/mininet into this environment's site-packages"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lab_impair import Relay

# Longer than any window of `roce_traffic`, so that a sender sees delay before it sees loss at its own interface.
_HOST_QUEUE_BYTES = 1 << 20
# Frames' worth of a late timer; as at the switches' ports, see lab_filters.
_HOST_BURST_BYTES = 6056
# Routing tables of hosts with several interfaces, well clear of those that the kernel reserves (253 to 255).
_FIRST_TABLE = 100


class FabricSwitch(Switch):  # type: ignore[misc]
    """A name for Mininet's command line; the bridge of the same name is made by Open vSwitch."""

    def start(self, _controllers: Iterable[object]) -> None:
        return


class Cable(Link):  # type: ignore[misc]
    """A veth that exists already."""

    @classmethod
    def makeIntfPair(cls, *_arguments: object, **_options: object) -> None:
        return


def make_nodes(plan: FabricPlan) -> Mininet:
    """One shell per switch and one namespace per host; no cable yet."""
    Mininet.inited = True
    net = Mininet(controller=None, switch=FabricSwitch, link=Cable, build=False)
    try:
        for switch in plan.switches:
            net.addSwitch(switch.name, dpid=f"{switch.dpid:016x}", inNamespace=False)
        for host in first_interfaces(plan):
            net.addHost(host.name, cls=Host, ip=f"{host.ipv4}/{host.prefix_length}", mac=host.mac)
    except BaseException:
        end_nodes(net)
        raise
    net.built = True
    return net


def first_interfaces(plan: FabricPlan) -> list[PlannedHost]:
    """One entry for each host: its only or its first interface."""
    return list({host.name: host for host in sorted(plan.hosts, key=lambda host: -host.nic)}.values())


def end_nodes(net: Mininet) -> None:
    """Ends every shell. Their namespaces and cables go with them."""
    for node in (*net.hosts, *net.switches):
        node.terminate()


def make_cables(net: Mininet, plan: FabricPlan, mtu: int, relays: Mapping[PlannedLink, Relay]) -> None:
    """Makes all veth pairs, brings their switch ends up and tells Mininet of them."""
    lines = []
    for link in plan.links:
        if link in relays:
            relays[link].make(mtu)
            continue
        a, b = interface_name(link.a, link.a_port), interface_name(link.b, link.b_port)
        lines += [f"link add name {a} mtu {mtu} type veth peer name {b} mtu {mtu}"]
        lines += [f"link set dev {a} up", f"link set dev {b} up"]
    for host in plan.hosts:
        port, own, pid = interface_name(host.switch, host.port), host_interface(host), net[host.name].pid
        peer = f"name {own} mtu {mtu} address {host.mac} netns {pid}"
        lines += [f"link add name {port} mtu {mtu} type veth peer {peer}", f"link set dev {port} up"]
    run(["ip", "-batch", "-"], stdin="\n".join(lines) + "\n")
    for link in plan.links:
        net.addLink(net[link.a], net[link.b], port1=link.a_port, port2=link.b_port)
    for host in plan.hosts:
        net.addLink(net[host.name], net[host.switch], port1=max(host.nic - 1, 0), port2=host.port)


def configure_hosts(net: Mininet, plan: FabricPlan) -> None:
    """Gives every host its addresses and rates; all hosts at the same time. Raises LabError with what the host said."""
    interfaces: dict[str, list[PlannedHost]] = {}
    for host in plan.hosts:
        interfaces.setdefault(host.name, []).append(host)
    for name, own in interfaces.items():
        net[name].sendCmd(_host_script(own))
    faults = []
    for name in interfaces:
        said = net[name].waitOutput().strip()
        if said != "ready":
            faults.append(f"  - {name}: {said}")
    for host in plan.hosts:
        interface = net[host.name].nameToIntf[host_interface(host)]
        interface.ip, interface.prefixLen, interface.mac = host.ipv4, str(host.prefix_length), host.mac
    if faults:
        raise LabError("hosts could not be configured:\n" + "\n".join(faults))


def _host_script(interfaces: Sequence[PlannedHost]) -> str:
    first = min(interfaces, key=lambda host: host.nic)
    steps = [
        # Fails quietly where the kernel has no IPv6.
        "{ sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 2>/dev/null; true; }",
        "ip link set lo up",
    ]
    if len(interfaces) > 1:
        # Each interface speaks for its own address alone, as RDMA does; Linux would let any answer for all.
        steps.append("sysctl -q -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2")
    for host in interfaces:
        steps += _interface_steps(host)
    # Hosts of other racks may be in other subnets; the fabric answers ARP for all of them.
    steps.append(f"ip route add default dev {host_interface(first)}")
    return " && ".join((*steps, "echo ready"))


def _interface_steps(host: PlannedHost) -> Iterator[str]:
    interface = host_interface(host)
    # The userspace datapath passes frames on as they are: with offload, checksums would never be filled in.
    yield f"ethtool -K {interface} tx off >/dev/null"
    yield f"ip link set {interface} up"
    yield f"ip address add {host.ipv4}/{host.prefix_length} broadcast + dev {interface}"
    if host.nic:
        # What is sent from an interface's address leaves by that interface.
        table = _FIRST_TABLE + host.nic
        yield f"ip route add default dev {interface} src {host.ipv4} table {table}"
        yield f"ip rule add from {host.ipv4} lookup {table}"
    # The host's interface is no port of a switch, so its own rate is set here.
    yield (
        f"tc qdisc replace dev {interface} root tbf"
        f" rate {host.rate_bps}bit burst {_HOST_BURST_BYTES} limit {_HOST_QUEUE_BYTES}"
    )
