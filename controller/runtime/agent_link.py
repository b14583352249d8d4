"""One agent's link: frames in and out, hello and welcome, the heartbeat, and the bound on what waits to be sent.

It decides when the link is over; what follows from that for switches is `southbound`'s business.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

import structlog
from heddle.southbound.framing import FrameError, FrameReader, frame
from heddle.southbound.v1 import link_pb2 as pb

from controller.core.events import Event
from controller.runtime.reports import Reports
from controller.runtime.wire_messages import (
    PROTOCOL_VERSION,
    Decoded,
    SouthboundCommand,
    WireError,
    read_event,
    read_message,
    write_command,
    write_ping,
    write_welcome,
)

PING_PERIOD_S = 1.0
# Far above any hiccup of a loaded machine, far below the minutes TCP takes to notice a dead host.
SILENCE_LIMIT_S = 15.0
MAX_UNSENT_BYTES = 64 * 1024 * 1024
_RECEIVE_BYTES = 1 << 16
# Decoding takes some 15 us a rule (100 bytes). Longer ones go to a thread, so that the loop keeps turning.
_DECODE_INLINE_BYTES = 128 * 1024
# Of packets and counters there are thousands, and each turn of the loop costs as much as handling one.
_LONGEST_TURN_S = 0.002
# A switch gives up on a controller that does not answer its echo within seconds; this is early enough to warn.
_LOOP_DELAY_WARNING_S = 1.0


class LinkClosed(Exception):
    """The link is over; the text says why."""


class LinkMalformed(LinkClosed):
    """The peer broke the protocol, perhaps because it is no agent at all."""


class AgentLink:
    """`agent_id` is empty until the agent has said hello. Delays are seconds, the worst since the link came up."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        controller_id: str,
        reports: Reports,
        max_unsent_bytes: int = MAX_UNSENT_BYTES,
    ) -> None:
        self.agent_id = ""
        self.worst_agent_delay_s = 0.0
        self.worst_own_delay_s = 0.0
        self.round_trip_s = 0.0
        self._reader = reader
        self._writer = writer
        self._controller_id = controller_id
        self._reports = reports
        self._frames = FrameReader()
        self._payloads: deque[bytes] = deque()
        self._unsent: list[bytes] = []
        self._max_unsent_bytes = max_unsent_bytes
        self._loop = asyncio.get_running_loop()
        self._heard_at_s = self._loop.time()
        self._pinged_at_s = self._yielded_at_s = self._heard_at_s
        self._nonce = 0
        self._end_reason = ""
        self._log = structlog.get_logger("southbound")

    async def serve(self, ready: Callable[[str, str], None], received: Callable[[Event], None]) -> None:
        """Until the link ends. Always raises: LinkClosed, or what the callbacks raise."""
        heartbeat = asyncio.create_task(self._heartbeat())
        try:
            while True:
                await self._serve_one(await self._next_message(), ready, received)
        except (FrameError, WireError) as error:
            if self._end_reason:  # Our own abort cut a frame in two.
                raise LinkClosed(self._end_reason) from error
            raise LinkMalformed(f"malformed message: {error}") from error
        except OSError as error:
            raise LinkClosed(self._end_reason or f"connection lost: {error}") from error
        finally:
            heartbeat.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await heartbeat

    def send(self, command: SouthboundCommand) -> None:
        """Queues `command`; an agent that does not read is given up rather than let memory grow."""
        self._write(write_command(command))

    def abort(self) -> None:
        """Drops the connection at once, unsent data included."""
        self._writer.transport.abort()

    async def _next_message(self) -> pb.AgentMessage:
        while not self._payloads:
            await self._receive()
        payload = self._payloads.popleft()
        if len(payload) > _DECODE_INLINE_BYTES:
            return await asyncio.to_thread(read_message, payload)
        return read_message(payload)

    async def _receive(self) -> None:
        data = await self._reader.read(_RECEIVE_BYTES)
        if not data and self._frames.pending_bytes:
            raise FrameError(f"closed after {self._frames.pending_bytes} bytes of a frame")
        if not data:
            raise LinkClosed(self._end_reason or "the agent closed the connection")
        self._heard_at_s = self._loop.time()
        self._payloads.extend(self._frames.feed(data))

    async def _serve_one(
        self, message: pb.AgentMessage, ready: Callable[[str, str], None], received: Callable[[Event], None]
    ) -> None:
        body = message.WhichOneof("body")
        if body == "hello":
            self._hello(message.hello, ready)
        elif not self.agent_id:
            raise WireError(f"the first message is {body or 'unknown'}, not hello")
        elif body == "pong":
            self._pong(message.pong)
        elif body is None:
            self._reports.warn("an agent sent a message of an unknown kind; it is ignored", agent=self.agent_id)
        else:
            self._hand_over(await self._decode(message), received)

    async def _decode(self, message: pb.AgentMessage) -> Decoded:
        if message.ByteSize() > _DECODE_INLINE_BYTES:
            return await asyncio.to_thread(read_event, message)
        # With data in the buffer, reading never waits; without this one busy agent would keep everybody else out.
        if self._loop.time() - self._yielded_at_s > _LONGEST_TURN_S:
            await asyncio.sleep(0)
            self._yielded_at_s = self._loop.time()
        return read_event(message)

    def _hand_over(self, decoded: Decoded, received: Callable[[Event], None]) -> None:
        if decoded.event is None:
            return
        if decoded.left_out:
            self._reports.warn(
                "a switch holds foreign rules whose match Heddle has no words for; they are left alone",
                switch=f"{getattr(decoded.event, 'dpid', 0):x}",
                rules=str(decoded.left_out),
            )
        received(decoded.event)

    def _hello(self, hello: pb.AgentHello, ready: Callable[[str, str], None]) -> None:
        if self.agent_id:
            raise WireError("a second hello")
        if hello.protocol_version != PROTOCOL_VERSION:
            raise WireError(
                f"agent {hello.agent_id!r} speaks version {hello.protocol_version} of the link, this controller "
                f"{PROTOCOL_VERSION}: run both from the same release"
            )
        self.agent_id = hello.agent_id or "(unnamed)"
        self._write(write_welcome(self._controller_id))
        ready(self.agent_id, hello.listen_address)

    def _pong(self, pong: pb.Pong) -> None:
        if pong.nonce == self._nonce:
            self.round_trip_s = self._loop.time() - self._pinged_at_s
        self.worst_agent_delay_s = max(self.worst_agent_delay_s, pong.worst_loop_delay_s)
        if pong.worst_loop_delay_s > _LOOP_DELAY_WARNING_S:
            self._reports.warn("an agent's loop was held up: its switches may time out", agent=self.agent_id)

    async def _heartbeat(self) -> None:
        while True:
            due_s = self._loop.time() + PING_PERIOD_S
            await asyncio.sleep(PING_PERIOD_S)
            now_s = self._loop.time()
            self.worst_own_delay_s = max(self.worst_own_delay_s, now_s - due_s)
            # Time in which this process itself did not run is not the agent's silence.
            self._heard_at_s += max(0.0, now_s - due_s)
            if now_s - self._heard_at_s > SILENCE_LIMIT_S:
                self._end(f"nothing was heard from the agent for {SILENCE_LIMIT_S:g} s")
            elif self.agent_id:
                self._nonce += 1
                self._pinged_at_s = now_s
                self._write(write_ping(self._nonce))

    def _write(self, payload: bytes) -> None:
        transport = self._writer.transport
        if transport.is_closing():
            return
        try:
            self._unsent.append(frame(payload))
        except FrameError as error:
            self._end(str(error))
            return
        if len(self._unsent) == 1:
            # Several commands often follow from one event: they leave in one go, at the end of this turn.
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        data = b"".join(self._unsent)
        self._unsent.clear()
        transport = self._writer.transport
        if transport.is_closing():
            return
        self._writer.write(data)
        unsent = transport.get_write_buffer_size()
        if unsent > self._max_unsent_bytes:
            self._end(f"the agent does not read: {unsent} bytes wait to be sent")

    def _end(self, reason: str) -> None:
        self._end_reason = reason
        self.abort()
