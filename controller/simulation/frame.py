"""Packets to Ethernet bytes and back.

Like a switch's parser, decoding goes as deep as the bytes allow and leaves the rest as payload: a truncated or foreign
upper header is no error, only a frame shorter than its Ethernet header is. IPv4 options, IPv6 extension headers, later
fragments and a second VLAN tag are not looked into. Checksums (RFC 791, 768, 9293, 792, 4443) are computed on encoding.
"""

import struct
from collections.abc import Mapping

from controller.fabric.ndp import ADVERTISEMENT, SOLICITATION
from controller.pipeline.packet import (
    ETH_ARP,
    ETH_IPV4,
    ETH_IPV6,
    ETH_VLAN,
    IP_ICMP,
    IP_ICMPV6,
    IP_TCP,
    IP_UDP,
    VLAN_PRESENT,
    Packet,
)

_ETHERNET = struct.Struct("!6s6sH")
_ARP = struct.Struct("!HHBBH6sI6sI")
_IPV4 = struct.Struct("!BBHHHBBHII")
_IPV6 = struct.Struct("!IHBB16s16s")
_LATER_FRAGMENT = 0x1FFF  # the offset bits of the flags-and-offset word


class TruncatedFrameError(ValueError):
    """The bytes end before the Ethernet header does."""


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\x00"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


# --- decoding ---------------------------------------------------------------------------------------------


def decode(frame: bytes) -> Packet:
    """Parses an Ethernet frame without its FCS. Raises TruncatedFrameError below 14 bytes."""
    if len(frame) < _ETHERNET.size:
        raise TruncatedFrameError(f"a frame of {len(frame)} bytes has no whole Ethernet header (14 bytes)")
    destination, source, eth_type = _ETHERNET.unpack_from(frame)
    headers = {"eth_dst": int.from_bytes(destination, "big"), "eth_src": int.from_bytes(source, "big")}
    rest = frame[_ETHERNET.size :]
    if eth_type == ETH_VLAN and len(rest) >= 4:
        tag, eth_type = struct.unpack_from("!HH", rest)
        headers["vlan_vid"] = VLAN_PRESENT | (tag & 0xFFF)
        headers["vlan_pcp"] = tag >> 13
        rest = rest[4:]
    headers["eth_type"] = eth_type
    if eth_type == ETH_ARP:
        rest = _decode_arp(headers, rest)
    elif eth_type == ETH_IPV4:
        rest = _decode_ipv4(headers, rest)
    elif eth_type == ETH_IPV6:
        rest = _decode_ipv6(headers, rest)
    return Packet(headers, rest)


def _decode_arp(headers: dict[str, int], data: bytes) -> bytes:
    if len(data) < _ARP.size:
        return data
    hardware, protocol, hardware_size, protocol_size, operation, sha, spa, tha, tpa = _ARP.unpack_from(data)
    if (hardware, protocol, hardware_size, protocol_size) != (1, ETH_IPV4, 6, 4):
        return data
    headers.update(
        arp_op=operation,
        arp_sha=int.from_bytes(sha, "big"),
        arp_spa=spa,
        arp_tha=int.from_bytes(tha, "big"),
        arp_tpa=tpa,
    )
    return b""  # whatever follows is Ethernet padding


def _decode_ipv4(headers: dict[str, int], data: bytes) -> bytes:
    if len(data) < _IPV4.size:
        return data
    version, tos, length, identification, fragment, ttl, protocol, _, source, destination = _IPV4.unpack_from(data)
    if version != 0x45 or not _IPV4.size <= length <= len(data):
        return data
    headers.update(ip_dscp=tos >> 2, ip_ecn=tos & 3, ip_proto=protocol, ip_ttl=ttl)
    headers.update(ipv4_src=source, ipv4_dst=destination)
    _set_unless_zero(headers, ipv4_id=identification, ipv4_frag=fragment)
    rest = data[_IPV4.size : length]
    if fragment & _LATER_FRAGMENT:
        return rest
    return _decode_transport(headers, protocol, rest)


def _decode_ipv6(headers: dict[str, int], data: bytes) -> bytes:
    if len(data) < _IPV6.size:
        return data
    word, length, next_header, hop_limit, source, destination = _IPV6.unpack_from(data)
    if word >> 28 != 6 or _IPV6.size + length > len(data):
        return data
    headers.update(ip_dscp=word >> 22 & 0x3F, ip_ecn=word >> 20 & 3, ip_proto=next_header, ip_ttl=hop_limit)
    headers.update(ipv6_src=int.from_bytes(source, "big"), ipv6_dst=int.from_bytes(destination, "big"))
    _set_unless_zero(headers, ipv6_flabel=word & 0xFFFFF)
    return _decode_transport(headers, next_header, data[_IPV6.size : _IPV6.size + length])


def _set_unless_zero(headers: dict[str, int], **fields: int) -> None:
    """Zero is what a packet built by hand has, so that both spell it the same way."""
    headers.update({name: value for name, value in fields.items() if value})


def _decode_transport(headers: dict[str, int], protocol: int, data: bytes) -> bytes:
    """UDP's payload; TCP's bytes after the ports (the checksum zeroed); ICMP's bytes after the checksum."""
    if protocol == IP_UDP and len(data) >= 8:
        headers["udp_src"], headers["udp_dst"] = struct.unpack_from("!HH", data)
        return data[8:]
    if protocol == IP_TCP and len(data) >= 20:
        headers["tcp_src"], headers["tcp_dst"] = struct.unpack_from("!HH", data)
        return data[4:16] + b"\x00\x00" + data[18:]
    name = {IP_ICMP: "icmpv4", IP_ICMPV6: "icmpv6"}.get(protocol)
    if name is not None and len(data) >= 4:
        headers[f"{name}_type"], headers[f"{name}_code"] = data[0], data[1]
        if protocol == IP_ICMPV6 and data[0] in (SOLICITATION, ADVERTISEMENT) and not data[1] and len(data) >= 24:
            # A second view of bytes that stay in the payload.
            headers["ipv6_nd_target"] = int.from_bytes(data[8:24], "big")
        return data[4:]
    return data


# --- encoding ---------------------------------------------------------------------------------------------


def encode(packet: Packet) -> bytes:
    """The Ethernet frame, without padding and FCS."""
    headers = packet.headers
    frame = headers["eth_dst"].to_bytes(6, "big") + headers["eth_src"].to_bytes(6, "big")
    if "vlan_vid" in headers:
        tag = headers.get("vlan_pcp", 0) << 13 | headers["vlan_vid"] & 0xFFF
        frame += struct.pack("!HH", ETH_VLAN, tag)
    frame += headers["eth_type"].to_bytes(2, "big")
    if "arp_op" in headers:
        return frame + _encode_arp(headers)
    if "ipv4_src" in headers:
        return frame + _encode_ipv4(headers, packet.payload)
    if "ipv6_src" in headers:
        return frame + _encode_ipv6(headers, packet.payload)
    return frame + packet.payload


def _encode_arp(headers: Mapping[str, int]) -> bytes:
    sender, target = headers["arp_sha"].to_bytes(6, "big"), headers["arp_tha"].to_bytes(6, "big")
    return _ARP.pack(1, ETH_IPV4, 6, 4, headers["arp_op"], sender, headers["arp_spa"], target, headers["arp_tpa"])


def _encode_ipv4(headers: Mapping[str, int], payload: bytes) -> bytes:
    source, destination, protocol = headers["ipv4_src"], headers["ipv4_dst"], headers["ip_proto"]
    pseudo = struct.pack("!IIxB", source, destination, protocol)
    body = _encode_transport(headers, payload, pseudo)
    tos = headers["ip_dscp"] << 2 | headers["ip_ecn"]
    fixed = (0x45, tos, _IPV4.size + len(body), headers.get("ipv4_id", 0), headers.get("ipv4_frag", 0))
    whole = (*fixed, headers["ip_ttl"], protocol)
    header_sum = checksum(_IPV4.pack(*whole, 0, source, destination))
    return _IPV4.pack(*whole, header_sum, source, destination) + body


def _encode_ipv6(headers: Mapping[str, int], payload: bytes) -> bytes:
    source, destination = headers["ipv6_src"].to_bytes(16, "big"), headers["ipv6_dst"].to_bytes(16, "big")
    pseudo = source + destination + struct.pack("!I", headers["ip_proto"])
    body = _encode_transport(headers, payload, pseudo)
    word = 6 << 28 | headers["ip_dscp"] << 22 | headers["ip_ecn"] << 20 | headers.get("ipv6_flabel", 0)
    return _IPV6.pack(word, len(body), headers["ip_proto"], headers["ip_ttl"], source, destination) + body


def _encode_transport(headers: Mapping[str, int], payload: bytes, pseudo: bytes) -> bytes:
    """`pseudo` is the checksum's pseudo-header but for the length, which is added here."""
    if "udp_src" in headers:
        length = 8 + len(payload)
        start = struct.pack("!HHH", headers["udp_src"], headers["udp_dst"], length)
        total = checksum(pseudo + struct.pack("!I", length) + start + b"\x00\x00" + payload)
        return start + struct.pack("!H", total or 0xFFFF) + payload
    if "tcp_src" in headers:
        body = struct.pack("!HH", headers["tcp_src"], headers["tcp_dst"]) + payload
        total = checksum(pseudo + struct.pack("!I", len(body)) + body)
        return body[:16] + struct.pack("!H", total) + body[18:]
    if "icmpv4_type" in headers:
        start = bytes((headers["icmpv4_type"], headers["icmpv4_code"]))
        return start + struct.pack("!H", checksum(start + b"\x00\x00" + payload)) + payload
    if "icmpv6_type" in headers:
        start = bytes((headers["icmpv6_type"], headers["icmpv6_code"]))
        total = checksum(pseudo + struct.pack("!I", 4 + len(payload)) + start + b"\x00\x00" + payload)
        return start + struct.pack("!H", total) + payload
    return payload
