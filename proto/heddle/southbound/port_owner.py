"""Which process listens on a TCP port, as far as /proc lets this user see. It only looks; it stops nothing.

Beside `framing`, because agent and controller both explain ports that are taken, and share nothing else. What to do
about one is said by whoever wanted it.

The form of /proc/net/tcp is that of proc_pid_net(5): the local address as hexadecimal "ADDRESS:PORT", the state
(0A is LISTEN), the user id and the socket's inode, which /proc/PID/fd points to.
"""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

_LISTEN = "0A"
_LOCAL_ADDRESS, _STATE, _USER_ID, _INODE = 1, 3, 7, 9


@dataclass(frozen=True, slots=True)
class PortOwner:
    """`pid` is None when the listener belongs to somebody whose processes this user may not look into."""

    port: int
    pid: int | None
    name: str
    user: str

    def __str__(self) -> str:
        if self.pid is None:
            return f"a process of user {self.user} (its pid is visible to root only)"
        return f"{self.name} (pid {self.pid}, user {self.user})"


def port_owner(port: int, proc: Path = Path("/proc")) -> PortOwner | None:
    """Who listens on TCP `port`, IPv4 or IPv6, in this network namespace; None when nobody does."""
    sockets = _listening_sockets(port, proc)
    if not sockets:
        return None
    inode, user_id = sockets[0]
    pid = _pid_with_socket(inode, proc)
    return PortOwner(port, pid, _process_name(pid, proc) if pid is not None else "", _user_name(user_id))


def _listening_sockets(port: int, proc: Path) -> list[tuple[str, int]]:
    """(inode, user id) of every listener on `port`."""
    found = []
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue  # A kernel without IPv6 has no tcp6.
        rows = [line.split() for line in lines]
        here = [row for row in rows if row[_STATE] == _LISTEN and _port(row[_LOCAL_ADDRESS]) == port]
        found += [(row[_INODE], int(row[_USER_ID])) for row in here]
    return found


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _pid_with_socket(inode: str, proc: Path) -> int | None:
    target = f"socket:[{inode}]"
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        try:
            descriptors = list((process / "fd").iterdir())
        except OSError:
            continue  # Another user's process, or one that has just ended.
        if any(_points_to(descriptor, target) for descriptor in descriptors):
            return int(process.name)
    return None


def _points_to(descriptor: Path, target: str) -> bool:
    try:
        return os.readlink(descriptor) == target
    except OSError:
        return False


def _process_name(pid: int, proc: Path) -> str:
    """The program and its script ("python ryu-manager"), because "python" alone tells an operator nothing."""
    try:
        words = (proc / str(pid) / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
        comm = (proc / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "a process that has just ended"
    script = _script(words[1:])
    return f"{comm} {script}" if comm.startswith("python") and script else comm


def _script(arguments: list[str]) -> str:
    """What an interpreter runs: the module after -m, "-c", or the first argument that is no option."""
    for position, word in enumerate(arguments):
        if word == "-m":
            return " ".join(arguments[position : position + 2])
        if word == "-c":
            return "-c"
        if word and not word.startswith("-"):
            return Path(word).name
    return ""


def _user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)
