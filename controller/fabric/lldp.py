"""LLDP frames of anybody: taken apart, and read as a neighbour that is a host's NIC, a switch, or something else.

It decides what may be read and what kind of thing has sent it; whether a frame is one of our own beacons is decided in
`beacon`, and what neighbours there are at present in `neighbours`. Any bytes are answered, none raise: whoever is
plugged in chooses them.

Format: IEEE 802.1AB-2016, clauses 8 and 9; the maximum frame size is of IEEE 802.3-2018, clause 79.3.4.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

ETHERTYPE_LLDP = 0x88CC
_VLAN_TAGS = (0x8100, 0x88A8)

_END, _CHASSIS, _PORT, _TTL, _PORT_DESCRIPTION, _NAME, _DESCRIPTION, _CAPABILITIES, _MANAGEMENT = range(9)
_ORGANISATION = 127
# Subtypes of chassis and port ids that hold an address instead of text.
_MAC_SUBTYPE: Mapping[int, int] = {_CHASSIS: 4, _PORT: 3}
_ADDRESS_SUBTYPE: Mapping[int, int] = {_CHASSIS: 5, _PORT: 4}
_BRIDGE_OR_ROUTER, _STATION = 0x04 | 0x10, 0x80
_MAX_FRAME_SIZE = b"\x00\x12\x0f\x04"
_IPV4, _IPV6 = 1, 2


# (type, value, where it begins in the frame with its two bytes of type and length). Beacons come by the thousand.
Tlv = tuple[int, bytes, int]


@dataclass(frozen=True, slots=True)
class MalformedLldp:
    reason: str


class NeighbourKind(StrEnum):
    """What has sent a frame, as far as the frame tells."""

    NIC = "NIC"
    HOST = "host"
    SWITCH = "switch"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What an LLDP frame says of its sender; texts are empty where it says nothing.

    `port_is_address` says that the port id is a MAC or IP address, and so no name that a plan would use.
    `max_frame_bytes` counts header and checksum. `vlan` is that of the outermost tag.
    """

    kind: NeighbourKind
    source_mac: str
    chassis_id: str
    port_id: str
    port_is_address: bool
    lifetime_s: int
    port_description: str = ""
    system_name: str = ""
    system_description: str = ""
    management_addresses: tuple[str, ...] = ()
    max_frame_bytes: int | None = None
    vlan: int | None = None

    @property
    def name(self) -> str:
        """What to call it."""
        return self.system_name or self.chassis_id

    @property
    def port_name(self) -> str:
        """What to call its port. The id may be an address or a bare number, where ports have no names yet; then the
        description is nearer to what a plan would say."""
        nameless = self.port_is_address or self.port_id.isdigit()
        return self.port_description if nameless and self.port_description else self.port_id

    def __str__(self) -> str:
        about = self.system_description or self.port_description if not self.system_name else ""
        what = f"{self.kind} {self.name}" if self.kind != NeighbourKind.UNKNOWN else f"neighbour {self.name}"
        port = f", port {self.port_name}" if self.port_name not in (self.name, about) else ""
        return what + port + (f" ({about})" if about else "")


def payload_offset(frame: bytes) -> tuple[int, int] | None:
    """(EtherType, offset of what follows it) behind any VLAN tags; None when the frame ends before that."""
    offset = 12
    while True:
        if len(frame) < offset + 2:
            return None
        ethertype = int.from_bytes(frame[offset : offset + 2], "big")
        if ethertype not in _VLAN_TAGS:
            return ethertype, offset + 2
        offset += 4


def read(frame: bytes) -> tuple[list[Tlv], int, int] | MalformedLldp:
    """(TLVs, start, end): the three mandatory ones are in front, End is left out, and the frame has them from start to
    end."""
    located = payload_offset(frame)
    if located is None or located[0] != ETHERTYPE_LLDP:
        return MalformedLldp("not a whole LLDP frame")
    start = offset = located[1]
    items: list[Tlv] = []
    while True:
        if offset + 2 > len(frame):
            return MalformedLldp("no End TLV")
        word = int.from_bytes(frame[offset : offset + 2], "big")
        kind, length = word >> 9, word & 0x1FF
        if offset + 2 + length > len(frame):
            return MalformedLldp(f"TLV {kind} is longer than the frame")
        if kind == _END:
            break
        items.append((kind, frame[offset + 2 : offset + 2 + length], offset))
        offset += 2 + length
    if [kind for kind, _, _ in items[:3]] != [_CHASSIS, _PORT, _TTL]:
        return MalformedLldp("does not start with chassis, port and TTL")
    return items, start, offset


def decode(frame: bytes) -> Neighbour | MalformedLldp:
    """Who sent the frame."""
    found = read(frame)
    return found if isinstance(found, MalformedLldp) else neighbour(found[0], frame)


def neighbour(tlvs: Sequence[Tlv], frame: bytes) -> Neighbour | MalformedLldp:
    """Who sent the frame with these TLVs. One that is wrong in itself is passed over, as the standard wants (9.2.7.7),
    unless it is one of the three that every frame must have."""
    (_, chassis, _), (_, port, _), (_, ttl, _), *others = tlvs
    if len(chassis) < 2 or len(port) < 2:
        return MalformedLldp("an empty chassis or port id")
    if len(ttl) != 2:
        return MalformedLldp(f"a TTL of {len(ttl)} bytes")
    # Of what comes twice the first counts; only management addresses may.
    first: dict[int, bytes] = {}
    for kind, value, _ in others:
        first.setdefault(kind, value)
    addresses = (_management_address(value) for kind, value, _ in others if kind == _MANAGEMENT)
    is_tagged = int.from_bytes(frame[12:14], "big") in _VLAN_TAGS
    return Neighbour(
        kind=_kind(chassis, port, first),
        source_mac=frame[6:12].hex(":"),
        chassis_id=_identifier(_CHASSIS, chassis),
        port_id=_identifier(_PORT, port),
        port_is_address=port[0] in (_MAC_SUBTYPE[_PORT], _ADDRESS_SUBTYPE[_PORT]),
        lifetime_s=int.from_bytes(ttl, "big"),
        port_description=_text(first.get(_PORT_DESCRIPTION, b"")),
        system_name=_text(first.get(_NAME, b"")),
        system_description=_text(first.get(_DESCRIPTION, b"")),
        management_addresses=tuple(dict.fromkeys(text for text in addresses if text)),
        max_frame_bytes=_max_frame_bytes(others),
        vlan=int.from_bytes(frame[14:16], "big") & 0xFFF if is_tagged else None,
    )


def _kind(chassis: bytes, port: bytes, first: Mapping[int, bytes]) -> NeighbourKind:
    """By the capabilities that are enabled. NIC firmware states none, nor any name: it knows its addresses only. What
    states none but has names for its ports is a switch: hosts' agents state theirs."""
    stated = first.get(_CAPABILITIES, b"")
    if len(stated) == 4:
        enabled = int.from_bytes(stated[2:], "big")
        if enabled & _BRIDGE_OR_ROUTER:
            return NeighbourKind.SWITCH
        return NeighbourKind.HOST if enabled & _STATION else NeighbourKind.UNKNOWN
    if port[0] != _MAC_SUBTYPE[_PORT]:
        return NeighbourKind.SWITCH
    unnamed = chassis[0] == _MAC_SUBTYPE[_CHASSIS] and _NAME not in first
    return NeighbourKind.NIC if unnamed else NeighbourKind.UNKNOWN


def _identifier(kind: int, value: bytes) -> str:
    subtype, rest = value[0], value[1:]
    if subtype == _MAC_SUBTYPE[kind] and len(rest) == 6:
        return rest.hex(":")
    if subtype == _ADDRESS_SUBTYPE[kind]:
        return _ip(rest[0], rest[1:]) or rest.hex(":")
    text = _text(rest)
    return text if text and "\ufffd" not in text else rest.hex(":")


def _text(value: bytes) -> str:
    """Fit to be shown: whoever is plugged in must not write to somebody's terminal."""
    text = value.rstrip(b"\x00").decode("utf-8", errors="replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _ip(family: int, value: bytes) -> str:
    if (family, len(value)) in ((_IPV4, 4), (_IPV6, 16)):
        return str(ipaddress.ip_address(value))
    return ""


def _management_address(value: bytes) -> str:
    """Length of subtype and address, subtype (IANA address family), address; an interface number follows."""
    length = value[0] if value else 0
    return _ip(value[1], value[2 : 1 + length]) if 1 < length < len(value) else ""


def _max_frame_bytes(tlvs: Sequence[Tlv]) -> int | None:
    stated = (value for kind, value, _ in tlvs if kind == _ORGANISATION and value[:4] == _MAX_FRAME_SIZE)
    return next((int.from_bytes(value[4:], "big") for value in stated if len(value) == 6), None)
