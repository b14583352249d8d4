"""MaintenanceService: drains and undrains as operators ask for them. Whether one may be had is the core's to say."""

from collections.abc import Sequence
from typing import Any, Protocol

import grpc
from heddle.v1 import maintenance_pb2 as pb
from heddle.v1 import maintenance_pb2_grpc

from controller.core.events import DrainWanted, UndrainWanted
from controller.core.remembered import Target
from controller.core.views.common import UnknownLink, UnknownSwitch
from controller.runtime.engine import Engine
from controller.runtime.grpc_messages import to_message
from controller.runtime.grpc_services import accepted, answers_errors
from controller.runtime.grpc_status_details import RequestRefused
from controller.runtime.requests import Requests

_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_LINK_ENDS = 2


class Views(Protocol):
    """The functions of `controller.core.views.drains`."""

    def drains(self, core: Any, only: Sequence[Target] = ()) -> Any: ...

    def find_targets(self, core: Any, switch: str, link_ends: Sequence[str]) -> tuple[Target, ...]: ...

    def drain_forecast(self, core: Any, targets: Sequence[Target], forced: bool) -> Any: ...


class MaintenanceService(maintenance_pb2_grpc.MaintenanceServiceServicer):  # type: ignore[misc]  # generated, untyped
    def __init__(self, engine: Engine, views: Views, requests: Requests) -> None:
        self._engine = engine
        self._views = views
        self._requests = requests

    @answers_errors
    async def Drain(self, request: pb.DrainRequest) -> pb.DrainResponse:
        targets = self._targets(request.target)
        # Worked out first: afterwards there is nothing left to compare with.
        forecast = self._views.drain_forecast(self._engine.core, targets, request.force)
        response = pb.DrainResponse(forecast=to_message(forecast, pb.DrainForecast))
        if request.dry_run:
            return response
        wanted = await self._requests.ask(lambda i: DrainWanted(i, targets, request.reason, request.force))
        response.rules_changed = accepted(wanted).rules_changed
        response.drains.extend(self._drains(targets))
        return response

    @answers_errors
    async def Undrain(self, request: pb.UndrainRequest) -> pb.UndrainResponse:
        targets = self._targets(request.target)
        answer = accepted(await self._requests.ask(lambda request_id: UndrainWanted(request_id, targets)))
        return pb.UndrainResponse(rules_changed=answer.rules_changed, drains=self._drains(targets))

    @answers_errors
    async def ListDrains(self, _: pb.ListDrainsRequest) -> pb.ListDrainsResponse:
        return pb.ListDrainsResponse(drains=self._drains(()))

    def _drains(self, targets: Sequence[Target]) -> list[Any]:
        return [to_message(view, pb.Drain) for view in self._views.drains(self._engine.core, targets)]

    def _targets(self, target: pb.DrainTarget) -> tuple[Target, ...]:
        """Raises RequestRefused."""
        ends = list(target.link_ends)
        if bool(target.switch) == bool(ends):
            raise RequestRefused(_INVALID, ["target: name a switch, or the two ends of a link"])
        if ends and (len(ends) != _LINK_ENDS or not all(ends)):
            raise RequestRefused(_INVALID, [f"target.link_ends: a link has two ends, not {len(ends)}"])
        try:
            return self._views.find_targets(self._engine.core, target.switch, ends)
        except (UnknownSwitch, UnknownLink) as error:
            raise RequestRefused(grpc.StatusCode.NOT_FOUND, str(error).splitlines()) from error
