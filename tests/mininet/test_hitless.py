"""Restarts and changes that nobody on the fabric notices: real packets through real switches, while it happens.

The benchmark of the same name does the same more often, on a larger fabric.
"""

import os
from pathlib import Path

import pytest

from tests.mininet.end_to_end import ROOT, needs_root

pytestmark = [needs_root, pytest.mark.slow]


def test_restarts_moves_and_new_queue_weights_lose_no_packet(tmp_path: Path) -> None:
    from hitless_run import Counts, run

    log = tmp_path / "heddle.log"
    outcome = run(
        ROOT / "topologies" / "leafspine-2x2.yaml",
        f"hitless-test-{os.getpid()}",
        log,
        Counts(controller_kills=1, agent_kills=1, path_moves=4, queue_changes=1),
        packets_per_second=200,
    )
    assert (outcome.leaf_pairs, outcome.cable_directions) == (2, 8)
    assert outcome.sent > 0
    assert (outcome.lost, outcome.duplicated) == (0, 0), outcome.lost_by_probe
    assert outcome.moves >= 4
    # Three queues on each of twelve switch ports; two of the three weights are others.
    assert outcome.queue_rows_changed == 2 * 12
    for what in ("nothing", "controller killed", "agent killed", "queue weight changed"):
        assert outcome.changes[what].commands == {}, what
    # The record does see changes, so that its silence means something.
    assert outcome.changes["paths moved"].commands["FLOW_MOD ADD"] > 0
    assert outcome.wholesale == []
    assert [error for changes in outcome.changes.values() for error in changes.errors] == []
    assert "Traceback" not in log.read_text()


def test_the_record_sees_what_deletes_wholesale(tmp_path: Path) -> None:
    from hitless_record import MessageRecord
    from lab_fabric import FabricLab

    from controller.formats.topology_file import load

    plan = load(ROOT / "topologies" / "leafspine-1x.yaml")
    with FabricLab(plan, name=f"record-{os.getpid()}") as lab:
        record = MessageRecord(lab)
        named = "table=1,priority=5,actions=drop\ndelete_strict table=1,priority=5\n"
        lab.ovs.ofctl("--bundle", "add-flows", "leaf1", "-", stdin=named)
        lab.ovs.ofctl("add-group", "leaf1", "group_id=3,type=all")
        lab.ovs.ofctl("del-groups", "leaf1", "group_id=3")
        harmless = record.take()
        assert harmless.commands == {
            "FLOW_MOD ADD": 1,
            "FLOW_MOD DEL_STRICT": 1,
            "GROUP_MOD ADD": 1,
            "GROUP_MOD DEL": 1,
        }
        assert harmless.wholesale == ()
        lab.ovs.ofctl("--bundle", "add-flows", "leaf1", "-", stdin="delete table=1\n")
        lab.ovs.ofctl("del-flows", "leaf1")
        lab.ovs.ofctl("del-groups", "leaf1")
        lab.ovs.ofctl("del-meters", "leaf1")
        assert len(record.take().wholesale) == 4
        assert record.take().commands == {}


def _steering(dump: str) -> dict[str, int]:
    """Packets by the match of each rule in the steering table."""
    rules = [line.split() for line in dump.splitlines() if " table=2," in line and "n_packets=" in line]
    counted = [next(w for w in words if w.startswith("n_packets=")) for words in rules]
    matches = [next(w for w in words if w.startswith("priority=")) for words in rules]
    return {m: int(n.removeprefix("n_packets=").rstrip(",")) for m, n in zip(matches, counted, strict=True)}


def test_a_job_that_ended_while_the_controller_was_dead_goes_and_the_others_are_not_touched(tmp_path: Path) -> None:
    """B22: as if it had died between writing the withdrawal down and telling the switches."""
    from demo_controllers import OPENFLOW
    from demo_northbound import Controller
    from hitless_probes import ProbeFlow, finish, running
    from hitless_processes import processes
    from hitless_run import Jobs
    from lab_fabric import FabricLab

    from controller.core.commands import Remember
    from controller.core.remembered import FactKeys, Facts
    from controller.formats.topology_file import load
    from controller.runtime.sqlite_store import SqliteStore

    topology = ROOT / "topologies" / "leafspine-2x2.yaml"
    plan = load(topology)
    jobs = Jobs.on(plan)
    with (
        FabricLab(plan, controllers=[OPENFLOW], name=f"ended-{os.getpid()}") as lab,
        processes(lab, topology, tmp_path / "heddle.log") as control,
    ):
        lab.teach_neighbours()
        with Controller(control.grpc) as controller:
            controller.announce("stays", jobs.stays)
            kept = _steering(lab.ovs.ofctl("dump-flows", "leaf1")).keys()
            controller.announce("ends", jobs.mover)
        flows = [ProbeFlow(*jobs.stays.hosts, 50_000), ProbeFlow(*jobs.mover.hosts, 50_001)]
        with running(lab, flows, 200) as probes:
            control.kill_controller()
            before = _steering(lab.ovs.ofctl("dump-flows", "leaf1"))
            assert before.keys() > kept
            store = SqliteStore(control.environment["HEDDLE_STATE"])
            store.write(Remember(1, Facts(), FactKeys(jobs=("ends",))))
            store.close()
            control.start_controller()
            control.wait_ready()
            results = finish(probes)
        after = _steering(lab.ovs.ofctl("dump-flows", "leaf1"))
        assert [(r.lost, r.duplicated) for r in results] == [(0, 0), (0, 0)]
        assert after.keys() == kept
        assert all(after[match] >= before[match] for match in kept)
        assert sum(after[match] for match in kept) > sum(before[match] for match in kept)


def test_a_spine_that_is_removed_and_made_anew_gets_its_rules_back(tmp_path: Path) -> None:
    """B33: its bridge is deleted and added again, with other insides and the same name, ports and datapath id."""
    from demo_job import RingJob, crossing_order
    from demo_northbound import Controller
    from lab_bridges import _bridge_arguments, switch_ports

    from tests.mininet.end_to_end import product

    with product("leafspine-2x2.yaml", tmp_path) as running:
        lab = running.lab
        hosts = crossing_order(lab.plan)
        running.controller.announce("ring", RingJob(hosts, (tuple(range(len(hosts))),), 1_000_000, "test"))
        before = running.rules()
        (spine,) = [switch for switch in lab.plan.switches if switch.name == "spine1"]
        lab.ovs.vsctl("del-br", "spine1")
        lab.ovs.vsctl(*_bridge_arguments(spine, sorted(switch_ports(lab.plan)["spine1"])))
        lab.ovs.vsctl("set-controller", "spine1", *lab.controllers)
        lab.wait_connected()
        with Controller(running.address) as controller:
            controller.wait_for(len(lab.plan.links), len(hosts), timeout_s=120)
        assert running.rules() == before
