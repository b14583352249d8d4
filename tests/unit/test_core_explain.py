"""What the core says of a link and of a job, on the model network."""

from dataclasses import replace

import pytest
from core_model import most_rules
from fabrics import RATE_BPS, leaf, plan, spine
from heddle.v1 import collective_pb2, fabric_pb2
from test_core import ask, ring, settled

from controller.core import views
from controller.core.events import CollectiveAnnounced
from controller.core.views.common import seconds_text
from controller.fabric.model import PortRef
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.placement.bounds import cuts, lower_bound_s
from controller.runtime.grpc_messages import to_message
from controller.simulation.admission import Limits

SIZE = 16_000_000


def several(job: str, *pairs: tuple[str, str], size: int = SIZE) -> list[Collective]:
    return [
        Collective(f"{job}-{number}", Operation.SEND_RECV, Algorithm.DIRECT, pair, size)
        for number, pair in enumerate(pairs)
    ]


def test_a_link_says_what_is_placed_on_it_and_what_that_takes() -> None:
    of = plan(leaves=2, spines=2, hosts=2)
    core, network = settled(of)
    for number, job in enumerate(several("job", ("h11", "h21"), ("h12", "h22"))):
        ask(network, CollectiveAnnounced(number, job))
    found = views.explain_link(core, "leaf1", "spine1", network.now_s)
    up, down = found.directions
    assert (up.sender.switch, up.receiver.switch, up.state) == ("leaf1", "spine1", "up")
    assert (down.sender.switch, down.receiver.switch) == ("spine1", "leaf1")
    assert up.capacity_bps == RATE_BPS
    # Two equal flows, two uplinks: one each.
    (flow,) = up.flows
    assert flow.size_bytes == SIZE
    assert flow.load_s == pytest.approx(8 * SIZE / up.left_bps) == pytest.approx(up.load_s)
    assert up.load_s == pytest.approx(found.certificate.max_load_s)
    assert up.bound is not None
    assert up.bound.cut == "what leaves leaf1 over 2 uplinks"
    assert up.bound.bound_s == pytest.approx(found.certificate.lower_bound_s)
    assert (up.bound.flows, up.bound.size_bytes, up.bound.links) == (2, 2 * SIZE, 2)
    # Nothing announced goes back.
    assert (down.flows, down.load_s, down.bound) == ((), 0.0, None)


def test_a_link_is_shown_from_the_end_that_was_named_first() -> None:
    core, network = settled(plan())
    found = views.explain_link(core, f"{spine(1):x}", "leaf2", network.now_s)
    assert [d.sender.switch for d in found.directions] == ["spine1", "leaf2"]


def test_parallel_links_are_shown_one_by_one() -> None:
    core, network = settled(plan(parallel=2))
    found = views.explain_link(core, "leaf1", "spine2", network.now_s)
    assert [(d.sender.switch, d.sender.port_no) for d in found.directions] == [
        ("leaf1", 3),
        ("spine2", 1),
        ("leaf1", 4),
        ("spine2", 2),
    ]


def test_flows_that_share_one_path_for_two_jobs_are_both_named_and_their_loads_add_up() -> None:
    of = plan(leaves=2, spines=1, hosts=1)
    core, network = settled(of)
    for number, job in enumerate(several("job", ("h11", "h21"), ("h11", "h21"))):
        ask(network, CollectiveAnnounced(number, job))
    up, _ = views.explain_link(core, "leaf1", "spine1", network.now_s).directions
    assert [flow.job_id for flow in up.flows] == ["job-0", "job-1"]
    assert sum(flow.load_s for flow in up.flows) == pytest.approx(up.load_s)


def test_a_dead_link_is_known_by_the_plan_and_used_by_nothing() -> None:
    of = plan()
    core, network = settled(of)
    network.cut(network.cable("leaf1", "spine1"))
    network.run_until_quiet(30)
    for direction in views.explain_link(core, "leaf1", "spine1", network.now_s).directions:
        assert direction.state == "down"
        assert (direction.measured_bps, direction.background_bps, direction.flows) == (None, None, ())


def test_background_that_was_measured_leaves_less_to_count_on() -> None:
    of = plan()
    core, network = settled(of)
    port = PortRef(leaf(1), 1)
    core.state.problem = replace(core.state.problem, background_bps={port: RATE_BPS / 2})
    up, down = views.explain_link(core, "leaf1", "spine1", network.now_s).directions
    assert (up.background_bps, up.left_bps) == (RATE_BPS / 2, RATE_BPS / 2)
    assert (down.background_bps, down.left_bps) == (0.0, RATE_BPS)


def test_what_is_no_link_is_refused() -> None:
    core, network = settled(plan())
    with pytest.raises(views.UnknownLink, match="leaf1 and leaf2"):
        views.explain_link(core, "leaf1", "leaf2", network.now_s)
    with pytest.raises(views.UnknownLink):
        views.explain_link(core, "leaf1", "leaf1", network.now_s)
    with pytest.raises(views.UnknownSwitch) as error:
        views.explain_link(core, "leaf8", "leaf9", network.now_s)
    assert [line.split("'")[1] for line in str(error.value).splitlines()] == ["leaf8", "leaf9"]


def test_a_job_names_its_fullest_links_and_the_cut_that_bounds_them() -> None:
    of = plan(leaves=4, spines=4, hosts=4)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    found = views.explain_job(core, "job")
    assert (found.planned_flows, found.local_flows, found.unplaced) == (16, 0, ())
    loads = [link.load_s for link in found.fullest]
    assert loads == sorted(loads, reverse=True)
    assert loads[0] == pytest.approx(found.certificate.max_load_s)
    assert all((link.flows, link.job_flows) == (1, 1) for link in found.fullest)
    assert all(link.job_load_s == pytest.approx(link.load_s) for link in found.fullest)
    assert found.bounds[0].bound_s == pytest.approx(found.certificate.lower_bound_s)
    assert "over 4 uplinks" in found.bounds[0].cut or "over 4 downlinks" in found.bounds[0].cut
    assert found.sentences[0].startswith("32 link directions are the fullest: each run")
    assert found.sentences[1].endswith("The plan reaches that.")


def test_a_bound_that_no_single_cut_explains_is_not_laid_to_one() -> None:
    of = plan(leaves=2, spines=2)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    placed = core.state.placement
    assert placed is not None
    higher = replace(placed.certificate, lower_bound_s=2 * placed.certificate.lower_bound_s)
    core.state.placement = replace(placed, certificate=higher)
    assert "because of several cuts together" in views.explain_job(core, "job").sentences[1]


def test_a_pair_with_few_paths_is_the_cut() -> None:
    of = plan(leaves=3, spines=2, hosts=2)
    core, network = settled(of)
    network.cut(network.cable("leaf2", "spine2"))
    network.run_until_quiet(30)
    for number, job in enumerate(several("job", ("h11", "h21"), ("h12", "h22"))):
        ask(network, CollectiveAnnounced(number, job))
    found = views.explain_job(core, "job-0")
    ends = {bound.cut: bound.bound_s for bound in found.bounds}
    assert ends["what enters leaf2 over its one downlink"] == pytest.approx(found.certificate.lower_bound_s)
    assert ends["what goes from leaf1 to leaf2 over its one path"] == pytest.approx(found.certificate.lower_bound_s)


def test_a_job_within_one_leaf_has_nothing_to_place() -> None:
    core, network = settled(plan())
    ask(network, CollectiveAnnounced(1, *several("job", ("h11", "h12"))))
    found = views.explain_job(core, "job-0")
    assert (found.local_flows, found.fullest, found.bounds) == (1, (), ())
    assert found.sentences == ("Nothing announced crosses the spine: there is nothing to place.",)


def test_flows_without_room_name_the_switch_that_is_full() -> None:
    of = plan(leaves=4, spines=4, hosts=4)
    core, _ = settled(of)
    room = most_rules(core) + 2
    core, network = settled(of, limits=Limits(rules=room))
    ask(network, CollectiveAnnounced(1, ring(of)))
    found = views.explain_job(core, "job")
    assert found.unplaced
    assert all("has no room for its rule" in unplaced.reason for unplaced in found.unplaced)
    assert all(unplaced.flow.state == "ecmp" for unplaced in found.unplaced)


def test_flows_without_a_path_or_a_host_say_so() -> None:
    of = plan(leaves=3, spines=1, hosts=2)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    network.cut(network.cable("leaf3", "spine1"))
    network.cut(network.cable("h11", "leaf1"))
    network.run_until_quiet(60, settle_s=10.0)
    reasons = {(u.flow.src_host, u.flow.dst_host): u.reason for u in views.explain_job(core, "job").unplaced}
    assert any(reason == "no path from leaf2 to leaf3 is live" for reason in reasons.values())
    assert any(reason == "h11 is not attached at present" for reason in reasons.values())


@pytest.mark.parametrize(
    ("value_s", "text"), [(0.0129, "0.0129 s"), (12.94, "12.9 s"), (999.4, "999 s"), (1611.2, "1611 s")]
)
def test_seconds_are_written_as_people_write_them(value_s: float, text: str) -> None:
    assert seconds_text(value_s) == text


def test_an_unknown_job_is_named() -> None:
    core, _ = settled(plan())
    with pytest.raises(views.UnknownJob, match="ghost"):
        views.explain_job(core, "ghost")


def test_every_view_fits_its_message() -> None:
    of = plan(leaves=2, spines=2)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    link = to_message(views.explain_link(core, "leaf1", "spine1", network.now_s), fabric_pb2.ExplainLinkResponse)
    assert link.directions[0].bound.cut.startswith("what ")
    job = to_message(views.explain_job(core, "job"), collective_pb2.ExplainJobResponse)
    assert job.fullest[0].port.to
    assert job.bounds[0].bound_s == pytest.approx(job.certificate.lower_bound_s)


def test_the_first_cut_is_the_bound_of_the_certificate() -> None:
    of = plan(leaves=4, spines=3, hosts=3, parallel=2)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    found = cuts(core.state.problem)
    assert found[0].bound_s == pytest.approx(lower_bound_s(core.state.problem))
    out_of_leaf = next(cut for cut in found if (cut.src_leaf, cut.dst_leaf) == (leaf(1), None))
    assert out_of_leaf.links == {PortRef(leaf(1), port_no) for port_no in range(1, 7)}
    assert out_of_leaf.ways == 6
