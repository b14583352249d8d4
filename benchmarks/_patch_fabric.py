"""A leaf-spine fabric of bridges that carry next to nothing: patch ports for cables, one more bridge for all hosts.

It decides what the programming benchmark programs. Nothing is forwarded but beacons and the hosts' ARP, so what is
measured is control plane alone; 24 switches and 192 cables start in seconds.
"""

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "mininet"))

from lab_namespace import private_network  # noqa: E402 - found with the lab's folder on the path
from lab_ovs import PrivateOvs  # noqa: E402

from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink  # noqa: E402

OPENFLOW = "tcp:127.0.0.1:6653"
_HOSTS = "hosts"
_BROADCAST = "ff" * 6
_CABLES_AT_ONCE = 64


@contextmanager
def patch_fabric(plan: FabricPlan, directory: Path) -> Iterator[PrivateOvs]:
    """A running Open vSwitch with every switch and cable of `plan`, in a network namespace of its own."""
    with patch_switches(plan, directory) as ovs:
        ovs.vsctl("add-br", _HOSTS, "--", "set", "bridge", _HOSTS, "datapath_type=netdev", "fail_mode=secure")
        hosts = enumerate(plan.hosts, 1)
        _patch(ovs, [((host.switch, host.port), (_HOSTS, number)) for number, host in hosts])
        yield ovs


@contextmanager
def patch_switches(plan: FabricPlan, directory: Path) -> Iterator[PrivateOvs]:
    """The same without hosts: their ports do not exist."""
    with private_network(), PrivateOvs(directory) as ovs:
        for switch in plan.switches:
            settings = ["datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow13"]
            settings.append(f"other_config:datapath-id={switch.dpid:016x}")
            ovs.vsctl("add-br", switch.name, "--", "set", "bridge", switch.name, *settings)
        _patch(ovs, [((link.a, link.a_port), (link.b, link.b_port)) for link in plan.links])
        yield ovs


def connect(ovs: PrivateOvs, plan: FabricPlan) -> None:
    for switch in plan.switches:
        settings = ["max_backoff=1000", "connection_mode=out-of-band", "inactivity_probe=30000"]
        ovs.vsctl("set-controller", switch.name, OPENFLOW, "--", "set", "controller", switch.name, *settings)


def disconnect(ovs: PrivateOvs, plan: FabricPlan) -> None:
    """No controller, and nothing left of what it programmed."""
    for switch in plan.switches:
        ovs.vsctl("del-controller", switch.name)
        ovs.ofctl("del-flows", switch.name)
        ovs.ofctl("del-groups", switch.name)


def show_hosts(ovs: PrivateOvs, plan: FabricPlan) -> None:
    """Every host says once who it is, as servers do when their link comes up (gratuitous ARP)."""
    for number, host in enumerate(plan.hosts, 1):
        ovs.ofctl("packet-out", _HOSTS, f"in_port=LOCAL packet={_gratuitous_arp(host)} actions=output:{number}")


def _gratuitous_arp(host: PlannedHost) -> str:
    mac, address = host.mac.replace(":", ""), ipaddress.IPv4Address(host.ipv4).packed.hex()
    return f"{_BROADCAST}{mac}0806" + f"0001080006040001{mac}{address}{'00' * 6}{address}" + "00" * 18


End = tuple[str, int]


def _patch(ovs: PrivateOvs, cables: list[tuple[End, End]]) -> None:
    for first in range(0, len(cables), _CABLES_AT_ONCE):
        arguments: list[str] = []
        for a, b in cables[first : first + _CABLES_AT_ONCE]:
            for here, there in ((a, b), (b, a)):
                arguments += ["--", "add-port", here[0], _port(here), "--", "set", "interface", _port(here)]
                arguments += ["type=patch", f"options:peer={_port(there)}", f"ofport_request={here[1]}"]
        ovs.vsctl(*arguments[1:])


def _port(end: End) -> str:
    return f"{end[0]}-p{end[1]}"


# --- silent losses: no switch reports any of them ------------------------------------------------------------


def cut_silently(ovs: PrivateOvs, link: PlannedLink) -> None:
    """Both ends lead nowhere."""
    for end in ((link.a, link.a_port), (link.b, link.b_port)):
        ovs.vsctl("set", "interface", _port(end), "options:peer=nowhere")


def drop_arrivals(ovs: PrivateOvs, link: PlannedLink) -> None:
    """A rule at end `a` drops what arrives there."""
    ovs.ofctl("add-flow", link.a, f"priority=65535,in_port={link.a_port},actions=drop")


def restore(ovs: PrivateOvs, link: PlannedLink) -> None:
    a, b = (link.a, link.a_port), (link.b, link.b_port)
    ovs.ofctl("--strict", "del-flows", link.a, f"priority=65535,in_port={link.a_port}")
    for here, there in ((a, b), (b, a)):
        ovs.vsctl("set", "interface", _port(here), f"options:peer={_port(there)}")
