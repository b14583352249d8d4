"""One fast probe on a flow that is led elsewhere again and again, and then left without any controller: B28 and B20."""

import os
import re
import time
from pathlib import Path

import pytest

from tests.mininet.end_to_end import ROOT, needs_root

pytestmark = [needs_root, pytest.mark.slow]

# Open vSwitch counts a controller as gone for good after three times this; a standalone bridge then starts to flood.
_PROBE_MS = 1000
_SILENCE_S = 6.0


def heard_by_others(lab, target: str) -> int:  # type: ignore[no-untyped-def]
    """Packets that switches have sent to hosts but to this one."""
    ports = [(host.switch, host.port) for host in lab.plan.hosts if host.name != target]
    said = [lab.ovs.ofctl("dump-ports", switch, str(port)) for switch, port in ports]
    return sum(int(found[1]) for found in (re.search(r"tx pkts=(\d+)", text) for text in said) if found)


def test_a_flow_under_a_fast_probe_moves_and_outlives_its_controller(tmp_path: Path) -> None:
    from demo_controllers import OPENFLOW
    from hitless_probes import finish, running
    from hitless_processes import processes
    from hitless_record import MessageRecord
    from hitless_run import HitlessRun, Jobs
    from lab_fabric import FabricLab

    from controller.formats.topology_file import load

    topology = ROOT / "topologies" / "leafspine-2x2.yaml"
    plan = load(topology)
    with (
        FabricLab(plan, controllers=[OPENFLOW], name=f"probed-{os.getpid()}") as lab,
        processes(lab, topology, tmp_path / "heddle.log") as control,
    ):
        lab.teach_neighbours()
        for switch in plan.switches:
            lab.ovs.vsctl("set", "controller", switch.name, f"inactivity_probe={_PROBE_MS}")
        hitless = HitlessRun(lab, control, Jobs.on(plan))
        probed = hitless.flows()[-2]
        assert (probed.source, probed.target) == hitless.jobs.mover.hosts
        with running(lab, [probed], 1000) as probes:
            with hitless.phase("paths moved"):
                hitless.move_paths(4)
            record, heard_before = MessageRecord(lab), heard_by_others(lab, probed.target)
            control.kill_agent()
            control.kill_controller()
            time.sleep(3 * _PROBE_MS / 1000 + _SILENCE_S)
            alone, heard = record.take(), heard_by_others(lab, probed.target) - heard_before
            (result,) = finish(probes)
        connected = lab.ovs.vsctl("--bare", "--columns=is_connected", "list", "controller").split()
        assert set(connected) == {"false"}
        moved = hitless.outcome.changes["paths moved"]
        assert hitless.outcome.moves >= 4
        assert moved.commands["FLOW_MOD ADD"] > 0
        # The flow was delivered once and in place all the time, by the switches alone.
        assert (result.lost, result.duplicated) == (0, 0)
        assert result.sent > 1000 * _SILENCE_S / 2
        assert moved.punted == alone.punted == ()
        assert moved.errors == ()
        assert alone.commands == {}
        # Nobody flooded: hosts that take no part have heard hardly anything, however many probes passed by.
        assert heard < result.sent / 100
