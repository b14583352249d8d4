"""Jobs that say in which phase of an iteration they run share links with what they never meet, and only with that."""

from dataclasses import replace

import pytest
from core_model import ask, quiet_faults, started
from fabrics import RATE_BPS, plan
from test_core_moves import SIZE, send

from controller.core import views
from controller.core.commands import Accepted
from controller.core.events import CollectiveAnnounced
from controller.jobs.collective import Phase

# Each host sends in both phases, crosswise.
SENDS = (("h11", "h21", 1), ("h11", "h22", 2), ("h12", "h22", 1), ("h12", "h21", 2))


def test_flows_of_one_phase_are_kept_apart_and_those_of_two_need_not_be() -> None:
    core, network = started(plan(leaves=2, spines=2, hosts=2))
    for number, (source, destination, phase) in enumerate(SENDS):
        job = replace(send(f"job{number}", source, destination), phase=Phase("train", phase))
        assert isinstance(ask(network, CollectiveAnnounced(number, job)), Accepted)
    for phase in (1, 2):
        flows = [core.state.jobs[f"job{n}"].flows[0] for n, sent in enumerate(SENDS) if sent[2] == phase]
        assert len({core.state.paths[f.src_address, f.dst_address, 0][0] for f in flows}) == 2
    assert core.state.placement is not None
    proof = core.state.placement.certificate
    assert proof.max_load_s == pytest.approx(2 * 8 * SIZE / RATE_BPS)
    assert proof.proven_optimal
    said = views.explain_job(core, "job0").sentences
    assert said[0].startswith("Phase after phase, the fullest link of each needs ")
    assert said[1].endswith("The plan reaches that.")
    assert quiet_faults(network) == []


def test_a_job_without_a_phase_counts_in_every_phase() -> None:
    core, network = started(plan(leaves=2, spines=2, hosts=3))
    for number, (source, destination, phase) in enumerate((*SENDS[:2], ("h13", "h23", 0))):
        job = send(f"job{number}", source, destination)
        job = replace(job, phase=Phase("train", phase)) if phase else job
        assert isinstance(ask(network, CollectiveAnnounced(number, job)), Accepted)
    first, second, always = (core.state.jobs[f"job{n}"].flows[0] for n in range(3))
    taken = [core.state.paths[f.src_address, f.dst_address, 0][0] for f in (first, second, always)]
    # The two that never meet share an uplink, and the third has the other one.
    assert taken[0] == taken[1] != taken[2]
    assert core.state.placement is not None
    assert core.state.placement.certificate.max_load_s == pytest.approx(2 * 8 * SIZE / RATE_BPS)
    assert quiet_faults(network) == []
