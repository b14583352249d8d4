"""What hosts do so that a fabric can be looked at: announce themselves, learn neighbours, ping."""

from __future__ import annotations

import ipaddress
import re
import socket
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING

from lab_checks import host_interface
from lab_namespace import die_with_parent, inside, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from controller.fabric.plan import PlannedHost


def gratuitous_arp(mac: str, ipv4: str) -> bytes:
    """An ARP request for one's own address to all (RFC 5227, 3): the whole Ethernet frame."""
    source = bytes.fromhex(mac.replace(":", ""))
    address = ipaddress.IPv4Address(ipv4).packed
    header = b"\xff" * 6 + source + b"\x08\x06"
    request = b"\x00\x01\x08\x00\x06\x04\x00\x01"
    return header + request + source + address + b"\x00" * 6 + address


def announce(hosts: Iterable[PlannedHost], pid_of: Callable[[str], int], times: int, gap_s: float) -> None:
    """Every host says who it is, `times` times, `gap_s` apart; frames are sent from inside the hosts' namespaces."""
    sockets = [
        (inside(pid_of(h.name), partial(_packet_socket, host_interface(h))), gratuitous_arp(h.mac, h.ipv4))
        for h in hosts
    ]
    try:
        for turn in range(times):
            if turn:
                time.sleep(gap_s)
            for sending, frame in sockets:
                sending.send(frame)
    finally:
        for sending, _ in sockets:
            sending.close()


def teach_neighbours(hosts: Sequence[PlannedHost], pid_of: Callable[[str], int]) -> None:
    """Permanent neighbour entries for everybody at everybody: for a fabric without a controller to answer ARP."""
    for host in hosts:
        interface = host_interface(host)
        others = [other for other in hosts if other is not host]
        lines = [f"neigh replace {o.ipv4} lladdr {o.mac} nud permanent dev {interface}\n" for o in others]
        run(["mnexec", "-a", str(pid_of(host.name)), "ip", "-batch", "-"], stdin="".join(lines))


def ping_pairs(
    pairs: Iterable[tuple[str, str]], address_of: Callable[[str], str], pid_of: Callable[[str], int], timeout_s: float
) -> dict[tuple[str, str], float | None]:
    """One echo request for every (from, to), all at once: round-trip time in ms, or None where no answer came."""
    running = []
    for source, target in pairs:
        command = ["mnexec", "-a", str(pid_of(source)), "ping", "-n", "-c", "1", "-W", f"{timeout_s:.1f}"]
        command += ["-I", address_of(source)]
        process = subprocess.Popen(
            [*command, address_of(target)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=die_with_parent
        )
        running.append(((source, target), process))
    results: dict[tuple[str, str], float | None] = {}
    for pair, process in running:
        said = process.communicate()[0].decode(errors="replace")
        found = re.search(r"time=([\d.]+) ms", said)
        results[pair] = float(found[1]) if found else None
    return results


def _packet_socket(interface: str) -> socket.socket:
    sending = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sending.bind((interface, 0))
    return sending
