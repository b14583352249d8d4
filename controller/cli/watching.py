"""Follows a controller: asks again and again, outlives its restarts, shows each new answer once.

What is asked and how it looks is the command's business.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from rich.console import RenderableType
from rich.live import Live

from controller.cli import output
from controller.cli.client import Controller, connect
from controller.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    from google.protobuf.message import Message

RETRY_S = 1.0

Answer = TypeVar("Answer", bound="Message")
# Asks the controller; the argument is the answer before, None for the first and after a reconnection.
Ask = Callable[[Controller, Answer | None], Answer]


def follow(address: str, ask: Ask[Answer], *, sleep: Callable[[float], None] = time.sleep) -> Iterator[Answer]:
    """Every answer that differs from the one before, for ever.

    CommandError when no controller is there at the start, or when it refuses; a controller that goes away later is
    waited for. A restarted one counts its revisions anew, so after a loss the question starts from nothing.
    """
    with connect(address) as controller:
        previous: Answer | None = None
        shown: Answer | None = None
        while True:
            try:
                previous = ask(controller, previous)
            except CommandError as error:
                if error.exit_code is not ExitCode.NO_CONTROLLER:
                    raise
                if previous is not None:
                    output.say(f"the controller at {address} went away; waiting for it to come back")
                previous = None
                sleep(RETRY_S)
                continue
            if previous != shown:
                shown = previous
                yield previous


def show(answers: Iterable[Answer], view: Callable[[Answer], RenderableType], *, as_json: bool) -> None:
    """Redraws in place on a terminal; else prints each answer below the one before (JSON: one line each).

    Returns on Ctrl-C, which is how a watch ends.
    """
    with suppress(KeyboardInterrupt):
        if as_json:
            for answer in answers:
                output.print_json(output.as_plain(answer), compact=True)
        elif sys.stdout.isatty():
            _redraw(view(answer) for answer in answers)
        else:
            for answer in answers:
                output.stdout().print(view(answer))


def _redraw(views: Iterable[RenderableType]) -> None:
    with Live(console=output.stdout(), auto_refresh=False, vertical_overflow="ellipsis") as live:
        for view in views:
            live.update(view, refresh=True)
