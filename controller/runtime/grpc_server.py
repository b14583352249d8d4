"""The gRPC server: its address, its limits, health and reflection. What the services answer is in `grpc_services`."""

import asyncio
from collections.abc import Callable

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from heddle.v1 import (
    advice_pb2,
    advice_pb2_grpc,
    collective_pb2,
    collective_pb2_grpc,
    events_pb2,
    events_pb2_grpc,
    fabric_pb2,
    fabric_pb2_grpc,
    maintenance_pb2,
    maintenance_pb2_grpc,
)

from controller.runtime.addresses import (
    Address,
    TcpAddress,
    UnixAddress,
    UnixSocketClaim,
    check_port_free,
    port_taken,
    private_sockets,
)
from controller.runtime.grpc_advice import AdviceService
from controller.runtime.grpc_events import EventService
from controller.runtime.grpc_maintenance import MaintenanceService
from controller.runtime.grpc_services import CollectiveService, FabricService

VARIABLE = "HEDDLE_GRPC"
COLLECTIVE_SERVICE = collective_pb2.DESCRIPTOR.services_by_name["CollectiveService"].full_name
ADVICE_SERVICE = advice_pb2.DESCRIPTOR.services_by_name["AdviceService"].full_name
EVENT_SERVICE = events_pb2.DESCRIPTOR.services_by_name["EventService"].full_name
MAINTENANCE_SERVICE = maintenance_pb2.DESCRIPTOR.services_by_name["MaintenanceService"].full_name
FABRIC_SERVICE = fabric_pb2.DESCRIPTOR.services_by_name["FabricService"].full_name
_SERVICES = (ADVICE_SERVICE, COLLECTIVE_SERVICE, EVENT_SERVICE, FABRIC_SERVICE, MAINTENANCE_SERVICE)
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
# Callers get this long to read answers that are on their way; long polls are let go before.
_STOP_GRACE_S = 1.0

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    # Two controllers must not silently share one port.
    ("grpc.so_reuseport", 0),
    # A client whose network died is noticed within half a minute, so that its long poll does not stay for ever.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Clients may ping as often as this without being turned away ("too many pings").
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)


class Northbound:
    """`bound` is where it listens once started, as clients write it."""

    def __init__(
        self,
        address: Address,
        collectives: CollectiveService,
        fabric: FabricService,
        advice: AdviceService,
        maintenance: MaintenanceService,
        events: EventService,
    ) -> None:
        self.bound = ""
        self._address = address
        self._claim: UnixSocketClaim | None = None
        self._health = health.aio.HealthServicer()
        self._health_updates: set[asyncio.Task[None]] = set()
        self._server = grpc.aio.server(options=OPTIONS)
        collective_pb2_grpc.add_CollectiveServiceServicer_to_server(collectives, self._server)
        fabric_pb2_grpc.add_FabricServiceServicer_to_server(fabric, self._server)
        advice_pb2_grpc.add_AdviceServiceServicer_to_server(advice, self._server)
        maintenance_pb2_grpc.add_MaintenanceServiceServicer_to_server(maintenance, self._server)
        events_pb2_grpc.add_EventServiceServicer_to_server(events, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((*_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)

    async def start(self) -> None:
        """Raises AddressTaken."""
        if isinstance(self._address, UnixAddress):
            self.bound = self._bind_unix(self._address)
        else:
            self.bound = self._bind_tcp(self._address)
        await self._server.start()
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        await self._set_serving(False)

    def agents_linked(self, number: int) -> None:
        """Without an agent there is no fabric to speak of: its services then count as not serving."""
        update = asyncio.get_running_loop().create_task(self._set_serving(number > 0))
        self._health_updates.add(update)
        update.add_done_callback(self._health_updates.discard)

    async def stop(self) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(_STOP_GRACE_S)
        if self._claim is not None:
            self._claim.release()

    async def _set_serving(self, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse
        for name in _SERVICES:
            await self._health.set(name, status.SERVING if serving else status.NOT_SERVING)

    def _bind_tcp(self, address: TcpAddress) -> str:
        if address.port:
            check_port_free(address, VARIABLE)
        port = self._add_port(address.authority, lambda: port_taken(address, VARIABLE))
        return TcpAddress(address.host, port).authority

    def _bind_unix(self, address: UnixAddress) -> str:
        claim = UnixSocketClaim(address.path)
        claim.take()
        self._claim = claim
        with private_sockets():
            self._add_port(str(address), lambda: OSError(f"gRPC cannot listen on {address}"))
        return str(address)

    def _add_port(self, text: str, failure: Callable[[], Exception]) -> int:
        try:
            return int(self._server.add_insecure_port(text))
        except RuntimeError as error:
            raise failure() from error
