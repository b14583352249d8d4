"""Finds the Open vSwitch database that has a switch, and has work done there off the event loop.

It decides where to look; what the work is, and when to try again, is for those who ask. Each database has a worker
thread of its own, so that one that hangs holds up no other.
"""

import asyncio
import glob
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from controller.runtime.ovsdb_endpoint import Endpoint, EndpointError, Work

# The lab keeps a private Open vSwitch per run under /run/heddle; the system's own is where its packages put it.
AUTO_PATTERNS = ("/run/heddle/*/db.sock", "/run/openvswitch/db.sock")

Result = TypeVar("Result")


def auto_endpoints(patterns: Iterable[str] = AUTO_PATTERNS) -> list[str]:
    """The databases of this machine, as they are now."""
    return [f"unix:{path}" for pattern in patterns for path in sorted(glob.glob(pattern))]


class _Worker:
    """One endpoint and its thread."""

    def __init__(self, address: str, changed: Callable[[], None]) -> None:
        self._endpoint = Endpoint(address, changed=changed)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"ovsdb {address}")

    async def do(self, work: Work[Result]) -> Result | EndpointError:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._endpoint.do, work)
        except EndpointError as error:
            return error
        except RuntimeError:  # The executor's word for "shut down": the database vanished while others were asked.
            return EndpointError("the database is gone")

    def close(self) -> None:
        """Does not wait: the thread ends after what it is doing, within the endpoint's time-out."""
        self._thread.submit(self._endpoint.close)
        self._thread.shutdown(wait=False)


class Databases:
    """`endpoints` says where to look and is asked anew at each try, because databases come and go with labs.

    `changed` is set by whoever wants to hear of changes of interfaces; it is called with the address, in the loop.
    """

    def __init__(self, endpoints: Callable[[], Sequence[str]]) -> None:
        self._endpoints = endpoints
        self.changed: Callable[[str], None] = lambda _: None
        self._workers: dict[str, _Worker] = {}
        self._homes: dict[int, str] = {}

    def home(self, dpid: int) -> str | None:
        """The address of the database that has this switch, once it was found."""
        return self._homes.get(dpid)

    async def ask(self, dpid: int, work: Work[Result | None]) -> Result | str:
        """The work's result at the database that has the switch, where alone it is not None; or why there is none."""
        self._refresh_workers()
        home = self._workers.get(self._homes.get(dpid, ""))
        if home is not None:
            result = await home.do(work)
            if result is not None and not isinstance(result, EndpointError):
                return result
            self._homes.pop(dpid, None)
        return await self._search(dpid, work)

    async def at(self, address: str, work: Work[Result]) -> Result | EndpointError:
        """The work's result at one database."""
        worker = self._workers.get(address)
        return EndpointError(f"{address} is gone") if worker is None else await worker.do(work)

    async def _search(self, dpid: int, work: Work[Result | None]) -> Result | str:
        """Asks every database at once; a hanging one does not hold up the answer of the right one."""
        asked = [asyncio.create_task(_ask(address, worker, work)) for address, worker in self._workers.items()]
        errors = []
        for answer in asyncio.as_completed(asked):
            address, result = await answer
            if isinstance(result, EndpointError):
                errors.append(str(result))
            elif result is not None:
                self._homes[dpid] = address
                return result
        places = ", ".join(self._workers) or "no database was found; say where it is with HEDDLE_OVSDB"
        return "; ".join(errors) or f"no Open vSwitch database here has this switch ({places})"

    def _refresh_workers(self) -> None:
        wanted = self._endpoints()
        for address in [a for a in self._workers if a not in wanted]:
            self._workers.pop(address).close()
        loop = asyncio.get_running_loop()
        for address in wanted:
            if address not in self._workers:
                self._workers[address] = _Worker(address, lambda address=address: self._hear(loop, address))  # type: ignore[misc]

    def _hear(self, loop: asyncio.AbstractEventLoop, address: str) -> None:
        """Comes in the connection's thread."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(self.changed, address)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()


async def _ask(address: str, worker: _Worker, work: Work[Result | None]) -> tuple[str, Result | EndpointError | None]:
    return address, await worker.do(work)
