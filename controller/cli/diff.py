"""`heddle diff`: what switches should hold against what they hold."""

from typing import Annotated

import typer

from controller.cli import output
from controller.cli.client import connect
from controller.cli.options import ControllerOption, JsonOption, address

DIFFERENT = 1
# More differences of one switch than fit a screen are counted instead of listed, unless asked for.
DIFFERENCES_SHOWN = 30


def diff(
    ctx: typer.Context,
    switch: Annotated[
        str, typer.Argument(help="Name or datapath id in hexadecimal; left out: all switches.", show_default=False)
    ] = "",
    read: Annotated[
        bool, typer.Option("--read", help="Read the switches' tables anew first: shows what others just changed.")
    ] = False,
    show_all: Annotated[
        bool, typer.Option("--all", help=f"Show every difference, not only the first {DIFFERENCES_SHOWN} of a switch.")
    ] = False,
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Show what switches should hold and do not, or hold and should not. Exit status 0: equal; 1: different."""
    with connect(address(ctx, controller)) as connected:
        answer = connected.diff(switch, read=read)
    if as_json:
        output.print_json(output.as_plain(answer))
    else:
        from controller.cli.diff_view import diff_view

        output.stdout().print(diff_view(answer, limit=None if show_all else DIFFERENCES_SHOWN))
    if not answer.equal:
        raise typer.Exit(DIFFERENT)
