"""`heddle fabric` and `heddle demo`: hand over to the Mininet scripts, after saying what they need.

They take their own arguments; this module decides nothing about them.
"""

from collections.abc import Sequence
from pathlib import Path

import typer

from controller.cli import repository
from controller.cli.errors import CommandError, bad_input

PASS_THROUGH = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
_HELP = frozenset({"-h", "--help"})


def fabric(ctx: typer.Context) -> None:
    """Bring a topology file up as a Mininet fabric (root): heddle fabric topologies/leafspine-4x4.yaml"""
    arguments = ctx.args
    if not _asks_for_help(arguments):
        if not arguments:
            raise bad_input("say which topology: heddle fabric FILE; the ready ones are in topologies/")
        _require_root("fabric", arguments)
        _check_topology(arguments)
    repository.become("mininet/lab.py", arguments)


def demo(ctx: typer.Context) -> None:
    """Run the demonstration on a Mininet fabric (root): the same job under ECMP and under Heddle."""
    if not _asks_for_help(ctx.args):
        _require_root("demo", ctx.args)
    repository.become("mininet/demo.py", ctx.args)


def _asks_for_help(arguments: Sequence[str]) -> bool:
    return bool(_HELP & set(arguments))


def _require_root(command: str, arguments: Sequence[str]) -> None:
    if repository.effective_user_id() == 0:
        return
    again = " ".join(["sudo ./heddle", command, *arguments])
    raise CommandError(
        f"'heddle {command}' needs root, because it makes network namespaces, virtual links and Open vSwitch bridges: "
        f"run it as {again}"
    )


def _check_topology(arguments: Sequence[str]) -> None:
    """Raises FileFormatError: what is wrong with the file is shown before anything is built."""
    from controller.formats.topology_file import load

    if not arguments[0].startswith("-"):
        load(Path(arguments[0]))
