"""`heddle cabling`: is the fabric cabled as it was meant to be? A table, JSON, a picture, and an exit code.

What is right and what is wrong is decided by `controller.fabric.cabling_verdict`; this module asks and shows.
"""

from pathlib import Path
from typing import Annotated

import typer

from controller.cli import output
from controller.cli.client import connect
from controller.cli.errors import CommandError, ExitCode, bad_input
from controller.cli.options import ControllerOption, JsonOption, address

PlanOption = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="What was meant: a topology file, or Slurm, PTM, containerlab, SONiC, topograph or NetQ; told apart by "
        "content (default: the controller's topology file).",
        show_default=False,
    ),
]


def cabling(
    ctx: typer.Context,
    plan: PlanOption = None,
    as_json: JsonOption = False,
    png: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the fabric with its faults as a PNG.", show_default=False),
    ] = None,
    controller: ControllerOption = None,
) -> None:
    """Compare the cabling with what was meant. Exit code 0: as meant; 1: faults; 2: the plan is no good."""
    from controller.cli.cabling_view import as_plain, view
    from controller.cli.fabric_seen import meant_plan, seen_fabric
    from controller.fabric.cabling_verdict import verdict
    from controller.formats import plan_files

    meant = plan_files.load(plan) if plan is not None else None
    with connect(address(ctx, controller)) as connected:
        answer = connected.topology(with_plan=meant is None)
    if meant is None:
        if not answer.HasField("plan"):
            raise bad_input("the controller has no topology file to compare with: say what was meant with --plan FILE")
        meant = meant_plan(answer.plan)
    if not meant.cables:
        raise bad_input(f"{plan or meant.name} says nothing about cables: give a plan that does")
    seen = seen_fabric(answer)
    found = verdict(meant, seen)
    if png is not None:
        _draw(found, seen, png)
    if as_json:
        output.print_json(as_plain(found, meant))
    else:
        output.stdout().print(view(found, meant))
    if not found.holds:
        raise typer.Exit(ExitCode.FAILED)


def _draw(found: "object", seen: "object", png: Path) -> None:
    from controller.cli.cabling_view import picture
    from controller.cli.picture import save

    try:
        save(picture(found, seen), png)  # type: ignore[arg-type] # typed there; imported late, as pictures are heavy
    except OSError as error:
        raise CommandError(f"cannot write {png}: {error.strerror or error}") from error
    output.say(f"drew the cabling to {png}")
