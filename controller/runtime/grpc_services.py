"""CollectiveService and FabricService: what callers ask, turned into events and reads of the core's views.

It decides nothing about plans. A method reads frozen views or waits for the core's answer to an event, so an error in
here cannot have touched the state: the caller gets INTERNAL, the log the whole story, and the controller goes on.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from math import isfinite
from typing import Any, Protocol

import grpc
import structlog
from heddle.v1 import collective_pb2 as pb
from heddle.v1 import collective_pb2_grpc, fabric_pb2, fabric_pb2_grpc

from controller.core.commands import Accepted, Compared, Refused
from controller.core.events import CollectiveAnnounced, CollectiveWithdrawn, ComparisonWanted
from controller.core.views import UnknownHost, UnknownJob, UnknownLink, UnknownSwitch
from controller.runtime.engine import Engine, EngineFailed
from controller.runtime.grpc_messages import plan_message, read_collective, to_message
from controller.runtime.grpc_status_details import RequestRefused, abort, status_code
from controller.runtime.requests import STOPPING, Answer, Requests
from controller.runtime.revisions import Revisions

MAX_WAIT_S = 60.0
_LARGEST_PORT = 65535
_LARGEST_DSCP = 63
_LOGGED_CHARACTERS = 2000
_INVALID = grpc.StatusCode.INVALID_ARGUMENT


class Views(Protocol):
    """The functions of `controller.core.views`."""

    def topology(self, core: Any, now_s: float) -> Any: ...

    def cabling_plan(self, core: Any) -> Any: ...

    def plans(self, core: Any, job_id: str) -> Any: ...

    def explain_flow(self, core: Any, src: str, dst: str, udp_source_port: int, dscp: int) -> Any: ...

    def explain_job(self, core: Any, job_id: str) -> Any: ...

    def explain_link(self, core: Any, a: str, b: str, now_s: float) -> Any: ...

    def find_switches(self, core: Any, name: str) -> frozenset[int]: ...

    def diff(self, core: Any, switch: str) -> Any: ...

    def diff_of(self, core: Any, comparisons: Any) -> Any: ...


def answers_errors(method: Callable[[Any, Any], Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A method as gRPC calls it, with a context, from one that only answers or raises: exceptions become statuses."""

    @functools.wraps(method)
    async def wrapped(self: Any, request: Any, context: "grpc.aio.ServicerContext") -> Any:
        try:
            return await method(self, request)
        except RequestRefused as error:
            refused = error
        except EngineFailed:
            refused = RequestRefused(grpc.StatusCode.INTERNAL, ["this request made the controller fail; see its log"])
        except Exception:
            # The boundary to callers: whatever it is, they get an answer.
            log = structlog.get_logger("grpc")
            log.exception("a request failed", method=method.__name__, request=str(request)[:_LOGGED_CHARACTERS])
            refused = RequestRefused(grpc.StatusCode.INTERNAL, ["the controller failed on this request; see its log"])
        return await abort(context, method.__name__, refused)

    return wrapped


class PlanAnswers:
    """Answers of GetPlan. Callers that wait for the same revision share one answer, built once.

    It rests on the core's promise that plans change only when the revision grows.
    """

    def __init__(self, engine: Engine, views: Views) -> None:
        self._engine = engine
        self._views = views
        self._revision = -1
        self._answers: dict[str, asyncio.Task[pb.GetPlanResponse]] = {}

    async def answer(self, job_id: str) -> pb.GetPlanResponse:
        """Raises RequestRefused when the job is not announced."""
        revision = self._engine.core.revision
        if revision != self._revision:
            self._revision, self._answers = revision, {}
        answer = self._answers.get(job_id)
        if answer is None:
            views = self.read(job_id)
            answer = self._answers[job_id] = asyncio.create_task(_plan_response(views, revision))
        # A caller that goes away must not cancel what others wait for.
        return await asyncio.shield(answer)

    def read(self, job_id: str) -> Any:
        """The views of one job's plan, or of all when `job_id` is empty. Raises RequestRefused."""
        try:
            return self._views.plans(self._engine.core, job_id)
        except UnknownJob as error:
            raise RequestRefused(grpc.StatusCode.NOT_FOUND, _problems(error)) from error


async def _plan_response(views: Any, revision: int) -> pb.GetPlanResponse:
    return pb.GetPlanResponse(plans=[await plan_message(view) for view in views], revision=revision)


class CollectiveService(collective_pb2_grpc.CollectiveServiceServicer):  # type: ignore[misc]  # generated, untyped
    def __init__(self, engine: Engine, views: Views, requests: Requests, revisions: Revisions) -> None:
        self._engine = engine
        self._views = views
        self._requests = requests
        self._revisions = revisions
        self._plans = PlanAnswers(engine, views)

    @answers_errors
    async def AnnounceCollective(self, request: pb.AnnounceCollectiveRequest) -> pb.AnnounceCollectiveResponse:
        if not request.HasField("collective"):
            raise RequestRefused(_INVALID, ["collective: is not given"])
        collective = read_collective(request.collective)
        if isinstance(collective, list):
            raise RequestRefused(_INVALID, collective)
        answer = accepted(await self._requests.ask(lambda request_id: CollectiveAnnounced(request_id, collective)))
        (plan,) = self._plans.read(answer.job_id)
        return pb.AnnounceCollectiveResponse(plan=await plan_message(plan), rules_changed=answer.rules_changed)

    @answers_errors
    async def WithdrawCollective(self, request: pb.WithdrawCollectiveRequest) -> pb.WithdrawCollectiveResponse:
        if not request.job_id:
            raise RequestRefused(_INVALID, ["job_id: is not given"])
        answer = accepted(await self._requests.ask(lambda request_id: CollectiveWithdrawn(request_id, request.job_id)))
        return pb.WithdrawCollectiveResponse(rules_changed=answer.rules_changed)

    @answers_errors
    async def GetPlan(self, request: pb.GetPlanRequest) -> pb.GetPlanResponse:
        if not (isfinite(request.wait_s) and 0 <= request.wait_s <= MAX_WAIT_S):
            raise RequestRefused(_INVALID, [f"wait_s: {request.wait_s:g} is not between 0 and {MAX_WAIT_S:g}"])
        if request.HasField("newer_than_revision"):
            self._plans.read(request.job_id)  # An unknown job is refused now, not after the wait.
            await self._revisions.wait_for_newer(request.newer_than_revision, request.wait_s)
            if self._revisions.stopped:
                raise RequestRefused(grpc.StatusCode.UNAVAILABLE, [STOPPING])
        return await self._plans.answer(request.job_id)

    @answers_errors
    async def ExplainFlow(self, request: pb.ExplainFlowRequest) -> pb.ExplainFlowResponse:
        if problems := _explain_problems(request):
            raise RequestRefused(_INVALID, problems)
        arguments = (request.src_host, request.dst_host, request.udp_source_port, request.dscp)
        try:
            view = self._views.explain_flow(self._engine.core, *arguments)
        except UnknownHost as error:
            raise RequestRefused(grpc.StatusCode.NOT_FOUND, _problems(error)) from error
        explanation: pb.ExplainFlowResponse = to_message(view, pb.ExplainFlowResponse)
        return explanation

    @answers_errors
    async def ExplainJob(self, request: pb.ExplainJobRequest) -> pb.ExplainJobResponse:
        if not request.job_id:
            raise RequestRefused(_INVALID, ["job_id: is not given"])
        try:
            view = self._views.explain_job(self._engine.core, request.job_id)
        except UnknownJob as error:
            raise RequestRefused(grpc.StatusCode.NOT_FOUND, [f"job_id: {error}"]) from error
        explanation: pb.ExplainJobResponse = to_message(view, pb.ExplainJobResponse)
        return explanation


class FabricService(fabric_pb2_grpc.FabricServiceServicer):  # type: ignore[misc]  # generated, untyped
    def __init__(self, engine: Engine, views: Views, requests: Requests) -> None:
        self._engine = engine
        self._views = views
        self._requests = requests

    @answers_errors
    async def GetTopology(self, request: fabric_pb2.GetTopologyRequest) -> fabric_pb2.GetTopologyResponse:
        view = self._views.topology(self._engine.core, self._engine.now_s())
        topology: fabric_pb2.GetTopologyResponse = to_message(view, fabric_pb2.GetTopologyResponse)
        if request.with_plan and (plan := self._views.cabling_plan(self._engine.core)) is not None:
            topology.plan.CopyFrom(to_message(plan, fabric_pb2.CablingPlan))
        return topology

    @answers_errors
    async def GetDiff(self, request: fabric_pb2.GetDiffRequest) -> fabric_pb2.GetDiffResponse:
        core = self._engine.core
        try:
            dpids = self._views.find_switches(core, request.switch)
        except UnknownSwitch as error:
            raise RequestRefused(grpc.StatusCode.NOT_FOUND, [f"switch: {error}"]) from error
        if request.read:
            answer = await self._requests.ask(lambda request_id: ComparisonWanted(request_id, dpids))
            view = self._views.diff_of(core, _compared(answer).comparisons)
        else:
            view = self._views.diff(core, request.switch)
        diff: fabric_pb2.GetDiffResponse = to_message(view, fabric_pb2.GetDiffResponse)
        return diff

    @answers_errors
    async def ExplainLink(self, request: fabric_pb2.ExplainLinkRequest) -> fabric_pb2.ExplainLinkResponse:
        missing = [f"{name}: is not given" for name in ("a", "b") if not getattr(request, name)]
        if missing:
            raise RequestRefused(_INVALID, missing)
        try:
            view = self._views.explain_link(self._engine.core, request.a, request.b, self._engine.now_s())
        except (UnknownSwitch, UnknownLink) as error:
            raise RequestRefused(grpc.StatusCode.NOT_FOUND, _problems(error)) from error
        explanation: fabric_pb2.ExplainLinkResponse = to_message(view, fabric_pb2.ExplainLinkResponse)
        return explanation


def accepted(answer: Answer) -> Accepted:
    """The core's yes. Raises RequestRefused for its no."""
    if isinstance(answer, Refused):
        raise RequestRefused(status_code(answer.failure), answer.problems)
    if not isinstance(answer, Accepted):
        raise TypeError(f"the core answered a request with {type(answer).__name__}")
    return answer


def _compared(answer: Answer) -> Compared:
    if isinstance(answer, Refused):
        raise RequestRefused(status_code(answer.failure), answer.problems)
    if not isinstance(answer, Compared):
        raise TypeError(f"the core answered a comparison with {type(answer).__name__}")
    return answer


def _explain_problems(request: pb.ExplainFlowRequest) -> list[str]:
    problems = [f"{name}: is not given" for name in ("src_host", "dst_host") if not getattr(request, name)]
    if request.udp_source_port > _LARGEST_PORT:
        problems.append(f"udp_source_port: {request.udp_source_port} is no port; 0 means any")
    if request.dscp > _LARGEST_DSCP:
        problems.append(f"dscp: {request.dscp} is no mark; they go from 0 to {_LARGEST_DSCP}")
    return problems


def _problems(error: Exception) -> list[str]:
    """The views say one problem a line."""
    return str(error).splitlines()
