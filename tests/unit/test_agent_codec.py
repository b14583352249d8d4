"""Everything the pipeline can say becomes the bytes that Ryu would make of it, and survives the way there and back."""

import struct
from typing import Any

import pytest
from heddle.southbound.v1 import link_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st
from ryu.ofproto import ofproto_protocol
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from apps.codec_actions import encode_action
from apps.codec_decode import decode_groups, decode_meters, decode_port, decode_rules
from apps.codec_encode import encode_bundle_control, encode_modification, encode_packet_out, in_bundle
from apps.codec_fields import CodecError
from controller.pipeline import rules
from controller.runtime import wire_rules
from tests.unit import ryu_reference

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
            # Ryu cuts a bundle without members short; the pipeline has none.
            ports=st.lists(ports, min_size=1, max_size=12).map(tuple),
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


def _encoded(modification: pb.Modification, xid: int = 7) -> bytes:
    """The agent's bytes, which are Ryu's."""
    data = encode_modification(modification, xid)
    assert data == ryu_reference.serialise(ryu_reference.encode_modification(PROTOCOL, modification), xid)
    return data


def _described(flow_mod: bytes) -> bytes:
    """The ofp_flow_stats that a switch holding this rule would answer (OpenFlow 1.3.5, 7.3.5.2)."""
    cookie, table_id, priority = struct.unpack_from("!Q8xB5xH", flow_mod, 8)
    tail = flow_mod[48:]
    return struct.pack("!HBxIIHHHH4xQQQ", 48 + len(tail), table_id, 1, 2, priority, 3, 4, 5, cookie, 6, 7) + tail


def _read_back(modification: pb.Modification) -> pb.Rule:
    (rule,) = decode_rules(_described(_encoded(modification)))
    return rule


@given(st.lists(all_rules, max_size=4))
def test_rules_survive(held: list[rules.Rule]) -> None:
    answer = b"".join(_described(_encoded(wire_rules.write_modification(rules.AddRule(rule)))) for rule in held)
    assert [wire_rules.read_rule(rule) for rule in decode_rules(answer)] == held


@given(all_rules)
def test_an_added_rule_neither_expires_nor_starts_its_counters_anew(rule: rules.Rule) -> None:
    data = _encoded(wire_rules.write_modification(rules.AddRule(rule)))
    message = parser.OFPFlowMod.parser(PROTOCOL, 4, ofp.OFPT_FLOW_MOD, len(data), 7, data)
    assert (message.command, message.flags, message.buffer_id) == (ofp.OFPFC_ADD, 0, ofp.OFP_NO_BUFFER)
    assert (message.idle_timeout, message.hard_timeout) == (0, 0)


@given(all_rules)
def test_a_delete_is_strict_and_names_the_rule_only(rule: rules.Rule) -> None:
    data = _encoded(wire_rules.write_modification(rules.DeleteRule(rule)))
    message = parser.OFPFlowMod.parser(PROTOCOL, 4, ofp.OFPT_FLOW_MOD, len(data), 7, data)
    assert message.command == ofp.OFPFC_DELETE_STRICT
    assert (message.out_port, message.out_group, message.cookie_mask) == (ofp.OFPP_ANY, ofp.OFPG_ANY, 0)
    (read,) = decode_rules(_described(data))
    assert wire_rules.read_rule(read).key == rule.key


@given(st.lists(all_groups(), max_size=4), st.booleans())
def test_groups_survive(held: list[rules.Group], is_new: bool) -> None:
    answer = b""
    for group in held:
        change = rules.AddGroup(group) if is_new else rules.ModifyGroup(group)
        data = _encoded(wire_rules.write_modification(change))
        command, kind, group_id = struct.unpack_from("!HBxI", data, 8)
        assert command == (ofp.OFPGC_ADD if is_new else ofp.OFPGC_MODIFY)
        # The description a switch gives has the same buckets behind another head (OpenFlow 1.3.5, 7.3.5.10).
        answer += struct.pack("!HBxI", len(data) - 8, kind, group_id) + data[16:]
    assert [wire_rules.read_group(group) for group in decode_groups(answer)] == held


@given(st.integers(1, 0xFFFF0000), st.integers(1, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF), st.booleans())
def test_meters_survive(meter_id: int, rate: int, burst: int, is_new: bool) -> None:
    meter = rules.Meter(meter_id, rate, burst)
    change = rules.AddMeter(meter) if is_new else rules.ModifyMeter(meter)
    data = _encoded(wire_rules.write_modification(change))
    command, flags, number = struct.unpack_from("!HHI", data, 8)
    assert command == (ofp.OFPMC_ADD if is_new else ofp.OFPMC_MODIFY)
    assert flags == ofp.OFPMF_PKTPS | ofp.OFPMF_BURST
    described = struct.pack("!HHI", len(data) - 8, flags, number) + data[16:]
    (read,) = decode_meters(described)
    assert (read.meter_id, read.packets_per_second, read.burst_packets) == (meter_id, rate, burst)


@pytest.mark.parametrize(
    "modification",
    [pb.Modification(delete_group_id=7), pb.Modification(delete_meter_id=7), pb.Modification(barrier=True)],
)
def test_what_has_no_parts_is_spelt_as_ryu_spells_it(modification: pb.Modification) -> None:
    assert _encoded(modification)


@given(all_rules, st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF))
def test_bundle_messages_are_spelt_as_ryu_spells_them(rule: rules.Rule, bundle_id: int, xid: int) -> None:
    change = wire_rules.write_modification(rules.AddRule(rule))
    inner = ryu_reference.encode_modification(PROTOCOL, change)
    flags = ofp.ONF_BF_ATOMIC | ofp.ONF_BF_ORDERED
    add = parser.ONFBundleAddMsg(PROTOCOL, bundle_id, flags, inner, [])
    assert in_bundle(encode_modification(change, xid), bundle_id, xid) == ryu_reference.serialise(add, xid)
    for kind in (ofp.ONF_BCT_OPEN_REQUEST, ofp.ONF_BCT_COMMIT_REQUEST, ofp.ONF_BCT_DISCARD_REQUEST):
        control = parser.ONFBundleCtrlMsg(PROTOCOL, bundle_id, kind, flags, [])
        assert encode_bundle_control(kind, bundle_id, xid) == ryu_reference.serialise(control, xid)


@given(st.binary(max_size=200), st.lists(ports, min_size=1, max_size=4))
def test_packets_survive(data: bytes, out_ports: list[int]) -> None:
    packet = pb.PacketOut(dpid=1, out_ports=out_ports, data=data)
    expected = ryu_reference.serialise(ryu_reference.encode_packet_out(PROTOCOL, packet), 1)
    assert encode_packet_out(packet, 1) == expected


def test_neutral_spellings_are_one() -> None:
    whole = pb.MatchField(name="vlan_vid", value=b"\x10\x05", mask=b"\x1f\xff")
    nothing = pb.MatchField(name="ipv4_src", value=b"\x0a\x00\x00\x01", mask=bytes(4))
    loose = pb.MatchField(name="ipv4_dst", value=b"\x0a\x00\x00\x01", mask=b"\xff\xff\xff\x00")
    rule = pb.Rule(match=[whole, nothing, loose], actions=[pb.Action(output=pb.Output(port_no=1, max_len=128))])
    read = _read_back(pb.Modification(add_rule=rule))
    assert list(read.match) == [
        pb.MatchField(name="ipv4_dst", value=b"\x0a\x00\x00\x00", mask=b"\xff\xff\xff\x00"),
        pb.MatchField(name="vlan_vid", value=b"\x10\x05"),
    ]
    assert read.actions[0].output.max_len == 0


def test_bundle_bytes_are_those_of_open_vswitch() -> None:
    """NXAST_BUNDLE as `bundle(symmetric_l3l4+udp,7,hrw,ofport,members:1,2,2)` (include/openflow/nicira-ext.h)."""
    data = encode_action(pb.Action(bundle=pb.Bundle(fields=3, basis=7, ports=[1, 2, 2])))
    head = bytes.fromhex("ffff 0028 00002320 000c")
    body = bytes.fromhex("0001 0003 0007 00000002 0003 0000 00000000 00000000")
    assert data == head + body + bytes.fromhex("0001 0002 0002 0000")


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
        encode_modification(modification, 1)


def test_a_message_longer_than_openflow_allows_is_refused() -> None:
    bucket = pb.Bucket(watch_port=1, actions=[pb.Action(output=pb.Output(port_no=1))])
    huge = pb.Group(group_id=1, kind=pb.Group.KIND_FAST_FAILOVER, buckets=[bucket] * 3000)
    with pytest.raises(CodecError, match="96016 bytes"):
        encode_modification(pb.Modification(add_group=huge), 1)


def _foreign(*instructions: Any) -> bytes:
    """ofp_flow_stats of somebody else's rule."""
    message = parser.OFPFlowMod(
        PROTOCOL, cookie=3, table_id=1, priority=2, match=parser.OFPMatch(in_port=9), instructions=instructions
    )
    return _described(ryu_reference.serialise(message, 1))


def test_actions_of_others_have_no_kind() -> None:
    held = _foreign(
        parser.OFPInstructionActions(
            ofp.OFPIT_APPLY_ACTIONS,
            [parser.OFPActionPopVlan(), parser.NXActionResubmit(in_port=1), parser.OFPActionOutput(4)],
        ),
        parser.OFPInstructionWriteMetadata(1, 1),
        parser.OFPInstructionActions(ofp.OFPIT_CLEAR_ACTIONS, []),
    )
    (rule,) = decode_rules(held)
    assert [action.WhichOneof("kind") for action in rule.actions] == [None, None, "output", None, None]
    assert (rule.cookie, rule.table_id, rule.priority) == (3, 1, 2)


@given(st.integers(0, 0xFFFF), st.binary(max_size=60))
def test_an_action_that_nobody_knows_does_not_hide_its_rule_or_the_others(kind: int, inside: bytes) -> None:
    body = inside + bytes(4 - len(inside) % 8 + (8 if len(inside) % 8 > 4 else 0))
    action = struct.pack("!HH", kind, 4 + len(body)) + body
    instruction = struct.pack("!HH4x", ofp.OFPIT_APPLY_ACTIONS, 8 + len(action)) + action
    head, ours = _foreign(), _described(_encoded(pb.Modification(add_rule=pb.Rule(cookie=5))))
    length = (len(head) + len(instruction)).to_bytes(2, "big")
    read = decode_rules(length + head[2:] + instruction + ours)
    assert [rule.cookie for rule in read] == [3, 5]
    assert len(read[0].actions) == 1


@given(st.binary(max_size=200))
def test_what_is_no_table_is_refused_or_read_and_never_hangs(data: bytes) -> None:
    for decode in (decode_rules, decode_groups, decode_meters):
        try:
            decode(data)
        except CodecError:
            continue


def test_a_field_without_a_name_can_still_be_named_for_its_deletion() -> None:
    held = _foreign()
    oxm = bytes.fromhex("0001fe04 01020304")  # NXM_1, a number that nobody uses.
    match = struct.pack("!HH", ofp.OFPMT_OXM, 4 + len(oxm)) + oxm + bytes(4)
    (rule,) = decode_rules((48 + len(match)).to_bytes(2, "big") + held[2:48] + match)
    assert [(field.name, field.value) for field in rule.match] == [("oxm_0001fe04", b"\1\2\3\4")]
    assert match in encode_modification(pb.Modification(delete_rule=rule), 1)


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
