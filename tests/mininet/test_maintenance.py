"""Maintenance and overlapping failures on real switches: a drain loses nothing, and what is left always delivers.

The benchmark `repair` does more of the same.
"""

import os
from pathlib import Path

import pytest

from tests.mininet.end_to_end import ROOT, needs_root

pytestmark = [needs_root, pytest.mark.slow]

_CASES = 2


def test_a_spine_is_drained_and_given_back_without_loss_and_overlapping_failures_heal(tmp_path: Path) -> None:
    """Must show 4 and 6, in short."""
    import grpc
    from demo_controllers import OPENFLOW
    from demo_northbound import Controller
    from heddle.v1 import maintenance_pb2, maintenance_pb2_grpc
    from hitless_probes import FIRST_PORT, ProbeFlow, Router, finish, running
    from hitless_processes import processes
    from lab_fabric import FabricLab
    from overlap_run import MOST_CROSSINGS, OverlapRun, cases
    from repair_watch import RING, announce_ring

    from controller.formats.topology_file import load

    topology = ROOT / "topologies" / "leafspine-2x4.yaml"
    plan = load(topology)
    with (
        FabricLab(plan, controllers=[OPENFLOW], name=f"maintenance-{os.getpid()}") as lab,
        # What is cut loses its carrier; with BFD a busy machine would add failures of its own.
        processes(lab, topology, tmp_path / "heddle.log") as control,
        grpc.insecure_channel(control.grpc) as channel,
    ):
        lab.teach_neighbours()
        steered = announce_ring(control.grpc, plan, queue_pairs=2)[:8]
        hashed = [ProbeFlow(f.source, f.target, FIRST_PORT + i) for i, f in enumerate(steered)]
        router, flows = Router(lab), [*steered, *hashed]

        def over_spine1() -> int:
            ways = [router.route(f.source, f.target, f.udp_source_port) for f in flows]
            return sum(any(step.startswith("spine1-") for step in way) for way in ways)

        maintenance = maintenance_pb2_grpc.MaintenanceServiceStub(channel)
        target = maintenance_pb2.DrainTarget(switch="spine1")
        before = over_spine1()
        with running(lab, flows, 200) as probes:
            drained = maintenance.Drain(maintenance_pb2.DrainRequest(target=target), timeout=30)
            during = over_spine1()
            back = maintenance.Undrain(maintenance_pb2.UndrainRequest(target=target), timeout=30)
            results = finish(probes)
        assert before > 0
        assert during == 0
        assert over_spine1() > 0
        assert [drain.state for drain in drained.drains] == ["drained"]
        assert drained.rules_changed > 0
        assert back.rules_changed > 0
        assert [(r.lost, r.duplicated) for r in results] == [(0, 0)] * len(flows)
        with Controller(control.grpc) as controller:
            outcomes = OverlapRun(lab, controller, RING).run(cases(lab, _CASES, seed=3))
        for outcome in outcomes:
            assert (outcome.silent, outcome.duplicated, outcome.certificate) == ([], 0, ""), str(outcome.case)
            assert outcome.crossings < MOST_CROSSINGS, str(outcome.case)
    assert "Traceback" not in (tmp_path / "heddle.log").read_text()
