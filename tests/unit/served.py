"""Real gRPC services of a controller in a thread of their own, for tests that ask them by stub or by command line."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc


@contextmanager
def served(add: Callable[["grpc.aio.Server"], None]) -> Iterator[str]:
    """The address of a server to which `add`, called in the server's loop, has added its services."""
    started: dict[str, object] = {}
    ready = threading.Event()

    async def serve() -> None:
        server = grpc.aio.server()
        add(server)
        started["port"] = server.add_insecure_port("127.0.0.1:0")
        started["loop"], stop = asyncio.get_running_loop(), asyncio.Event()
        started["stop"] = stop
        await server.start()
        ready.set()
        await stop.wait()
        await server.stop(None)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    try:
        yield f"127.0.0.1:{started['port']}"
    finally:
        started["loop"].call_soon_threadsafe(started["stop"].set)  # type: ignore[attr-defined]
        thread.join()
