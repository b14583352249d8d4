"""`heddle export`: the fabric as it is, or a plan, in the form that a scheduler or another tool reads.

Forms are decided in `controller.formats.export`; this module asks and writes.
"""

from pathlib import Path
from typing import Annotated

import typer

from controller.cli import output
from controller.cli.cabling import PlanOption
from controller.cli.client import connect
from controller.cli.errors import CommandError, bad_input
from controller.cli.options import ControllerOption, JsonOption, address
from controller.formats.targets import Target


def export_command(
    ctx: typer.Context,
    target: Annotated[Target, typer.Argument(metavar="FORMAT", help=", ".join(Target), show_default=False)],
    plan: PlanOption = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write there (default: standard output).", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Write the fabric for a scheduler: what is up now, or with --plan what was meant."""
    from controller.cli.fabric_seen import seen_fabric
    from controller.fabric.cabling import of_seen
    from controller.formats import plan_files
    from controller.formats.export import ExportError, export

    if plan is not None:
        meant = plan_files.load(plan)
    else:
        with connect(address(ctx, controller)) as connected:
            answer = connected.topology()
        meant = of_seen(seen_fabric(answer), "heddle")
    try:
        text = export(meant, target)
    except ExportError as error:
        raise bad_input(error.problems) from error
    for remark in meant.remarks:
        output.say(f"remark: {remark}")
    if to is not None:
        _write(text, to)
    if as_json:
        unusable = [f"{c.a} to {c.b}: {c.state}" for c in meant.cables if not c.usable]
        output.print_json({"format": target.value, "text": text, "unusable_cables": unusable})
    elif to is None:
        print(text, end="", flush=True)


def _write(text: str, to: Path) -> None:
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {to}: {error.strerror or error}") from error
    output.say(f"wrote {to}")
