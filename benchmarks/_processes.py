"""Programs under measurement: started with their output in a file, ended by their own handle, and what they cost.

Nothing is measured here but processor time; what a program is for is the benchmark's business.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _patch_fabric import ROOT
from lab_namespace import die_with_parent, stop_process

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@contextmanager
def program(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with open(log, "wb") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=said, stderr=said, env=os.environ | environment, preexec_fn=die_with_parent
        )
    try:
        yield process
    finally:
        stop_process(process, 10.0)


def ryu_manager(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("ryu-manager")), "--ofp-tcp-listen-port", "6653", *arguments]


def cpu_seconds(pid: int) -> dict[str, float]:
    """Processor time so far of a process, as "agent", and of its children together, as "controller"."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    result = {"agent": _cpu_s(pid)}
    if children:
        result["controller"] = sum(_cpu_s(int(child)) for child in children)
    return result


def _cpu_s(pid: int) -> float:
    # The name, in brackets, may hold anything; user and system time are fields 14 and 15 of proc_pid_stat(5).
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
