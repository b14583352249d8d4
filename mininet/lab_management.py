"""The management network: one veth from the machine's own namespace to the lab's, for OpenFlow, gRPC and sFlow.

It decides names and link-local addresses (RFC 3927, 169.254.0.0/16, one /30 per lab) that nobody else uses. The pair
vanishes with the lab's namespace.
"""

import hashlib
import ipaddress
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab_namespace import LabError, die_with_parent, enter_network, run, stop_process

PREFIX_LENGTH = 30
_ATTEMPTS = 256


@dataclass(frozen=True, slots=True)
class ManagementNetwork:
    """The root end is where the lab's switches find the controller; both addresses are IPv4 in text."""

    root_interface: str
    lab_interface: str
    root_address: str
    lab_address: str


def join_to_root(lab_name: str, root_namespace_fd: int) -> ManagementNetwork:
    """Joins the calling thread's namespace (the lab's) to the one of `root_namespace_fd`.

    The lab also gets a default route, so that any address of the machine itself is reachable; nothing is forwarded
    or translated. Raises LabError when no free /30 is found.
    """
    with _visit(root_namespace_fd):
        network = _choose(lab_name, _used_addresses(), _used_names())
        # `ip` names a namespace by a process in it; this one only waits for its end.
        holder = subprocess.Popen(["sleep", "60"], preexec_fn=die_with_parent)
    try:
        pair = ["type", "veth", "peer", "name", network.root_interface, "netns", str(holder.pid)]
        run(["ip", "link", "add", network.lab_interface, *pair])
    finally:
        stop_process(holder)
    with _visit(root_namespace_fd):
        _bring_up(network.root_interface, network.root_address)
    _bring_up(network.lab_interface, network.lab_address)
    run(["ip", "route", "add", "default", "via", network.root_address])
    return network


@contextmanager
def _visit(namespace_fd: int) -> Iterator[None]:
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_network(namespace_fd)
        try:
            yield
        finally:
            enter_network(home)
    finally:
        os.close(home)


def _bring_up(interface: str, address: str) -> None:
    run(["ip", "address", "add", f"{address}/{PREFIX_LENGTH}", "dev", interface])
    run(["ip", "link", "set", interface, "up"])


def _used_addresses() -> frozenset[ipaddress.IPv4Network]:
    """The IPv4 networks that the calling thread's namespace has addresses in or routes to, the default route apart."""
    found = set()
    for interface in json.loads(run(["ip", "-j", "-4", "address", "show"]) or "[]"):
        for address in interface.get("addr_info", ()):
            found.add(ipaddress.ip_interface(f"{address['local']}/{address['prefixlen']}").network)
    for route in json.loads(run(["ip", "-j", "-4", "route", "show"]) or "[]"):
        if route.get("dst", "default") != "default":
            found.add(ipaddress.ip_network(route["dst"], strict=False))
    return frozenset(n for n in found if isinstance(n, ipaddress.IPv4Network))


def _used_names() -> frozenset[str]:
    return frozenset(link["ifname"] for link in json.loads(run(["ip", "-j", "link", "show"])))


def _choose(
    lab_name: str, used_networks: Iterable[ipaddress.IPv4Network], used_names: Iterable[str]
) -> ManagementNetwork:
    """The same lab gets the same address again when it is free, so that a controller's configuration stays true."""
    networks, names = tuple(used_networks), frozenset(used_names)
    for attempt in range(_ATTEMPTS):
        digest = hashlib.sha256(f"{lab_name}/{attempt}".encode()).digest()
        # RFC 3927 keeps the first and last 256 addresses of 169.254.0.0/16 to itself.
        offset = 256 + 4 * (int.from_bytes(digest[:4], "big") % ((65536 - 512) // 4))
        subnet = ipaddress.ip_network((int(ipaddress.ip_address("169.254.0.0")) + offset, PREFIX_LENGTH))
        tag = digest[4:8].hex()
        root_interface, lab_interface = f"hdl{tag}r", f"hdl{tag}l"
        assert isinstance(subnet, ipaddress.IPv4Network)  # noqa: S101 - for the type checker
        if root_interface in names or any(subnet.overlaps(n) for n in networks):
            continue
        root, lab = subnet.hosts()
        return ManagementNetwork(root_interface, lab_interface, str(root), str(lab))
    raise LabError(
        f"no free /{PREFIX_LENGTH} in 169.254.0.0/16 after {_ATTEMPTS} tries; remove unused link-local routes"
    )
