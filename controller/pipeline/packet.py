"""A packet as a value: its header fields by name and its payload.

This module decides which header fields a packet has; how they lie on the wire is decided in `simulation.frame`. Names
are those of OpenFlow 1.3 (OXM), lower case, as in `controller.pipeline.rules.FIELD_BITS`. Four more are needed that OXM
has no name for: `ip_ttl` (IPv6: hop limit), `ipv4_id`, `ipv4_frag` (flags and offset, 16 bits) and `ipv6_flabel`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

ETH_IPV4 = 0x0800
ETH_ARP = 0x0806
ETH_VLAN = 0x8100
ETH_IPV6 = 0x86DD
ETH_LLDP = 0x88CC
IP_ICMP = 1
IP_TCP = 6
IP_UDP = 17
IP_ICMPV6 = 58
ROCE_PORT = 4791
ARP_REQUEST = 1
ARP_REPLY = 2
BROADCAST_MAC = (1 << 48) - 1
VLAN_PRESENT = 0x1000  # OFPVID_PRESENT
DEFAULT_TTL = 64

# A TCP header after its two ports: sequence 0, acknowledgement 0, 5 words, SYN, window 64 KiB - 1, no checksum yet.
_TCP_SYN = bytes(8) + b"\x50\x02\xff\xff" + bytes(4)

# A field that is there when its header is -> the header's bytes (of TCP and ICMP: those not in the payload).
_HEADER_BYTES = {
    "vlan_vid": 4,
    "arp_op": 28,
    "ipv4_src": 20,
    "ipv6_src": 40,
    "udp_dst": 8,
    "tcp_dst": 4,
    "icmpv4_type": 4,
    "icmpv6_type": 4,
}


@dataclass(frozen=True, slots=True)
class Packet:
    """Header fields that are present, and the bytes after the last parsed header. Readers must not change `headers`."""

    headers: Mapping[str, int]
    payload: bytes = b""

    def get(self, name: str) -> int | None:
        return self.headers.get(name)

    @property
    def size_bytes(self) -> int:
        """The length of the Ethernet frame, without padding and FCS."""
        return 14 + sum(size for name, size in _HEADER_BYTES.items() if name in self.headers) + len(self.payload)

    def with_fields(self, **fields: int) -> "Packet":
        return Packet({**self.headers, **fields}, self.payload)


def mac_value(text: str) -> int:
    """The number in "aa:bb:cc:dd:ee:ff"."""
    return int(text.replace(":", ""), 16)


def mac_text(value: int) -> str:
    return value.to_bytes(6, "big").hex(":")


def ip_value(text: str) -> int:
    """The number in an IPv4 or IPv6 address. Raises ValueError."""
    return int(ip_address(text))


def _ip(
    source: str, destination: str, source_mac: str, destination_mac: str, protocol: int, dscp: int, ecn: int, ttl: int
) -> dict[str, int]:
    """Ethernet and IP headers; the family is that of the addresses."""
    version = ip_address(source).version
    if version != ip_address(destination).version:
        raise ValueError(f"{source} and {destination} are not of one address family")
    family = "ipv4" if version == 4 else "ipv6"
    return {
        "eth_dst": mac_value(destination_mac),
        "eth_src": mac_value(source_mac),
        "eth_type": ETH_IPV4 if version == 4 else ETH_IPV6,
        f"{family}_src": ip_value(source),
        f"{family}_dst": ip_value(destination),
        "ip_dscp": dscp,
        "ip_ecn": ecn,
        "ip_proto": protocol,
        "ip_ttl": ttl,
    }


def udp(
    source: str,
    destination: str,
    source_mac: str,
    destination_mac: str,
    udp_src: int,
    udp_dst: int = ROCE_PORT,
    *,
    dscp: int = 0,
    ecn: int = 0,
    ttl: int = DEFAULT_TTL,
    payload: bytes = b"",
) -> Packet:
    """A UDP packet over IPv4 or IPv6; by default to RoCEv2's port."""
    headers = _ip(source, destination, source_mac, destination_mac, IP_UDP, dscp, ecn, ttl)
    return Packet({**headers, "udp_src": udp_src, "udp_dst": udp_dst}, payload)


def tcp(
    source: str,
    destination: str,
    source_mac: str,
    destination_mac: str,
    tcp_src: int,
    tcp_dst: int,
    *,
    dscp: int = 0,
    ttl: int = DEFAULT_TTL,
) -> Packet:
    """A TCP SYN over IPv4 or IPv6."""
    headers = _ip(source, destination, source_mac, destination_mac, IP_TCP, dscp, 0, ttl)
    return Packet({**headers, "tcp_src": tcp_src, "tcp_dst": tcp_dst}, _TCP_SYN)


def icmp_echo(source: str, destination: str, source_mac: str, destination_mac: str, *, sequence: int = 1) -> Packet:
    """An echo request ("ping") over IPv4 or IPv6."""
    if ip_address(source).version == 4:
        headers = _ip(source, destination, source_mac, destination_mac, IP_ICMP, 0, 0, DEFAULT_TTL)
        kind = {"icmpv4_type": 8, "icmpv4_code": 0}
    else:
        headers = _ip(source, destination, source_mac, destination_mac, IP_ICMPV6, 0, 0, DEFAULT_TTL)
        kind = {"icmpv6_type": 128, "icmpv6_code": 0}
    return Packet({**headers, **kind}, b"\x00\x01" + sequence.to_bytes(2, "big"))


def arp(operation: int, sender_mac: int, sender_ip: int, target_mac: int, target_ip: int) -> Packet:
    """An ARP packet; requests are broadcast, replies go to the target."""
    return Packet(
        {
            "eth_dst": BROADCAST_MAC if operation == ARP_REQUEST else target_mac,
            "eth_src": sender_mac,
            "eth_type": ETH_ARP,
            "arp_op": operation,
            "arp_sha": sender_mac,
            "arp_spa": sender_ip,
            "arp_tha": target_mac,
            "arp_tpa": target_ip,
        }
    )
