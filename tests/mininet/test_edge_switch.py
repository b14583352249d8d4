"""An edge switch on two leaves, on real switches: planned from the edge on, carried so, and failing over by itself."""

from pathlib import Path

from tests.mininet.end_to_end import needs_root, product

pytestmark = needs_root


def test_flows_from_an_edge_switch_take_a_leaf_each_and_outlive_a_cut_below_the_leaves(tmp_path: Path) -> None:
    from demo_job import RingJob
    from roce_traffic import run_traffic

    with product("dpu-two-leaves.yaml", tmp_path) as running:
        job = RingJob(("v1", "h1", "v2", "h2"), ((0, 1, 2, 3),), 400_000, "test")
        plan = running.controller.announce("ring", job).plan
        assert plan.state == "placed"
        assert plan.certificate.proven_optimal
        up = {f.path[0].to for f in plan.flows if f.path[0].switch == "dpu1"}
        down = {f.path[-1].switch for f in plan.flows if f.path[-1].to == "dpu1"}
        assert up == down == {"leaf1", "leaf2"}
        before = running.lab.counters()
        result = run_traffic(running.lab, job.connections(1, 0), timeout_s=120)
        assert result.complete, result.faults
        after = running.lab.counters()
        # Each cable below the leaves carries its own flow: half of what the ring sends over the edge.
        sent = [after[f"dpu1-eth{port}"].tx_bytes - before[f"dpu1-eth{port}"].tx_bytes for port in (1, 2)]
        assert max(sent) < 1.5 * min(sent)
        running.lab.cut_link("dpu1", "leaf1")
        again = run_traffic(running.lab, job.connections(1, 1), timeout_s=120)
        assert again.complete, again.faults
