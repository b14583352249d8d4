"""Puts what stands for hardware before what does not: switch daemon first, then NICs, then everything else.

Linux groups processes by session for scheduling (autogroup, sched(7)), and niceness only counts inside a group. So each
favoured process gets a session of its own, and both it and its group are favoured. Nobody else's priority changes.
"""

import os
from contextlib import suppress
from pathlib import Path

SWITCH_NICENESS = -15
NIC_NICENESS = -10


def favour_self(niceness: int) -> None:
    """Call in a process that has just started. Without the privilege or autogroups, less happens."""
    with suppress(OSError):
        os.setsid()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(niceness))
