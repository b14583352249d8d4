"""Puts the shell together around a core, runs it, and takes it apart in the right order. It decides nothing else."""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import structlog

from controller.core import commands, views
from controller.core.events import Event, Restored, SwitchDisconnected
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.core.views import drains as drain_views
from controller.core.views.advice import advise_placement
from controller.fabric.plan import FabricPlan
from controller.pipeline.foreign import ForeignPolicy
from controller.qos.classes import QosSettings
from controller.runtime.addresses import Address, TcpAddress, UnixAddress, UnixSocketClaim, port_taken
from controller.runtime.engine import CoreMachine, Engine, EngineStopped, Performer
from controller.runtime.grpc_advice import AdviceService
from controller.runtime.grpc_events import EventService
from controller.runtime.grpc_maintenance import MaintenanceService
from controller.runtime.grpc_server import Northbound
from controller.runtime.grpc_services import CollectiveService, FabricService, Views
from controller.runtime.ovsdb import QueueConfigurator
from controller.runtime.ovsdb_bfd_keeper import BfdKeeper
from controller.runtime.ovsdb_databases import Databases, auto_endpoints
from controller.runtime.reports import Reports
from controller.runtime.requests import Requests
from controller.runtime.revisions import Revisions
from controller.runtime.searching import PlanSearcher
from controller.runtime.settings import AUTO, Settings
from controller.runtime.southbound import Southbound
from controller.runtime.store import NoStore, Store
from controller.runtime.stores import open_store

_BEACON_KEY_BYTES = 32
_RUN_ID_BYTES = 8
# A link that has gone silent is so noticed within three quarters of a second.
_HEARTBEAT_PERIOD_S = 0.25


def make_core(settings: Settings, plan: FabricPlan | None) -> Core:
    """A fresh core. The beacon key lives as long as the process, so a recorded beacon is worth nothing later."""
    return Core(
        CoreSettings(
            beacon_key=secrets.token_bytes(_BEACON_KEY_BYTES),
            plan=plan,
            heartbeat_period_s=_HEARTBEAT_PERIOD_S,
            bfd=settings.bfd,
            qos=QosSettings(enabled=settings.qos).with_shares(settings.qos_shares or {}),
            foreign=ForeignPolicy(settings.foreign_removed, settings.foreign_spared),
        )
    )


class Application:
    """Everything around one core. `start` and `stop` are called once each."""

    def __init__(self, settings: Settings, core: CoreMachine, core_views: Views = views) -> None:
        self.settings = settings
        self.revisions = Revisions(lambda: core.revision)
        self.news = Revisions(lambda: core.last_event)
        self.engine = Engine(core, self.revisions.changed, self.news.changed)
        self.requests = Requests(self.engine.submit)
        self.reports = Reports(self.engine.now_s)
        collectives = CollectiveService(self.engine, core_views, self.requests, self.revisions)
        fabric = FabricService(self.engine, core_views, self.requests)
        self.northbound = Northbound(
            settings.grpc,
            collectives,
            fabric,
            AdviceService(self.engine, advise_placement),
            MaintenanceService(self.engine, drain_views, self.requests),
            EventService(self.engine, self.news, secrets.token_hex(_RUN_ID_BYTES)),
        )
        self.southbound = Southbound(
            f"{socket.gethostname()}/{os.getpid()}", self._submit, self.reports, self.northbound.agents_linked
        )
        self.databases = Databases(_endpoints(settings))
        self.queues = QueueConfigurator(self.databases, tell=self.engine.submit)
        self.bfd = BfdKeeper(self.databases, tell=self.engine.submit)
        self.performers: dict[type[Any], Performer] = {
            commands.SendPacket: self.southbound.perform,
            commands.SendBatch: self.southbound.perform,
            commands.ReadTables: self.southbound.perform,
            commands.ReadPortStatistics: self.southbound.perform,
            commands.ConfigureQueues: self.queues.perform,
            commands.ConfigureBfd: self.bfd.perform,
            commands.Remember: self._remember,
            commands.SearchPlan: PlanSearcher(self._submit_late, self.engine.fail).perform,
            commands.Accepted: self.requests.answered,
            commands.Refused: self.requests.answered,
            commands.Compared: self.requests.answered,
            commands.Report: self.reports.write,
        }
        self.southbound_bound = ""
        self.store: Store = NoStore()
        self._listener: asyncio.Server | None = None
        self._claim: UnixSocketClaim | None = None
        self._log = structlog.get_logger("controller")

    async def start(self) -> None:
        """Raises AddressTaken, StoreError or OSError when something cannot be had; `stop` cleans up also then."""
        # A second controller should hear that there is a first one, rather than that some port is taken.
        if isinstance(self.settings.southbound, UnixAddress):
            self._claim = UnixSocketClaim(self.settings.southbound.path)
            self._claim.take()
        self.store = open_store(self.settings.state)
        self.engine.start(self.performers)
        if self.settings.state is not None:
            self.engine.submit(Restored(self.store.load()))
        await self.northbound.start()
        # Listening comes last, because an agent that finds the socket takes the controller for ready.
        await self._listen_southbound(self.settings.southbound)
        self._say_started()

    async def run_until(self, stopping: asyncio.Event) -> None:
        """Until `stopping` is set. Raises what the core raised when the engine fails."""
        asked = asyncio.create_task(stopping.wait())
        either: set[asyncio.Future[Any]] = {asked, self.engine.failure}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if self.engine.failure.done():
            self.engine.failure.result()

    async def stop(self) -> None:
        """No new agents, no new events; callers are let go; then the connections."""
        if self._listener is not None:
            self._listener.close()
        self.engine.stop()
        self.requests.refuse_all()
        self.revisions.stop()
        self.news.stop()
        await self.northbound.stop()
        await self.southbound.stop()
        await self.queues.stop()
        await self.bfd.stop()
        self.databases.close()
        self.store.close()
        if self._claim is not None:
            self._claim.release()

    def _remember(self, command: commands.Remember) -> tuple[Event]:
        """Performer of Remember. Writing takes well under a millisecond, a few with a sync of the disk."""
        return (self.store.write(command),)

    def _submit_late(self, event: Event) -> None:
        """Of what ends by itself: perhaps after the engine."""
        with suppress(EngineStopped):
            self.engine.submit(event)

    def _submit(self, *events: Event) -> None:
        for event in events:
            if isinstance(event, SwitchDisconnected):
                self.queues.forget(event.dpid)
                self.bfd.forget(event.dpid)
        self.engine.submit(*events)

    async def _listen_southbound(self, address: Address) -> None:
        if self._claim is not None:
            self._listener = await asyncio.start_unix_server(self.southbound.accept, sock=self._claim.listen())
            self.southbound_bound = str(address)
        elif isinstance(address, TcpAddress):
            try:
                self._listener = await asyncio.start_server(self.southbound.accept, address.host, address.port)
            except OSError as error:
                raise port_taken(address, "HEDDLE_SOUTHBOUND") from error
            port = self._listener.sockets[0].getsockname()[1]
            self.southbound_bound = str(TcpAddress(address.host, port))

    def _say_started(self) -> None:
        s = self.settings
        self._log.info(
            f"heddle {version('heddle')} controls the fabric",
            southbound=self.southbound_bound,
            grpc=self.northbound.bound,
            ovsdb=s.ovsdb if s.ovsdb == AUTO else ",".join(s.ovsdb),
            qos="on" if s.qos else "off",
            bfd=f"{s.bfd.interval_ms} ms x {s.bfd.multiplier}" if s.bfd.enabled else "off",
            topology=s.topology or "none: learnt from the switches",
            state=self.store.name,
        )
        for variable, address in s.open_to_the_network():
            self._log.warning(
                "anybody who can reach this address controls the fabric: it asks nobody who they are",
                variable=variable,
                address=str(address),
            )


def _endpoints(settings: Settings) -> Callable[[], list[str]]:
    if settings.ovsdb == AUTO:
        return auto_endpoints
    given = list(settings.ovsdb)
    return lambda: given
