"""The agent between a real Open vSwitch and a controller that is played here over the southbound link."""

import os
import signal
import socket
from pathlib import Path

from heddle.southbound.v1 import link_pb2 as pb

from tests.openvswitch.agent_harness import Controller, RyuApp, wait_until
from tests.openvswitch.private_ovs import PrivateOvs, in_namespace

_ANY = 0xFFFFFFFF
_TO_CONTROLLER = 0xFFFFFFFD
_TCP = "tcp:127.0.0.1:6653"
# Number of symmetric_l3l4+udp among the NX_HASH_FIELDS_* of Open vSwitch (include/openflow/nicira-ext.h).
SYMMETRIC_L3L4_UDP = 3


def _field(name: str, value: str, mask: str = "") -> pb.MatchField:
    return pb.MatchField(name=name, value=bytes.fromhex(value), mask=bytes.fromhex(mask))


def _output(port_no: int, max_len: int = 0) -> pb.Action:
    return pb.Action(output=pb.Output(port_no=port_no, max_len=max_len))


_IPV4 = _field("eth_type", "0800")
_IPV6 = _field("eth_type", "86dd")
_UDP = _field("ip_proto", "11")

GROUPS = [
    pb.Group(
        group_id=1,
        kind=pb.Group.KIND_FAST_FAILOVER,
        buckets=[
            pb.Bucket(watch_port=1, actions=[_output(1)]),
            pb.Bucket(watch_port=2, actions=[pb.Action(decrement_ttl=True), _output(2)]),
            pb.Bucket(watch_port=1, actions=[pb.Action(set_ttl=4), _output(2)]),
        ],
    ),
    pb.Group(
        group_id=2,
        kind=pb.Group.KIND_SELECT,
        buckets=[
            pb.Bucket(weight=3, watch_port=_ANY, actions=[_output(1)]),
            pb.Bucket(weight=1, watch_port=_ANY, actions=[_output(2)]),
        ],
    ),
    pb.Group(
        group_id=3,
        kind=pb.Group.KIND_ALL,
        buckets=[pb.Bucket(watch_port=_ANY, actions=[_output(p)]) for p in (1, 2)],
    ),
    pb.Group(
        group_id=4,
        kind=pb.Group.KIND_INDIRECT,
        buckets=[
            pb.Bucket(
                watch_port=_ANY,
                actions=[pb.Action(set_field=_field("ip_dscp", "1a")), pb.Action(queue_id=1), _output(1)],
            )
        ],
    ),
    pb.Group(group_id=5, kind=pb.Group.KIND_FAST_FAILOVER, buckets=[]),
]

METERS = [pb.Meter(meter_id=7, packets_per_second=500, burst_packets=50)]

RULES = [
    pb.Rule(
        table_id=0,
        priority=65535,
        cookie=0x4845444C00000001,
        match=[_field("eth_dst", "0180c200000e"), _field("eth_type", "88cc")],
        actions=[_output(_TO_CONTROLLER, 0xFFFF)],
    ),
    pb.Rule(
        table_id=0,
        priority=100,
        cookie=0xFFFFFFFFFFFFFFFF,
        match=[_field("arp_op", "0001"), _field("eth_type", "0806")],
        actions=[_output(_TO_CONTROLLER, 128)],
        meter_id=7,
    ),
    pb.Rule(table_id=0, priority=0, cookie=2, goto_table=1),
    pb.Rule(
        table_id=1,
        priority=10,
        cookie=3,
        match=[_IPV4, _UDP, _field("udp_dst", "12b7")],
        actions=[pb.Action(set_field=_field("ip_dscp", "30")), pb.Action(queue_id=2)],
        goto_table=2,
    ),
    pb.Rule(
        table_id=1,
        priority=9,
        cookie=3,
        match=[_IPV4, _field("ip_dscp", "30"), _field("ip_ecn", "02"), _UDP, _field("udp_src", "0001", "0001")],
        actions=[pb.Action(queue_id=0)],
        goto_table=2,
    ),
    pb.Rule(
        table_id=2,
        priority=5,
        cookie=4,
        match=[_IPV4, _UDP, _field("ipv4_dst", "0a000202"), _field("ipv4_src", "0a000101"), _field("udp_src", "c000")],
        actions=[pb.Action(group_id=1)],
    ),
    pb.Rule(
        table_id=2,
        priority=4,
        cookie=5,
        match=[_field("in_port", "00000001"), _IPV4, _field("ipv4_dst", "0a000200", "ffffff00")],
        actions=[
            pb.Action(decrement_ttl=True),
            pb.Action(bundle=pb.Bundle(fields=SYMMETRIC_L3L4_UDP, basis=4711, ports=[1, 2, 2])),
        ],
    ),
    pb.Rule(
        table_id=2,
        priority=3,
        cookie=6,
        match=[_IPV6, _field("ipv6_dst", "fd000000000000000000000000000002")],
        actions=[
            pb.Action(set_ttl=3),
            pb.Action(set_field=_field("eth_src", "020000000001")),
            pb.Action(set_field=_field("eth_dst", "020000000002")),
            _output(2),
        ],
    ),
    pb.Rule(table_id=3, priority=1, cookie=7, match=[_field("eth_src", "020000000000", "fe0000000000")]),
    pb.Rule(
        table_id=3,
        priority=2,
        cookie=8,
        match=[_field("eth_type", "0800"), _field("ip_proto", "06"), _field("tcp_dst", "0016")],
        actions=[pb.Action(group_id=2)],
    ),
    pb.Rule(
        table_id=3,
        priority=2,
        cookie=8,
        match=[_IPV6, _field("icmpv6_code", "00"), _field("icmpv6_type", "87"), _field("ip_proto", "3a")],
        actions=[_output(_TO_CONTROLLER, 0xFFFF)],
    ),
    pb.Rule(
        table_id=3,
        priority=2,
        cookie=9,
        match=[_IPV4, _field("icmpv4_type", "08"), _field("ip_proto", "01")],
        actions=[pb.Action(group_id=3)],
    ),
]
for _rule in RULES:
    _match = sorted(_rule.match, key=lambda field: field.name)
    del _rule.match[:]
    _rule.match.extend(_match)


def _everything() -> list[pb.Modification]:
    return [
        *(pb.Modification(add_group=group) for group in GROUPS),
        *(pb.Modification(add_meter=meter) for meter in METERS),
        pb.Modification(barrier=True),
        *(pb.Modification(add_rule=rule) for rule in RULES),
    ]


def _sorted(messages: object) -> list[str]:
    return sorted(str(message) for message in messages)  # type: ignore[attr-defined]


def _bridge(ovs: PrivateOvs) -> None:
    ovs.add_bridge("s1", 0x11)
    ovs.add_veth("s1", "s1-eth1", 1, "h1")
    ovs.add_veth("s1", "s1-eth2", 2, "h2")
    ovs.set_controller("s1", _TCP)


@in_namespace
def test_what_is_written_is_read_back_equal(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address) as agent:
        _bridge(ovs)
        assert controller.accept().protocol_version == 1
        up = controller.expect("switch_up").switch_up
        assert (up.dpid, up.nicira, [port.port_no for port in up.ports]) == (0x11, True, [1, 2])
        assert [(port.name, port.link_up) for port in up.ports] == [("s1-eth1", True), ("s1-eth2", True)]
        result = controller.batch(up, *_everything())
        assert result.status == pb.BatchResult.STATUS_DONE, result

        tables = controller.read_tables(up)
        assert not tables.failed
        assert _sorted(tables.rules) == _sorted(RULES)
        assert _sorted(tables.groups) == _sorted(GROUPS)
        assert _sorted(tables.meters) == _sorted(METERS)
        assert "bundle(symmetric_l3l4+udp,4711,hrw,ofport,members:1,2,2)" in ovs.ofctl("dump-flows", "s1")

        undo = [pb.Modification(delete_rule=rule) for rule in RULES]
        undo += [pb.Modification(barrier=True), pb.Modification(delete_meter_id=7)]
        undo += [pb.Modification(delete_group_id=group.group_id) for group in GROUPS]
        assert controller.batch(up, *undo).status == pb.BatchResult.STATUS_DONE
        empty = controller.read_tables(up)
        assert not empty.failed
        assert [*empty.rules, *empty.groups, *empty.meters] == []
        assert "Traceback" not in agent.log


@in_namespace
def test_refusals_are_reported_by_index_and_the_rest_stands(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        _bridge(ovs)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        good = RULES[2]
        bad_group = pb.Rule(table_id=9, priority=1, match=[_IPV4], actions=[pb.Action(group_id=99)])
        no_spelling = pb.Rule(table_id=9, priority=1, match=[_field("qp_number", "000001")])
        result = controller.batch(
            up,
            pb.Modification(add_group=GROUPS[0]),
            pb.Modification(add_group=GROUPS[0]),
            pb.Modification(barrier=True),
            pb.Modification(add_rule=bad_group),
            pb.Modification(add_rule=no_spelling),
            pb.Modification(modify_group=GROUPS[1]),
            pb.Modification(add_rule=good),
        )
        assert result.status == pb.BatchResult.STATUS_REFUSED
        assert [(error.index, error.name) for error in result.errors] == [
            (1, "OFPET_GROUP_MOD_FAILED/OFPGMFC_GROUP_EXISTS"),
            (3, "OFPET_BAD_ACTION/OFPBAC_BAD_OUT_GROUP"),
            (4, "NOT_SENT/OpenFlow 1.3 has no field 'qp_number'"),
            (5, "OFPET_GROUP_MOD_FAILED/OFPGMFC_UNKNOWN_GROUP"),
        ]
        tables = controller.read_tables(up)
        assert _sorted(tables.rules) == _sorted([good])
        assert _sorted(tables.groups) == _sorted([GROUPS[0]])


@in_namespace
def test_a_full_table_is_reported_for_the_rules_that_did_not_fit(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        _bridge(ovs)
        limit = ["--id=@t", "create", "Flow_Table", "flow_limit=50", "overflow_policy=refuse"]
        ovs.vsctl("--", *limit, "--", "set", "bridge", "s1", "flow_tables:2=@t")
        controller.accept()
        up = controller.expect("switch_up").switch_up
        rules = [
            pb.Rule(table_id=2, priority=1, match=[_IPV4, _field("ipv4_dst", f"0a00{i:04x}")], actions=[_output(1)])
            for i in range(100)
        ]
        for rule in rules:
            rule.match.sort(key=lambda field: field.name)
        result = controller.batch(up, *(pb.Modification(add_rule=rule) for rule in rules))
        assert {error.name for error in result.errors} == {"OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL"}
        assert [error.index for error in result.errors] == list(range(50, 100))
        assert len(controller.read_tables(up).rules) == 50
        # Whoever connects now is told before anything is refused.
        ovs.vsctl("del-controller", "s1")
        ovs.set_controller("s1", _TCP)
        limits = controller.expect("switch_up").switch_up
        assert {t.table_id: t.max_rules for t in limits.tables if t.table_id in (1, 2)} == {1: 1_000_000, 2: 50}
        assert limits.max_failover_groups == 0xFFFFFF00


@in_namespace
def test_overwriting_a_rule_keeps_its_counters(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        _bridge(ovs)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        rule = pb.Rule(table_id=0, priority=1, cookie=1, match=[_IPV4], actions=[_output(2)])
        controller.batch(up, pb.Modification(add_rule=rule))
        frame = "ffffffffffff0200000000010800" + "00" * 50
        ovs.ofctl("packet-out", "s1", f"in_port=1 packet={frame} actions=table")
        ovs.appctl("revalidator/wait")
        assert "n_packets=1" in ovs.ofctl("dump-flows", "s1")
        rule.cookie = 2
        del rule.actions[:]
        controller.batch(up, pb.Modification(add_rule=rule))
        dump = ovs.ofctl("dump-flows", "s1")
        assert "n_packets=1" in dump
        assert "cookie=0x2" in dump


@in_namespace
def test_packets_go_both_ways(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        _bridge(ovs)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        punt = pb.Rule(table_id=0, priority=1, cookie=0xABC, actions=[_output(_TO_CONTROLLER, 0xFFFF)])
        assert controller.batch(up, pb.Modification(add_rule=punt)).status == pb.BatchResult.STATUS_DONE
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as host:
            host.bind(("h1", 0))
            host.settimeout(20)
            sent = bytes.fromhex("ffffffffffff020000000001abcd") + bytes(range(200))
            host.send(sent)
            packet = controller.expect("packet_in", lambda m: m.packet_in.data == sent).packet_in
            assert (packet.in_port, packet.cookie, packet.session_id) == (1, 0xABC, up.session_id)
            controller.send(packet_out=pb.PacketOut(dpid=up.dpid, out_ports=[1, 2], data=sent[::-1]))
            while host.recv(2000) != sent[::-1]:
                pass  # IPv6 of the kernel itself.


@in_namespace
def test_port_changes_and_counters(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        _bridge(ovs)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        os.system("ip link set h1 down")
        down = controller.expect("port_status", lambda m: not m.port_status.port.link_up).port_status
        assert (down.port.port_no, down.reason, down.session_id) == (1, pb.PortStatus.REASON_MODIFY, up.session_id)
        ovs.vsctl("del-port", "s1-eth2")
        gone = controller.expect("port_status", lambda m: m.port_status.reason == pb.PortStatus.REASON_DELETE)
        assert gone.port_status.port.port_no == 2

        controller.send(
            read_port_statistics=pb.ReadPortStatistics(dpid=up.dpid, session_id=up.session_id, request_id=9)
        )
        statistics = controller.expect("port_statistics").port_statistics
        assert statistics.request_id == 9
        assert [port.port_no for port in statistics.ports] == [1]

        controller.hang_up()
        controller.accept()
        again = controller.expect("switch_up").switch_up
        assert [(port.port_no, port.link_up) for port in again.ports] == [(1, False)]


@in_namespace
def test_a_controller_that_comes_back_hears_everything_again(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address) as agent:
        _bridge(ovs)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        controller.batch(up, *_everything())
        controller.close()
        agent.wait_for_log("no controller answers")
        controller.path.unlink()
        second = Controller(controller.path)
        second.accept()
        again = second.expect("switch_up").switch_up
        assert again.session_id == up.session_id
        assert _sorted(second.read_tables(again).rules) == _sorted(RULES)
        second.send(ping=pb.Ping(nonce=5))
        pong = second.expect("pong").pong
        assert pong.nonce == 5
        assert pong.worst_loop_delay_s >= 0


@in_namespace
def test_a_switch_that_dies_takes_its_batch_with_it(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        _bridge(ovs)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        os.kill(ovs.switch_daemon_pid, signal.SIGSTOP)
        batch_id = controller.start_batch(up, *_everything())
        controller.send(read_tables=pb.ReadTables(dpid=up.dpid, session_id=up.session_id, request_id=77))
        assert controller.expect("tables").tables.failed
        os.kill(ovs.switch_daemon_pid, signal.SIGKILL)
        result = controller.expect("batch_result").batch_result
        assert (result.batch_id, result.status) == (batch_id, pb.BatchResult.STATUS_LOST)
        assert controller.expect("switch_down").switch_down.session_id == up.session_id
        assert controller.batch(up, *_everything()).status == pb.BatchResult.STATUS_LOST
        assert controller.read_tables(up).failed


@in_namespace
def test_a_rule_of_somebody_else_is_reported_and_can_be_deleted(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        _bridge(ovs)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        ovs.ofctl("add-flow", "s1", "cookie=0x99,priority=7,ip,nw_dst=10.0.0.0/8,actions=push_vlan:0x8100,output:1")
        ovs.ofctl("add-flow", "s1", "cookie=0x9a,table=3,priority=7,reg0=5,actions=learn(table=4),write_metadata:1")
        ovs.ofctl("add-meter", "s1", "meter=4,kbps,band=type=drop,rate=1000")
        tables = controller.read_tables(up)
        assert sorted(rule.cookie for rule in tables.rules) == [0x99, 0x9A]
        assert all(None in [action.WhichOneof("kind") for action in rule.actions] for rule in tables.rules)
        assert [(meter.meter_id, meter.packets_per_second) for meter in tables.meters] == [(4, 0)]
        deletions = [pb.Modification(delete_rule=rule) for rule in tables.rules]
        assert controller.batch(up, *deletions).status == pb.BatchResult.STATUS_DONE
        assert not controller.read_tables(up).rules


@in_namespace
def test_ten_thousand_rules_do_not_hold_up_packets(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        _bridge(ovs)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        rules = [
            pb.Modification(
                add_rule=pb.Rule(
                    table_id=2,
                    priority=1,
                    cookie=i,
                    match=[_IPV4, _field("ipv4_dst", f"0a{i:06x}")],
                    actions=[_output(1)],
                )
            )
            for i in range(10_000)
        ]
        batch_id = controller.start_batch(up, *rules)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as host:
            host.bind(("h1", 0))
            host.settimeout(20)
            beacon = bytes.fromhex("0180c200000e02000000000188cc") + b"beacon" * 8
            controller.send(packet_out=pb.PacketOut(dpid=up.dpid, out_ports=[1], data=beacon))
            while host.recv(2000) != beacon:
                pass
        results = [m for m in controller.collect(0.01) if m.WhichOneof("body") == "batch_result"]
        assert results == [], "the packet waited for the whole batch"
        result = controller.expect("batch_result").batch_result
        assert (result.batch_id, result.status) == (batch_id, pb.BatchResult.STATUS_DONE)
        assert len(controller.read_tables(up).rules) == 10_000


@in_namespace
def test_a_bridge_that_is_made_anew_is_reported_as_a_new_session(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        _bridge(ovs)
        controller.accept()
        first = controller.expect("switch_up").switch_up
        ovs.vsctl("del-br", "s1")
        controller.expect("switch_down", lambda m: m.switch_down.session_id == first.session_id)
        ovs.add_bridge("s1", 0x11, _TCP)
        second = controller.expect("switch_up").switch_up
        assert second.session_id != first.session_id
        wait_until(lambda: "is_connected: true" in ovs.vsctl("show"), "connected")
