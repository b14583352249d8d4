"""Carries out ConfigureBfd, and tells the core how BFD stands whenever that changes.

It decides when to try and to look again. What is written and read is `ovsdb_bfd`'s business, where, `ovsdb_databases`'.
Open vSwitch updates its database within 0.1 s of a change of a session.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

import structlog

from controller.core.commands import ConfigureBfd
from controller.core.events import BfdRead, Event
from controller.health.bfd import Session
from controller.runtime.ovsdb_bfd import all_sessions, reconcile_bfd
from controller.runtime.ovsdb_databases import Databases
from controller.runtime.ovsdb_endpoint import EndpointError

_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0
# A database that has gone without a word says nothing about changes.
_LOOK_AGAIN_S = 5.0


class BfdKeeper:
    """Watches the databases from the first command on."""

    def __init__(self, databases: Databases, tell: Callable[[Event], None]) -> None:
        """`tell` hears BfdRead."""
        self._databases, self._tell = databases, tell
        databases.changed = self._changed
        self._wanted: dict[int, ConfigureBfd] = {}
        self._tasks: dict[int | str, asyncio.Task[None]] = {}
        self._told: dict[int, Mapping[int, Session] | None] = {}
        # Databases that have changed while they were read.
        self._stale: set[str] = set()
        self._log = structlog.get_logger("ovsdb")

    def perform(self, command: ConfigureBfd) -> Iterable[Event]:
        """Performer of ConfigureBfd: starts the work and returns at once. The answer to every command is a BfdRead."""
        self._wanted[command.dpid] = command
        self._told.pop(command.dpid, None)
        self._start(command.dpid, self._until_done(command))
        if "watch" not in self._tasks:
            self._start("watch", self._look_now_and_then())
        return ()

    def forget(self, dpid: int) -> None:
        """The switch has gone: if its database cannot be reached, nobody tries any more. What runs is still watched,
        since its data plane very likely goes on."""
        if self._databases.home(dpid) is None and (task := self._tasks.pop(dpid, None)) is not None:
            task.cancel()

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, key: int | str, work: Coroutine[Any, Any, None]) -> None:
        """In place of what was under way under this key."""
        if (before := self._tasks.pop(key, None)) is not None:
            before.cancel()
        task = self._tasks[key] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda done: self._finished(key, done))

    def _finished(self, key: int | str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("keeping BFD failed unexpectedly", about=key, exc_info=error)

    async def _until_done(self, command: ConfigureBfd) -> None:
        wait_s = _FIRST_RETRY_S
        work = partial(reconcile_bfd, dpid=command.dpid, ports=command.ports, settings=command.settings)
        while isinstance(missing := await self._databases.ask(command.dpid, work), str) or missing:
            if isinstance(missing, str):
                self._say(command.dpid, None)
                self._log.debug("BFD is not set", switch=f"{command.dpid:x}", reason=missing)
            else:
                self._look()
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_RETRY_S)
        self._look()

    # --- looking ----------------------------------------------------------------------------------------

    async def _look_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AGAIN_S)
            self._look()

    def _look(self) -> None:
        for address in {self._databases.home(dpid) for dpid in self._wanted}:
            if address is not None:
                self._changed(address)

    def _changed(self, address: str) -> None:
        if address in self._tasks:
            self._stale.add(address)
        elif any(self._databases.home(dpid) == address for dpid in self._wanted):
            self._start(address, self._read(address))

    async def _read(self, address: str) -> None:
        again = True
        while again:
            self._stale.discard(address)
            found = await self._databases.at(address, all_sessions)
            here = [dpid for dpid in self._wanted if self._databases.home(dpid) == address]
            for dpid in here:
                self._say(dpid, None if isinstance(found, EndpointError) else found.get(dpid))
                if isinstance(found, EndpointError) and dpid not in self._tasks:
                    self._start(dpid, self._until_done(self._wanted[dpid]))
            again = address in self._stale

    def _say(self, dpid: int, sessions: Mapping[int, Session] | None) -> None:
        if dpid not in self._told or self._told[dpid] != sessions:
            self._told[dpid] = sessions
            self._tell(BfdRead(dpid, sessions))
