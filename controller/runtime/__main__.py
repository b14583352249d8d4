"""`python -m controller.runtime`: the controller's command line. Flags go before the environment."""

import os
from typing import Annotated

import typer

from controller.runtime.process import run


def main(
    southbound: Annotated[
        str | None,
        typer.Option(help="Where Ryu agents connect: unix:/path or tcp:host:port. [HEDDLE_SOUTHBOUND]"),
    ] = None,
    grpc: Annotated[
        str | None, typer.Option(help="Where callers connect: host:port or unix:/path. [HEDDLE_GRPC]")
    ] = None,
    topology: Annotated[
        str | None, typer.Option(help="A topology file: names, rates, hosts. [HEDDLE_TOPOLOGY]")
    ] = None,
    ovsdb: Annotated[
        str | None, typer.Option(help="Open vSwitch databases, with commas, or auto. [HEDDLE_OVSDB]")
    ] = None,
    qos: Annotated[str | None, typer.Option(help="Set up queues: on or off. [HEDDLE_QOS]")] = None,
    state: Annotated[
        str | None, typer.Option(help="File that remembers jobs over restarts, or none. [HEDDLE_STATE]")
    ] = None,
    log: Annotated[str | None, typer.Option(help="console or json. [HEDDLE_LOG]")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error. [HEDDLE_LOG_LEVEL]")] = None,
    exit_with_parent: Annotated[
        bool, typer.Option("--exit-with-parent", help="Stop when standard input ends.")
    ] = False,
) -> None:
    """Run the Heddle controller. Ryu agents (apps/fabric.py) connect to it, or start it themselves."""
    flags = {
        "HEDDLE_SOUTHBOUND": southbound,
        "HEDDLE_GRPC": grpc,
        "HEDDLE_TOPOLOGY": topology,
        "HEDDLE_OVSDB": ovsdb,
        "HEDDLE_QOS": qos,
        "HEDDLE_STATE": state,
        "HEDDLE_LOG": log,
        "HEDDLE_LOG_LEVEL": log_level,
    }
    raise typer.Exit(run(os.environ, flags, exit_with_parent=exit_with_parent))


if __name__ == "__main__":
    typer.run(main)
