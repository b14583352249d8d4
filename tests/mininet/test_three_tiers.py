"""Three tiers on real switches: found, routed across pods, planned over the cores, and carrying RoCE-shaped traffic."""

from pathlib import Path

from tests.mininet.end_to_end import needs_root, product

pytestmark = needs_root


def test_pods_reach_one_another_over_cores_and_a_ring_is_carried_on_its_planned_paths(tmp_path: Path) -> None:
    from demo_job import RingJob
    from roce_traffic import run_traffic

    with product("threetier-2x2x2.yaml", tmp_path) as running:
        first = [f"h{leaf}_1" for leaf in range(1, 5)]
        pairs = [(a, b) for a in first for b in first if a != b]
        for _ in range(3):
            # A host gives up asking for an address after three seconds; a busy machine may need longer than that.
            answers = running.lab.ping_pairs(pairs, timeout_s=5.0)
            pairs = [pair for pair, time_ms in answers.items() if time_ms is None]
        assert pairs == []
        # By alias, and so that every step goes to the other pod.
        job = RingJob(("gpu-1-0", "h3_1", "gpu-2-0", "h4_1"), ((0, 1, 2, 3),), 400_000, "test")
        plan = running.controller.announce("ring", job).plan
        assert {len(flow.path) for flow in plan.flows if flow.state == "planned"} == {4}
        assert len(plan.flows) == 4
        named = RingJob(("h1_1", "h3_1", "h2_1", "h4_1"), job.rings, job.size_bytes, "test")
        result = run_traffic(running.lab, named.connections(1, 0), timeout_s=120)
        assert result.complete, result.faults
