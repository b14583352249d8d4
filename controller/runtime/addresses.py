"""Where the shell listens: addresses as text, and the claim to a Unix socket's path.

It decides whether a path may be taken. Whether a TCP port may is the kernel's decision; `port_taken` only explains it.
"""

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from heddle.southbound.port_owner import port_owner

# Somebody who can write to the southbound socket can program the switches: owner and group only.
_SOCKET_UMASK = 0o117
_LOOPBACK = ("127.", "::1", "localhost")


class AddressTaken(Exception):
    """Another process listens there, or the path is something else than a socket or not for us; the text says what."""


class ControllerRuns(AddressTaken):
    """What listens there is another controller, or one that is just ending."""


@dataclass(frozen=True, slots=True)
class UnixAddress:
    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"tcp:{self.authority}"

    @property
    def authority(self) -> str:
        """As gRPC and people write it: host:port, an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return self.host.startswith(_LOOPBACK)


Address = UnixAddress | TcpAddress


def parse_address(text: str) -> Address:
    """`unix:/path`, `tcp:host:port` or `host:port`; an IPv6 host in brackets. Raises ValueError with the cure."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path:
            raise ValueError("unix: needs a path, for example unix:/run/heddle/controller.sock")
        return UnixAddress(path)
    host, colon, port = text.removeprefix("tcp:").rpartition(":")
    if not colon or not host:
        raise ValueError(f"{text!r} is no address: write unix:/path or host:port, for example 127.0.0.1:50051")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{port!r} in {text!r} is no port: a whole number from 0 to 65535 (0: any free one)")
    return TcpAddress(host.removeprefix("[").removesuffix("]"), int(port))


class UnixSocketClaim:
    """The right to listen on a path, held until `release`.

    A lock file beside the socket decides between two controllers that start at the same moment; looking whether
    somebody answers cannot, because both would look before either listens. The lock dies with its process, so it is
    never stale. The file itself stays: removing it would reopen the very race it closes.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._lock = -1

    def take(self) -> None:
        """Makes the folder, takes the lock, removes a stale socket. Raises AddressTaken, or OSError from the folder."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PermissionError as error:
            raise AddressTaken(
                f"this user may not listen on {self._path} ({error.filename}: {error.strerror}): run as root, or "
                "choose a path of your own, for agent and controller by HEDDLE_SOUTHBOUND=unix:/path, "
                "for gRPC by HEDDLE_GRPC"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._remove_stale()
        except BlockingIOError:
            os.close(lock)
            raise self._runs() from None
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock

    def _remove_stale(self) -> None:
        try:
            mode = self._path.lstat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise AddressTaken(f"{self._path} exists and is no socket: remove it, or choose another path")
        if _answers(self._path):
            raise self._runs()
        self._path.unlink()

    def _runs(self) -> ControllerRuns:
        return ControllerRuns(f"another controller answers on {self._path}: stop it, or choose another path")

    def listen(self) -> socket.socket:
        """A listening socket on the claimed path that only its owner and group can open."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with private_sockets():
                listener.bind(str(self._path))
        except BaseException:
            listener.close()
            raise
        listener.listen()
        listener.setblocking(False)
        return listener

    def release(self) -> None:
        if self._lock < 0:
            return
        self._path.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = -1


@contextmanager
def private_sockets() -> Iterator[None]:
    """Sockets bound meanwhile are open to their owner and group only. The umask is the whole process's: be brief."""
    before = os.umask(_SOCKET_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def _answers(path: Path) -> bool:
    """Whether somebody accepts connections there. One that is too busy to accept is alive."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True
        except (ConnectionRefusedError, FileNotFoundError):
            return False
    return True


def port_taken(address: TcpAddress, variable: str) -> AddressTaken:
    """The error for a TCP port that cannot be had, naming who has it and the setting that moves ours."""
    owner = port_owner(address.port)
    if owner is None:
        return AddressTaken(f"cannot listen on {address.authority}: is {address.host} an address of this machine?")
    return AddressTaken(f"port {address.port} is taken by {owner}: stop it, or set {variable} to another port")


def check_port_free(address: TcpAddress, variable: str) -> None:
    """Raises AddressTaken when `address` cannot be listened on.

    For listeners whose own error is poor: gRPC only says "failed to bind". Between this look and the real attempt
    somebody else may still come first; then the poor error is what there is.
    """
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
            probe.listen()
    except socket.gaierror as error:
        raise AddressTaken(f"{variable}: {address.host!r} cannot be resolved: {error.strerror}") from error
    except OSError as error:
        raise port_taken(address, variable) from error
