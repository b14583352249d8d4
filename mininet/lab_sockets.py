"""Gives another process's packet sockets larger buffers, from outside.

Open vSwitch's userspace datapath sends for *all* ports through one AF_PACKET socket with the default buffer of
208 KiB. A frame counts against it until its port's qdisc has sent it, so about 90 queued frames anywhere make every
port of every switch drop: ports would share a buffer that no real switch shares. Linux lets a privileged process
duplicate the descriptor (pidfd_getfd(2), kernel 5.6) and set the option on the shared socket; the daemon and the
machine's defaults stay as they are.
"""

import ctypes
import os
import socket

_SYS_PIDFD_GETFD = 438  # the same number on every architecture
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
SEND_BUFFER_BYTES = 64 << 20
RECEIVE_BUFFER_BYTES = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)


def widen_packet_sockets(pid: int) -> bool:
    """Whether the sending socket of `pid` has a wide buffer now; False where the kernel does not allow it.

    All AF_PACKET sockets are widened; the sending one is told by not being bound to an interface. Open vSwitch opens it
    with the first frame it sends, so let it send one before.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # A list, so that every socket is widened whatever comes first.
        return any([_widen(pidfd, fd) for fd in _socket_fds(pid)])  # noqa: C419
    finally:
        os.close(pidfd)


def _socket_fds(pid: int) -> list[int]:
    folder = f"/proc/{pid}/fd"
    found = []
    for name in os.listdir(folder):
        try:
            if os.readlink(f"{folder}/{name}").startswith("socket:"):
                found.append(int(name))
        except FileNotFoundError:
            # Closed since it was listed.
            continue
    return found


def _widen(pidfd: int, fd: int) -> bool:
    """True when `fd` is a packet socket that sends for all interfaces and now is wide."""
    copy = _libc.syscall(_SYS_PIDFD_GETFD, pidfd, fd, 0)
    if copy < 0:
        return False
    with socket.socket(fileno=copy) as shared:
        if shared.family != socket.AF_PACKET:
            return False
        try:
            shared.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
            shared.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        except PermissionError:
            return False
        bound_to = shared.getsockname()[0]
    return not bound_to
