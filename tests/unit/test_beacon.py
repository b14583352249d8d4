"""Beacons come back as what was sent, and nothing else makes a link."""

import pytest
from fabrics import leaf
from hypothesis import given
from hypothesis import strategies as st

from controller.fabric.beacon import Beacon, MalformedLldp, decode, encode
from controller.fabric.lldp import Neighbour
from controller.fabric.model import PortRef

KEY = b"k" * 32
FRAME = encode(Beacon(PortRef(leaf(1), 3), 7), "02:00:00:00:00:01", KEY)


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_round_trip(dpid: int, port_no: int, sequence: int) -> None:
    beacon = Beacon(PortRef(dpid, port_no), sequence)
    assert decode(encode(beacon, "02:00:00:00:00:01", KEY), KEY) == beacon


def test_a_vlan_tag_on_the_way_does_not_hide_a_beacon() -> None:
    tagged = FRAME[:12] + bytes.fromhex("810006fd") + FRAME[12:]
    assert decode(tagged, KEY) == Beacon(PortRef(leaf(1), 3), 7)


def test_another_key_makes_it_foreign() -> None:
    heard = decode(FRAME, b"x" * 32)
    assert isinstance(heard, Neighbour)
    assert heard.source_mac == "02:00:00:00:00:01"


@pytest.mark.parametrize("index", range(14, len(FRAME) - 2))
def test_no_changed_byte_is_believed(index: int) -> None:
    changed = bytearray(FRAME)
    changed[index] ^= 1
    assert not isinstance(decode(bytes(changed), KEY), Beacon)


def test_an_unsigned_frame_of_the_usual_controllers_is_foreign() -> None:
    # chassis "dpid:0000000000000101", port 2, TTL 120: what other controllers believe.
    body = bytes.fromhex("0216") + b"\x07dpid:0000000000000101" + bytes.fromhex("04050200000002060200780000")
    frame = bytes.fromhex("0180c200000e02000000000988cc") + body
    heard = decode(frame, KEY)
    assert isinstance(heard, Neighbour)
    assert (heard.source_mac, heard.chassis_id) == ("02:00:00:00:00:09", "dpid:0000000000000101")


@given(st.binary(max_size=200))
def test_any_bytes_are_answered(noise: bytes) -> None:
    assert isinstance(decode(noise, KEY), MalformedLldp | Neighbour)
    assert isinstance(decode(FRAME[:14] + noise, KEY), MalformedLldp | Neighbour)
    assert isinstance(decode(FRAME[: len(noise) % len(FRAME)], KEY), MalformedLldp)
