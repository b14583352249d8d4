"""Every collective that `jobs` knows can be announced through the protocol, at 64 bits, and again for nothing."""

import pytest
from core_model import ask, sent, started
from fabrics import plan
from heddle.v1 import collective_pb2 as pb

from controller.core import views
from controller.core.commands import Accepted
from controller.core.events import CollectiveAnnounced
from controller.jobs.announcement import MAX_SIZE_BYTES, problems
from controller.jobs.collective import Algorithm, Collective, Operation, Phase
from controller.jobs.edges import SUPPORTED
from controller.runtime.grpc_messages import read_collective, to_message

# A number of 0 is one that was said.
PHASE = pb.Phase(iteration="train", number=0)
RANKS = ("h11", "h21", "h12", "h22")


def said(operation: Operation, algorithm: Algorithm, size_bytes: int, **more: object) -> Collective:
    """As it comes out of the message that a caller sends."""
    message = pb.Collective(
        job_id="job",
        operation=f"OPERATION_{operation.name}",
        algorithm=f"ALGORITHM_{algorithm.name}",
        ranks=RANKS,
        size_bytes=size_bytes,
        **more,
    )
    collective = read_collective(pb.Collective.FromString(message.SerializeToString()))
    assert isinstance(collective, Collective)
    return collective


@pytest.mark.parametrize(("operation", "algorithm"), sorted(SUPPORTED))
def test_every_operation_and_algorithm_reaches_the_plan(operation: Operation, algorithm: Algorithm) -> None:
    rings = [pb.Ring(ranks=[0, 1, 2, 3]), pb.Ring(ranks=[0, 3, 2, 1])]
    collective = said(operation, algorithm, MAX_SIZE_BYTES, rings=rings, ranks_per_host=1, priority=3, phase=PHASE)
    assert (collective.operation, collective.algorithm) == (operation, algorithm)
    assert (collective.size_bytes, collective.priority) == (1 << 63, 3)
    assert collective.rings == ((0, 1, 2, 3), (0, 3, 2, 1))
    assert collective.phase == Phase("train", 0)
    assert said(operation, algorithm, 1).phase is None
    assert problems(collective) == ()


@pytest.mark.parametrize("operation", list(Operation))
def test_it_is_placed_and_announcing_it_again_costs_nothing(operation: Operation) -> None:
    """SchedMD/slurm#225: applying the same again must not disturb what is there. Sizes are beyond 32 bits."""
    algorithm = Algorithm.DIRECT if operation == Operation.ALL_TO_ALL else Algorithm.RING
    core, network = started(plan())
    collective = said(operation, algorithm, 13_509_853_184, ranks_per_host=1)
    assert isinstance(ask(network, CollectiveAnnounced(1, collective)), Accepted)
    (first,) = views.plans(core, "job")
    assert sum(flow.size_bytes for flow in first.flows) >= 13_509_853_184
    assert any(flow.state == "planned" for flow in first.flows)
    since_s = network.now_s
    assert ask(network, CollectiveAnnounced(2, said(operation, algorithm, 13_509_853_184))) == Accepted(2, "job", 0)
    assert sent(network, since_s) == 0
    (second,) = views.plans(core, "job")
    assert second.flows == first.flows
    message: pb.Plan = to_message(second, pb.Plan)
    assert [flow.size_bytes for flow in message.flows] == [flow.size_bytes for flow in first.flows]
