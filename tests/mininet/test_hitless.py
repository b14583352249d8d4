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
