"""What becomes of a message that comes from a switch: parsed by Ryu, parsed here, or the end of that switch's session.

Ryu parses in the greenlet that reads the switch. A message it breaks on it logs with all its bytes and passes over, as
often as they come; one of an unknown version ends the greenlet with a traceback. Here such a message ends the session
(what follows cannot be trusted, and the switch may come back) and is told in one line, at most once in ten seconds for
all switches together.

Tables are read here, because Ryu gives up the whole answer over one foreign rule that it cannot parse. And only what
was asked for is let through at all: several of Ryu's parsers go round for ever over an element of length 0. Packets go
straight to who takes them: beacons come by the thousand, and Ryu's way with an event, through objects for every field
of the match and the queue of each application, is ten times the work that they are.
"""

import logging
import struct
import time
from collections.abc import Callable
from typing import Any

from heddle.southbound.v1 import link_pb2
from ryu.lib import hub
from ryu.ofproto import ofproto_common, ofproto_parser
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from apps.codec_decode import (
    decode_counters,
    decode_groups,
    decode_max_failover_groups,
    decode_meters,
    decode_packet_in,
    decode_rules,
    decode_table_limits,
)
from apps.codec_fields import CodecError

LOG = logging.getLogger("heddle.agent")

Parse = Callable[[Any, int, int, int, int, bytes], Any]
TakePacket = Callable[[Any, link_pb2.PacketIn], None]

_QUIET_S = 10.0
_MULTIPART = struct.Struct("!HH4x")
_HEADER_BYTES = 8
_VERSIONS = range(256)
_ELEMENT = struct.Struct("!HH")
_EXPERIMENTER = struct.Struct("!II")
_BUNDLE_CONTROL = struct.Struct("!IHH")

# What an OpenFlow 1.3 switch may send to an agent that asks what this one asks.
_EXPECTED = frozenset(
    {
        *(ofp.OFPT_HELLO, ofp.OFPT_ERROR, ofp.OFPT_ECHO_REQUEST, ofp.OFPT_ECHO_REPLY, ofp.OFPT_EXPERIMENTER),
        *(ofp.OFPT_FEATURES_REPLY, ofp.OFPT_GET_CONFIG_REPLY, ofp.OFPT_PACKET_IN, ofp.OFPT_FLOW_REMOVED),
        *(ofp.OFPT_PORT_STATUS, ofp.OFPT_MULTIPART_REPLY, ofp.OFPT_BARRIER_REPLY, ofp.OFPT_ROLE_REPLY),
    }
)
# Made of structures of fixed size.
_LEFT_TO_RYU = frozenset({ofp.OFPMP_DESC, ofp.OFPMP_PORT_DESC})
_TABLES = {
    ofp.OFPMP_FLOW: (parser.OFPFlowStatsReply, decode_rules),
    ofp.OFPMP_GROUP_DESC: (parser.OFPGroupDescStatsReply, decode_groups),
    ofp.OFPMP_METER_CONFIG: (parser.OFPMeterConfigStatsReply, decode_meters),
    # Links are watched by them, several times a second.
    ofp.OFPMP_PORT_STATS: (parser.OFPPortStatsReply, decode_counters),
    # Ryu makes some hundred objects of each table, of which Open vSwitch has 254.
    ofp.OFPMP_TABLE_FEATURES: (parser.OFPTableFeaturesStatsReply, decode_table_limits),
    ofp.OFPMP_GROUP_FEATURES: (parser.OFPGroupFeaturesStatsReply, decode_max_failover_groups),
}


def install(take_packet: TakePacket, clock: Callable[[], float] = time.monotonic) -> None:
    """Puts this in the place of Ryu's parsers, for every version that a message can claim to be of."""
    warn = _RateLimited(clock)
    for version in _VERSIONS:
        known = ofproto_parser._MSG_PARSERS.get(version)
        parse = known and (_parse_1_3(known, take_packet) if version == ofp.OFP_VERSION else known)
        ofproto_parser.register_msg_parser(version)(_guarded(parse or _unknown_version, warn))


class _RateLimited:
    """One warning in `_QUIET_S`; the next one says how many there were in between."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._quiet_until_s = float("-inf")
        self._kept_back = 0

    def __call__(self, address: object, problem: str) -> None:
        if self._clock() < self._quiet_until_s:
            self._kept_back += 1
            return
        more = f" ({self._kept_back} more such since the last report)" if self._kept_back else ""
        LOG.warning("malformed message from the switch at %s, dropping its session: %s%s", address, problem, more)
        self._quiet_until_s, self._kept_back = self._clock() + _QUIET_S, 0


def _guarded(parse: Parse, warn: Callable[[object, str], None]) -> Parse:
    def guarded(datapath: Any, version: int, kind: int, length: int, xid: int, data: bytes) -> Any:
        try:
            if length < _HEADER_BYTES or len(data) < length:
                raise CodecError(f"a message of {length} bytes")
            if kind == ofp.OFPT_HELLO:
                _check_hello(data[:length])
            return parse(datapath, version, kind, length, xid, bytes(data))
        except Exception as problem:  # noqa: BLE001 - Ryu's parsers raise whatever comes up: AssertionError, KeyError, ..
            if not getattr(datapath, "heddle_rejected", False):
                datapath.heddle_rejected = True
                said = str(problem) or type(problem).__name__
                warn(datapath.address, f"version {version}, type {kind}, {length} bytes: {said}")
                # From a greenlet of its own, because closing waits for room in the queues of applications.
                hub.spawn(datapath.close)
            return None

    return guarded


def _unknown_version(_datapath: Any, version: int, _kind: int, _length: int, _xid: int, _data: bytes) -> Any:
    raise CodecError(f"there is no OpenFlow version {version}")


def _parse_1_3(by_ryu: Parse, take_packet: TakePacket) -> Parse:
    def parse(datapath: Any, version: int, kind: int, length: int, xid: int, data: bytes) -> Any:
        if kind not in _EXPECTED:
            raise CodecError("nobody asked for such a message")
        if kind == ofp.OFPT_PACKET_IN:
            take_packet(datapath, decode_packet_in(data[:length]))
            return None
        if kind == ofp.OFPT_MULTIPART_REPLY:
            message = _multipart(datapath, data[:length])
        elif kind == ofp.OFPT_EXPERIMENTER:
            message = _experimenter(datapath, data[:length])
        else:
            message = None
        if message is None:
            return by_ryu(datapath, version, kind, length, xid, data)
        message.set_headers(version, kind, length, xid)
        return message

    return parse


def _multipart(datapath: Any, data: bytes) -> Any:
    part, flags = _MULTIPART.unpack_from(data, _HEADER_BYTES)
    if part in _LEFT_TO_RYU:
        return None
    if part not in _TABLES:
        raise CodecError(f"nobody asked for a multipart reply of type {part}")
    reply, decode = _TABLES[part]
    message = reply(datapath, type_=part, flags=flags)
    message.body = decode(data[_HEADER_BYTES + _MULTIPART.size :])
    return message


def _experimenter(datapath: Any, data: bytes) -> Any:
    experimenter, kind = _EXPERIMENTER.unpack_from(data, _HEADER_BYTES)
    body = data[_HEADER_BYTES + _EXPERIMENTER.size :]
    if (experimenter, kind) == (ofproto_common.ONF_EXPERIMENTER_ID, ofp.ONF_ET_BUNDLE_CONTROL):
        return parser.ONFBundleCtrlMsg(datapath, *_BUNDLE_CONTROL.unpack_from(body), properties=[])
    return parser.OFPExperimenter(datapath, experimenter, kind, body)


def _check_hello(data: bytes) -> None:
    """The elements of a hello; Ryu would go round for ever over one of length 0."""
    offset = _HEADER_BYTES
    while offset < len(data):
        _, length = _ELEMENT.unpack_from(data, offset)
        if length < _ELEMENT.size:
            raise CodecError(f"a hello element of {length} bytes")
        offset += (length + 7) // 8 * 8
