"""A real Open vSwitch that stops reading: what waits for it is given up, others go on, and it comes back."""

import os
import signal
from pathlib import Path

import pytest
from heddle.southbound.v1 import link_pb2 as pb

from tests.openvswitch.agent_harness import Controller, RyuApp
from tests.openvswitch.fake_switch import FakeSwitch
from tests.openvswitch.private_ovs import PrivateOvs, in_namespace

_TCP = "tcp:127.0.0.1:6653"
_RULES = 60_000


def _rules(count: int) -> list[pb.Modification]:
    ethernet = pb.MatchField(name="eth_type", value=b"\x08\x00")
    return [
        pb.Modification(
            add_rule=pb.Rule(
                table_id=2,
                priority=1,
                match=[ethernet, pb.MatchField(name="ipv4_dst", value=(0x0A000000 + n).to_bytes(4, "big"))],
                actions=[pb.Action(output=pb.Output(port_no=1))],
            )
        )
        for n in range(count)
    ]


@pytest.mark.slow
@in_namespace
def test_a_switch_that_freezes_is_read_anew_when_it_thaws(tmp_path: Path) -> None:
    _freeze_and_thaw(tmp_path, atomic=False)


@pytest.mark.slow
@in_namespace
def test_a_switch_that_freezes_within_a_bundle_has_changed_nothing(tmp_path: Path) -> None:
    _freeze_and_thaw(tmp_path, atomic=True)


def _freeze_and_thaw(tmp_path: Path, *, atomic: bool) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address) as agent:
        ovs.add_bridge("s1", 0x11, _TCP)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        FakeSwitch(6653, 2, [bytes.fromhex("020000000201")])
        other = controller.expect("switch_up").switch_up
        os.kill(ovs.switch_daemon_pid, signal.SIGSTOP)
        try:
            rules = _rules(_RULES)
            batches = [controller.start_batch(up, *rules, atomic=atomic) for _ in range(6)]
            # Another switch is served meanwhile.
            assert controller.batch(other, pb.Modification(delete_group_id=1)).status == pb.BatchResult.STATUS_DONE
            lost = [controller.expect("batch_result", timeout_s=60).batch_result for _ in batches]
            assert [(result.batch_id, result.status) for result in lost] == [
                (batch_id, pb.BatchResult.STATUS_LOST) for batch_id in batches
            ]
            assert controller.expect("switch_down", timeout_s=60).switch_down.session_id == up.session_id
        finally:
            os.kill(ovs.switch_daemon_pid, signal.SIGCONT)
        again = controller.expect("switch_up", lambda m: m.switch_up.dpid == 0x11, timeout_s=60).switch_up
        assert again.session_id != up.session_id
        tables = controller.read_tables(again)
        assert not tables.failed
        # A half-sent bundle has changed nothing; of plain rules those that had arrived stand.
        assert len(tables.rules) < _RULES
        assert not (atomic and tables.rules)
        assert controller.batch(again, *rules[:10]).status == pb.BatchResult.STATUS_DONE
        assert "Traceback" not in agent.log
