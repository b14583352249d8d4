"""Protobuf and core values are the same in both directions, and in one spelling only."""

import contextlib
from typing import get_args

import pytest
from heddle.southbound.v1 import link_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from controller.core import commands, events
from controller.fabric.model import Port, PortRef
from controller.pipeline import rules
from controller.runtime.wire_messages import WireError, read_event, read_message, write_command
from controller.runtime.wire_rules import (
    UNSUPPORTED,
    UnknownField,
    read_group,
    read_rule,
    read_tables,
    write_group,
    write_modification,
    write_rule,
)

_WEIGHTLESS = [kind for kind in rules.GroupKind if kind is not rules.GroupKind.SELECT]


@st.composite
def fields(draw: st.DrawFn) -> rules.Match:
    names = draw(st.lists(st.sampled_from(sorted(rules.FIELD_BITS)), unique=True, max_size=6))
    chosen: dict[str, int | tuple[int, int]] = {}
    for name in names:
        number = st.integers(0, (1 << rules.FIELD_BITS[name]) - 1)
        chosen[name] = draw(st.one_of(number, st.tuples(number, number)))
    return rules.match(**chosen)


ports = st.integers(1, 0xFFFFFF00)
actions = st.one_of(
    st.builds(rules.Output, ports),
    st.just(rules.Output(rules.OFPP_CONTROLLER, rules.WHOLE_PACKET)),
    st.builds(rules.ToGroup, st.integers(0, 2**32 - 1)),
    st.builds(rules.SetQueue, st.integers(0, 2**32 - 1)),
    st.builds(rules.SetField, st.just("ip_dscp"), st.integers(0, 63)),
    st.builds(rules.SetField, st.just("eth_dst"), st.integers(0, 2**48 - 1)),
    st.just(rules.DecrementTtl()),
    st.builds(rules.SetTtl, st.integers(0, 255)),
    st.builds(rules.Bundle, st.lists(st.integers(1, 64)).map(tuple), st.integers(0, 65535), st.sampled_from([1, 5])),
)
action_lists = st.lists(actions, max_size=4).map(tuple)
some_rules = st.builds(
    rules.Rule,
    table_id=st.integers(0, 254),
    priority=st.integers(0, 65535),
    match=fields(),
    cookie=st.integers(0, 2**64 - 1),
    actions=action_lists,
    goto_table=st.none() | st.integers(0, 254),
    meter_id=st.none() | st.integers(0, 1000),
)
some_groups = st.one_of(
    st.builds(
        rules.Group,
        st.integers(0, 2**32 - 1),
        st.just(rules.GroupKind.SELECT),
        st.lists(st.builds(rules.Bucket, action_lists, st.integers(0, 65535)), max_size=3).map(tuple),
    ),
    st.builds(
        rules.Group,
        st.integers(0, 2**32 - 1),
        st.sampled_from(_WEIGHTLESS),
        st.lists(st.builds(rules.Bucket, action_lists, st.just(0), ports), max_size=3).map(tuple),
    ),
)


@given(some_rules)
def test_rules_come_back_equal(rule: rules.Rule) -> None:
    assert read_rule(pb.Rule.FromString(write_rule(rule).SerializeToString())) == rule


@given(some_groups)
def test_groups_come_back_equal(group: rules.Group) -> None:
    assert read_group(pb.Group.FromString(write_group(group).SerializeToString())) == group


@given(some_rules)
def test_values_are_as_wide_as_their_field(rule: rules.Rule) -> None:
    for field in write_rule(rule).match:
        assert len(field.value) == (rules.FIELD_BITS[field.name] + 7) // 8
        assert len(field.mask) in (0, len(field.value))


def test_spellings_of_one_match_are_one_value() -> None:
    plain = [("ipv4_dst", "0a000001", ""), ("eth_type", "0800", "")]
    odd = [
        ("eth_type", "0800", "ffff"),  # a mask over the whole field
        ("ipv4_dst", "0a000001", "ffffffff"),
        ("ip_dscp", "3f", "00"),  # masked to nothing
    ]

    def rule(given: list[tuple[str, str, str]]) -> rules.Rule:
        match = [pb.MatchField(name=n, value=bytes.fromhex(v), mask=bytes.fromhex(m)) for n, v, m in given]
        return read_rule(pb.Rule(match=match))

    assert rule(plain) == rule(odd) == rule(plain[::-1])
    assert rule(plain).match == rules.match(eth_type=0x800, ipv4_dst=0x0A000001)


def test_bits_outside_a_mask_and_above_a_narrow_field_do_not_count() -> None:
    field = pb.MatchField(name="ipv4_dst", value=bytes.fromhex("0a0000ff"), mask=bytes.fromhex("ffffff00"))
    vlan = pb.MatchField(name="vlan_vid", value=bytes.fromhex("1001"), mask=bytes.fromhex("ffff"))

    read = read_rule(pb.Rule(match=[field, vlan])).match

    assert read == rules.match(ipv4_dst=(0x0A000000, 0xFFFFFF00), vlan_vid=0x1001)


def test_max_len_counts_only_towards_the_controller() -> None:
    rule = pb.Rule(actions=[pb.Action(output=pb.Output(port_no=3, max_len=128))])
    assert read_rule(rule).actions == (rules.Output(3),)


def test_rule_with_an_unknown_match_is_left_out_and_counted() -> None:
    known = pb.Rule(match=[pb.MatchField(name="tunnel_id", value=bytes(7) + b"\x05")], cookie=1)
    unknown = pb.Rule(match=[pb.MatchField(name="reg0", value=bytes(4))], cookie=2)
    too_wide = pb.Rule(match=[pb.MatchField(name="ip_dscp", value=b"\xff")], cookie=3)

    read = read_tables(pb.Tables(rules=[known, unknown, too_wide], groups=[pb.Group(group_id=9)]))

    assert {rule.cookie for rule in read.tables.rules} == {1}
    assert read.left_out == 3
    with pytest.raises(UnknownField, match="reg0"):
        read_rule(unknown)


def test_rule_of_ours_with_a_foreign_action_differs_and_can_be_deleted() -> None:
    ours = rules.Rule(2, 10, rules.match(eth_type=0x800), 7, (rules.Output(1),))
    message = write_rule(ours)
    message.actions.append(pb.Action())  # the agent's word for "something the protocol cannot say"

    read = read_rule(message)

    assert read != ours
    assert read.key == ours.key
    assert read.actions == (rules.Output(1), UNSUPPORTED)
    deletion = write_modification(rules.DeleteRule(read)).delete_rule
    assert (deletion.table_id, deletion.priority, deletion.cookie, len(deletion.actions)) == (2, 10, 7, 0)
    assert read_rule(write_modification(rules.AddRule(read)).add_rule) == ours


KINDS: list[tuple[rules.Modification, str]] = [
    (rules.AddGroup(rules.Group(1, rules.GroupKind.ALL, ())), "add_group"),
    (rules.ModifyGroup(rules.Group(1, rules.GroupKind.ALL, ())), "modify_group"),
    (rules.DeleteGroup(5), "delete_group_id"),
    (rules.AddMeter(rules.Meter(1, 500, 50)), "add_meter"),
    (rules.ModifyMeter(rules.Meter(1, 500, 50)), "modify_meter"),
    (rules.DeleteMeter(1), "delete_meter_id"),
    (rules.Barrier(), "barrier"),
    (rules.AddRule(rules.Rule(0, 0, (), 0)), "add_rule"),
    (rules.DeleteRule(rules.Rule(0, 0, (), 0)), "delete_rule"),
]


@pytest.mark.parametrize(("modification", "kind"), KINDS)
def test_modifications_have_their_kind(modification: rules.Modification, kind: str) -> None:
    assert write_modification(modification).WhichOneof("kind") == kind


def test_no_modification_is_without_a_word() -> None:
    assert {type(modification) for modification, _ in KINDS} == set(get_args(rules.Modification))


def event_of(**body: object) -> events.Event | None:
    return read_event(read_message(pb.AgentMessage(**body).SerializeToString())).event  # type: ignore[arg-type]


def test_switch_up_leaves_the_local_port_out() -> None:
    mac = bytes.fromhex("0200000000ff")
    listed = [
        pb.Port(port_no=1, name="a", hardware_address=mac, link_up=True, current_speed_bps=10**10),
        pb.Port(port_no=2, name="b", hardware_address=mac, link_up=True, administratively_down=True),
        pb.Port(port_no=0xFFFFFFFE, name="LOCAL", hardware_address=mac),
    ]
    up = pb.SwitchUp(dpid=5, session_id="x", peer_address="p", ports=listed, nicira=True, software="3.1")

    assert event_of(switch_up=up) == events.SwitchConnected(
        5,
        "x",
        "p",
        (
            Port(PortRef(5, 1), "a", "02:00:00:00:00:ff", True, 10**10),
            Port(PortRef(5, 2), "b", "02:00:00:00:00:ff", False),
        ),
        True,
        "3.1",
    )


def test_all_ones_counters_are_unknown() -> None:
    ones = 2**64 - 1
    unknown = dict.fromkeys(("tx_bytes", "rx_packets", "tx_dropped", "tx_errors"), ones)
    counters = pb.PortCounters(port_no=1, rx_bytes=7, tx_packets=3, **unknown)
    read = event_of(port_statistics=pb.PortStatistics(dpid=1, session_id="s", ports=[counters]))
    assert isinstance(read, events.PortStatisticsRead)
    assert read.counters == {1: events.PortCounters(7, None, None, 3, None, 0, None, 0)}


@pytest.mark.parametrize(("errors", "overruns", "damaged"), [(9, 4, 5), (9, 2**64 - 1, 9), (2**64 - 1, 4, None)])
def test_frames_for_which_there_was_no_room_are_not_damaged(errors: int, overruns: int, damaged: int | None) -> None:
    counters = pb.PortCounters(port_no=1, rx_errors=errors, rx_over_errors=overruns)
    read = event_of(port_statistics=pb.PortStatistics(dpid=1, session_id="s", ports=[counters]))
    assert isinstance(read, events.PortStatisticsRead)
    assert read.counters[1].rx_errors == damaged


def test_batch_answers() -> None:
    error = pb.ModificationError(index=2, type=5, code=1, name="OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL")
    nameless = pb.ModificationError(index=3, type=77, code=6)
    result = pb.BatchResult(dpid=1, session_id="s", batch_id=4, status=2, errors=[error, nameless])
    refusals = (events.Refusal(2, "OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL"), events.Refusal(3, "77/6"))
    assert event_of(batch_result=result) == events.BatchAnswered(1, "s", 4, events.BatchStatus.REFUSED, refusals)


def test_tables_that_were_not_read_are_none() -> None:
    assert event_of(tables=pb.Tables(dpid=1, session_id="s", request_id=3, failed=True)) == events.TablesRead(
        1, "s", 3, None
    )


def test_removed_port() -> None:
    port = pb.Port(port_no=4, name="d", hardware_address=bytes(6))
    status = pb.PortStatus(dpid=1, session_id="s", reason=pb.PortStatus.REASON_DELETE, port=port)
    changed = event_of(port_status=status)
    assert isinstance(changed, events.PortChanged)
    assert changed.removed


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"switch_up": pb.SwitchUp(dpid=0xAB)}, "ab is reported without a session id"),
        ({"batch_result": pb.BatchResult(batch_id=3)}, "status 0"),
        (
            {"port_status": pb.PortStatus(dpid=1, port=pb.Port(port_no=3, hardware_address=b"123"))},
            "address of 3 bytes",
        ),
    ],
)
def test_impossible_messages_say_what_is_wrong(body: dict[str, object], text: str) -> None:
    with pytest.raises(WireError, match=text):
        event_of(**body)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_wire_error(payload: bytes) -> None:
    with contextlib.suppress(WireError):
        read_event(read_message(payload))


def test_commands_on_the_wire() -> None:
    def sent(command: object) -> pb.ControllerMessage:
        return pb.ControllerMessage.FromString(write_command(command))  # type: ignore[arg-type]

    packet = sent(commands.SendPacket(7, (1, 2), b"beacon")).packet_out
    assert (packet.dpid, list(packet.out_ports), packet.data) == (7, [1, 2], b"beacon")
    batch = sent(commands.SendBatch(7, "s", 9, (rules.Barrier(), rules.DeleteGroup(3)))).batch
    assert (batch.batch_id, len(batch.modifications), batch.modifications[1].delete_group_id) == (9, 2, 3)
    assert sent(commands.ReadTables(7, "s", 11)).read_tables.request_id == 11
    assert sent(commands.ReadPortStatistics(7, "s")).read_port_statistics.session_id == "s"
