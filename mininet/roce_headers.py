"""RoCEv2 on the wire: the InfiniBand base transport header over UDP/4791, encoded and decoded.

Formats: InfiniBand Architecture Specification 1.4, volume 1, 9.2 (BTH), 9.3.5 (AETH) and annex A17 (RoCEv2). Two things
are this lab's own and said so: the invariant CRC is sent as zeros (nobody here checks it, and computing it in Python
would cost more than the packet), and payloads carry a few bytes for the sender's clock and selective acknowledgement.
Header only: who sends what and when is decided in `roce_sender` and `roce_receiver`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

UDP_PORT = 4791
# ConnectX and soft-RoCE take UDP source ports from the dynamic range.
SOURCE_PORTS = range(49152, 65536)
PSN_MASK = 0xFFFFFF
_HALF = 1 << 23

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0x00, 0x01, 0x02, 0x04
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY = 0x06, 0x07, 0x08, 0x0A
ACKNOWLEDGE = 0x11
CONGESTION_NOTIFICATION = 0x81

DSCP_DATA, DSCP_CONTROL = 26, 48
_ECT0 = 2  # RoCEv2 data is ECN-capable (RFC 3168)

BTH_BYTES = 12
ICRC_BYTES = 4
# Ethernet, IPv4 and UDP headers and RoCE's own: what a data packet weighs beyond its payload, without Ethernet's
# checksum and gap, which Linux does not count either.
OVERHEAD_BYTES = 14 + 20 + 8 + BTH_BYTES + ICRC_BYTES

_BTH = struct.Struct(">BBHII")
# The last word of the BTH and the first of the payload: what differs from packet to packet.
PSN_AND_SERIAL = struct.Struct(">II")
PSN_OFFSET = 8
# The words that a receiver looks at: opcode, destination QP, PSN, and the sender's serial number.
DATA_FIELDS = struct.Struct(">B3xIII")
# AETH, echoed serial number, bitmap of packets received beyond the acknowledged one.
_ACK_TAIL = struct.Struct(">IIQ")
ACK_FIELDS = struct.Struct(">B3xIIIIQ")
ACK_BYTES = BTH_BYTES + _ACK_TAIL.size + ICRC_BYTES
SACK_PACKETS = 64
ACK_REQUEST = 1 << 31
_DEFAULT_PARTITION = 0xFFFF
_SYNDROME_ACK_UNLIMITED = 0x1F  # "ACK, credit count not used"


@dataclass(frozen=True, slots=True)
class Bth:
    """A base transport header. `psn` and `dest_qp` have 24 bits; `pad_count` 2, `partition` 16."""

    opcode: int
    dest_qp: int
    psn: int
    ack_request: bool = False
    partition: int = _DEFAULT_PARTITION
    pad_count: int = 0
    solicited: bool = False
    migrated: bool = True

    def encode(self) -> bytes:
        """12 bytes. Raises ValueError when a field does not fit."""
        for name, value, bits in (("opcode", self.opcode, 8), ("dest_qp", self.dest_qp, 24), ("psn", self.psn, 24)):
            if not 0 <= value < 1 << bits:
                raise ValueError(f"{name} {value} does not fit in {bits} bits")
        flags = self.solicited << 7 | self.migrated << 6 | self.pad_count << 4
        return _BTH.pack(self.opcode, flags, self.partition, self.dest_qp, self.ack_request << 31 | self.psn)

    @staticmethod
    def decode(packet: bytes | bytearray | memoryview) -> Bth:
        """Reads the first 12 bytes. Raises ValueError when there are fewer or the version is not 0."""
        if len(packet) < BTH_BYTES:
            raise ValueError(f"a base transport header has {BTH_BYTES} bytes, not {len(packet)}")
        opcode, flags, partition, queue_pair, last = _BTH.unpack_from(packet)
        if flags & 0x0F:
            raise ValueError(f"transport header version {flags & 0x0F} is unknown; only 0 is")
        return Bth(
            opcode,
            queue_pair & PSN_MASK,
            last & PSN_MASK,
            ack_request=bool(last & ACK_REQUEST),
            partition=partition,
            pad_count=flags >> 4 & 3,
            solicited=bool(flags & 0x80),
            migrated=bool(flags & 0x40),
        )


def type_of_service(dscp: int) -> int:
    """The IPv4 TOS byte for data of this DSCP."""
    return dscp << 2 | _ECT0


def data_template(dest_qp: int, payload_bytes: int) -> bytearray:
    """A data packet whose opcode (byte 0) and PSN_AND_SERIAL (at PSN_OFFSET) are set anew for every send."""
    header = Bth(SEND_MIDDLE, dest_qp, 0).encode()
    return bytearray(header + bytes(payload_bytes) + bytes(ICRC_BYTES))


def encode_ack(dest_qp: int, psn: int, message: int, serial: int, bitmap: int) -> bytes:
    """An RC acknowledgement of everything up to `psn`; bit i of `bitmap` says that psn + 2 + i has arrived.

    (psn + 1 is by definition missing.) `serial` echoes the sender's number of the newest packet that arrived.
    """
    aeth = _SYNDROME_ACK_UNLIMITED << 24 | message & PSN_MASK
    return Bth(ACKNOWLEDGE, dest_qp, psn).encode() + _ACK_TAIL.pack(aeth, serial, bitmap) + bytes(ICRC_BYTES)


def encode_cnp(dest_qp: int) -> bytes:
    """A congestion notification packet: BTH with opcode 0x81 and 16 reserved bytes (annex A17.9.3)."""
    return Bth(CONGESTION_NOTIFICATION, dest_qp, 0).encode() + bytes(16) + bytes(ICRC_BYTES)


def unwrap(psn: int, near: int) -> int:
    """The count that has `psn` as its low 24 bits and is nearest to `near` (within 2**23 - 1 of it)."""
    return near + ((psn - near + _HALF) & PSN_MASK) - _HALF
