"""The `heddle` command: its list of commands, its global options, and how any failure ends. What a command does is
decided in its own module.

Nothing heavy is imported here or at the top of those modules: `heddle --help` must come at once, and gRPC, matplotlib
and numpy take longer than everything else together.
"""

import os
import sys
from collections.abc import Sequence

import typer

from controller.cli import lab, output
from controller.cli.advise import advise
from controller.cli.announce import announce
from controller.cli.cabling import cabling
from controller.cli.diff import diff
from controller.cli.drain import drain_app, undrain_app
from controller.cli.errors import CommandError, ExitCode, bad_input
from controller.cli.events import events
from controller.cli.explain import explain_app
from controller.cli.export import export_command
from controller.cli.fuzz import fuzz
from controller.cli.options import ControllerOption
from controller.cli.plans import plan, withdraw
from controller.cli.run import run
from controller.cli.simulate import simulate
from controller.cli.topology import topology
from controller.cli.version import version
from controller.formats.problems import FileFormatError

FABRIC, JOBS, LAB, CLONE = "Fabric", "Jobs", "Mininet (needs root)", "This clone (through ./heddle)"
SIMULATION = "Simulation"

app = typer.Typer(
    name="heddle",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Heddle gives every announced elephant flow of an AI fabric its own path, with proof.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong input, 3 no controller. HEDDLE_DEBUG=1 shows tracebacks.",
)


@app.callback()
def _global_options(controller: ControllerOption = None) -> None:
    """Options before the command's name; `options.address` reads them."""


app.command(rich_help_panel=FABRIC)(run)
app.command(rich_help_panel=FABRIC)(topology)
app.command(rich_help_panel=FABRIC)(cabling)
app.command("export", rich_help_panel=FABRIC)(export_command)
app.command(rich_help_panel=FABRIC)(diff)
app.add_typer(drain_app, name="drain", rich_help_panel=FABRIC)
app.add_typer(undrain_app, name="undrain", rich_help_panel=FABRIC)
app.command(rich_help_panel=FABRIC)(events)
app.command(rich_help_panel=FABRIC)(version)
app.command(rich_help_panel=JOBS)(advise)
app.command(rich_help_panel=JOBS)(announce)
app.command(rich_help_panel=JOBS)(plan)
app.command(rich_help_panel=JOBS)(withdraw)
app.add_typer(explain_app, name="explain", rich_help_panel=JOBS)
app.command(rich_help_panel=SIMULATION)(fuzz)
app.command(rich_help_panel=SIMULATION)(simulate)
app.command(rich_help_panel=LAB, context_settings=lab.PASS_THROUGH)(lab.fabric)
app.command(rich_help_panel=LAB, context_settings=lab.PASS_THROUGH)(lab.demo)


def _launchers(name: str, summary: str) -> None:
    """A command that the ./heddle launcher carries out, listed so that a newcomer finds it."""

    @app.command(name, help=summary, rich_help_panel=CLONE, context_settings=lab.PASS_THROUGH)
    def _through_launcher(ctx: typer.Context) -> None:
        again = " ".join(["./heddle", name, *ctx.args])
        raise bad_input(f"'{name}' belongs to the launcher in the clone's root folder: run {again} there")


_launchers("setup", "Set this clone up: packages, environment, stubs.")
_launchers("test", "Run all checks and tests; with arguments, only pytest with them.")
_launchers("bench", "Run a benchmark by name; without one, list them.")


def invoke(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. Every failure is printed as sentences on standard error."""
    try:
        app(args=list(arguments), prog_name="heddle")
    except SystemExit as end:  # How typer ends, also after its own messages about wrong options.
        return end.code if isinstance(end.code, int) else ExitCode.FAILED
    except Exception as error:
        if _debugging():
            raise
        problems, code = _explained(error)
        output.complain(problems)
        return code
    return ExitCode.OK


def _explained(error: Exception) -> tuple[Sequence[str], int]:
    """What to say about a failure, and the exit code."""
    match error:
        case CommandError():
            return error.problems, error.exit_code
        case FileFormatError():
            return str(error).splitlines(), ExitCode.BAD_INPUT
        case _:
            return [
                f"this is a bug in Heddle: {type(error).__name__}: {error} (HEDDLE_DEBUG=1 shows where)"
            ], ExitCode.FAILED


def _debugging() -> bool:
    return os.environ.get("HEDDLE_DEBUG", "") not in ("", "0")


def main() -> None:
    sys.exit(invoke(sys.argv[1:]))


if __name__ == "__main__":
    main()
