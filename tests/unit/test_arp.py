"""ARP frames as RFC 826 draws them."""

from hypothesis import given
from hypothesis import strategies as st

from controller.fabric.arp import BROADCAST, REQUEST, Arp, decode, encode

macs = st.binary(min_size=6, max_size=6).map(lambda b: b.hex(":"))
ips = st.ip_addresses(v=4).map(str)


@given(st.builds(Arp, st.integers(0, 65535), macs, ips, macs, ips))
def test_round_trip(message: Arp) -> None:
    assert decode(encode(message, BROADCAST)) == message


def test_bytes_of_a_request() -> None:
    frame = encode(Arp(REQUEST, "02:00:00:00:00:01", "10.0.0.1", "00:00:00:00:00:00", "10.0.0.2"), BROADCAST)
    assert frame.hex() == ("ffffffffffff020000000001080600010800060400010200000000010a0000010000000000000a000002")


@given(st.binary(max_size=60))
def test_any_bytes_are_answered(noise: bytes) -> None:
    decode(noise)
    assert decode(bytes(12) + bytes.fromhex("0806") + noise[:27]) is None
