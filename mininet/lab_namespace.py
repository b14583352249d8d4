"""Private network namespaces: enter an anonymous one, act inside another, and die with the parent.

Nothing here has a name in the file system (no `ip netns`): a namespace lives as long as a process or an open file
refers to it, so a crash leaves nothing behind. What runs inside is decided elsewhere.
"""

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


class LabError(Exception):
    """Something the user can put right; the message says where and how."""


def require_root() -> None:
    if os.geteuid() != 0:
        raise LabError("the lab needs root for network namespaces and Open vSwitch; run it with sudo")


def unshare_network() -> None:
    """Moves the calling thread into a new, empty network namespace. Raises LabError without the privilege."""
    if _libc.unshare(CLONE_NEWNET) != 0:
        raise LabError(f"cannot make a network namespace: {os.strerror(ctypes.get_errno())}; run as root")


def enter_network(fd: int) -> None:
    """Moves the calling thread into the network namespace that `fd` refers to."""
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        raise LabError(f"cannot enter a network namespace: {os.strerror(ctypes.get_errno())}")


@contextmanager
def private_network() -> Iterator[int]:
    """The calling thread, and what it starts, lives in a new namespace inside the block; yields the old one's fd.

    IPv6 is off for every interface made in it: router solicitations and neighbour discovery of the switch side of
    each cable would be noise on a fabric that is measured. Other threads of the process stay where they are.
    """
    require_root()
    # `thread-self`: /proc/self is the main thread, which may be elsewhere.
    outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        unshare_network()
        try:
            run(["ip", "link", "set", "lo", "up"])
            disable_ipv6()
            yield outside
        finally:
            enter_network(outside)
    finally:
        os.close(outside)


def disable_ipv6() -> None:
    """Turns IPv6 off for all present and coming interfaces of the calling thread's namespace, if the kernel has it."""
    for which in ("default", "all"):
        setting = Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6")
        if setting.exists():
            setting.write_text("1")


def inside(pid: int, action: Callable[[], T]) -> T:
    """Runs `action` in the network namespace of process `pid` and returns (or raises) what it does.

    A thread of its own is used and thrown away, so that the caller's namespace never changes, whatever happens.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            with open(f"/proc/{pid}/ns/net", "rb") as namespace:
                enter_network(namespace.fileno())
            results.append(action())
        except BaseException as error:  # noqa: BLE001 - handed over to the caller below, whatever it is
            errors.append(error)

    thread = threading.Thread(target=body, name=f"inside-{pid}")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def die_with_parent() -> None:
    """For `preexec_fn`: the kernel ends this process when the thread that started it ends, even by SIGKILL."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(command: Sequence[str], *, stdin: str | None = None, check: bool = True) -> str:
    """Runs a command to its end and returns its output. Raises LabError with the command's own words."""
    done = subprocess.run(list(command), input=stdin, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        shown = " ".join(command)
        raise LabError(f"`{shown[:300]}` failed: {(done.stderr or done.stdout).strip()[:2000]}")
    return done.stdout


def stop_process(process: subprocess.Popen[bytes] | subprocess.Popen[str], patience_s: float = 3.0) -> None:
    """Ends one process by its own handle: politely, then not."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
