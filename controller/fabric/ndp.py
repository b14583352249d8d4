"""IPv6 neighbour discovery (RFC 4861): solicitations and advertisements read and written, nothing decided.

Any bytes are answered, none raise. As the RFC asks, what has crossed a router (a hop limit below 255), or is damaged,
is not believed.
"""

import ipaddress
import struct
from dataclasses import dataclass

from controller.fabric.arp import PROBE_MAC
from controller.fabric.beacon import payload_offset

ETHERTYPE_IPV6 = 0x86DD
ICMPV6 = 58
SOLICITATION, ADVERTISEMENT = 135, 136
UNSPECIFIED = "::"
ALL_NODES = "ff02::1"
_SOURCE_ADDRESS, _TARGET_ADDRESS = 1, 2
_SOLICITED, _OVERRIDE = 0x40000000, 0x20000000
_IPV6 = struct.Struct("!IHBB16s16s")
_MESSAGE = struct.Struct("!BBHI16s")
_HOP_LIMIT = 255
_OPTION_UNIT_BYTES = 8


def _link_local(mac: str) -> str:
    """RFC 4291, appendix A."""
    parts = bytes.fromhex(mac.replace(":", ""))
    interface = bytes([parts[0] ^ 2]) + parts[1:3] + b"\xff\xfe" + parts[3:]
    return str(ipaddress.IPv6Address(bytes.fromhex("fe80") + bytes(6) + interface))


# Who asks for the controller. A probe without a sender (as in ARP) would be taken for a claim on the address asked for
# (RFC 4862, 5.4.3) by a host that is just about to take it.
PROBE_ADDRESS = _link_local(PROBE_MAC)


@dataclass(frozen=True, slots=True)
class NeighbourMessage:
    """`link_address` is the option's, or the frame's sender where there is none."""

    kind: int
    frame_destination: str
    source: str
    target: str
    link_address: str


def decode(frame: bytes) -> NeighbourMessage | None:
    """The message in an Ethernet frame; None when it is no whole and sound one."""
    located = payload_offset(frame)
    if located is None or located[0] != ETHERTYPE_IPV6 or len(frame) < located[1] + _IPV6.size:
        return None
    _, size, protocol, hops, source, destination = _IPV6.unpack_from(frame, located[1])
    body = frame[located[1] + _IPV6.size : located[1] + _IPV6.size + size]
    if (protocol, hops) != (ICMPV6, _HOP_LIMIT) or len(body) < max(size, _MESSAGE.size):
        return None
    kind, code, _, _, target = _MESSAGE.unpack_from(body)
    if kind not in (SOLICITATION, ADVERTISEMENT) or code or _checksum(source, destination, body):
        return None
    wanted = _SOURCE_ADDRESS if kind == SOLICITATION else _TARGET_ADDRESS
    option = _option(body[_MESSAGE.size :], wanted)
    if option is None:
        return None
    sender, asked_for = (str(ipaddress.IPv6Address(address)) for address in (source, target))
    return NeighbourMessage(kind, frame[:6].hex(":"), sender, asked_for, (option or frame[6:12]).hex(":"))


def _option(options: bytes, wanted: int) -> bytes | None:
    """The link-layer address in the option of that type, empty when there is none; None when options are malformed."""
    found = b""
    while options:
        length = options[1] * _OPTION_UNIT_BYTES if len(options) > 1 else 0
        if not length or length > len(options):
            return None
        if options[0] == wanted and length == _OPTION_UNIT_BYTES:
            found = options[2:8]
        options = options[length:]
    return found


def encode_question(target: str) -> bytes:
    """The whole frame in which the controller asks who has an address."""
    address = ipaddress.IPv6Address(target).packed
    # RFC 4291, 2.7.1: the group of all whose addresses end alike.
    group = bytes.fromhex("ff0200000000000000000001ff") + address[13:]
    body = _MESSAGE.pack(SOLICITATION, 0, 0, 0, address) + _link_option(_SOURCE_ADDRESS, PROBE_MAC)
    ends = (ipaddress.IPv6Address(PROBE_ADDRESS).packed, group)
    return _frame(b"\x33\x33" + group[12:], PROBE_MAC, *ends, body)


def encode_answer(question: NeighbourMessage, mac: str) -> bytes:
    """The whole frame that answers a solicitation in the name of the host with the address, which `mac` is of."""
    target = ipaddress.IPv6Address(question.target).packed
    # Whoever only asks whether an address is free has none itself to be answered at (RFC 4861, 7.2.4).
    to_all = question.source == UNSPECIFIED
    destination = ipaddress.IPv6Address(ALL_NODES if to_all else question.source).packed
    flags = _OVERRIDE | (0 if to_all else _SOLICITED)
    body = _MESSAGE.pack(ADVERTISEMENT, 0, 0, flags, target) + _link_option(_TARGET_ADDRESS, mac)
    receiver = b"\x33\x33" + destination[12:] if to_all else bytes.fromhex(question.link_address.replace(":", ""))
    return _frame(receiver, mac, target, destination, body)


def _link_option(kind: int, mac: str) -> bytes:
    return bytes([kind, 1]) + bytes.fromhex(mac.replace(":", ""))


def _frame(receiver: bytes, sender: str, source: bytes, destination: bytes, body: bytes) -> bytes:
    body = body[:2] + struct.pack("!H", _checksum(source, destination, body)) + body[4:]
    header = receiver + bytes.fromhex(sender.replace(":", "")) + struct.pack("!H", ETHERTYPE_IPV6)
    return header + _IPV6.pack(6 << 28, len(body), ICMPV6, _HOP_LIMIT, source, destination) + body


def _checksum(source: bytes, destination: bytes, body: bytes) -> int:
    """Over the pseudo-header too (RFC 8200, 8.1); 0 when the one in `body` is right."""
    data = source + destination + struct.pack("!II", len(body), ICMPV6) + body + b"\0" * (len(body) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
