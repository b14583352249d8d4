"""RoCE headers: our own round trip, the specification's layout, and an independent implementation (scapy)."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2] / "mininet"))

import roce_headers
from roce_headers import Bth

bits24 = st.integers(0, 0xFFFFFF)
headers = st.builds(
    Bth,
    opcode=st.integers(0, 255),
    dest_qp=bits24,
    psn=bits24,
    ack_request=st.booleans(),
    partition=st.integers(0, 0xFFFF),
    pad_count=st.integers(0, 3),
    solicited=st.booleans(),
    migrated=st.booleans(),
)


@given(headers)
def test_what_is_encoded_is_decoded(header: Bth) -> None:
    assert len(header.encode()) == roce_headers.BTH_BYTES
    assert Bth.decode(header.encode()) == header


@given(headers)
def test_scapy_reads_the_same_header(header: Bth) -> None:
    roce = pytest.importorskip("scapy.contrib.roce")
    theirs = roce.BTH(header.encode() + bytes(4))
    assert (theirs.opcode, theirs.dqpn, theirs.psn) == (header.opcode, header.dest_qp, header.psn)
    assert (bool(theirs.ackreq), theirs.pkey, theirs.padcount) == (
        header.ack_request,
        header.partition,
        header.pad_count,
    )
    assert (bool(theirs.solicited), bool(theirs.migreq)) == (header.solicited, header.migrated)


def test_an_acknowledgement_has_the_layout_of_the_specification() -> None:
    packet = roce_headers.encode_ack(dest_qp=0x000123, psn=0xABCDEF, message=5, serial=77, bitmap=0b101)
    assert len(packet) == roce_headers.ACK_BYTES
    assert packet[:12] == bytes.fromhex("11 40 ffff 00000123 00abcdef")
    assert packet[12:16] == bytes.fromhex("1f 000005")
    opcode, queue_pair, last, _aeth, serial, bitmap = roce_headers.ACK_FIELDS.unpack_from(packet)
    assert (opcode, queue_pair, last, serial, bitmap) == (roce_headers.ACKNOWLEDGE, 0x123, 0xABCDEF, 77, 0b101)


def test_a_congestion_notification_is_as_annex_a17_has_it() -> None:
    packet = roce_headers.encode_cnp(0x42)
    assert packet[0] == 0x81
    assert packet[12:28] == bytes(16)


def test_data_fields_are_patched_in_place() -> None:
    packet = roce_headers.data_template(0x99, 1024)
    roce_headers.PSN_AND_SERIAL.pack_into(
        packet, roce_headers.PSN_OFFSET, 0x123456 | roce_headers.ACK_REQUEST, 0xDEADBEEF
    )
    assert len(packet) == 12 + 1024 + 4
    header = Bth.decode(packet)
    assert (header.dest_qp, header.psn, header.ack_request) == (0x99, 0x123456, True)
    assert roce_headers.DATA_FIELDS.unpack_from(packet)[3] == 0xDEADBEEF


@pytest.mark.parametrize(
    ("packet", "message"),
    [(b"\x00" * 11, "has 12 bytes, not 11"), (b"\x00\x01" + b"\x00" * 10, "version 1 is unknown")],
)
def test_what_is_no_header_is_refused(packet: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bth.decode(packet)


@pytest.mark.parametrize(("field", "value"), [("dest_qp", 1 << 24), ("psn", -1), ("opcode", 256)])
def test_a_field_that_does_not_fit_is_named(field: str, value: int) -> None:
    changes: dict[str, Any] = {field: value}
    with pytest.raises(ValueError, match=field):
        dataclasses.replace(Bth(0, 0, 0), **changes).encode()


@given(st.integers(0, 1 << 40), st.integers(-(1 << 23) + 1, (1 << 23) - 1))
def test_sequence_numbers_are_found_again_across_the_wrap(near: int, distance: int) -> None:
    assert roce_headers.unwrap((near + distance) & 0xFFFFFF, near) == near + distance
