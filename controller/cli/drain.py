"""`heddle drain` and `heddle undrain`: a switch or a link is taken out of use, and given back.

What it costs and whether it may be had is the controller's to say; how it looks is `drain_view`'s.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import output
from controller.cli.client import connect
from controller.cli.options import ControllerOption, JsonOption, address

if TYPE_CHECKING:
    from heddle.v1 import maintenance_pb2

drain_app = typer.Typer(
    invoke_without_command=True, help="Take a switch or a link out of use, without loss; alone: list what is avoided."
)
undrain_app = typer.Typer(no_args_is_help=True, help="Give a switch or a link back.")

SwitchArgument = Annotated[str, typer.Argument(help="Name or datapath id.", show_default=False)]
EndArgument = Annotated[str, typer.Argument(help='A switch, or one of its ports: "leaf1:3".', show_default=False)]
ForceOption = Annotated[bool, typer.Option("--force", help="Also where that cuts hosts off.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what it would cost, and change nothing.")]
ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="For whoever looks at the list.", show_default=False)]


@drain_app.callback()
def listed(ctx: typer.Context, as_json: JsonOption = False, controller: ControllerOption = None) -> None:
    """Take a switch or a link out of use, without loss; alone: list what is avoided."""
    if ctx.invoked_subcommand is not None:
        return
    with connect(address(ctx, controller)) as connected:
        answer = connected.drains()
    if as_json:
        output.print_json(output.as_plain(answer))
        return
    from controller.cli.drain_view import drains_view

    output.stdout().print(drains_view(answer.drains))


@drain_app.command("switch")
def drain_switch(
    ctx: typer.Context,
    switch: SwitchArgument,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Take traffic off every link of a switch. It stays so when the switch or the controller restarts."""
    from heddle.v1 import maintenance_pb2 as pb

    target = pb.DrainTarget(switch=switch)
    _drain(address(ctx, controller), target, as_json, reason=reason, force=force, dry_run=dry_run)


@drain_app.command("link")
def drain_link(
    ctx: typer.Context,
    a: EndArgument,
    b: EndArgument,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Take traffic off the cables between two switches; with ports, off one of them."""
    from heddle.v1 import maintenance_pb2 as pb

    target = pb.DrainTarget(link_ends=(a, b))
    _drain(address(ctx, controller), target, as_json, reason=reason, force=force, dry_run=dry_run)


def _drain(
    where: str, target: "maintenance_pb2.DrainTarget", as_json: bool, *, reason: str, force: bool, dry_run: bool
) -> None:
    from heddle.v1 import maintenance_pb2 as pb

    with connect(where) as connected:
        answer = connected.drain(pb.DrainRequest(target=target, reason=reason, force=force, dry_run=dry_run))
    if as_json:
        output.print_json(output.as_plain(answer))
        return
    from controller.cli.drain_view import drained_view

    output.stdout().print(drained_view(answer, dry_run=dry_run))


@undrain_app.command("switch")
def undrain_switch(
    ctx: typer.Context, switch: SwitchArgument, as_json: JsonOption = False, controller: ControllerOption = None
) -> None:
    """Let a switch carry traffic again."""
    from heddle.v1 import maintenance_pb2 as pb

    _undrain(address(ctx, controller), pb.DrainTarget(switch=switch), as_json)


@undrain_app.command("link")
def undrain_link(
    ctx: typer.Context, a: EndArgument, b: EndArgument, as_json: JsonOption = False, controller: ControllerOption = None
) -> None:
    """Let the cables between two switches, or one of them, carry traffic again."""
    from heddle.v1 import maintenance_pb2 as pb

    _undrain(address(ctx, controller), pb.DrainTarget(link_ends=(a, b)), as_json)


def _undrain(where: str, target: "maintenance_pb2.DrainTarget", as_json: bool) -> None:
    with connect(where) as connected:
        answer = connected.undrain(target)
    if as_json:
        output.print_json(output.as_plain(answer))
        return
    from controller.cli.drain_view import undrained_view

    output.stdout().print(undrained_view(answer))
