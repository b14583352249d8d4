"""LLDP frames for tests, spelled out TLV by TLV, and a reader of captures."""

import struct
from collections.abc import Iterator
from pathlib import Path

ETHERNET = bytes.fromhex("0180c200000e") + bytes.fromhex("506b4bf61eb1")
NIC_CHASSIS, NIC_PORT = (1, b"\x04\x50\x6b\x4b\xf6\x1e\xb3"), (2, b"\x03\x50\x6b\x4b\xf6\x1e\xb1")
TTL = (3, b"\x00\x78")


def lldp(*tlvs: tuple[int, bytes], vlan: int | None = None, end: bool = True) -> bytes:
    """The frame with these TLVs; with a VLAN, tagged."""
    tag = struct.pack("!HH", 0x8100, vlan) if vlan is not None else b""
    body = b"".join(struct.pack("!H", kind << 9 | len(value)) + value for kind, value in tlvs)
    return ETHERNET + tag + b"\x88\xcc" + body + (b"\x00\x00" if end else b"")


def nic(*more: tuple[int, bytes], **options: int | None) -> bytes:
    """What NIC firmware sends: addresses only."""
    return lldp(NIC_CHASSIS, NIC_PORT, TTL, *more, **options)  # type: ignore[arg-type]


def switch(name: bytes = b"storage-sw", port: bytes = b"Ethernet32", *more: tuple[int, bytes]) -> bytes:
    """A switch that says that it is one."""
    chassis = (1, b"\x04\x00\x11\x22\x33\x44\x55")
    return lldp(chassis, (2, b"\x05" + port), TTL, (5, name), (7, b"\x00\x14\x00\x14"), *more)


def captured(path: Path) -> Iterator[bytes]:
    """The frames of a classic capture file (libpcap's savefile format), as far as it is whole."""
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        (size,) = struct.unpack(order + "I", data[at + 8 : at + 12])
        yield data[at + 16 : at + 16 + size]
        at += 16 + size
