"""Packets and frames: the round trip, and scapy as the second opinion on every byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

from controller.pipeline.packet import (
    ARP_REPLY,
    ETH_LLDP,
    VLAN_PRESENT,
    Packet,
    arp,
    icmp_echo,
    ip_value,
    mac_text,
    mac_value,
    tcp,
    udp,
)
from controller.simulation.frame import TruncatedFrameError, decode, encode

V4 = ("10.0.1.1", "10.0.2.9", "02:00:00:00:01:01", "02:00:00:00:02:09")
V6 = ("fd00::1:1", "fd00::2:9", *V4[2:])
ETHER = Ether(src=V4[2], dst=V4[3])


def scapy_bytes(frame: Ether) -> bytes:
    """Built, with all checksums filled in."""
    return bytes(frame)


@pytest.mark.parametrize(
    ("packet", "frame"),
    [
        pytest.param(
            udp(*V4, 49152, dscp=26, ecn=2, ttl=9, payload=b"odd"),
            ETHER / IP(src=V4[0], dst=V4[1], tos=26 << 2 | 2, ttl=9, id=0) / UDP(sport=49152, dport=4791) / Raw(b"odd"),
            id="udp4",
        ),
        pytest.param(
            udp(*V6, 49152, dscp=26, ttl=9, payload=b"abcd"),
            ETHER / IPv6(src=V6[0], dst=V6[1], tc=26 << 2, hlim=9) / UDP(sport=49152, dport=4791) / Raw(b"abcd"),
            id="udp6",
        ),
        pytest.param(
            tcp(*V4, 5000, 22),
            ETHER / IP(src=V4[0], dst=V4[1], id=0) / TCP(sport=5000, dport=22, seq=0, window=65535),
            id="tcp4",
        ),
        pytest.param(
            tcp(*V6, 5000, 22),
            ETHER / IPv6(src=V6[0], dst=V6[1]) / TCP(sport=5000, dport=22, seq=0, window=65535),
            id="tcp6",
        ),
        pytest.param(
            icmp_echo(*V4, sequence=7), ETHER / IP(src=V4[0], dst=V4[1], id=0) / ICMP(id=1, seq=7), id="ping4"
        ),
        pytest.param(
            icmp_echo(*V6, sequence=7), ETHER / IPv6(src=V6[0], dst=V6[1]) / ICMPv6EchoRequest(id=1, seq=7), id="ping6"
        ),
        pytest.param(
            arp(ARP_REPLY, mac_value(V4[2]), ip_value(V4[0]), mac_value(V4[3]), ip_value(V4[1])),
            ETHER / ARP(op=2, hwsrc=V4[2], psrc=V4[0], hwdst=V4[3], pdst=V4[1]),
            id="arp",
        ),
    ],
)
def test_frames_are_scapys(packet: Packet, frame: Ether) -> None:
    # scapy's default TTL is 64 as well.
    expected = scapy_bytes(frame)
    assert encode(packet) == expected
    assert packet.size_bytes == len(expected)
    decoded = decode(expected)
    assert decoded.headers == packet.headers
    assert encode(decoded) == expected


def test_a_vlan_tag_is_a_field() -> None:
    frame = scapy_bytes(ETHER / Dot1Q(vlan=1789, prio=5) / IP(src=V4[0], dst=V4[1], id=3, flags="DF") / UDP(sport=1))
    packet = decode(frame)
    assert packet.get("vlan_vid") == VLAN_PRESENT | 1789
    assert (packet.get("vlan_pcp"), packet.get("udp_src"), packet.get("ipv4_id")) == (5, 1, 3)
    assert encode(packet) == frame


def test_lldp_is_opaque() -> None:
    frame = bytes.fromhex("0180c200000e02000000010188cc") + b"\x02\x07\x04whatever"
    packet = decode(frame)
    assert packet == Packet(
        {"eth_dst": 0x0180C200000E, "eth_src": 0x020000000101, "eth_type": ETH_LLDP}, b"\x02\x07\x04whatever"
    )
    assert encode(packet) == frame


@pytest.mark.parametrize("size", [0, 6, 13])
def test_a_frame_without_an_ethernet_header_is_refused(size: int) -> None:
    with pytest.raises(TruncatedFrameError, match=f"{size} bytes"):
        decode(bytes(size))


def test_ethernet_padding_is_not_payload() -> None:
    packet = udp(*V4, 49152, payload=b"x")
    assert decode(encode(packet) + bytes(17)) == packet


def test_a_later_fragment_has_no_ports() -> None:
    frame = scapy_bytes(ETHER / IP(src=V4[0], dst=V4[1], frag=100, proto=17) / Raw(b"12345678rest"))
    packet = decode(frame)
    assert packet.get("udp_src") is None
    assert packet.get("ip_proto") == 17
    assert encode(packet) == frame


@given(st.binary(min_size=14, max_size=120), st.sampled_from([b"\x08\x00", b"\x86\xdd", b"\x08\x06", b"\x81\x00", b""]))
def test_no_bytes_break_the_parser(data: bytes, eth_type: bytes) -> None:
    frame = data[:12] + eth_type + data[12:] if eth_type else data
    packet = decode(frame)
    # Checksums apart, what is parsed comes back; padding may go.
    again = decode(encode(packet))
    assert again == packet
    assert len(encode(packet)) == packet.size_bytes <= len(frame)


@given(st.integers(0, (1 << 48) - 1))
def test_mac_text_and_value_are_inverse(value: int) -> None:
    assert mac_value(mac_text(value)) == value


def test_mixed_families_are_refused() -> None:
    with pytest.raises(ValueError, match="one address family"):
        udp("10.0.0.1", "fd00::1", V4[2], V4[3], 1)
