"""Options that several commands share, and where the controller is that a command should talk to."""

from typing import Annotated

import typer

from controller.cli.client import address_or_default
from controller.cli.errors import bad_input
from controller.runtime.addresses import TcpAddress, parse_address

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON alone on standard output.")]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Keep showing it as it changes, until Ctrl-C.")]
ControllerOption = Annotated[
    str | None,
    typer.Option(
        "--controller",
        metavar="HOST:PORT",
        help="The controller's gRPC address (default: HEDDLE_GRPC, else 127.0.0.1:50051).",
        show_default=False,
    ),
]


def address(ctx: typer.Context, after_command: str | None) -> str:
    """As gRPC takes it. --controller is read before and after the command's name; the later one wins."""
    text = address_or_default(after_command or ctx.find_root().params.get("controller"))
    try:
        parsed = parse_address(text)
    except ValueError as error:
        raise bad_input(f"the controller's address: {error}") from error
    return parsed.authority if isinstance(parsed, TcpAddress) else str(parsed)
