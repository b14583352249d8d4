"""The controller as a process: signals, the parent's life, exit statuses.

Exit status 0: asked to stop. 1: an unexpected error, start again. 2: wrong settings, starting again will not help.
4: another controller runs already, which whoever wanted one can use.
"""

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping

from controller.fabric.plan import FabricPlan
from controller.formats.topology_file import TopologyFileError, load
from controller.runtime import logs
from controller.runtime.addresses import AddressTaken, ControllerRuns
from controller.runtime.application import Application, make_core
from controller.runtime.settings import Settings, SettingsError, read_settings
from controller.runtime.store import StoreError

OK, FAILED, MISCONFIGURED, ANOTHER_RUNS = 0, 1, 2, 4
# Python looks for garbage cycles after every 700 new objects by default, and through everything it holds after every
# 70,000: a plan of 4,096 flows makes a million objects that are no garbage at all, and half its time went there.
_GARBAGE_THRESHOLDS = (50_000, 20, 50)


def run(environment: Mapping[str, str], flags: Mapping[str, str | None], *, exit_with_parent: bool) -> int:
    """The whole life of the process; returns its exit status. Explains failures on standard error."""
    try:
        settings = read_settings(environment, flags)
        plan = load(settings.topology) if settings.topology else None
    except (SettingsError, TopologyFileError) as error:
        return _misconfigured(error)
    logs.set_up(settings.log, settings.log_level)
    # What is loaded by now stays for good.
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    try:
        asyncio.run(_serve(settings, plan, exit_with_parent=exit_with_parent))
    except ControllerRuns as error:
        _explain(error)
        return ANOTHER_RUNS
    except (AddressTaken, StoreError, OSError) as error:
        return _misconfigured(error)
    except Exception:  # noqa: BLE001 - the engine has logged it, with the event that caused it
        return FAILED
    return OK


async def _serve(settings: Settings, plan: FabricPlan | None, *, exit_with_parent: bool) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if exit_with_parent:
        _watch_parent(lambda: loop.call_soon_threadsafe(stopping.set))
    application = Application(settings, make_core(settings, plan))
    try:
        await application.start()
        await application.run_until(stopping)
    finally:
        await application.stop()


def _watch_parent(gone: Callable[[], object]) -> None:
    """Calls `gone` when standard input ends, which is when the parent that holds the other end of the pipe has died.

    A thread, because the loop cannot watch every kind of file that may be there (/dev/null, a terminal).
    """

    def wait() -> None:
        try:
            while os.read(sys.stdin.fileno(), 4096):
                pass
        except (OSError, ValueError):
            pass  # Closed from the start: there is no parent to live for.
        gone()

    threading.Thread(target=wait, name="parent", daemon=True).start()


def _misconfigured(error: Exception) -> int:
    _explain(error)
    return MISCONFIGURED


def _explain(error: Exception) -> None:
    for line in str(error).splitlines():
        print(f"heddle: {line}", file=sys.stderr)
