"""Carries out ConfigureQueues, and tries until it is done.

It decides when to try again. What is written is `ovsdb_reconcile`'s business, and where, `ovsdb_databases`'.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog

from controller.core.commands import ConfigureQueues
from controller.core.events import Event, MtusRead
from controller.runtime.ovsdb_databases import Databases
from controller.runtime.ovsdb_reconcile import Outcome, reconcile

_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 60.0


class QueueConfigurator:
    """Works on switches one by one, each in its own time."""

    def __init__(
        self,
        databases: Databases,
        first_retry_s: float = _FIRST_RETRY_S,
        tell: Callable[[Event], None] = lambda _: None,
    ) -> None:
        """`tell` hears what is found out besides: MtusRead."""
        self._databases = databases
        self._tell = tell
        self._first_retry_s = first_retry_s
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._troubled: set[int] = set()
        # Switches of which was said that they would forget their rules.
        self._standalone: set[int] = set()
        self._log = structlog.get_logger("ovsdb")

    @property
    def busy(self) -> bool:
        """Some switch's queues are not set yet."""
        return bool(self._tasks)

    def perform(self, command: ConfigureQueues) -> Iterable[Event]:
        """Performer of ConfigureQueues: starts or restarts the work for that switch and returns at once."""
        self.forget(command.dpid)
        task = asyncio.get_running_loop().create_task(self._until_done(command))
        self._tasks[command.dpid] = task
        task.add_done_callback(lambda done: self._finished(command.dpid, done))
        return ()

    def forget(self, dpid: int) -> None:
        """Stops trying: the switch is gone, or newer queues are wanted. What is written stays."""
        task = self._tasks.pop(dpid, None)
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for dpid in list(self._tasks):
            self.forget(dpid)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, dpid: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(dpid) is task:
            del self._tasks[dpid]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("configuring queues failed unexpectedly", switch=f"{dpid:x}", exc_info=error)

    async def _until_done(self, command: ConfigureQueues) -> None:
        wait_s = self._first_retry_s
        work = partial(reconcile, dpid=command.dpid, wanted=command.ports)
        while not self._settle(command.dpid, await self._databases.ask(command.dpid, work)):
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_RETRY_S)

    def _settle(self, dpid: int, result: Outcome | str) -> bool:
        """Whether the work is done. Says what stands in its way, once for each switch until it is overcome."""
        trouble = result if isinstance(result, str) else _trouble(result)
        log = self._log.bind(switch=f"{dpid:x}")
        if trouble and dpid not in self._troubled:
            self._troubled.add(dpid)
            log.warning("queues are not set", reason=trouble)
        if isinstance(result, Outcome):
            self._say_standalone(dpid, result.standalone)
        if isinstance(result, Outcome):
            self._tell(MtusRead(dpid, result.mtu_bytes))
        if isinstance(result, str) or result.missing:
            return False
        if not result.foreign:
            self._troubled.discard(dpid)
        log.info("queues are set", ports_changed=len(result.changed))
        return True

    def _say_standalone(self, dpid: int, bridge: str) -> None:
        """Nothing is changed: whether a switch floods when it is left alone is its owner's decision."""
        if bridge and dpid not in self._standalone:
            self._log.warning(
                "a switch would forget its rules and flood, loops included, soon after it lost its controller",
                switch=f"{dpid:x}",
                cure=f"ovs-vsctl set-fail-mode {bridge} secure",
            )
        (self._standalone.add if bridge else self._standalone.discard)(dpid)


def _trouble(outcome: Outcome) -> str:
    parts = []
    if outcome.missing:
        parts.append(f"the database has no port {_numbers(outcome.missing)}")
    if outcome.foreign:
        cure = "'ovs-vsctl clear port NAME qos' gives it to Heddle"
        parts.append(f"port {_numbers(outcome.foreign)} has a QoS with queues of its own: {cure}")
    return "; ".join(parts)


def _numbers(ports: Sequence[int]) -> str:
    return ", ".join(map(str, ports))
