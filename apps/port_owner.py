"""Says whether the OpenFlow port is free, and if not, who holds it. It only looks.

The form of /proc/net/tcp is that of proc_pid_net(5): local address as hexadecimal "ADDRESS:PORT", state 0A for LISTEN,
and the inode of the socket, to which /proc/PID/fd points.
"""

import errno
import os
import socket
from pathlib import Path

_LISTEN = "0A"
_LOCAL_ADDRESS, _STATE, _INODE = 1, 3, 9


def port_problem(host: str, port: int) -> str | None:
    """One sentence about what keeps this process from listening on `host`:`port`, or None.

    Without SO_REUSEPORT on purpose: eventlet sets it, and two controllers that both do would share the switches
    between them at random, without a word.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Connections that are still ending (TIME_WAIT) do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                return f"cannot listen on {host}:{port} for switches: {problem.strerror}"
        else:
            return None
    owner = listener(port) or "a process that this user may not see"
    return (
        f"OpenFlow port {port} is taken by {owner}: stop it, "
        f"or give this one another port with --ofp-tcp-listen-port (and tell the switches)"
    )


def listener(port: int, proc: Path = Path("/proc")) -> str | None:
    """The process that listens on TCP `port` in this network namespace, as "ryu-manager app.py (pid 42)"."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(proc / "net" / table, port)}
    if not inodes:
        return None
    pid = next((pid for pid in proc.iterdir() if pid.name.isdigit() and inodes & _descriptors(pid / "fd")), None)
    return f"{_command(pid)} (pid {pid.name})" if pid else None


def _listening(table: Path, port: int) -> list[str]:
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []  # A kernel without IPv6 has no tcp6.
    rows = (line.split() for line in lines)
    return [r[_INODE] for r in rows if r[_STATE] == _LISTEN and int(r[_LOCAL_ADDRESS].rpartition(":")[2], 16) == port]


def _descriptors(folder: Path) -> set[str]:
    found = set()
    try:
        for descriptor in folder.iterdir():
            found.add(os.readlink(descriptor))
    except OSError:
        return found  # Somebody else's process, or one that has just ended.
    return found


def _command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_text(encoding="utf-8", errors="replace").rstrip("\0").split("\0")
    except OSError:
        return "a process that has just ended"
    return " ".join([Path(words[0]).name, *words[1:]])[:120]
