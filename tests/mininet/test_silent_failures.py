"""Failures that no port reports, on real packets: switches heal them by BFD, and a lossy link is found and left."""

import os
import time
from pathlib import Path

import pytest

from tests.mininet.end_to_end import ROOT, needs_root

pytestmark = [needs_root, pytest.mark.slow]


def test_a_silent_failure_heals_without_a_controller_and_a_lossy_link_is_left_without_loss(tmp_path: Path) -> None:
    from demo_controllers import OPENFLOW
    from demo_northbound import Controller
    from hitless_probes import finish, running
    from hitless_processes import processes
    from lab_fabric import FabricLab
    from silent_run import frozen, make_gray, sessions_up, touched, wait_for_sessions

    from controller.formats.topology_file import load

    topology = ROOT / "topologies" / "leafspine-2x2.yaml"
    plan = load(topology)
    lab_of = {"controllers": [OPENFLOW], "name": f"silent-{os.getpid()}", "relayed": [("leaf1", "spine1")]}
    with (
        FabricLab(plan, **lab_of) as lab,
        processes(lab, topology, tmp_path / "heddle.log", {"HEDDLE_BFD": "on"}) as control,
        Controller(control.grpc) as client,
    ):
        wait_for_sessions(lab)
        probed = touched(lab, "leaf1", "spine1")
        with frozen(control):
            lab.impair("leaf1", "spine1", 1.0)
            while sessions_up(lab) > 2 * (len(plan.links) - 1):
                time.sleep(0.1)
            with running(lab, [probed.up], 500) as probes:
                time.sleep(1.0)
                (healed,) = finish(probes)
        assert (healed.lost, healed.sent > 0) == (0, True)
        lab.impair("leaf1", "spine1", 0.0)
        wait_for_sessions(lab)
        control.wait_ready()
        found = make_gray(lab, client, touched(lab, "leaf1", "spine1"), 0.1, 1000, after_s=1.0)
        assert (found.lost_after, found.sent_after > 0) == (0, True)
        assert "leaf1:1 -> spine1:1 lost" in found.condition
