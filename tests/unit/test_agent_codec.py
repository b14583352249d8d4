"""Everything the pipeline can say survives the way to OpenFlow bytes and back, byte for byte."""

import struct
from typing import Any

import pytest
from heddle.southbound.v1 import link_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st
from ryu.ofproto import ofproto_parser, ofproto_protocol
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from apps.codec_decode import decode_group, decode_meter, decode_port, decode_rule
from apps.codec_encode import encode_action, encode_modification, encode_packet_out, serialise
from apps.codec_fields import CodecError, to_ryu_match
from controller.pipeline import rules
from controller.runtime import wire_rules

PROTOCOL = ofproto_protocol.ProtocolDesc(ofp.OFP_VERSION)


@st.composite
def match_fields(draw: st.DrawFn) -> dict[str, int | tuple[int, int]]:
    """Any subset of the pipeline's fields; prerequisites between them are the switch's business, not the codec's."""
    chosen: dict[str, int | tuple[int, int]] = {}
    for name in draw(st.sets(st.sampled_from(sorted(rules.FIELD_BITS)), max_size=8)):
        full = (1 << rules.FIELD_BITS[name]) - 1
        value = draw(st.integers(0, full))
        chosen[name] = draw(st.one_of(st.just(value), st.tuples(st.just(value), st.integers(0, full))))
    return chosen


def set_fields() -> st.SearchStrategy[rules.SetField]:
    return st.sampled_from(sorted(rules.FIELD_BITS)).flatmap(
        lambda name: st.integers(0, (1 << rules.FIELD_BITS[name]) - 1).map(lambda value: rules.SetField(name, value))
    )


ports = st.integers(1, 0xFEFF)
actions = st.lists(
    st.one_of(
        ports.map(rules.Output),
        st.integers(0, 0xFFFF).map(lambda length: rules.Output(rules.OFPP_CONTROLLER, length)),
        st.integers(0, 0xFFFFFF00).map(rules.ToGroup),
        st.integers(0, 0xFFFFFFFF).map(rules.SetQueue),
        set_fields(),
        st.just(rules.DecrementTtl()),
        st.integers(0, 255).map(rules.SetTtl),
        st.builds(
            rules.Bundle,
            ports=st.lists(ports, max_size=12).map(tuple),
            basis=st.integers(0, 0xFFFF),
            fields=st.integers(0, 6),
        ),
    ),
    max_size=6,
).map(tuple)
all_rules = st.builds(
    rules.Rule,
    table_id=st.integers(0, 253),
    priority=st.integers(0, 0xFFFF),
    match=match_fields().map(lambda fields: rules.match(**fields)),
    cookie=st.integers(0, 0xFFFFFFFFFFFFFFFF),
    actions=actions,
    goto_table=st.none() | st.integers(0, 254),
    meter_id=st.none() | st.integers(0, 0xFFFF0000),
)


@st.composite
def all_groups(draw: st.DrawFn) -> rules.Group:
    kind = draw(st.sampled_from(rules.GroupKind))
    weights = st.integers(0, 0xFFFF) if kind is rules.GroupKind.SELECT else st.just(0)
    watched = st.integers(1, 0xFFFFFFFF) if kind is rules.GroupKind.FAST_FAILOVER else st.just(rules.OFPP_ANY)
    buckets = st.lists(st.builds(rules.Bucket, actions=actions, weight=weights, watch_port=watched), max_size=5)
    return rules.Group(draw(st.integers(0, 0xFFFFFF00)), kind, tuple(draw(buckets)))


def _through_flow_mod(modification: rules.Modification) -> Any:
    """The message as a switch would read it."""
    data = serialise(encode_modification(PROTOCOL, wire_rules.write_modification(modification)), 7)
    version, kind, length, xid = ofproto_parser.header(data)
    assert (version, length, xid) == (4, len(data), 7)
    return parser.OFPFlowMod.parser(PROTOCOL, version, kind, length, xid, data)


@given(all_rules)
def test_rules_survive(rule: rules.Rule) -> None:
    message = _through_flow_mod(rules.AddRule(rule))
    assert (message.command, message.flags, message.buffer_id) == (ofp.OFPFC_ADD, 0, ofp.OFP_NO_BUFFER)
    assert wire_rules.read_rule(decode_rule(message)) == rule


@given(all_rules)
def test_a_delete_is_strict_and_names_the_rule_only(rule: rules.Rule) -> None:
    message = _through_flow_mod(rules.DeleteRule(rule))
    assert message.command == ofp.OFPFC_DELETE_STRICT
    assert (message.out_port, message.out_group, message.cookie_mask) == (ofp.OFPP_ANY, ofp.OFPG_ANY, 0)
    assert wire_rules.read_rule(decode_rule(message)).key == rule.key


@given(all_groups(), st.booleans())
def test_groups_survive(group: rules.Group, is_new: bool) -> None:
    change = rules.AddGroup(group) if is_new else rules.ModifyGroup(group)
    data = serialise(encode_modification(PROTOCOL, wire_rules.write_modification(change)), 1)
    command, kind, group_id = struct.unpack_from("!HBxI", data, 8)
    assert command == (ofp.OFPGC_ADD if is_new else ofp.OFPGC_MODIFY)
    # The description a switch gives has the same buckets behind another head (OpenFlow 1.3.5, 7.3.5.10).
    described = struct.pack("!HBxI", len(data) - 8, kind, group_id) + data[16:]
    entry = parser.OFPGroupDescStats.parser(described, 0)
    assert wire_rules.read_group(decode_group(entry)) == group


@given(st.integers(1, 0xFFFF0000), st.integers(1, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF))
def test_meters_survive(meter_id: int, rate: int, burst: int) -> None:
    meter = pb.Meter(meter_id=meter_id, packets_per_second=rate, burst_packets=burst)
    data = serialise(encode_modification(PROTOCOL, pb.Modification(add_meter=meter)), 1)
    command, flags, number = struct.unpack_from("!HHI", data, 8)
    assert (command, flags) == (ofp.OFPMC_ADD, ofp.OFPMF_PKTPS | ofp.OFPMF_BURST)
    described = struct.pack("!HHI", len(data) - 8, flags, number) + data[16:]
    assert decode_meter(parser.OFPMeterConfigStats.parser(described, 0)) == meter


@given(st.binary(max_size=200), st.lists(ports, min_size=1, max_size=4))
def test_packets_survive(data: bytes, out_ports: list[int]) -> None:
    message = encode_packet_out(PROTOCOL, pb.PacketOut(dpid=1, out_ports=out_ports, data=data))
    sent = serialise(message, 1)
    assert sent.endswith(data)
    assert [action.port for action in message.actions] == out_ports


def test_neutral_spellings_are_one() -> None:
    whole = pb.MatchField(name="vlan_vid", value=b"\x10\x05", mask=b"\x1f\xff")
    nothing = pb.MatchField(name="ipv4_src", value=b"\x0a\x00\x00\x01", mask=bytes(4))
    loose = pb.MatchField(name="ipv4_dst", value=b"\x0a\x00\x00\x01", mask=b"\xff\xff\xff\x00")
    rule = pb.Rule(match=[whole, nothing, loose], actions=[pb.Action(output=pb.Output(port_no=1, max_len=128))])
    data = serialise(encode_modification(PROTOCOL, pb.Modification(add_rule=rule)), 1)
    read = decode_rule(parser.OFPFlowMod.parser(PROTOCOL, 4, ofp.OFPT_FLOW_MOD, len(data), 1, data))
    assert list(read.match) == [
        pb.MatchField(name="ipv4_dst", value=b"\x0a\x00\x00\x00", mask=b"\xff\xff\xff\x00"),
        pb.MatchField(name="vlan_vid", value=b"\x10\x05"),
    ]
    assert read.actions[0].output.max_len == 0


def test_bundle_bytes_are_those_of_open_vswitch() -> None:
    """NXAST_BUNDLE as `bundle(symmetric_l3l4+udp,7,hrw,ofport,members:1,2,2)` (include/openflow/nicira-ext.h)."""
    buffer = bytearray()
    encode_action(pb.Action(bundle=pb.Bundle(fields=3, basis=7, ports=[1, 2, 2]))).serialize(buffer, 0)
    head = bytes.fromhex("ffff 0028 00002320 000c")
    body = bytes.fromhex("0001 0003 0007 00000002 0003 0000 00000000 00000000")
    assert bytes(buffer) == head + body + bytes.fromhex("0001 0002 0002 0000")


@pytest.mark.parametrize(
    ("modification", "complaint"),
    [
        (pb.Modification(), "empty"),
        (pb.Modification(add_group=pb.Group(group_id=3)), "group 3 has no kind"),
        (pb.Modification(add_rule=pb.Rule(table_id=255)), "table_id=255"),
        (pb.Modification(add_rule=pb.Rule(priority=65536)), "priority=65536"),
        (pb.Modification(add_rule=pb.Rule(actions=[pb.Action()])), "action is empty"),
        (pb.Modification(add_rule=pb.Rule(actions=[pb.Action(set_ttl=256)])), "set_ttl=256"),
        (pb.Modification(add_rule=pb.Rule(match=[pb.MatchField(name="qp", value=b"1")])), "no field 'qp'"),
        (pb.Modification(add_rule=pb.Rule(match=[pb.MatchField(name="udp_dst", value=b"1")])), "udp_dst is 2 bytes"),
        (
            pb.Modification(add_rule=pb.Rule(actions=[pb.Action(bundle=pb.Bundle(ports=[0xFFFFFFFE]))])),
            "bundle port=4294967294",
        ),
        (
            pb.Modification(
                add_rule=pb.Rule(
                    actions=[pb.Action(set_field=pb.MatchField(name="ip_dscp", value=b"\x01", mask=b"\x01"))]
                )
            ),
            "set_field ip_dscp has a mask",
        ),
    ],
)
def test_what_openflow_cannot_say_is_refused_with_its_reason(modification: pb.Modification, complaint: str) -> None:
    with pytest.raises(CodecError, match=complaint):
        encode_modification(PROTOCOL, modification)


def test_actions_of_others_have_no_kind() -> None:
    described = parser.OFPFlowStats(
        table_id=1,
        priority=2,
        cookie=3,
        match=to_ryu_match([]),
        instructions=[
            parser.OFPInstructionActions(
                ofp.OFPIT_APPLY_ACTIONS,
                [parser.OFPActionPopVlan(), parser.NXActionResubmit(in_port=1), parser.OFPActionOutput(4)],
            ),
            parser.OFPInstructionWriteMetadata(1, 1),
            parser.OFPInstructionActions(ofp.OFPIT_CLEAR_ACTIONS, []),
        ],
    )
    kinds = [action.WhichOneof("kind") for action in decode_rule(described).actions]
    assert kinds == [None, None, "output", None, None]


@pytest.mark.parametrize(
    ("config", "state", "up", "disabled"),
    [(0, 0, True, False), (0, ofp.OFPPS_LINK_DOWN, False, False), (ofp.OFPPC_PORT_DOWN, 4, True, True)],
)
def test_ports(config: int, state: int, up: bool, disabled: bool) -> None:
    described = parser.OFPPort(3, "02:00:00:00:00:0a", b"leaf\xff1", config, state, 0, 0, 0, 0, 10_000_000, 0)
    assert decode_port(described) == pb.Port(
        port_no=3,
        name="leaf\ufffd1",
        hardware_address=b"\x02\0\0\0\0\x0a",
        link_up=up,
        administratively_down=disabled,
        current_speed_bps=10_000_000_000,
    )
