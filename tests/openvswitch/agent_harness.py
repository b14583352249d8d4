"""Runs a Heddle Ryu application as a process, and plays the controller for it over the southbound protocol."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from heddle.southbound.framing import FrameReader, frame
from heddle.southbound.port_owner import port_owner
from heddle.southbound.v1 import link_pb2

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 30.0


class RyuApp:
    """`ryu-manager apps/NAME.py` as a child, with its output in a file."""

    def __init__(self, app: str, folder: Path, port: int = 6653, **environment: str) -> None:
        self.log_path = folder / f"{app}.log"
        command = [sys.executable, "-m", "ryu.cmd.manager", str(ROOT / "apps" / f"{app}.py")]
        command += ["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", str(port)]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, **environment}, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._port = port

    def __enter__(self) -> "RyuApp":
        """Waits until switches can connect: Open vSwitch 3.1 heeds max_backoff only after its first connection."""
        wait_until(lambda: self.process.poll() is not None or port_owner(self._port) is not None, "listening")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if kind is not None:
            print(self.log)

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def wait_for_log(self, text: str) -> None:
        wait_until(lambda: text in self.log, f"{text!r} in the log:\n{self.log}")


class Controller:
    """The controller's end of the link. `expect` waits for one kind of message and keeps the others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.settimeout(TIMEOUT_S)
        self._peer: socket.socket | None = None
        self._reader = FrameReader()
        self.waiting: list[link_pb2.AgentMessage] = []
        self._next_id = 1

    @property
    def address(self) -> str:
        return f"unix:{self.path}"

    def accept(self) -> link_pb2.AgentHello:
        """Takes the agent's connection and its greeting."""
        self._peer, _ = self._listener.accept()
        self._reader = FrameReader()
        self.waiting.clear()
        return self.expect("hello").hello

    def hang_up(self) -> None:
        assert self._peer is not None
        self._peer.close()

    def close(self) -> None:
        """As a controller that ends: the socket's name stays behind."""
        if self._peer is not None:
            self._peer.close()
        self._listener.close()

    def send(self, **body: object) -> None:
        assert self._peer is not None
        self._peer.sendall(frame(link_pb2.ControllerMessage(**body).SerializeToString()))  # type: ignore[arg-type]

    def expect(
        self,
        kind: str,
        where: Callable[[link_pb2.AgentMessage], bool] = lambda _message: True,
        timeout_s: float = TIMEOUT_S,
    ) -> link_pb2.AgentMessage:
        """The next message of a kind that fits; raises AssertionError when none comes in time."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            for message in self.waiting:
                if message.WhichOneof("body") == kind and where(message):
                    self.waiting.remove(message)
                    return message
            if not self._receive(deadline_s):
                seen = [message.WhichOneof("body") for message in self.waiting]
                raise AssertionError(f"no {kind} within {timeout_s} s; waiting: {seen}")

    def collect(self, seconds: float) -> list[link_pb2.AgentMessage]:
        """Everything that is waiting or arrives within this time."""
        deadline_s = time.monotonic() + seconds
        while self._receive(deadline_s):
            pass
        collected, self.waiting = self.waiting, []
        return collected

    def batch(self, switch: link_pb2.SwitchUp, *modifications: link_pb2.Modification) -> link_pb2.BatchResult:
        """Sends a batch and waits for its result."""
        batch_id = self.start_batch(switch, *modifications)
        return self.expect("batch_result", lambda m: m.batch_result.batch_id == batch_id).batch_result

    def start_batch(
        self, switch: link_pb2.SwitchUp, *modifications: link_pb2.Modification, atomic: bool = False
    ) -> int:
        batch_id = self._take_id()
        self.send(
            batch=link_pb2.Batch(
                dpid=switch.dpid,
                session_id=switch.session_id,
                batch_id=batch_id,
                modifications=modifications,
                atomic=atomic,
            )
        )
        return batch_id

    def read_tables(self, switch: link_pb2.SwitchUp) -> link_pb2.Tables:
        request_id = self._take_id()
        self.send(
            read_tables=link_pb2.ReadTables(dpid=switch.dpid, session_id=switch.session_id, request_id=request_id)
        )
        return self.expect("tables", lambda m: m.tables.request_id == request_id).tables

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _receive(self, deadline_s: float) -> bool:
        """Adds what arrives to `waiting`; False when nothing did before the deadline."""
        assert self._peer is not None
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            return False
        self._peer.settimeout(remaining_s)
        try:
            data = self._peer.recv(1 << 16)
        except TimeoutError:
            return False
        if not data:
            raise AssertionError("the agent hung up")
        self.waiting += [link_pb2.AgentMessage.FromString(payload) for payload in self._reader.feed(data)]
        return True


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)
