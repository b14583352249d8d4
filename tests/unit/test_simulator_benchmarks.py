"""The arithmetic of the simulator's benchmarks: what they build, and what they compare. They time nothing here."""

import sys
from importlib import import_module
from pathlib import Path

import pytest
from fabrics import plan

from controller.fabric.model import PortRef
from controller.simulation.flows.shapes import shaped_view

ROOT = Path(__file__).parents[2]
# Benchmarks and the lab's modules are scripts, not packages: they find one another beside themselves.
for folder in ("benchmarks", "mininet"):
    sys.path.append(str(ROOT / folder))
simulator, against_lab = import_module("simulator"), import_module("simulator_vs_lab")
demo_job = import_module("demo_job")

RATE_BPS = 8_000_000


@pytest.mark.parametrize(("gpus", "tiers"), [(1024, 2), (2048, 3)])
def test_fabrics_have_as_many_interfaces_as_gpus(gpus: int, tiers: int) -> None:
    view = shaped_view(simulator.shape(gpus))
    assert len(view.hosts) == gpus
    assert len({switch.role for switch in view.switches.values()}) == tiers


def test_skipping_changes_no_result() -> None:
    row = simulator.measure(96, "ecmp-1")
    assert row.every_event_s == pytest.approx(row.simulated_s)
    assert row.flows == 96
    best = simulator.measure(96, "ideal")
    # 100 ms of computing, and the rails' share of 8 GiB, with headers, over links of their own.
    rings_s = 2 * 11 / 12 * 8 * (8 << 30) / 8 / 400e9 * (4096 + 58) / 4096
    assert best.simulated_s == pytest.approx(0.1 + rings_s)


def test_the_labs_paths_are_what_is_simulated() -> None:
    of = plan(4, 4, 4, rate_bps=RATE_BPS)
    order = demo_job.crossing_order(of)
    job = demo_job.RingJob(order, (tuple(range(16)),), 600_000, "test")
    where = {host.name: host.switch for host in of.hosts}
    _, down = against_lab._cables(of)
    dpid = {s.name: s.dpid for s in of.switches}

    def over(spine: int, source: str, target: str) -> tuple[PortRef, PortRef]:
        return PortRef(dpid[where[source]], spine), down[f"spine{spine}", where[target]]

    ends = list(zip(order, order[1:] + order[:1], strict=True))
    # All flows of a leaf over one spine, or each over one of its own.
    crowded = {(a, b): (over(1, a, b),) for a, b in ends}
    spread = {(a, b): (over(n // 4 + 1, a, b),) for n, (a, b) in enumerate(ends)}
    crowded_s, spread_s = (against_lab.simulated(of, job, paths, 1) for paths in (crowded, spread))
    assert crowded_s[0] == pytest.approx(4 * spread_s[0], rel=0.01)
    assert crowded_s[0] == pytest.approx(crowded_s[1])
    # What the lab calls its bound, and acknowledgements beside it.
    bound_s = against_lab.ideal_ring_s(16, job.size_bytes, RATE_BPS)
    assert bound_s < spread_s[0] < 1.04 * bound_s


def test_the_worst_error_is_the_largest_either_way() -> None:
    made = [
        against_lab.Compared("ECMP", 1, seed, 1.0, 1 + error, error, 1.0, 1.0, 0, 0.5)
        for seed, error in enumerate((0.02, -0.12, 0.04))
    ]
    assert against_lab.summary(made)["ECMP"] == {
        "mean_error": pytest.approx(-0.02),
        "worst_error": -0.12,
        "within": pytest.approx(2 / 3),
    }
