"""AdviceService: reads the question, and answers it from the core's view. It decides nothing about the advice."""

from collections.abc import Callable, Sequence
from typing import Any

import grpc
from heddle.v1 import advice_pb2 as pb
from heddle.v1 import advice_pb2_grpc

from controller.core.views.advice import BadQuestion
from controller.core.views.common import UnknownHost
from controller.jobs.collective import Collective
from controller.runtime.engine import Engine
from controller.runtime.grpc_messages import read_collective, to_message
from controller.runtime.grpc_services import answers_errors
from controller.runtime.grpc_status_details import RequestRefused

# `controller.core.views.advice.advise_placement`.
View = Callable[[Any, Collective, Sequence[str]], Any]

_INVALID = grpc.StatusCode.INVALID_ARGUMENT


class AdviceService(advice_pb2_grpc.AdviceServiceServicer):  # type: ignore[misc]  # generated, untyped
    def __init__(self, engine: Engine, view: View) -> None:
        self._engine = engine
        self._view = view

    @answers_errors
    async def AdvisePlacement(self, request: pb.AdvisePlacementRequest) -> pb.AdvisePlacementResponse:
        if not request.HasField("collective"):
            raise RequestRefused(_INVALID, ["collective: is not given"])
        collective = read_collective(request.collective)
        if isinstance(collective, list):
            raise RequestRefused(_INVALID, collective)
        try:
            advice = self._view(self._engine.core, collective, request.candidate_hosts)
        except BadQuestion as error:
            raise RequestRefused(_INVALID, str(error).splitlines()) from error
        except UnknownHost as error:
            raise RequestRefused(grpc.StatusCode.NOT_FOUND, str(error).splitlines()) from error
        response: pb.AdvisePlacementResponse = to_message(advice, pb.AdvisePlacementResponse)
        return response
