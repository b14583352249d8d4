"""Links and spines that fail behind the first switch with a choice, on real switches whose controller is stopped."""

import time
from pathlib import Path

from tests.mininet.end_to_end import needs_root

pytestmark = needs_root

_PATIENCE_S = 30.0


def test_failures_far_from_the_sender_heal_while_the_controller_is_stopped(tmp_path: Path) -> None:
    from demo_controllers import OPENFLOW
    from failover_run import cables, watched
    from hitless_probes import finish, running
    from hitless_processes import processes
    from lab_fabric import FabricLab
    from lab_namespace import run
    from silent_run import frozen

    from controller.formats.topology_file import load

    topology = tmp_path / "leafspine-3x2.yaml"
    shape = "{leaves: 3, spines: 2, hosts_per_leaf: 1}"
    topology.write_text(f"name: detours\nrate: 8M\nleaf_spine: {shape}\n")
    with (
        FabricLab(load(topology), controllers=[OPENFLOW]) as lab,
        processes(lab, topology, tmp_path / "heddle.log") as control,
    ):
        lab.teach_neighbours()
        seen = watched(lab, next(c for c in cables(lab) if (c.leaf, c.spine) == ("leaf3", "spine1")))
        # From both other leaves: each of them is where its packets come back to.
        assert {(flow.source, flow.target) for flow in seen.down} == {("h1_1", "h3_1"), ("h2_1", "h3_1")}
        dark = [cable.spine_end for cable in cables(lab) if cable.spine == "spine1"]
        with frozen(control):
            for failing in ([seen.cable.spine_end], dark):
                for interface in failing:
                    run(["ip", "link", "set", "dev", interface, "down"])
                deadline = time.monotonic() + _PATIENCE_S
                while any(_link_state(lab, interface) != "down" for interface in (*failing, seen.cable.leaf_end)):
                    assert time.monotonic() < deadline, "Open vSwitch does not notice"
                    time.sleep(0.02)
                lab.ovs.appctl("revalidator/wait")
                with running(lab, seen.down, 100) as probes:
                    time.sleep(0.3)
                    results = finish(probes)
                assert [(r.lost, r.duplicated) for r in results] == [(0, 0)] * 2, failing
                assert all(r.received for r in results)


def _link_state(lab, interface: str) -> str:  # type: ignore[no-untyped-def]
    return str(lab.ovs.vsctl("get", "interface", interface, "link_state").strip())
