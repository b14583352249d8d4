"""Heddle's own LLDP frames: built, and recognised when they come back.

A beacon says which port sent it and carries a keyed hash over everything it says, so that no host and no other
controller can make a link appear. What a received beacon *means* for a link is decided in `discovery`.

Format: IEEE 802.1AB-2016, clauses 8 and 9; two organisationally specific TLVs hold sequence number and hash.
"""

import hmac
import struct
from dataclasses import dataclass
from functools import lru_cache

from controller.fabric.model import PortRef

ETHERTYPE_LLDP = 0x88CC
NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
_VLAN_TAGS = (0x8100, 0x88A8)
# A locally administered OUI: the specification reserves none for experiments.
_OUI = b"\x02HD"
_SUBTYPE_SEQUENCE = 1
_SUBTYPE_HASH = 2
_HASH_BYTES = 16
_TTL_S = 4

_TLV_END, _TLV_CHASSIS, _TLV_PORT, _TLV_TTL, _TLV_ORGANISATION = 0, 1, 2, 3, 127
_LOCALLY_ASSIGNED = 7


@dataclass(frozen=True, slots=True)
class Beacon:
    """`sender` sent it; `sequence` grows with each beacon of that port."""

    sender: PortRef
    sequence: int


@dataclass(frozen=True, slots=True)
class ForeignLldp:
    """A well-formed LLDP frame that is not ours: a host's NIC, another switch, or somebody who lacks the key."""

    source_mac: str


@dataclass(frozen=True, slots=True)
class MalformedLldp:
    reason: str


def _tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(value)) + value


def _hash(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:_HASH_BYTES]


@lru_cache(maxsize=1 << 14)
def _sender(sender: PortRef) -> bytes:
    """What all beacons of a port begin with."""
    return (
        _tlv(_TLV_CHASSIS, bytes([_LOCALLY_ASSIGNED]) + f"dpid:{sender.dpid:016x}".encode())
        + _tlv(_TLV_PORT, bytes([_LOCALLY_ASSIGNED]) + str(sender.port_no).encode())
        + _tlv(_TLV_TTL, struct.pack("!H", _TTL_S))
    )


def encode(beacon: Beacon, source_mac: str, key: bytes) -> bytes:
    """The whole Ethernet frame."""
    sequence = _OUI + bytes([_SUBTYPE_SEQUENCE]) + struct.pack("!Q", beacon.sequence)
    body = _sender(beacon.sender) + _tlv(_TLV_ORGANISATION, sequence)
    proof = _tlv(_TLV_ORGANISATION, _OUI + bytes([_SUBTYPE_HASH]) + _hash(key, body))
    header = NEAREST_BRIDGE + bytes.fromhex(source_mac.replace(":", "")) + struct.pack("!H", ETHERTYPE_LLDP)
    return header + body + proof + _tlv(_TLV_END, b"")


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


def decode(frame: bytes, key: bytes) -> Beacon | ForeignLldp | MalformedLldp:
    """What an LLDP frame is to us. Any bytes are answered, none raise."""
    located = payload_offset(frame)
    if located is None or located[0] != ETHERTYPE_LLDP:
        return MalformedLldp("not a whole LLDP frame")
    start = offset = located[1]
    tlvs: list[tuple[int, bytes, int]] = []
    while True:
        if offset + 2 > len(frame):
            return MalformedLldp("no End TLV")
        word = int.from_bytes(frame[offset : offset + 2], "big")
        kind, length = word >> 9, word & 0x1FF
        if offset + 2 + length > len(frame):
            return MalformedLldp(f"TLV {kind} is longer than the frame")
        if kind == _TLV_END:
            break
        tlvs.append((kind, frame[offset + 2 : offset + 2 + length], offset))
        offset += 2 + length
    if [kind for kind, _, _ in tlvs[:3]] != [_TLV_CHASSIS, _TLV_PORT, _TLV_TTL]:
        return MalformedLldp("does not start with chassis, port and TTL")
    return _verified(frame[start:offset], tlvs, start, key) or ForeignLldp(frame[6:12].hex(":"))


def _verified(body: bytes, tlvs: list[tuple[int, bytes, int]], start: int, key: bytes) -> Beacon | None:
    if len(tlvs) != 5:
        return None
    chassis, port, _, sequence, (kind, proof, at) = (*(value for _, value, _ in tlvs[:4]), tlvs[4])
    head = _OUI + bytes([_SUBTYPE_HASH])
    if kind != _TLV_ORGANISATION or proof[:4] != head:
        return None
    if not hmac.compare_digest(proof[4:], _hash(key, body[: at - start])):
        return None
    # Only a holder of the key gets here, so the fields are in the form `encode` gave them.
    sender = PortRef(int(chassis[6:], 16), int(port[1:]))
    return Beacon(sender, int.from_bytes(sequence[4:], "big"))
