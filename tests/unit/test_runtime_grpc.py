"""The gRPC services with a real client over loopback, on a core and views of straw."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import grpc
import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status
from heddle.v1 import collective_pb2 as pb
from heddle.v1 import collective_pb2_grpc, fabric_pb2, fabric_pb2_grpc
from runtime_fakes import FakeAgent, FakeCore, FakeViews, Running, eventually, running, shell_settings

from controller.core.commands import Command, Compared, Failure, Refused
from controller.core.events import CollectiveAnnounced, ComparisonWanted
from controller.jobs.collective import Algorithm, Collective, Operation, QueuePairPorts
from controller.pipeline.difference import SwitchComparison
from controller.runtime.addresses import AddressTaken
from controller.runtime.application import Application
from controller.runtime.grpc_messages import to_message
from controller.runtime.grpc_server import COLLECTIVE_SERVICE, FABRIC_SERVICE

Scenario = Callable[[Running, grpc.aio.Channel], Awaitable[None]]
RING = pb.Collective(job_id="job-1", operation=pb.OPERATION_ALL_REDUCE, ranks=["h1", "h2"], size_bytes=1 << 40)


def play(folder: Path, scenario: Scenario, core: FakeCore | None = None, views: FakeViews | None = None) -> None:
    async def whole() -> None:
        async with asyncio.timeout(120), running(folder, core, views) as run, run.channel() as channel:
            await scenario(run, channel)

    asyncio.run(whole())


def collectives(channel: grpc.aio.Channel) -> Any:
    return collective_pb2_grpc.CollectiveServiceStub(channel)


async def refusal(call: Any) -> tuple[grpc.StatusCode, list[str], list[tuple[str, str]]]:
    """Status, lines of its text, and (field, description) of its BadRequest details."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    status = rpc_status.from_call(caught.value)
    violations: list[tuple[str, str]] = []
    for detail in status.details if status else ():
        bad_request = error_details_pb2.BadRequest()
        assert detail.Unpack(bad_request)
        violations += [(v.field, v.description) for v in bad_request.field_violations]
    return caught.value.code(), (caught.value.details() or "").splitlines(), violations


def test_announce_get_and_withdraw(tmp_path: Path) -> None:
    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        stub = collectives(channel)
        asked = pb.Collective(
            job_id="job-1",
            operation=pb.OPERATION_ALL_TO_ALL,
            ranks=["h1", "10.0.0.2"],
            size_bytes=38_654_705_664,
            rings=[pb.Ring(ranks=[1, 0])],
            ports=[pb.QueuePairPorts(src_rank=0, dst_rank=1, udp_source_ports=[49152, 49153])],
        )
        announced = await stub.AnnounceCollective(pb.AnnounceCollectiveRequest(collective=asked))
        assert announced.rules_changed == 4
        assert announced.plan.job_id == "job-1"
        (event,) = run.core.of(CollectiveAnnounced)
        assert event.collective == Collective(
            "job-1",
            Operation.ALL_TO_ALL,
            Algorithm.DIRECT,
            ("h1", "10.0.0.2"),
            38_654_705_664,
            ((1, 0),),
            1,
            (QueuePairPorts(0, 1, (49152, 49153)),),
        )
        plan = (await stub.GetPlan(pb.GetPlanRequest(job_id="job-1"))).plans[0]
        assert plan == announced.plan
        assert plan.certificate.method == "edge-colouring"
        assert plan.flows[0].path[0].port_name == "leaf1-eth1"
        assert list(plan.notes) == ["a note"]
        assert (await stub.WithdrawCollective(pb.WithdrawCollectiveRequest(job_id="job-1"))).rules_changed == 2
        code, text, violations = await refusal(stub.GetPlan(pb.GetPlanRequest(job_id="job-1")))
        assert code is grpc.StatusCode.NOT_FOUND
        assert text == ["job_id: no job 'job-1' is announced"]
        assert violations == [("job_id", "no job 'job-1' is announced")]

    play(tmp_path, scenario)


def test_unspecified_algorithm_is_the_usual_one(tmp_path: Path) -> None:
    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        await collectives(channel).AnnounceCollective(pb.AnnounceCollectiveRequest(collective=RING))
        (event,) = run.core.of(CollectiveAnnounced)
        assert event.collective.algorithm is Algorithm.RING
        assert event.collective.queue_pairs == 1

    play(tmp_path, scenario)


def test_form_of_a_request_is_checked_field_by_field(tmp_path: Path) -> None:
    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        stub = collectives(channel)
        wrong = pb.Collective(operation=99, algorithm=77)
        code, text, violations = await refusal(stub.AnnounceCollective(pb.AnnounceCollectiveRequest(collective=wrong)))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert len(text) == 2
        assert [field for field, _ in violations] == ["operation", "algorithm"]
        for call, field in (
            (stub.AnnounceCollective(pb.AnnounceCollectiveRequest()), "collective"),
            (stub.WithdrawCollective(pb.WithdrawCollectiveRequest()), "job_id"),
            (stub.GetPlan(pb.GetPlanRequest(wait_s=61)), "wait_s"),
            (stub.GetPlan(pb.GetPlanRequest(wait_s=float("nan"))), "wait_s"),
            (stub.GetPlan(pb.GetPlanRequest(wait_s=-1)), "wait_s"),
            (
                stub.ExplainFlow(pb.ExplainFlowRequest(src_host="h1", dst_host="h2", udp_source_port=65536)),
                "udp_source_port",
            ),
        ):
            code, _, violations = await refusal(call)
            assert (code, violations[0][0]) == (grpc.StatusCode.INVALID_ARGUMENT, field)
        _, _, violations = await refusal(stub.ExplainFlow(pb.ExplainFlowRequest()))
        assert [field for field, _ in violations] == ["src_host", "dst_host"]
        assert run.core.events == []

    play(tmp_path, scenario)


@pytest.mark.parametrize("failure", list(Failure))
def test_refusals_of_the_core_keep_their_status_and_all_problems(tmp_path: Path, failure: Failure) -> None:
    problems = ("ranks[3]: no host 'x' on this fabric", "this is about no field", "rings[0]: ä")
    core = FakeCore(replies={CollectiveAnnounced: lambda e: [Refused(e.request_id, failure, problems)]})

    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        call = collectives(channel).AnnounceCollective(pb.AnnounceCollectiveRequest(collective=RING))
        code, text, violations = await refusal(call)
        assert code is grpc.StatusCode[failure.name]
        assert tuple(text) == problems
        if failure in (Failure.INVALID_ARGUMENT, Failure.NOT_FOUND):
            assert violations == [
                ("ranks[3]", "no host 'x' on this fabric"),
                ("", "this is about no field"),
                ("rings[0]", "ä"),
            ]

    play(tmp_path, scenario, core)


@pytest.mark.parametrize(("count", "logged"), [(900, "them all"), (5000, "the first 1000")])
def test_thousands_of_problems_still_reach_the_caller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int, logged: str
) -> None:
    problems = tuple(f"ranks[{n}]: no host 'gpü-{n}' on this fabric" for n in range(count))
    core = FakeCore(replies={CollectiveAnnounced: lambda e: [Refused(e.request_id, Failure.NOT_FOUND, problems)]})

    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        call = collectives(channel).AnnounceCollective(pb.AnnounceCollectiveRequest(collective=RING))
        code, text, violations = await refusal(call)
        assert code is grpc.StatusCode.NOT_FOUND  # not RESOURCE_EXHAUSTED: the trailers were short enough
        assert text[0] == problems[0]
        assert text[-1] == f"and {count - (len(text) - 1)} more; the controller's log has {logged}"
        assert len(violations) == len(text) > 10

    play(tmp_path, scenario, core)
    written = capsys.readouterr().out
    assert "gpü-899" in written
    # A caller does not decide how large the log grows.
    assert "gpü-1000" not in written


def test_explain_and_topology(tmp_path: Path) -> None:
    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        stub = collectives(channel)
        explained = await stub.ExplainFlow(pb.ExplainFlowRequest(src_host="h1", dst_host="h2"))
        assert explained.flows[0].reason == "the only one"
        code, text, _ = await refusal(stub.ExplainFlow(pb.ExplainFlowRequest(src_host="x", dst_host="y")))
        assert code is grpc.StatusCode.NOT_FOUND
        assert text == ["no host 'x' on this fabric", "no host 'y' on this fabric"]
        topology = await fabric_pb2_grpc.FabricServiceStub(channel).GetTopology(fabric_pb2.GetTopologyRequest())
        (link,) = topology.links
        assert link.a_to_b_bps == 5.5
        assert not link.HasField("b_to_a_bps")
        assert link.b.switch == "spine1"
        assert list(topology.alarms) == ["look here"]

    play(tmp_path, scenario)


def test_links_and_jobs_are_explained_or_refused_with_what_is_wrong(tmp_path: Path) -> None:
    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        fabric = fabric_pb2_grpc.FabricServiceStub(channel)
        link = await fabric.ExplainLink(fabric_pb2.ExplainLinkRequest(a="leaf1", b="spine1"))
        assert link.certificate.method == "edge-colouring"
        code, text, _ = await refusal(fabric.ExplainLink(fabric_pb2.ExplainLinkRequest(a="leaf1", b="leaf2")))
        assert (code, text) == (grpc.StatusCode.NOT_FOUND, ["no link between leaf1 and leaf2 is known"])
        code, text, _ = await refusal(fabric.ExplainLink(fabric_pb2.ExplainLinkRequest()))
        assert (code, text) == (grpc.StatusCode.INVALID_ARGUMENT, ["a: is not given", "b: is not given"])
        job = await collectives(channel).ExplainJob(pb.ExplainJobRequest(job_id="a"))
        assert list(job.sentences) == ["a sentence"]
        code, text, _ = await refusal(collectives(channel).ExplainJob(pb.ExplainJobRequest(job_id="b")))
        assert (code, text) == (grpc.StatusCode.NOT_FOUND, ["job_id: no job 'b' is announced"])
        code, text, _ = await refusal(collectives(channel).ExplainJob(pb.ExplainJobRequest()))
        assert (code, text) == (grpc.StatusCode.INVALID_ARGUMENT, ["job_id: is not given"])

    play(tmp_path, scenario, FakeCore(jobs={"a": 1}))


def test_differences_as_known_and_with_tables_read_anew(tmp_path: Path) -> None:
    def read(event: ComparisonWanted) -> list[Command]:
        return [Compared(event.request_id, tuple(SwitchComparison(d, unknown="no answer") for d in event.dpids))]

    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        stub = fabric_pb2_grpc.FabricServiceStub(channel)
        known = await stub.GetDiff(fabric_pb2.GetDiffRequest())
        assert known.equal
        assert [(s.switch, s.state, s.equal_rules) for s in known.switches] == [("leaf1", "equal", 12)]
        assert run.core.of(ComparisonWanted) == []
        anew = await stub.GetDiff(fabric_pb2.GetDiffRequest(switch="leaf1", read=True))
        assert not anew.equal
        assert [(s.dpid, s.reason) for s in anew.switches] == [(1, "no answer")]
        assert [event.dpids for event in run.core.of(ComparisonWanted)] == [frozenset({1})]
        code, text, _ = await refusal(stub.GetDiff(fabric_pb2.GetDiffRequest(switch="leaf9")))
        assert code is grpc.StatusCode.NOT_FOUND
        assert text == ["switch: no switch 'leaf9' has connected to this controller"]

    play(tmp_path, scenario, FakeCore(replies={ComparisonWanted: read}))


def test_long_poll_answers_at_the_next_revision_or_when_time_is_up(tmp_path: Path) -> None:
    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        stub = collectives(channel)
        poll = pb.GetPlanRequest(newer_than_revision=run.core.revision, wait_s=60)
        waiting = [asyncio.create_task(_answer(stub.GetPlan(poll))) for _ in range(50)]
        await asyncio.sleep(0.2)
        made_before = run.views.plans_made
        await stub.AnnounceCollective(pb.AnnounceCollectiveRequest(collective=RING))
        answers = await asyncio.gather(*waiting)
        assert {(a.revision, a.plans[0].job_id) for a in answers} == {(2, "job-1")}
        assert run.views.plans_made - made_before < 10, "fifty callers share one answer"
        unchanged = await stub.GetPlan(pb.GetPlanRequest(newer_than_revision=2, wait_s=0.05))
        assert unchanged.revision == 2

    play(tmp_path, scenario)


async def _answer(call: Any) -> Any:
    return await call


def test_callers_that_hang_up_leave_nothing_behind(tmp_path: Path) -> None:
    core = FakeCore(replies={CollectiveAnnounced: lambda _: []})  # the switches never answer

    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        stub = collectives(channel)
        tasks_before = len(asyncio.all_tasks())
        calls = [stub.GetPlan(pb.GetPlanRequest(newer_than_revision=99, wait_s=60)) for _ in range(50)]
        calls += [stub.AnnounceCollective(pb.AnnounceCollectiveRequest(collective=RING)) for _ in range(50)]
        await eventually(lambda: run.application.requests.waiting == 50)
        for call in calls:
            call.cancel()
        await eventually(lambda: run.application.requests.waiting == 0)
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks_before + 2)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.AnnounceCollective(pb.AnnounceCollectiveRequest(collective=RING), timeout=0.2)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await eventually(lambda: run.application.requests.waiting == 0)

    play(tmp_path, scenario, core)


def test_stopping_lets_waiting_callers_go_with_unavailable(tmp_path: Path) -> None:
    core = FakeCore(replies={CollectiveAnnounced: lambda _: []})

    async def whole() -> None:
        async with asyncio.timeout(90):
            async with running(tmp_path, core) as run:
                channel = run.channel()
                stub = collectives(channel)
                calls = [
                    asyncio.create_task(refusal(stub.GetPlan(pb.GetPlanRequest(newer_than_revision=99, wait_s=60)))),
                    asyncio.create_task(
                        refusal(stub.AnnounceCollective(pb.AnnounceCollectiveRequest(collective=RING)))
                    ),
                ]
                await eventually(lambda: run.application.requests.waiting == 1)
            for code, text, _ in await asyncio.gather(*calls):
                assert code is grpc.StatusCode.UNAVAILABLE
                assert "the controller is stopping" in text[0]
            await channel.close()

    asyncio.run(whole())


def test_error_in_a_view_is_internal_and_the_controller_goes_on(tmp_path: Path) -> None:
    views = FakeViews()

    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        stub = fabric_pb2_grpc.FabricServiceStub(channel)
        views.topology = lambda core, now_s: 1 / 0  # type: ignore[method-assign,assignment]
        code, text, _ = await refusal(stub.GetTopology(fabric_pb2.GetTopologyRequest()))
        assert code is grpc.StatusCode.INTERNAL
        assert "ZeroDivision" not in text[0], "the story is for the log"
        await collectives(channel).AnnounceCollective(pb.AnnounceCollectiveRequest(collective=RING))
        assert not run.application.engine.failure.done()

    play(tmp_path, scenario, views=views)


def test_request_that_makes_the_core_fail_is_not_worth_a_retry(tmp_path: Path) -> None:
    def fail(_: Any) -> list[Any]:
        raise ZeroDivisionError

    core = FakeCore(replies={CollectiveAnnounced: fail})

    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        call = collectives(channel).AnnounceCollective(pb.AnnounceCollectiveRequest(collective=RING))
        code, _, _ = await refusal(call)
        assert code is grpc.StatusCode.INTERNAL
        with pytest.raises(ZeroDivisionError):
            await run.application.run_until(asyncio.Event())

    play(tmp_path, scenario, core)


def test_health_follows_the_agents(tmp_path: Path) -> None:
    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        stub = health_pb2_grpc.HealthStub(channel)

        async def serving(service: str) -> bool:
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

        async def becomes(expected: bool) -> None:
            while await serving(FABRIC_SERVICE) is not expected or await serving(COLLECTIVE_SERVICE) is not expected:
                await asyncio.sleep(0.01)

        assert await serving("")
        await becomes(False)
        agent = await FakeAgent.connect(run.southbound)
        await agent.hello()
        await becomes(True)
        agent.close()
        await becomes(False)
        assert await serving("")

    play(tmp_path, scenario)


def test_reflection_lists_the_services(tmp_path: Path) -> None:
    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = stub.ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        answer = await call.read()
        names = {service.name for service in answer.list_services_response.service}
        assert names >= {COLLECTIVE_SERVICE, FABRIC_SERVICE, "grpc.health.v1.Health"}
        await call.done_writing()

    play(tmp_path, scenario)


def test_plan_above_grpcs_usual_limit_is_sent(tmp_path: Path) -> None:
    async def whole() -> None:
        async with asyncio.timeout(120), running(tmp_path, views=FakeViews(flows=50_000)) as run:
            options = [("grpc.max_receive_message_length", 64 * 1024 * 1024), ("grpc.enable_http_proxy", 0)]
            async with grpc.aio.insecure_channel(run.application.northbound.bound, options=options) as channel:
                answer = await collectives(channel).AnnounceCollective(pb.AnnounceCollectiveRequest(collective=RING))
                assert len(answer.plan.flows) == 50_000
                assert answer.ByteSize() > 4 * 1024 * 1024

    asyncio.run(whole())


def test_unix_socket_is_private_claimed_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "grpc.sock"

    async def whole() -> None:
        settings = shell_settings(str(tmp_path), HEDDLE_GRPC=f"unix:{path}")
        application = Application(settings, FakeCore(), FakeViews())
        await application.start()
        assert path.stat().st_mode & 0o007 == 0
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            stub = fabric_pb2_grpc.FabricServiceStub(channel)
            assert (await stub.GetTopology(fabric_pb2.GetTopologyRequest())).in_sync
        other = shell_settings(str(tmp_path), HEDDLE_GRPC=f"unix:{path}", HEDDLE_SOUTHBOUND="tcp:127.0.0.1:0")
        second = Application(other, FakeCore(), FakeViews())
        with pytest.raises(AddressTaken, match="another controller answers"):
            await second.start()
        await second.stop()
        await application.stop()

    asyncio.run(whole())
    assert not path.exists()


def test_agents_may_come_over_tcp(tmp_path: Path) -> None:
    async def whole() -> None:
        application = Application(
            shell_settings(str(tmp_path), HEDDLE_SOUTHBOUND="tcp:127.0.0.1:0"), FakeCore(), FakeViews()
        )
        await application.start()
        host, _, port = application.southbound_bound.removeprefix("tcp:").rpartition(":")
        agent = FakeAgent(*await asyncio.open_connection(host, int(port)))
        await agent.hello()
        assert (await agent.heard()).WhichOneof("body") == "welcome"
        agent.close()
        await application.stop()

    asyncio.run(whole())


def test_every_command_of_the_core_has_a_performer(tmp_path: Path) -> None:
    async def scenario(run: Running, channel: grpc.aio.Channel) -> None:
        assert run.application.performers.keys() == set(get_args(Command))

    play(tmp_path, scenario)


def test_flow_messages_say_the_same_as_json_would() -> None:
    view = FakeViews(flows=3).plans(FakeCore(jobs={"a": 1}), "a")[0]
    assert to_message(view, pb.Plan) == json_format.Parse(json.dumps(asdict(view)), pb.Plan())
    topology = FakeViews().topology(FakeCore(), 0.0)
    expected = json_format.Parse(json.dumps(asdict(topology)), fabric_pb2.GetTopologyResponse())
    assert to_message(topology, fabric_pb2.GetTopologyResponse) == expected
