"""Talks to a controller over gRPC and turns its failures into sentences and exit codes.

grpc is imported only when a call is made: it costs more start-up time than all the rest of the command.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from controller.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    import grpc
    from heddle.v1 import advice_pb2, collective_pb2, events_pb2, fabric_pb2, maintenance_pb2

DEFAULT_ADDRESS = "127.0.0.1:50051"
# A handshake takes milliseconds in a data centre; nobody should wait longer to learn of a wrong address.
CONNECT_TIMEOUT_S = 3.0
CALL_TIMEOUT_S = 30.0
# A controller that is there answers 8,000-flow plans; gRPC's own limit of 4 MB would refuse them.
_LARGEST_ANSWER_BYTES = 256 * 1024 * 1024
# Codes by which the controller says that the caller's input is wrong, as opposed to "I could not".
_CALLERS_FAULT = {"INVALID_ARGUMENT", "NOT_FOUND", "OUT_OF_RANGE", "ALREADY_EXISTS"}
_LOST_CONNECTION = ("failed to connect", "socket closed", "connection reset", "goaway", "broken pipe", "unreachable")


def address_or_default(address: str | None) -> str:
    """--controller, else HEDDLE_GRPC, else the default."""
    return address or os.environ.get("HEDDLE_GRPC") or DEFAULT_ADDRESS


class Controller:
    """The calls the command line makes. Every method raises CommandError when the controller refuses or fails."""

    def __init__(self, channel: "grpc.Channel", address: str) -> None:
        from heddle.v1 import (
            advice_pb2_grpc,
            collective_pb2_grpc,
            events_pb2_grpc,
            fabric_pb2_grpc,
            maintenance_pb2_grpc,
        )

        self._advice = advice_pb2_grpc.AdviceServiceStub(channel)
        self._events = events_pb2_grpc.EventServiceStub(channel)
        self._maintenance = maintenance_pb2_grpc.MaintenanceServiceStub(channel)
        self._collectives = collective_pb2_grpc.CollectiveServiceStub(channel)
        self._fabric = fabric_pb2_grpc.FabricServiceStub(channel)
        self._address = address

    def topology(self, *, with_plan: bool = False) -> "fabric_pb2.GetTopologyResponse":
        from heddle.v1 import fabric_pb2

        request = fabric_pb2.GetTopologyRequest(with_plan=with_plan)
        answer: fabric_pb2.GetTopologyResponse = self._call(self._fabric.GetTopology, request)
        return answer

    def announce(self, collective: "collective_pb2.Collective") -> "collective_pb2.AnnounceCollectiveResponse":
        from heddle.v1 import collective_pb2

        request = collective_pb2.AnnounceCollectiveRequest(collective=collective)
        answer: collective_pb2.AnnounceCollectiveResponse = self._call(self._collectives.AnnounceCollective, request)
        return answer

    def withdraw(self, job_id: str) -> "collective_pb2.WithdrawCollectiveResponse":
        from heddle.v1 import collective_pb2

        request = collective_pb2.WithdrawCollectiveRequest(job_id=job_id)
        answer: collective_pb2.WithdrawCollectiveResponse = self._call(self._collectives.WithdrawCollective, request)
        return answer

    def plans(
        self, job_id: str = "", *, newer_than: int | None = None, wait_s: float = 0.0
    ) -> "collective_pb2.GetPlanResponse":
        from heddle.v1 import collective_pb2

        request = collective_pb2.GetPlanRequest(job_id=job_id, newer_than_revision=newer_than, wait_s=wait_s)
        patience_s = CALL_TIMEOUT_S + wait_s
        answer: collective_pb2.GetPlanResponse = self._call(self._collectives.GetPlan, request, timeout_s=patience_s)
        return answer

    def explain_flow(
        self, src: str, dst: str, udp_source_port: int = 0, dscp: int = 0
    ) -> "collective_pb2.ExplainFlowResponse":
        from heddle.v1 import collective_pb2

        request = collective_pb2.ExplainFlowRequest(
            src_host=src, dst_host=dst, udp_source_port=udp_source_port, dscp=dscp
        )
        answer: collective_pb2.ExplainFlowResponse = self._call(self._collectives.ExplainFlow, request)
        return answer

    def explain_job(self, job_id: str) -> "collective_pb2.ExplainJobResponse":
        from heddle.v1 import collective_pb2

        request = collective_pb2.ExplainJobRequest(job_id=job_id)
        answer: collective_pb2.ExplainJobResponse = self._call(self._collectives.ExplainJob, request)
        return answer

    def explain_link(self, a: str, b: str) -> "fabric_pb2.ExplainLinkResponse":
        from heddle.v1 import fabric_pb2

        request = fabric_pb2.ExplainLinkRequest(a=a, b=b)
        answer: fabric_pb2.ExplainLinkResponse = self._call(self._fabric.ExplainLink, request)
        return answer

    def diff(self, switch: str = "", *, read: bool = False) -> "fabric_pb2.GetDiffResponse":
        from heddle.v1 import fabric_pb2

        request = fabric_pb2.GetDiffRequest(switch=switch, read=read)
        answer: fabric_pb2.GetDiffResponse = self._call(self._fabric.GetDiff, request)
        return answer

    def advise(
        self, collective: "collective_pb2.Collective", candidates: Sequence[str]
    ) -> "advice_pb2.AdvisePlacementResponse":
        from heddle.v1 import advice_pb2

        request = advice_pb2.AdvisePlacementRequest(collective=collective, candidate_hosts=candidates)
        answer: advice_pb2.AdvisePlacementResponse = self._call(self._advice.AdvisePlacement, request)
        return answer

    def drain(self, request: "maintenance_pb2.DrainRequest") -> "maintenance_pb2.DrainResponse":
        answer: maintenance_pb2.DrainResponse = self._call(self._maintenance.Drain, request)
        return answer

    def undrain(self, target: "maintenance_pb2.DrainTarget") -> "maintenance_pb2.UndrainResponse":
        from heddle.v1 import maintenance_pb2

        request = maintenance_pb2.UndrainRequest(target=target)
        answer: maintenance_pb2.UndrainResponse = self._call(self._maintenance.Undrain, request)
        return answer

    def drains(self) -> "maintenance_pb2.ListDrainsResponse":
        from heddle.v1 import maintenance_pb2

        request = maintenance_pb2.ListDrainsRequest()
        answer: maintenance_pb2.ListDrainsResponse = self._call(self._maintenance.ListDrains, request)
        return answer

    def events(self, request: "events_pb2.WatchEventsRequest") -> "Iterator[events_pb2.WatchEventsResponse]":
        """Without `follow` it ends; with it, it goes on until the controller does."""
        import grpc

        patience_s = None if request.follow else CALL_TIMEOUT_S
        try:
            yield from self._events.WatchEvents(request, timeout=patience_s)
        except grpc.RpcError as error:
            raise _refusal(error, self._address) from error

    def _call(self, method: Callable[..., Any], request: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        import grpc

        try:
            return method(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise _refusal(error, self._address) from error


@contextmanager
def connect(address: str, *, timeout_s: float = CONNECT_TIMEOUT_S) -> Iterator[Controller]:
    """A controller that answers at `address` ("HOST:PORT", or "unix:/path"); CommandError with exit code 3 if none."""
    # gRPC's C core writes warnings of its own to standard error; ours say more.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import grpc

    options = [
        # A proxy for web pages, set in many data centres' environments, is not on the way to a controller.
        ("grpc.enable_http_proxy", 0),
        ("grpc.max_receive_message_length", _LARGEST_ANSWER_BYTES),
    ]
    with grpc.insecure_channel(address, options=options) as channel:
        if not _comes_up(channel, timeout_s):
            raise no_controller(address)
        yield Controller(channel, address)


def _comes_up(channel: "grpc.Channel", timeout_s: float) -> bool:
    """Whether the first connection attempt succeeds; a refused port is known at once, without gRPC's retries."""
    import grpc

    decided = threading.Event()
    states: list[grpc.ChannelConnectivity] = []

    def observe(state: grpc.ChannelConnectivity) -> None:
        states.append(state)
        if state in (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE):
            decided.set()

    channel.subscribe(observe, try_to_connect=True)
    decided.wait(timeout_s)
    channel.unsubscribe(observe)
    return grpc.ChannelConnectivity.READY in states


def no_controller(address: str) -> CommandError:
    return CommandError(
        f"no controller answers at {address}: start one with 'heddle run', "
        "or say where it is with --controller HOST:PORT or HEDDLE_GRPC",
        ExitCode.NO_CONTROLLER,
    )


def _refusal(error: "grpc.RpcError", address: str) -> CommandError:
    code = error.code().name
    problems = _problems(error)
    if code in _CALLERS_FAULT:
        return CommandError(problems or [f"the controller refused this ({code})"], ExitCode.BAD_INPUT)
    if code == "UNAVAILABLE" and _connection_broke(error):
        sentence = f"the connection to the controller at {address} broke: is it still running?"
        return CommandError(sentence, ExitCode.NO_CONTROLLER)
    if code == "DEADLINE_EXCEEDED":
        return CommandError(f"the controller at {address} took the call but did not answer in time: see its log")
    if code == "UNIMPLEMENTED":
        return CommandError(f"what answers at {address} is no Heddle controller of this version")
    return CommandError([f"{problem} ({code})" for problem in problems] or [f"the controller failed ({code})"])


def _connection_broke(error: "grpc.RpcError") -> bool:
    """UNAVAILABLE is gRPC's own word for a lost connection and also a controller's answer ("I am the standby").

    Nothing but the wording tells them apart; these are the words of gRPC's C core.
    """
    details = (error.details() or "").lower()
    return any(words in details for words in _LOST_CONNECTION)


def _problems(error: "grpc.RpcError") -> list[str]:
    """Every problem in the answer: from the rich error details (google.rpc.Status) where present, else each line of
    the text."""
    return _rich_problems(error) or [line.strip() for line in (error.details() or "").splitlines() if line.strip()]


def _rich_problems(error: "grpc.RpcError") -> list[str]:
    from google.rpc import error_details_pb2
    from grpc_status import rpc_status

    try:
        status = rpc_status.from_call(error)
    except ValueError:
        return []  # Details that contradict the status: then the text is what there is.
    problems = []
    for detail in status.details if status is not None else ():
        bad_request = error_details_pb2.BadRequest()
        precondition = error_details_pb2.PreconditionFailure()
        if detail.Unpack(bad_request):
            problems += [
                f"{v.field}: {v.description}" if v.field else v.description for v in bad_request.field_violations
            ]
        elif detail.Unpack(precondition):
            problems += [violation.description for violation in precondition.violations]
    return problems
