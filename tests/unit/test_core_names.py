"""Hosts as callers spell them: aliases, full and pod names, "ip-10-0-1-1", host-list expressions (B50a-c, g)."""

from dataclasses import replace

import pytest
from core_model import ask, started
from fabrics import plan

from controller.core import views
from controller.core.commands import Accepted, Failure, Refused
from controller.core.events import CollectiveAnnounced
from controller.jobs.collective import Algorithm, Collective, Operation

ALIASES = (("gpu-1-0", "h11"), ("gpu-2-0.pods.svc", "h21"))
FABRIC = replace(plan(leaves=3, spines=2, hosts=2), aliases=ALIASES)


def job(*ranks: str, name: str = "job") -> CollectiveAnnounced:
    collective = Collective(name, Operation.ALL_REDUCE, Algorithm.RING, ranks, 1 << 20)
    return CollectiveAnnounced(len(ranks), collective)


@pytest.mark.parametrize(
    ("spelling", "host"),
    [
        ("h11", "h11"),
        ("10.0.1.1", "h11"),
        ("H11.cluster.local", "h11"),
        ("gpu-1-0", "h11"),
        ("gpu-1-0.training.svc.cluster.local", "h11"),
        ("gpu-2-0.pods.svc", "h21"),
        ("ip-10-0-1-1", "h11"),
        ("ip-10-0-2-1.ec2.internal", "h21"),
    ],
)
def test_a_job_is_announced_by_any_spelling_and_explained_by_it(spelling: str, host: str) -> None:
    core, network = started(FABRIC)
    assert isinstance(ask(network, job(spelling, "h31")), Accepted)
    assert core.state.jobs["job"].ends[0][0] == host
    assert [f.job_id for f in views.explain_flow(core, spelling, "h31", 0).flows] == ["job"]


def test_a_host_list_names_a_rank_for_each_of_its_hosts() -> None:
    core, network = started(FABRIC)
    answer = ask(network, job("h[12,21]", "10.0.1.1", "h[31-32]", name="other"))
    assert isinstance(answer, Accepted)
    assert [name for name, _ in core.state.jobs["other"].ends] == ["h12", "h21", "h11", "h31", "h32"]
    # Announced again in another spelling, it is the same job, and nothing on the switches changes.
    assert ask(network, job("h12", "h21", "gpu-1-0", "h31", "h32", name="other")) == Accepted(5, "other", 0)


def test_every_unknown_host_is_named_with_those_that_are_spelled_alike() -> None:
    _, network = started(FABRIC)
    answer = ask(network, job("gpu-1-1.pods", "h11", "h[21-22,41]", "nowhere", "ip-10-9-9-9"))
    assert isinstance(answer, Refused)
    assert answer.failure is Failure.NOT_FOUND
    first, fourth, fifth, sixth = answer.problems
    assert first.startswith("ranks[0]: no host 'gpu-1-1.pods' on this fabric; did you mean ")
    assert "gpu-1-0" in first
    assert fourth.startswith("ranks[4]: no host 'h41' on this fabric; did you mean h")
    assert fifth == "ranks[5]: no host 'nowhere' on this fabric"
    assert sixth == "ranks[6]: no host 'ip-10-9-9-9' on this fabric"


@pytest.mark.parametrize("broken", ["h[2-1]", "h[1-", "h[1-1000000000]", "h1,,h2"])
def test_an_expression_that_is_none_is_refused_with_its_cure(broken: str) -> None:
    _, network = started(FABRIC)
    answer = ask(network, job("h11", broken))
    assert isinstance(answer, Refused)
    assert answer.failure is Failure.INVALID_ARGUMENT
    assert answer.problems[0].startswith("ranks[1]: ")


def test_what_fits_two_hosts_is_refused_and_both_are_named() -> None:
    two = replace(FABRIC, hosts=tuple(replace(h, name=f"gpu.rack{i}") for i, h in enumerate(FABRIC.hosts)), aliases=())
    _, network = started(two)
    answer = ask(network, job("gpu", "gpu.rack1"))
    assert isinstance(answer, Refused)
    assert "could be any of gpu.rack0, gpu.rack1" in answer.problems[0]
