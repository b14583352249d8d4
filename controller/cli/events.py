"""`heddle events`: what has happened to fabric and plan, and, when asked to, whatever happens from now on."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import output
from controller.cli.client import connect
from controller.cli.errors import CommandError, ExitCode
from controller.cli.options import ControllerOption, JsonOption, address
from controller.cli.watching import RETRY_S

if TYPE_CHECKING:
    from heddle.v1 import events_pb2

FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on with whatever happens, until Ctrl-C.")]


def events(
    ctx: typer.Context,
    follow: FollowOption = False,
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Show what has happened to fabric and plan, with causes and how long each repair took."""
    where = address(ctx, controller)
    show = _print_json if as_json else _print_lines
    with suppress(KeyboardInterrupt):
        for response in following(where) if follow else _once(where):
            show(response)


def _once(where: str) -> Iterator["events_pb2.WatchEventsResponse"]:
    from heddle.v1 import events_pb2

    with connect(where) as connected:
        yield from connected.events(events_pb2.WatchEventsRequest())


def following(where: str, *, sleep: Callable[[float], None] = time.sleep) -> Iterator["events_pb2.WatchEventsResponse"]:
    """Everything, for ever; a controller that goes away is waited for, and nothing is shown twice."""
    from heddle.v1 import events_pb2

    request = events_pb2.WatchEventsRequest(follow=True)
    with connect(where) as connected:
        while True:
            try:
                for response in connected.events(request):
                    request.run_id = response.run_id
                    if response.events:
                        request.after_sequence = response.events[-1].sequence
                    yield response
            except CommandError as error:
                if error.exit_code is ExitCode.BAD_INPUT:
                    raise
                output.say(f"the controller at {where} went away; waiting for it to come back")
            sleep(RETRY_S)


def _print_json(response: "events_pb2.WatchEventsResponse") -> None:
    """One line for each event."""
    _tell_missed(response.missed)
    for event in response.events:
        output.print_json({"run_id": response.run_id, **output.as_plain(event)}, compact=True)


def _print_lines(response: "events_pb2.WatchEventsResponse") -> None:
    _tell_missed(response.missed)
    for event in response.events:
        at = datetime.fromtimestamp(event.time_s).astimezone().isoformat(sep=" ", timespec="milliseconds")
        line = f"{at[:-6]} {event.sequence:>5} {event.topic:<10} {event.message}"
        output.stdout().print(line, markup=False, soft_wrap=True)


def _tell_missed(missed: int) -> None:
    if missed:
        output.say(f"{missed} earlier events are not remembered any more")
