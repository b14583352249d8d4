"""`heddle topology`: the switches, links and hosts the controller sees, as tables, JSON or a picture."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import output
from controller.cli.client import Controller, connect
from controller.cli.errors import CommandError, bad_input
from controller.cli.options import ControllerOption, JsonOption, WatchOption, address

if TYPE_CHECKING:
    from heddle.v1 import fabric_pb2

WATCH_PERIOD_S = 1.0


def topology(
    ctx: typer.Context,
    as_json: JsonOption = False,
    watch: WatchOption = False,
    png: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the fabric with its link loads as a PNG.", show_default=False),
    ] = None,
    controller: ControllerOption = None,
) -> None:
    """Show switches, links with their loads, hosts and alarms."""
    where = address(ctx, controller)
    if watch:
        if png is not None:
            raise bad_input("--png draws one moment and --watch follows many: use one of them")
        _watch(where, as_json=as_json)
        return
    with connect(where) as connected:
        answer = connected.topology()
    if png is not None:
        _draw(answer, png)
        output.say(f"drew {len(answer.links)} links to {png}")
    if as_json:
        output.print_json(output.as_plain(answer))
    elif png is None:
        from controller.cli.tables import topology_view

        output.stdout().print(topology_view(answer))


def _watch(where: str, *, as_json: bool) -> None:
    from controller.cli.tables import topology_view
    from controller.cli.watching import follow, show

    def ask(
        connected: Controller, previous: "fabric_pb2.GetTopologyResponse | None"
    ) -> "fabric_pb2.GetTopologyResponse":
        if previous is not None:
            time.sleep(WATCH_PERIOD_S)
        return connected.topology()

    show(follow(where, ask), topology_view, as_json=as_json)


def _draw(answer: "fabric_pb2.GetTopologyResponse", png: Path) -> None:
    from controller.cli.fabric_picture import describe
    from controller.cli.picture import save

    try:
        save(describe(answer), png)
    except OSError as error:
        raise CommandError(f"cannot write {png}: {error.strerror or error}") from error
