"""Options that several commands share, and where the controller is that a command should talk to."""

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.client import address_or_default
from controller.cli.errors import bad_input
from controller.jobs.collective import Algorithm, Operation
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
# What describes a collective, as `announce` and `advise` take it.
JobFileArgument = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="Job file, YAML or JSON.", show_default=False)
]
OperationOption = Annotated[Operation | None, typer.Option(help="Collective operation.", show_default=False)]
SizeOption = Annotated[
    str | None,
    typer.Option("--bytes", metavar="SIZE", help="Buffer per rank: 268435456 or 256MiB.", show_default=False),
]
RanksOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST,...",
        help="Host of each rank, in rank order: names, addresses or gpu[01-16].",
        show_default=False,
    ),
]
AlgorithmOption = Annotated[
    Algorithm | None, typer.Option(help="Left out: the operation's usual one.", show_default=False)
]


def address(ctx: typer.Context, after_command: str | None) -> str:
    """As gRPC takes it. --controller is read before and after the command's name; the later one wins."""
    text = address_or_default(after_command or ctx.find_root().params.get("controller"))
    try:
        parsed = parse_address(text)
    except ValueError as error:
        raise bad_input(f"the controller's address: {error}") from error
    return parsed.authority if isinstance(parsed, TcpAddress) else str(parsed)
