"""AdvisePlacement from a real core over real gRPC, asked by a stub and by `heddle advise`."""

import json
from contextlib import AbstractContextManager
from types import SimpleNamespace

import grpc
import pytest
from heddle.v1 import advice_pb2 as pb
from heddle.v1 import advice_pb2_grpc, collective_pb2
from served import served
from test_core import settled

from controller.cli.main import invoke
from controller.core.views.advice import advise_placement
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.runtime.grpc_advice import AdviceService
from tests.unit.fabrics import plan

RANKS = ("h11", "h21", "h12", "h22")


def advising() -> AbstractContextManager[str]:
    """The address at which a core of two leaves with two hosts each gives advice."""
    core, _ = settled(plan())

    def add(server: grpc.aio.Server) -> None:
        service = AdviceService(SimpleNamespace(core=core), advise_placement)  # type: ignore[arg-type]
        advice_pb2_grpc.add_AdviceServiceServicer_to_server(service, server)

    return served(add)


def question(ranks: tuple[str, ...] = RANKS, candidates: tuple[str, ...] = ()) -> pb.AdvisePlacementRequest:
    asked = collective_pb2.Collective(
        job_id="x", operation=collective_pb2.OPERATION_ALL_REDUCE, ranks=ranks, size_bytes=1 << 20
    )
    return pb.AdvisePlacementRequest(collective=asked, candidate_hosts=candidates)


def test_neighbours_are_put_on_one_leaf() -> None:
    with advising() as address, grpc.insecure_channel(address) as channel:
        answer = advice_pb2_grpc.AdviceServiceStub(channel).AdvisePlacement(question(("10.0.1.1", *RANKS[1:])))
    assert [host[1] for host in answer.ranks] in ([*"1122"], [*"2211"])
    assert (answer.given.crossing_flows, answer.advised.crossing_flows) == (4, 2)
    assert answer.advised.crossing_bytes == 2 * 2 * 3 * (1 << 18)
    assert answer.advised.leaves == 2
    assert answer.sentences


@pytest.mark.parametrize(
    ("asked", "code", "sentence"),
    [
        (pb.AdvisePlacementRequest(), "INVALID_ARGUMENT", "collective: is not given"),
        (question(("h11", "nobody")), "NOT_FOUND", "ranks[1]: no host 'nobody' on this fabric"),
        (question(RANKS, ("h11", "ghost")), "NOT_FOUND", "candidate_hosts[1]: no host 'ghost' on this fabric"),
        (question(RANKS, ("h11",)), "INVALID_ARGUMENT", "candidates: 1 servers for 4"),
        (question(("h11",)), "INVALID_ARGUMENT", "ranks: 1 given; a collective needs 2 at least"),
        (
            pb.AdvisePlacementRequest(collective=collective_pb2.Collective(job_id="x", ranks=RANKS, size_bytes=1)),
            "INVALID_ARGUMENT",
            "operation: is not given",
        ),
    ],
)
def test_what_is_wrong_is_named(asked: pb.AdvisePlacementRequest, code: str, sentence: str) -> None:
    with advising() as address, grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as caught:
        advice_pb2_grpc.AdviceServiceStub(channel).AdvisePlacement(asked)
    assert caught.value.code().name == code
    assert sentence in caught.value.details()


def test_advice_changes_nothing() -> None:
    core, _ = settled(plan())
    before = (core.revision, dict(core.state.jobs), dict(core.state.paths))
    asked = Collective("x", Operation.ALL_REDUCE, Algorithm.RING, RANKS, 1 << 20)
    assert advise_placement(core, asked, ()).gain == pytest.approx(0.0)
    assert (core.revision, dict(core.state.jobs), dict(core.state.paths)) == before


ASKED = ["advise", "--op", "all-reduce", "--bytes", "1MiB", "--ranks", ",".join(RANKS)]


def test_the_command_prints_a_table_and_what_to_announce(capsys: pytest.CaptureFixture[str]) -> None:
    with advising() as address:
        assert invoke([*ASKED, "--controller", address]) == 0
    out = capsys.readouterr().out
    assert "flows over spines" in out
    assert "cross the spines instead of 6,291,456 in 4" in out
    assert "--ranks h11,h12,h21,h22" in out or "--ranks h21,h22,h11,h12" in out


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    with advising() as address:
        assert invoke([*ASKED, "--candidates", "h11,h12,h21,h22", "--json", "--controller", address]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["advised"]["crossing_flows"] == 2
    assert answer["given"]["crossing_bytes"] == 6_291_456


def test_wrong_options_send_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["advise", "job.yaml", "--op", "all-reduce"]) == 2
    assert "the job file says everything" in capsys.readouterr().err
    assert invoke(["advise", "--op", "all-reduce"]) == 2
    assert "missing: --bytes, --ranks" in capsys.readouterr().err
