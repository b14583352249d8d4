"""Atomic batches on a real Open vSwitch: all of it or nothing, with the culprit named; and the model does the same."""

from collections.abc import Sequence
from pathlib import Path

from heddle.southbound.v1 import link_pb2 as pb

from controller.fabric.model import Port, PortRef
from controller.pipeline.rules import (
    AddGroup,
    AddRule,
    Barrier,
    Bucket,
    DeleteGroup,
    DeleteRule,
    Group,
    GroupKind,
    Modification,
    ModifyGroup,
    Output,
    Rule,
    SwitchTables,
    ToGroup,
    match,
)
from controller.runtime import wire_rules
from controller.simulation.switches import ModelSwitch
from tests.openvswitch.agent_harness import Controller, RyuApp
from tests.openvswitch.private_ovs import PrivateOvs, in_namespace

_TCP = "tcp:127.0.0.1:6653"
_PORTS = (1, 2)


def _group(group_id: int, port_no: int) -> Group:
    return Group(group_id, GroupKind.FAST_FAILOVER, (Bucket((Output(port_no),), watch_port=port_no),))


def _rule(number: int, group_id: int, table_id: int = 2) -> Rule:
    return Rule(table_id, 5, match(eth_type=0x800, ipv4_dst=number), number, (ToGroup(group_id),))


_BEFORE: tuple[Modification, ...] = (
    AddGroup(_group(1, 1)),
    AddGroup(_group(2, 2)),
    AddRule(_rule(1, 1)),
    AddRule(_rule(2, 2)),
)
_NO_PREREQUISITE = Rule(2, 5, match(ipv4_dst=1), 1, (Output(1),))

# Each is one batch upon the tables above.
BATCHES: dict[str, tuple[Modification, ...]] = {
    "a new path": (AddGroup(_group(3, 2)), Barrier(), AddRule(_rule(3, 3)), AddRule(_rule(1, 3))),
    "a rule goes": (DeleteRule(_rule(1, 1)), AddRule(_rule(3, 2))),
    "a group is changed": (ModifyGroup(_group(1, 2)), AddRule(_rule(4, 1))),
    "an unknown group at the end": (AddGroup(_group(3, 2)), AddRule(_rule(1, 3)), AddRule(_rule(5, 99))),
    "a group that is there already": (AddRule(_rule(6, 1)), AddGroup(_group(2, 1)), DeleteRule(_rule(1, 1))),
    "a rule deleted, a group changed and a refusal": (
        DeleteRule(_rule(1, 1)),
        ModifyGroup(_group(2, 1)),
        AddRule(_rule(7, 9)),
    ),
    "a rule that is refused before the commit": (DeleteRule(_rule(1, 1)), AddRule(_NO_PREREQUISITE)),
    "nothing": (),
}


def _batch(controller: Controller, up: pb.SwitchUp, changes: Sequence[Modification]) -> pb.BatchResult:
    batch_id = controller.start_batch(up, *map(wire_rules.write_modification, changes), atomic=True)
    return controller.expect("batch_result", lambda m: m.batch_result.batch_id == batch_id).batch_result


def _read(controller: Controller, up: pb.SwitchUp) -> SwitchTables:
    tables = controller.read_tables(up)
    assert not tables.failed
    return wire_rules.read_tables(tables).tables


@in_namespace
def test_the_model_and_open_vswitch_carry_out_the_same_or_nothing(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address) as agent:
        ovs.add_bridge("s1", 0x11)
        for port_no in _PORTS:
            ovs.add_veth("s1", f"s1-eth{port_no}", port_no, f"h{port_no}")
        ovs.set_controller("s1", _TCP)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        assert up.atomic
        for name, batch in BATCHES.items():
            for table in ("del-flows", "del-groups"):
                ovs.ofctl(table, "s1")
            model = ModelSwitch(0x11, "s1", [Port(PortRef(0x11, n), f"p{n}", f"02::{n}", True) for n in _PORTS])
            assert _batch(controller, up, _BEFORE).status == pb.BatchResult.STATUS_DONE
            assert model.execute_atomically(_BEFORE) == ()
            before = _read(controller, up)
            assert before == model.tables(), name

            result = _batch(controller, up, batch)
            refused = model.execute_atomically(batch)
            expected = pb.BatchResult.STATUS_ROLLED_BACK if refused else pb.BatchResult.STATUS_DONE
            assert result.status == expected, (name, result)
            told = [(error.index, error.name) for error in result.errors]
            assert told == [(refusal.index, refusal.name) for refusal in refused], name
            after = _read(controller, up)
            assert after == model.tables(), name
            assert (after == before) == (bool(refused) or not batch), name
            assert ovs.is_running, name
        assert "Traceback" not in agent.log


@in_namespace
def test_groups_are_deleted_one_by_one_because_open_vswitch_cannot_undo_that(tmp_path: Path) -> None:
    """Open vSwitch 3.1 aborts when a bundle fails that deletes a group in use (assertion in ofproto_rule_insert__)."""
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        ovs.add_bridge("s1", 0x11, _TCP)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        made = [AddGroup(Group(1, GroupKind.ALL, ())), AddRule(_rule(1, 1)), AddRule(_rule(2, 1))]
        assert _batch(controller, up, made).status == pb.BatchResult.STATUS_DONE
        result = _batch(controller, up, [DeleteGroup(1), AddRule(_rule(3, 1))])
        assert result.status == pb.BatchResult.STATUS_REFUSED
        assert [error.index for error in result.errors] == [1]
        assert ovs.is_running
        assert _read(controller, up) == SwitchTables()


@in_namespace
def test_what_cannot_be_told_to_the_switch_spoils_the_batch_before_it_is_committed(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        ovs.add_bridge("s1", 0x11, _TCP)
        controller.accept()
        up = controller.expect("switch_up").switch_up
        good = pb.Modification(add_rule=pb.Rule(table_id=1, priority=1))
        strange = pb.Modification(add_rule=pb.Rule(match=[pb.MatchField(name="qp", value=b"1")]))
        batch_id = controller.start_batch(up, good, strange, good, atomic=True)
        result = controller.expect("batch_result", lambda m: m.batch_result.batch_id == batch_id).batch_result
        assert result.status == pb.BatchResult.STATUS_ROLLED_BACK
        assert [(error.index, error.name) for error in result.errors] == [
            (1, "NOT_SENT/OpenFlow 1.3 has no field 'qp'")
        ]
        assert not controller.read_tables(up).rules


@in_namespace
def test_a_full_table_undoes_the_whole_batch_and_meters_go_one_by_one(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    with PrivateOvs() as ovs, RyuApp("fabric", tmp_path, HEDDLE_SOUTHBOUND=controller.address):
        ovs.add_bridge("s1", 0x11, _TCP)
        limit = ["--id=@t", "create", "Flow_Table", "flow_limit=50", "overflow_policy=refuse"]
        ovs.vsctl("--", *limit, "--", "set", "bridge", "s1", "flow_tables:2=@t")
        controller.accept()
        up = controller.expect("switch_up").switch_up
        rules = [Rule(2, 1, match(eth_type=0x800, ipv4_dst=n + 1), n, (Output(1),)) for n in range(100)]
        result = _batch(controller, up, [AddRule(rule) for rule in rules])
        assert result.status == pb.BatchResult.STATUS_ROLLED_BACK
        assert [(e.index, e.name) for e in result.errors] == [(50, "OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL")]
        assert not controller.read_tables(up).rules

        meter = pb.Modification(add_meter=pb.Meter(meter_id=1, packets_per_second=5, burst_packets=5))
        plain = [meter, *(wire_rules.write_modification(AddRule(rule)) for rule in rules)]
        batch_id = controller.start_batch(up, *plain, atomic=True)
        result = controller.expect("batch_result", lambda m: m.batch_result.batch_id == batch_id).batch_result
        assert result.status == pb.BatchResult.STATUS_REFUSED
        assert [error.index for error in result.errors] == list(range(51, 101))
        tables = controller.read_tables(up)
        assert (len(tables.rules), len(tables.meters)) == (50, 1)
