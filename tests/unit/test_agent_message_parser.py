"""A malformed message ends the session that it came over, and is told once; what Ryu cannot parse hides nothing."""

import contextlib
import logging
import struct

import pytest
from heddle.southbound.v1 import link_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st
from ryu.lib import hub
from ryu.ofproto import ofproto_common, ofproto_parser, ofproto_protocol
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from apps import message_parser
from apps.codec_decode import decode_packet_in
from apps.codec_fields import CodecError


class Datapath(ofproto_protocol.ProtocolDesc):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(ofp.OFP_VERSION)
        self.address = ("192.0.2.1", 4711)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


TAKEN: list[pb.PacketIn] = []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    TAKEN.clear()
    monkeypatch.setattr(ofproto_parser, "_MSG_PARSERS", dict(ofproto_parser._MSG_PARSERS))
    made = Clock()
    message_parser.install(lambda _, packet: TAKEN.append(packet), made)
    return made


def _message(kind: int, body: bytes, version: int = 4) -> bytes:
    return struct.pack("!BBHI", version, kind, 8 + len(body), 7) + body


def _receive(datapath: Datapath, data: bytes) -> object:
    message = ofproto_parser.msg(datapath, *ofproto_parser.header(data), data)
    hub.sleep(0)
    return message


def _multipart(part: int, body: bytes) -> bytes:
    return _message(ofp.OFPT_MULTIPART_REPLY, struct.pack("!HHxxxx", part, 0) + body)


MALFORMED = {
    "unknown version": _message(0, b"", version=200),
    "unknown type": _message(200, b""),
    "what nobody asked for": _message(ofp.OFPT_QUEUE_GET_CONFIG_REPLY, bytes(32)),
    "queues that nobody asked for": _multipart(ofp.OFPMP_QUEUE, bytes(64)),
    "a table of no length": _multipart(ofp.OFPMP_TABLE_FEATURES, bytes(64)),
    "a packet cut short": _message(ofp.OFPT_PACKET_IN, bytes(19)),
    "a packet whose match is longer than it": _message(ofp.OFPT_PACKET_IN, bytes(18) + b"\x01\x00" + bytes(16)),
    "a packet without a match": _message(ofp.OFPT_PACKET_IN, bytes(40)),
    "port statistics cut short": _multipart(ofp.OFPMP_PORT_STATS, bytes(111)),
    "group features cut short": _multipart(ofp.OFPMP_GROUP_FEATURES, bytes(39)),
    "a rule of no length": _multipart(ofp.OFPMP_FLOW, bytes(64)),
    "a rule longer than the message": _multipart(ofp.OFPMP_FLOW, b"\xff" * 64),
    "a group of no length": _multipart(ofp.OFPMP_GROUP_DESC, bytes(16)),
    "a meter of no length": _multipart(ofp.OFPMP_METER_CONFIG, bytes(16)),
    "a hello element of no length": _message(ofp.OFPT_HELLO, bytes(8)),
    "a newer hello with an element of no length": _message(ofp.OFPT_HELLO, bytes(8), version=6),
    "a packet-in cut short": _message(ofp.OFPT_PACKET_IN, b"\xff" * 3),
    "a multipart reply cut short": _message(ofp.OFPT_MULTIPART_REPLY, b"\0"),
    "a bundle reply cut short": _message(
        ofp.OFPT_EXPERIMENTER, struct.pack("!II", ofproto_common.ONF_EXPERIMENTER_ID, 2300) + b"\0"
    ),
    "a length below the header's": struct.pack("!BBHI", 4, 0, 4, 7),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_message_ends_its_session(clock: Clock, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    datapath, other = Datapath(), Datapath()
    with caplog.at_level(logging.INFO):
        assert _receive(datapath, data) is None
    assert (datapath.closed, other.closed) == (1, 0)
    (record,) = caplog.records
    assert "192.0.2.1" in record.getMessage()
    assert record.exc_info is None
    # Ryu reads on until it notices; the end of the session is not begun twice.
    _receive(datapath, data)
    assert datapath.closed == 1


def test_a_flood_of_malformed_messages_is_one_line_and_then_a_number(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(50):
        _receive(Datapath(), MALFORMED["unknown type"])
    assert len(caplog.records) == 1
    clock.now_s = 11.0
    _receive(Datapath(), MALFORMED["unknown type"])
    assert "49 more such" in caplog.records[-1].getMessage()
    assert len(caplog.records) == 2


def test_good_messages_are_parsed_as_before(clock: Clock) -> None:
    datapath = Datapath()
    assert isinstance(_receive(datapath, _message(ofp.OFPT_BARRIER_REPLY, b"")), parser.OFPBarrierReply)
    echo = _receive(datapath, _message(ofp.OFPT_ECHO_REQUEST, b"data"))
    assert isinstance(echo, parser.OFPEchoRequest)
    assert bytes(echo.data) == b"data"
    hello = _receive(datapath, _message(ofp.OFPT_HELLO, struct.pack("!HHI", 1, 8, 1 << 4)))
    assert isinstance(hello, parser.OFPHello)
    assert datapath.closed == 0


def test_a_bundle_reply_is_known_by_its_transaction_id(clock: Clock) -> None:
    control = struct.pack("!IIIHH", ofproto_common.ONF_EXPERIMENTER_ID, ofp.ONF_ET_BUNDLE_CONTROL, 3, 5, 0)
    reply = _receive(Datapath(), _message(ofp.OFPT_EXPERIMENTER, control))
    assert isinstance(reply, parser.ONFBundleCtrlMsg)
    assert (reply.xid, reply.bundle_id, reply.type) == (7, 3, ofp.ONF_BCT_COMMIT_REPLY)


def test_a_rule_with_an_action_that_ryu_cannot_parse_is_reported_with_the_others(clock: Clock) -> None:
    match = struct.pack("!HHxxxx", ofp.OFPMT_OXM, 4)
    # A Nicira `learn` that is cut off inside: Ryu's parser breaks on it.
    broken = struct.pack("!HHIH", ofp.OFPAT_EXPERIMENTER, 16, ofproto_common.NX_EXPERIMENTER_ID, 16) + b"\xff" * 6
    instruction = struct.pack("!HHxxxx", ofp.OFPIT_APPLY_ACTIONS, 8 + len(broken)) + broken
    rules = b""
    for cookie, tail in ((1, instruction), (2, b"")):
        size = 48 + len(match) + len(tail)
        rules += struct.pack("!HBxIIHHHH4xQQQ", size, 0, 0, 0, 5, 0, 0, 0, cookie, 0, 0) + match + tail
    datapath = Datapath()
    reply = _receive(datapath, _multipart(ofp.OFPMP_FLOW, rules))
    assert isinstance(reply, parser.OFPFlowStatsReply)
    assert [(rule.cookie, [a.WhichOneof("kind") for a in rule.actions]) for rule in reply.body] == [
        (1, [None]),
        (2, []),
    ]
    assert datapath.closed == 0


def test_what_a_switch_has_room_for_is_read_past_everything_else_it_says_of_its_tables(clock: Clock) -> None:
    """One table with a property behind it, whose content is nothing that Ryu would take, and one without."""
    features = "!HB5x32s8x8x4xI"
    tables = (
        struct.pack(features, 72, 2, b"steer", 50) + b"\xff" * 8 + struct.pack(features, 64, 3, b"route", 1_000_000)
    )
    message = _receive(Datapath(), _multipart(ofp.OFPMP_TABLE_FEATURES, tables))
    assert [(limit.table_id, limit.max_rules) for limit in message.body] == [(2, 50), (3, 1_000_000)]  # type: ignore[attr-defined]
    groups = struct.pack("!II4I4I", 0xF, 0x7, 1, 2, 3, 4, 0, 0, 0, 0)
    message = _receive(Datapath(), _multipart(ofp.OFPMP_GROUP_FEATURES, groups))
    assert message.body == [4]  # type: ignore[attr-defined]


def _packet_in(match: parser.OFPMatch, data: bytes, table_id: int = 0, cookie: int = 0) -> bytes:
    matched = bytearray()
    match.serialize(matched, 0)
    head = struct.pack("!IHBBQ", 0xFFFFFFFF, len(data), 0, table_id, cookie)
    return _message(ofp.OFPT_PACKET_IN, head + bytes(matched) + b"\0\0" + data)


@given(st.integers(1, 0xFFFFFF00), st.integers(0, 254), st.integers(0, 2**64 - 1), st.binary(max_size=80))
def test_a_packet_is_read_as_ryu_writes_it(in_port: int, table_id: int, cookie: int, data: bytes) -> None:
    match = parser.OFPMatch(metadata=7, in_port=in_port, eth_type=0x88CC)
    sent = _packet_in(match, data, table_id, cookie)
    by_ryu = parser.OFPPacketIn.parser(Datapath(), 4, ofp.OFPT_PACKET_IN, len(sent), 7, sent)
    assert (by_ryu.match["in_port"], by_ryu.data) == (in_port, data)
    assert decode_packet_in(sent) == pb.PacketIn(in_port=in_port, table_id=table_id, cookie=cookie, data=data)


@given(st.binary(max_size=120))
def test_any_bytes_are_a_packet_or_malformed(noise: bytes) -> None:
    with contextlib.suppress(CodecError):
        assert isinstance(decode_packet_in(noise), pb.PacketIn)


def test_a_packet_goes_past_ryus_events(clock: Clock) -> None:
    datapath = Datapath()
    assert _receive(datapath, _packet_in(parser.OFPMatch(in_port=5), b"abc")) is None
    assert [(packet.in_port, packet.data) for packet in TAKEN] == [(5, b"abc")]
    assert not datapath.closed
