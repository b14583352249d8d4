"""The connection to the controller: a green socket that is re-opened for ever.

It carries messages and decides only when to try again. What was queued for a lost connection is thrown away, because
a new one starts with a full report. Never blocks the caller of `send`.
"""

import logging
import os
import random
from collections.abc import Callable, Iterable
from typing import Any

from eventlet.green import socket
from google.protobuf.message import DecodeError
from heddle.southbound.framing import FrameError, FrameReader, frame
from heddle.southbound.v1 import link_pb2
from ryu.lib import hub

from apps.outgoing import Outgoing
from apps.southbound_settings import SouthboundAddress

LOG = logging.getLogger("heddle.agent.link")

_FIRST_RETRY_S = 0.2
_LAST_RETRY_S = 1.0
_CONNECT_TIMEOUT_S = 5.0
_RECEIVE_BYTES = _SEND_BYTES = 1 << 16


class ControllerLink:
    """`on_connect` returns what a fresh connection says first; `on_message` gets what the controller says."""

    def __init__(
        self,
        address: SouthboundAddress,
        on_connect: Callable[[], Iterable[link_pb2.AgentMessage]],
        on_message: Callable[[link_pb2.ControllerMessage], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._address = address
        self._on_connect = on_connect
        self._on_message = on_message
        self._on_lost = on_lost
        self._outgoing = Outgoing()
        self._wake = hub.Queue(1)
        self._socket: Any = None

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def dropped(self) -> int:
        """Messages that were thrown away because the controller did not read fast enough."""
        return self._outgoing.dropped

    def send(self, message: link_pb2.AgentMessage) -> None:
        """Queues a message; without a connection it is dropped, since the next one begins with a full report."""
        if not self.connected:
            return
        self._outgoing.put(message)
        if self._outgoing.overflowing:
            LOG.error("the controller at %s does not read: starting the link afresh", self._address)
            self._outgoing.clear()
            self._hang_up()
        self._wake_writer()

    def run(self, on_first_silence: Callable[[], None]) -> None:
        """Connects, serves, and starts again, for ever. `on_first_silence`: nobody answered the very first try."""
        pause_s = _FIRST_RETRY_S
        silent = False
        first = True
        while True:
            try:
                connection = self._connect()
            except OSError as problem:
                if not silent:
                    silent = True
                    LOG.warning(
                        "no controller answers on %s (%s); trying again until one does", self._address, _why(problem)
                    )
                if first:
                    on_first_silence()
            else:
                silent, pause_s = False, _FIRST_RETRY_S
                self._serve(connection)
            first = False
            # Several agents that lost the same controller should not come back in step.
            hub.sleep(pause_s * random.uniform(0.8, 1.0))
            pause_s = min(pause_s * 1.5, _LAST_RETRY_S)

    def _connect(self) -> Any:
        connection = socket.socket(self._address.family, socket.SOCK_STREAM)
        try:
            connection.settimeout(_CONNECT_TIMEOUT_S)
            connection.connect(self._address.target)
            connection.settimeout(None)
            if self._address.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            connection.close()
            raise
        return connection

    def _serve(self, connection: Any) -> None:
        self._socket = connection
        self._outgoing.clear()
        for message in self._on_connect():
            self._outgoing.put(message)
        LOG.info("connected to the controller on %s", self._address)
        writer = hub.spawn(self._write, connection)
        self._wake_writer()
        try:
            reason = self._read(connection)
        finally:
            self._socket = None
            hub.kill(writer)
            connection.close()
            self._on_lost()
        LOG.warning("the link to the controller on %s was lost: %s", self._address, reason)

    def _read(self, connection: Any) -> str:
        """Serves until the connection ends; returns why it did."""
        reader = FrameReader()
        try:
            while data := connection.recv(_RECEIVE_BYTES):
                for payload in reader.feed(data):
                    self._on_message(link_pb2.ControllerMessage.FromString(payload))
        except (OSError, FrameError, DecodeError) as problem:
            return _why(problem)
        return "the controller closed it"

    def _write(self, connection: Any) -> None:
        try:
            while True:
                if data := self._next_bytes():
                    connection.sendall(data)
                else:
                    self._wake.get()
        except (OSError, FrameError) as problem:
            LOG.warning("sending to the controller failed: %s", _why(problem))
            self._hang_up()

    def _next_bytes(self) -> bytes:
        """Several messages in one go: of packets and counters there are thousands, and each write is a system call."""
        frames: list[bytes] = []
        size = 0
        while size < _SEND_BYTES and (message := self._outgoing.get()) is not None:
            frames.append(frame(message.SerializeToString()))
            size += len(frames[-1])
        return b"".join(frames)

    def _hang_up(self) -> None:
        """Ends the connection from outside the reader, which then notices and starts again."""
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                LOG.debug("the connection was already gone")

    def _wake_writer(self) -> None:
        if self._wake.empty():
            self._wake.put(None, block=False)


def _why(problem: Exception) -> str:
    """eventlet's sockets say ENOENT where people expect words."""
    code = problem.errno if isinstance(problem, OSError) else None
    return os.strerror(code) if code else str(problem)
