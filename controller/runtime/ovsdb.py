"""Carries out ConfigureQueues: finds the database that has the switch, off the event loop, and tries until it is done.

It decides where to look and when to try again. What is written is `ovsdb_reconcile`'s business. Each database has a
worker thread of its own, so that one that hangs holds up no other.
"""

import asyncio
import glob
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from controller.core.commands import ConfigureQueues
from controller.core.events import Event, MtusRead
from controller.qos.queues import PortQueues
from controller.runtime.ovsdb_endpoint import Endpoint, EndpointError
from controller.runtime.ovsdb_reconcile import Outcome

# The lab keeps a private Open vSwitch per run under /run/heddle; the system's own is where its packages put it.
AUTO_PATTERNS = ("/run/heddle/*/db.sock", "/run/openvswitch/db.sock")
_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 60.0


def auto_endpoints(patterns: Iterable[str] = AUTO_PATTERNS) -> list[str]:
    """The databases of this machine, as they are now."""
    return [f"unix:{path}" for pattern in patterns for path in sorted(glob.glob(pattern))]


class _Worker:
    """One endpoint and its thread."""

    def __init__(self, address: str) -> None:
        self._endpoint = Endpoint(address)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"ovsdb {address}")

    async def configure(self, dpid: int, ports: Sequence[PortQueues]) -> Outcome | EndpointError | None:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._endpoint.configure, dpid, ports)
        except EndpointError as error:
            return error
        except RuntimeError:  # The executor's word for "shut down": the database vanished while others were asked.
            return EndpointError("the database is gone")

    def close(self) -> None:
        """Does not wait: the thread ends after what it is doing, within the endpoint's time-out."""
        self._thread.submit(self._endpoint.close)
        self._thread.shutdown(wait=False)


class QueueConfigurator:
    """`endpoints` says where to look and is asked anew at each try, because databases come and go with labs."""

    def __init__(
        self,
        endpoints: Callable[[], Sequence[str]],
        first_retry_s: float = _FIRST_RETRY_S,
        tell: Callable[[Event], None] = lambda _: None,
    ) -> None:
        """`tell` hears what is found out besides: MtusRead."""
        self._endpoints = endpoints
        self._tell = tell
        self._first_retry_s = first_retry_s
        self._workers: dict[str, _Worker] = {}
        self._homes: dict[int, str] = {}
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
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def _finished(self, dpid: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(dpid) is task:
            del self._tasks[dpid]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("configuring queues failed unexpectedly", switch=f"{dpid:x}", exc_info=error)

    async def _until_done(self, command: ConfigureQueues) -> None:
        wait_s = self._first_retry_s
        while not self._settle(command.dpid, await self._configure(command)):
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

    async def _configure(self, command: ConfigureQueues) -> Outcome | str:
        """The outcome, or why there is none."""
        self._refresh_workers()
        home = self._workers.get(self._homes.get(command.dpid, ""))
        if home is not None:
            result = await home.configure(command.dpid, command.ports)
            if isinstance(result, Outcome):
                return result
            self._homes.pop(command.dpid, None)
        return await self._search(command)

    async def _search(self, command: ConfigureQueues) -> Outcome | str:
        """Asks every database at once; a hanging one does not hold up the answer of the right one."""
        asked = [asyncio.create_task(_ask(address, worker, command)) for address, worker in self._workers.items()]
        errors = []
        for answer in asyncio.as_completed(asked):
            address, result = await answer
            if isinstance(result, Outcome):
                self._homes[command.dpid] = address
                return result
            if isinstance(result, EndpointError):
                errors.append(str(result))
        places = ", ".join(self._workers) or "no database was found; say where it is with HEDDLE_OVSDB"
        return "; ".join(errors) or f"no Open vSwitch database here has this switch ({places})"

    def _refresh_workers(self) -> None:
        wanted = self._endpoints()
        for address in [a for a in self._workers if a not in wanted]:
            self._workers.pop(address).close()
        for address in wanted:
            if address not in self._workers:
                self._workers[address] = _Worker(address)


async def _ask(address: str, worker: _Worker, command: ConfigureQueues) -> tuple[str, Outcome | EndpointError | None]:
    return address, await worker.configure(command.dpid, command.ports)


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
