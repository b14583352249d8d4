"""Heddle's own LLDP frames: built, and recognised when they come back.

A beacon says which port sent it and carries a keyed hash over everything it says, so that no host and no other
controller can make a link appear. What a received beacon *means* for a link is decided in `discovery`.

Format: IEEE 802.1AB-2016, clauses 8 and 9; two organisationally specific TLVs hold sequence number and hash.
"""

import hmac
import struct
from dataclasses import dataclass
from functools import lru_cache

from controller.fabric.lldp import ETHERTYPE_LLDP as ETHERTYPE_LLDP
from controller.fabric.lldp import MalformedLldp as MalformedLldp
from controller.fabric.lldp import Neighbour, Tlv, neighbour, read
from controller.fabric.lldp import payload_offset as payload_offset
from controller.fabric.model import PortRef

NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
# Ryu's and other controllers' discovery begins its chassis ids likewise.
CHASSIS_PREFIX = "dpid:"
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


def _tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(value)) + value


def _hash(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:_HASH_BYTES]


@lru_cache(maxsize=1 << 14)
def _sender(sender: PortRef) -> bytes:
    """What all beacons of a port begin with."""
    return (
        _tlv(_TLV_CHASSIS, bytes([_LOCALLY_ASSIGNED]) + f"{CHASSIS_PREFIX}{sender.dpid:016x}".encode())
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


def decode(frame: bytes, key: bytes) -> Beacon | Neighbour | MalformedLldp:
    """What an LLDP frame is to us. Any bytes are answered, none raise."""
    found = read(frame)
    if isinstance(found, MalformedLldp):
        return found
    tlvs, start, end = found
    return _verified(frame[start:end], tlvs, start, key) or neighbour(tlvs, frame)


def _verified(body: bytes, tlvs: list[Tlv], start: int, key: bytes) -> Beacon | None:
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
