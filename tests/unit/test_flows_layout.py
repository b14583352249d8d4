"""What a workload's collectives mean for the hosts of a job: groups, servers, scale."""

import pytest
from fabrics import plan

from controller.formats.workload import Group, Workload, WorkloadStep
from controller.jobs.collective import Algorithm, Operation
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.layout import Layout, Scale
from controller.simulation.flows.shapes import planned_view
from controller.simulation.flows.wave import Pace

# 2 tensor ranks x 4 copies x 2 stages, experts shared by 2 copies.
STEPS = (
    WorkloadStep("embed", 0.1),
    WorkloadStep("mix", 0.2, Operation.ALL_TO_ALL, Group.EXPERT, 800),
    WorkloadStep("mix", 0.2, Operation.ALL_TO_ALL, Group.EXPERT, 800),
    WorkloadStep("shard", 0.3, Operation.ALL_REDUCE, Group.TENSOR, 600),
    WorkloadStep("update", 0.4, Operation.ALL_REDUCE, Group.DATA, 400),
    WorkloadStep("norm", 0.5),
)
WORKLOAD = Workload("test", 16, tensor=2, expert=2, pipeline=2, steps=STEPS)


def layout(ranks_per_host: int = 1) -> Layout:
    of = FlowFabric(planned_view(plan(4, 2, 4)))
    return Layout(of, of.hosts, WORKLOAD, ranks_per_host)


@pytest.mark.parametrize(
    ("group", "first", "count"),
    [
        (Group.TENSOR, (0, 1), 8),
        (Group.DATA, (0, 2, 4, 6), 4),
        (Group.EXPERT, (0, 2), 8),
        (Group.DATA_EXPERT, (0, 4), 8),
    ],
)
def test_groups_are_numbered_as_megatron_does(group: Group, first: tuple[int, ...], count: int) -> None:
    of = layout()
    found = list(of.collectives("job", Operation.ALL_REDUCE, group, 100))
    assert found[0].ranks == tuple(of.hosts[rank] for rank in first)
    assert len(found) == count
    # Every rank is in one group.
    assert sorted(rank for each in found for rank in each.ranks) == sorted(of.hosts)
    assert {each.algorithm for each in found} == {Algorithm.RING}


def test_equal_steps_share_their_transfers_and_computing_alone_is_added_to_what_follows() -> None:
    phases = layout().phases("job", Scale())
    assert [phase.compute_s for phase in phases] == pytest.approx([0.3, 0.2, 0.3, 0.4, 0.5])
    assert phases[0].transfers is phases[1].transfers
    assert phases[-1].transfers is None
    mix, shard = phases[0].transfers, phases[2].transfers
    assert mix is not None
    assert shard is not None
    # A direct all-to-all goes at once, a ring step by step.
    assert (mix.pace, shard.pace) == (Pace.AT_ONCE, Pace.RANK)
    assert sum(size for _, size in mix.ends()) == 16 * 400


def test_what_stays_in_a_server_is_no_transfer() -> None:
    phases = layout(ranks_per_host=2).phases("job", Scale())
    # Tensor ranks are neighbours, so they share a server: only their time is left, in what follows.
    assert [phase.compute_s for phase in phases] == pytest.approx([0.3, 0.2, 0.7, 0.5])


def test_scale_changes_bytes_times_and_how_much_of_the_file_is_used() -> None:
    phases = layout().phases("job", Scale(size=0.5, compute=2.0, steps=2))
    assert [phase.compute_s for phase in phases] == pytest.approx([0.6])
    (mix,) = (phase.transfers for phase in phases)
    assert mix is not None
    assert sum(size for _, size in mix.ends()) == 16 * 200
    assert layout().whole == 8
