"""A session's order and its answers, without a switch: requests in, bytes out, replies in, reports out."""

import itertools
import struct

import pytest
from heddle.southbound.v1 import link_pb2 as pb
from ryu.ofproto import ofproto_parser, ofproto_protocol
from ryu.ofproto import ofproto_v1_3 as ofp

from apps.codec_decode import decode_counters
from apps.session import BATCH_TIMEOUT_S, SwitchSession

PROTOCOL = ofproto_protocol.ProtocolDesc(ofp.OFP_VERSION)
FLOW_MOD, GROUP_MOD, PACKET_OUT, BARRIER, MULTIPART = 14, 15, 13, 20, 18


def _session() -> SwitchSession:
    return SwitchSession(PROTOCOL, 1, "s", itertools.count(100).__next__)


def _sent(session: SwitchSession) -> list[tuple[int, int]]:
    """(type, xid) of all messages that may go out now."""
    messages = []
    while data := session.next_bytes():
        while data:
            _, kind, length, xid = ofproto_parser.header(data)
            messages.append((kind, xid))
            data = data[length:]
    return messages


def _rule(priority: int = 1) -> pb.Modification:
    return pb.Modification(add_rule=pb.Rule(priority=priority))


def _batch(batch_id: int, *modifications: pb.Modification) -> pb.Batch:
    return pb.Batch(dpid=1, session_id="s", batch_id=batch_id, modifications=modifications)


_BARRIER = pb.Modification(barrier=True)
_GROUP = pb.Modification(add_group=pb.Group(group_id=1, kind=pb.Group.KIND_ALL))


def test_a_batch_keeps_its_order_and_ends_with_a_barrier() -> None:
    session = _session()
    session.submit(_batch(5, _GROUP, _rule(), _rule(2)))
    sent = _sent(session)
    assert [kind for kind, _ in sent] == [GROUP_MOD, FLOW_MOD, FLOW_MOD, BARRIER]
    (report,) = session.on_reply(sent[-1][1])
    assert report.batch_result == pb.BatchResult(dpid=1, session_id="s", batch_id=5, status=pb.BatchResult.STATUS_DONE)
    assert session.lost() == []


def test_a_barrier_holds_back_the_rest_until_it_is_answered() -> None:
    session = _session()
    session.submit(_batch(5, _GROUP, _BARRIER, _rule()))
    session.submit(_batch(6, _rule()))
    first = _sent(session)
    assert [kind for kind, _ in first] == [GROUP_MOD, BARRIER]
    assert session.on_reply(4711) == []
    assert _sent(session) == []
    assert session.on_reply(first[-1][1]) == []
    # The second batch need not wait for the closing barrier of the first.
    assert [kind for kind, _ in _sent(session)] == [FLOW_MOD, BARRIER, FLOW_MOD, BARRIER]


def test_packets_overtake_a_batch() -> None:
    session = _session()
    session.submit(_batch(5, *(_rule(i) for i in range(1000))))
    first = session.next_bytes()
    session.send_packet(pb.PacketOut(dpid=1, out_ports=[1], data=b"beacon"))
    kinds = [kind for kind, _ in _sent(session)]
    assert first
    assert kinds[0] == PACKET_OUT
    assert kinds.count(FLOW_MOD) < 1000


def test_a_flood_of_packets_drops_the_oldest() -> None:
    session = _session()
    for number in range(2000):
        session.send_packet(pb.PacketOut(dpid=1, out_ports=[1], data=number.to_bytes(4, "big")))
    data = session.next_bytes()
    assert session.dropped_packets > 0
    assert data.endswith((1999).to_bytes(4, "big"))
    assert len(_sent(session)) == 0


def test_refusals_are_told_by_index_once_and_in_order() -> None:
    session = _session()
    session.submit(_batch(5, _rule(1), _rule(2), pb.Modification(), _rule(3)))
    sent = _sent(session)
    xids = [xid for kind, xid in sent if kind == FLOW_MOD]
    assert session.on_error(xids[2], 5, 1) == []
    assert session.on_error(xids[0], 2, 9) == []
    assert session.on_error(xids[0], 2, 8) == []
    (report,) = session.on_reply(sent[-1][1])
    assert report.batch_result.status == pb.BatchResult.STATUS_REFUSED
    assert [(error.index, error.name) for error in report.batch_result.errors] == [
        (0, "OFPET_BAD_ACTION/OFPBAC_BAD_OUT_GROUP"),
        (2, "NOT_SENT/the modification is empty"),
        (3, "OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL"),
    ]


def test_a_message_too_long_for_openflow_is_refused_not_sent() -> None:
    session = _session()
    bucket = pb.Bucket(watch_port=1, actions=[pb.Action(output=pb.Output(port_no=1))])
    huge = pb.Group(group_id=1, kind=pb.Group.KIND_FAST_FAILOVER, buckets=[bucket] * 3000)
    session.submit(_batch(5, pb.Modification(add_group=huge), _rule()))
    sent = _sent(session)
    assert [kind for kind, _ in sent] == [FLOW_MOD, BARRIER]
    (report,) = session.on_reply(sent[-1][1])
    assert [error.index for error in report.batch_result.errors] == [0]


def test_an_error_that_belongs_to_nothing_is_counted() -> None:
    session = _session()
    assert session.on_error(1, 5, 1) == []
    assert session.unmatched_errors == 1


def test_a_lost_switch_loses_what_was_sent_and_what_was_not() -> None:
    session = _session()
    session.submit(_batch(5, _GROUP, _BARRIER, _rule()))
    session.submit(_batch(6, _rule()))
    session.read_tables(pb.ReadTables(dpid=1, session_id="s", request_id=7), 0.0)
    _sent(session)
    reports = session.lost()
    assert [(r.batch_result.batch_id, r.batch_result.status) for r in reports[:2]] == [
        (5, pb.BatchResult.STATUS_LOST),
        (6, pb.BatchResult.STATUS_LOST),
    ]
    assert [(r.tables.request_id, r.tables.failed) for r in reports[2:]] == [(7, True)]
    assert session.lost() == []


def test_a_controller_that_went_away_is_answered_nothing() -> None:
    session = _session()
    session.submit(_batch(5, _rule()))
    sent = _sent(session)
    session.submit(_batch(6, _rule()))
    session.abandon()
    assert _sent(session) == []
    assert session.on_reply(sent[-1][1]) == []
    assert session.on_error(sent[0][1], 5, 1) == []


@pytest.fixture
def reading() -> tuple[SwitchSession, list[int]]:
    session = _session()
    session.read_tables(pb.ReadTables(dpid=1, session_id="s", request_id=7), 0.0)
    sent = _sent(session)
    assert [kind for kind, _ in sent] == [BARRIER, MULTIPART, MULTIPART, MULTIPART]
    return session, [xid for _, xid in sent[1:]]


def _flow(priority: int) -> pb.Rule:
    return pb.Rule(priority=priority)


def test_tables_are_collected_from_many_parts(reading: tuple[SwitchSession, list[int]]) -> None:
    session, (flows, groups, meters) = reading
    assert session.on_multipart(flows, [_flow(1)], True, 1.0) == []
    assert session.on_multipart(meters, [], False, 2.0) == []
    assert session.on_multipart(groups, [pb.Group(group_id=3)], False, 3.0) == []
    # Every part starts the time-out anew.
    assert session.expire(7.9) == []
    (report,) = session.on_multipart(flows, [_flow(2)], False, 8.0)
    assert [rule.priority for rule in report.tables.rules] == [1, 2]
    assert [group.group_id for group in report.tables.groups] == [3]
    assert not report.tables.failed
    assert session.expire(1e9) == []


def test_silence_fails_a_read_once(reading: tuple[SwitchSession, list[int]]) -> None:
    session, (flows, _, _) = reading
    assert session.expire(4.9) == []
    (report,) = session.expire(5.0)
    assert (report.tables.request_id, report.tables.failed) == (7, True)
    assert session.expire(6.0) == []
    assert session.on_multipart(flows, [_flow(1)], False, 6.0) == []


def test_a_switch_without_groups_and_meters_holds_none(reading: tuple[SwitchSession, list[int]]) -> None:
    session, (flows, groups, meters) = reading
    assert session.on_error(groups, 1, 2) == []
    assert session.on_error(meters, 1, 2) == []
    (report,) = session.on_multipart(flows, [], False, 1.0)
    assert not report.tables.failed


def test_a_switch_that_does_not_tell_its_flows_has_failed(reading: tuple[SwitchSession, list[int]]) -> None:
    session, (flows, groups, meters) = reading
    session.on_multipart(groups, [], False, 1.0)
    session.on_multipart(meters, [], False, 1.0)
    (report,) = session.on_error(flows, 1, 2)
    assert report.tables.failed


def test_a_read_waits_for_the_batch_before_it() -> None:
    session = _session()
    session.submit(_batch(5, _GROUP, _BARRIER, _rule()))
    session.read_tables(pb.ReadTables(dpid=1, session_id="s", request_id=7), 0.0)
    first = _sent(session)
    assert MULTIPART not in [kind for kind, _ in first]
    session.on_reply(first[-1][1])
    assert [kind for kind, _ in _sent(session)][:3] == [FLOW_MOD, BARRIER, BARRIER]


def test_unknown_counters_stay_all_ones_and_reserved_ports_are_left_out() -> None:
    session = _session()
    session.read_ports(pb.ReadPortStatistics(dpid=1, session_id="s", request_id=9), 0.0)
    ((_, xid),) = _sent(session)
    unknown = 2**64 - 1
    entries = b"".join(
        struct.pack("!I4x12QII", number, 1, 2, 3, unknown, 5, 6, 7, 8, 1, 3, 2, 0, 12, 0)
        for number in (1, ofp.OFPP_LOCAL)
    )
    (report,) = session.on_multipart(xid, decode_counters(entries), False, 1.0)
    (port,) = report.port_statistics.ports
    assert (port.port_no, port.tx_bytes, port.duration_s) == (1, unknown, 12)
    assert (port.rx_errors, port.tx_errors, port.rx_over_errors) == (7, 8, 3)


def test_a_switch_that_takes_nothing_is_noticed() -> None:
    session = _session()
    assert not session.overwhelmed
    for number in range(5000):
        session.submit(_batch(number, _rule()))
    assert session.overwhelmed


# --- atomic batches ---------------------------------------------------------------------------------------

EXPERIMENTER = 4


def _atomic_session() -> SwitchSession:
    session = _session()
    session.probe()
    probe = _sent(session)
    assert [kind for kind, _ in probe] == [EXPERIMENTER, EXPERIMENTER]
    session.on_reply(probe[0][1])
    session.on_reply(probe[1][1])
    assert session.atomic
    return session


def test_a_switch_that_knows_ordered_bundles_is_trusted_to_keep_order_behind_a_barrier() -> None:
    session = _atomic_session()
    session.submit(_batch(5, _GROUP, _BARRIER, _rule()))
    sent = _sent(session)
    assert [kind for kind, _ in sent] == [GROUP_MOD, BARRIER, FLOW_MOD, BARRIER]
    # Only the closing barrier's answer ends the batch.
    assert session.on_reply(sent[1][1]) == []
    (report,) = session.on_reply(sent[3][1])
    assert report.batch_result.status == pb.BatchResult.STATUS_DONE


def _atomic(batch_id: int, *modifications: pb.Modification) -> pb.Batch:
    batch = _batch(batch_id, *modifications)
    batch.atomic = True
    return batch


def test_a_switch_that_does_not_know_bundles_is_sent_none() -> None:
    session = _session()
    session.probe()
    for _, xid in _sent(session):
        assert session.on_error(xid, 1, 3) == []
    assert not session.atomic
    assert session.unmatched_errors == 0
    session.submit(_atomic(5, _rule()))
    assert [kind for kind, _ in _sent(session)] == [FLOW_MOD, BARRIER]


def test_a_bundle_is_committed_when_all_of_it_was_taken() -> None:
    session = _atomic_session()
    session.submit(_atomic(5, _GROUP, _BARRIER, _rule()))
    filled = _sent(session)
    assert [kind for kind, _ in filled] == [EXPERIMENTER] * 3 + [BARRIER]
    assert session.on_reply(filled[0][1]) == []
    assert _sent(session) == []
    assert session.on_reply(filled[-1][1]) == []
    ((kind, commit),) = _sent(session)
    assert kind == EXPERIMENTER
    (report,) = session.on_reply(commit)
    assert report.batch_result.status == pb.BatchResult.STATUS_DONE
    assert session.lost() == []


def test_a_refusal_on_the_way_into_the_bundle_discards_it() -> None:
    session = _atomic_session()
    session.submit(_atomic(5, _rule(1), _rule(2), _rule(3)))
    filled = _sent(session)
    assert session.on_error(filled[2][1], 5, 2) == []
    session.on_reply(filled[-1][1])
    ((_, discard),) = _sent(session)
    (report,) = session.on_reply(discard)
    assert report.batch_result.status == pb.BatchResult.STATUS_ROLLED_BACK
    assert [error.index for error in report.batch_result.errors] == [1]


def test_a_refused_commit_rolls_back_and_names_the_culprit() -> None:
    session = _atomic_session()
    session.submit(_atomic(5, _rule(1), _rule(2)))
    filled = _sent(session)
    session.on_reply(filled[-1][1])
    ((_, commit),) = _sent(session)
    assert session.on_error(filled[2][1], 5, 1) == []
    (report,) = session.on_error(commit, 0xFFFF, 2313, 0x4F4E4600)
    assert report.batch_result.status == pb.BatchResult.STATUS_ROLLED_BACK
    assert [(error.index, error.name) for error in report.batch_result.errors] == [
        (1, "OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL")
    ]


@pytest.mark.parametrize(
    "excluded",
    [
        pb.Modification(add_meter=pb.Meter(meter_id=1)),
        pb.Modification(modify_meter=pb.Meter(meter_id=1)),
        pb.Modification(delete_meter_id=1),
        pb.Modification(delete_group_id=1),
    ],
)
def test_what_open_vswitch_cannot_bundle_goes_one_by_one(excluded: pb.Modification) -> None:
    session = _atomic_session()
    session.submit(_atomic(5, _rule(), excluded))
    assert EXPERIMENTER not in [kind for kind, _ in _sent(session)]


# --- bounds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("atomic", [False, True])
def test_a_batch_that_gets_no_answer_is_given_up_and_the_next_one_goes_on(atomic: bool) -> None:
    session = _atomic_session() if atomic else _session()
    session.submit(_atomic(5, _rule(), _BARRIER, _rule()))
    session.submit(_atomic(6, _rule(7)))
    first = _sent(session)
    assert session.expire(100.0) == []
    assert session.expire(100.0 + BATCH_TIMEOUT_S - 0.1) == []
    (report,) = session.expire(100.0 + BATCH_TIMEOUT_S)
    assert (report.batch_result.batch_id, report.batch_result.status) == (5, pb.BatchResult.STATUS_LOST)
    # Late answers belong to nobody.
    assert session.on_reply(first[-1][1]) == []
    second = _sent(session)
    assert second
    session.on_reply(second[-1][1])
    if atomic:
        second = _sent(session)
        (report,) = session.on_reply(second[-1][1])
    assert session.lost() == []


def test_a_batch_that_goes_on_is_not_given_up() -> None:
    session = _session()
    session.submit(_batch(5, *(m for n in range(10) for m in (_rule(n), _BARRIER))))
    for n in range(10):
        sent = _sent(session)
        assert session.expire(9.0 * n) == []
        assert session.expire(9.0 * n + 8.0) == []
        session.on_reply(sent[-1][1])
    assert [kind for kind, _ in _sent(session)] == [BARRIER]


def test_a_batch_larger_than_the_queue_is_taken_alone_but_not_behind_another() -> None:
    session = _session()
    session.submit(_batch(5, *[_rule()] * 200_001))
    assert not session.overwhelmed
    session.submit(_batch(6, _rule()))
    assert session.overwhelmed
    session.abandon()
    assert not session.overwhelmed


def test_what_was_sent_no_longer_counts_as_waiting() -> None:
    session = _session()
    session.submit(_batch(5, *[_rule()] * 150_000))
    _sent(session)
    session.submit(_batch(6, *[_rule()] * 150_000))
    session.submit(_batch(7, _rule()))
    assert not session.overwhelmed


def test_packets_go_between_the_parts_of_a_bundle() -> None:
    session = _atomic_session()
    session.submit(_atomic(5, *(_rule(i) for i in range(10_000))))
    before_packet = []
    while data := session.next_bytes():
        session.send_packet(pb.PacketOut(dpid=1, out_ports=[1], data=b"beacon"))
        packet = session.next_bytes()
        assert packet.endswith(b"beacon")
        before_packet.append(len(data))
    assert len(before_packet) > 50
    assert max(before_packet) < 1 << 16
