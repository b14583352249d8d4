"""Who may speak for a datapath id, and what odd switches may send, with switches that are made up for it."""

import socket
import time
from pathlib import Path

from heddle.southbound.v1 import link_pb2 as pb

from tests.openvswitch.agent_harness import Controller, RyuApp, wait_until
from tests.openvswitch.fake_switch import FakeSwitch
from tests.openvswitch.private_ovs import in_namespace

_PORT = 6653
_LEAF = [bytes.fromhex("020000000101"), bytes.fromhex("020000000102")]
_SPINE = [bytes.fromhex("020000000201")]


@in_namespace
def test_a_second_switch_with_the_same_id_is_refused_once(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address) as agent:
        controller.accept()
        first = FakeSwitch(_PORT, 1, _LEAF)
        up = controller.expect("switch_up").switch_up
        assert not up.nicira
        refused_addresses = []
        for _ in range(5):  # It comes back again and again, as switches do.
            second = FakeSwitch(_PORT, 1, _SPINE)
            refused_addresses.append(second.address)
            assert second.closed.wait(20)
        refusal = controller.expect("switch_refused").switch_refused
        assert (refusal.dpid, refusal.kept_peer_address) == (1, first.address)
        assert refusal.peer_address == refused_addresses[0]
        others = controller.collect(1.0)
        assert others == []
        told = [line for line in agent.log.splitlines() if "claimed by two switches" in line]
        assert len(told) == 1
        assert first.address in told[0]
        assert refused_addresses[0] in told[0]

        # A controller that starts later hears of the conflict, too.
        controller.hang_up()
        controller.accept()
        assert controller.expect("switch_up").switch_up.session_id == up.session_id
        assert controller.expect("switch_refused").switch_refused.dpid == 1

        # Once the first one is gone, the second may have the id.
        first.close()
        controller.expect("switch_down")
        FakeSwitch(_PORT, 1, _SPINE)
        assert [port.hardware_address for port in controller.expect("switch_up").switch_up.ports] == _SPINE


@in_namespace
def test_the_same_switch_replaces_its_dead_session_at_once(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address) as agent:
        controller.accept()
        dead = FakeSwitch(_PORT, 1, _LEAF)
        dead.answers_barriers = False
        old = controller.expect("switch_up").switch_up
        batch_id = controller.start_batch(old, pb.Modification(delete_group_id=1))
        # Nothing tells the agent that the first connection is dead; a port was added meanwhile.
        before_s = time.monotonic()
        FakeSwitch(_PORT, 1, [*_LEAF, bytes.fromhex("020000000103")])
        result = controller.expect("batch_result").batch_result
        assert (result.batch_id, result.status) == (batch_id, pb.BatchResult.STATUS_LOST)
        assert controller.expect("switch_down").switch_down.session_id == old.session_id
        new = controller.expect("switch_up").switch_up
        print(f"replaced after {time.monotonic() - before_s:.3f} s")
        assert new.session_id != old.session_id
        assert len(new.ports) == 3
        assert controller.batch(new, pb.Modification(delete_group_id=1)).status == pb.BatchResult.STATUS_DONE
        time.sleep(6)  # Ryu notices the end of the old connection up to 5 s later; the new one must outlive that.
        assert controller.collect(0.5) == []
        assert "refused" not in agent.log


@in_namespace
def test_a_switch_that_gives_no_sign_of_life_is_given_up(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        controller.accept()
        FakeSwitch(_PORT, 2, _SPINE)
        controller.expect("switch_up")
        silent = FakeSwitch(_PORT, 1, _LEAF)
        silent.answers_barriers = silent.answers_echoes = False
        up = controller.expect("switch_up").switch_up
        batch_id = controller.start_batch(up, pb.Modification(delete_group_id=1))
        result = controller.expect("batch_result", timeout_s=60).batch_result
        assert (result.batch_id, result.status) == (batch_id, pb.BatchResult.STATUS_LOST)
        assert controller.expect("switch_down").switch_down.session_id == up.session_id
        assert controller.collect(6) == [], "the switch that answers stays"


@in_namespace
def test_packets_of_any_size_are_passed_on(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address) as agent:
        controller.accept()
        switch = FakeSwitch(_PORT, 1, _LEAF)
        controller.expect("switch_up")
        for size in (0, 1, 6, 13, 14, 15, 9000):
            data = bytes(i & 0xFF for i in range(size))
            switch.packet_in(data, in_port=2)
            packet = controller.expect("packet_in").packet_in
            assert (packet.in_port, packet.data) == (2, data)
        assert "Traceback" not in agent.log
        assert "Exception" not in agent.log


@in_namespace
def test_errors_are_matched_by_transaction_id_whatever_they_quote(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address) as agent:
        controller.accept()
        switch = FakeSwitch(_PORT, 1, _LEAF)
        up = controller.expect("switch_up").switch_up
        switch.answers_barriers = False
        rules = [pb.Modification(add_rule=pb.Rule(table_id=t, priority=1)) for t in range(3)]
        batch_id = controller.start_batch(up, *rules)
        flow_mod, barrier = 14, 20
        wait_until(lambda: switch.received[-1][0] == barrier, "the closing barrier")
        xids = [xid for kind, xid, _ in switch.received if kind == flow_mod]
        assert len(set(xids)) == 3
        switch.error(xids[2], 5, 1, quoted=b"\x04\x0e\x00\x58")  # Not even a header.
        switch.error(xids[0], 5, 77)
        switch.error(xids[1], 0xFFFF, 2301, quoted=bytes.fromhex("4f4e4600"))
        switch.error(0xDEAD, 5, 1, quoted=b"\xff" * 64)
        switch.send(21, switch.received[-1][1], b"")
        result = controller.expect("batch_result").batch_result
        assert (result.batch_id, result.status) == (batch_id, pb.BatchResult.STATUS_REFUSED)
        assert [(error.index, error.name) for error in result.errors] == [
            (0, "OFPET_FLOW_MOD_FAILED/code 77"),
            (1, "OFPET_EXPERIMENTER/0x4f4e4600:2301"),
            (2, "OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL"),
        ]
        assert "Traceback" not in agent.log


@in_namespace
def test_nothing_follows_a_barrier_before_its_answer(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        controller.accept()
        switch = FakeSwitch(_PORT, 1, _LEAF)
        up = controller.expect("switch_up").switch_up
        switch.answers_barriers = False
        group = pb.Group(group_id=1, kind=pb.Group.KIND_ALL)
        rule = pb.Rule(table_id=0, priority=1, actions=[pb.Action(group_id=1)])
        controller.start_batch(
            up,
            pb.Modification(add_group=group),
            pb.Modification(barrier=True),
            pb.Modification(add_rule=rule),
        )
        flow_mod, packet_out, barrier = 14, 13, 20
        wait_until(lambda: switch.received[-1][0] == barrier, "the barrier")
        controller.send(packet_out=pb.PacketOut(dpid=1, out_ports=[1], data=b"beacon"))
        wait_until(lambda: switch.received[-1][0] == packet_out, "a packet, which need not wait")
        assert flow_mod not in [kind for kind, _, _ in switch.received]
        switch.send(21, next(xid for kind, xid, _ in switch.received if kind == barrier), b"")
        wait_until(lambda: flow_mod in [kind for kind, _, _ in switch.received], "the rule")


@in_namespace
def test_a_switch_that_sends_rubbish_loses_its_session_and_nobody_else(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        controller.accept()
        FakeSwitch(_PORT, 1, _LEAF)
        good = controller.expect("switch_up").switch_up
        FakeSwitch(_PORT, 2, _SPINE)
        controller.expect("switch_up")
        with socket.create_connection(("127.0.0.1", _PORT)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
            rubbish = FakeSwitch(_PORT, 3, [bytes.fromhex("020000000301")])
            controller.expect("switch_up", lambda m: m.switch_up.dpid == 3)
            rubbish.send(200, 7, b"\xff" * 40)
            rubbish.send(19, 7, b"\x00\x01\x00\x00" + b"\xff" * 40)
            rubbish.send(10, 7, b"\xff" * 3)
        assert controller.batch(good, pb.Modification(delete_group_id=1)).status == pb.BatchResult.STATUS_DONE
