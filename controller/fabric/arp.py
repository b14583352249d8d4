"""ARP frames (RFC 826): read and written, nothing decided."""

import ipaddress
import struct
from dataclasses import dataclass

from controller.fabric.beacon import payload_offset

ETHERTYPE_ARP = 0x0806
BROADCAST = "ff:ff:ff:ff:ff:ff"
# Sender of the controller's own questions; locally administered, and no host's.
PROBE_MAC = "02:48:44:00:00:01"
REQUEST, REPLY = 1, 2
_ETHERNET_IPV4 = struct.pack("!HHBB", 1, 0x0800, 6, 4)


@dataclass(frozen=True, slots=True)
class Arp:
    operation: int
    sender_mac: str
    sender_ip: str
    target_mac: str
    target_ip: str


def decode(frame: bytes) -> Arp | None:
    """The ARP message in an Ethernet frame; None when it is not a whole Ethernet/IPv4 one."""
    located = payload_offset(frame)
    if located is None or located[0] != ETHERTYPE_ARP:
        return None
    body = frame[located[1] : located[1] + 28]
    if len(body) < 28 or body[:6] != _ETHERNET_IPV4:
        return None
    return Arp(
        operation=int.from_bytes(body[6:8], "big"),
        sender_mac=body[8:14].hex(":"),
        sender_ip=str(ipaddress.IPv4Address(body[14:18])),
        target_mac=body[18:24].hex(":"),
        target_ip=str(ipaddress.IPv4Address(body[24:28])),
    )


def encode(arp: Arp, destination: str) -> bytes:
    """The whole Ethernet frame, from `arp.sender_mac` to `destination`."""

    def mac(text: str) -> bytes:
        return bytes.fromhex(text.replace(":", ""))

    def ip(text: str) -> bytes:
        return ipaddress.IPv4Address(text).packed

    header = mac(destination) + mac(arp.sender_mac) + struct.pack("!H", ETHERTYPE_ARP)
    body = _ETHERNET_IPV4 + struct.pack("!H", arp.operation)
    return header + body + mac(arp.sender_mac) + ip(arp.sender_ip) + mac(arp.target_mac) + ip(arp.target_ip)
