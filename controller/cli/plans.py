"""`heddle plan` and `heddle withdraw`: what was decided, and taking it back."""

from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import output
from controller.cli.client import Controller, connect
from controller.cli.options import ControllerOption, JsonOption, WatchOption, address

if TYPE_CHECKING:
    from heddle.v1 import collective_pb2

# More flows than fit two screens are counted instead of listed, unless asked for.
FLOWS_SHOWN = 40
WATCH_WAIT_S = 30.0

AllOption = Annotated[bool, typer.Option("--all", help=f"Show every flow, not only the first {FLOWS_SHOWN} of a job.")]


def plan(
    ctx: typer.Context,
    job: Annotated[str, typer.Argument(help="Job id; left out: all jobs.", show_default=False)] = "",
    show_all: AllOption = False,
    as_json: JsonOption = False,
    watch: WatchOption = False,
    controller: ControllerOption = None,
) -> None:
    """Show the plan of a job, or of all: the path of each flow, and how near to optimal it is."""
    from controller.cli.tables import plans_view

    where = address(ctx, controller)
    limit = None if show_all else FLOWS_SHOWN
    if watch:
        _watch(where, job, limit, as_json=as_json)
        return
    with connect(where) as connected:
        answer = connected.plans(job)
    if as_json:
        output.print_json(output.as_plain(answer))
    else:
        output.stdout().print(plans_view(answer.plans, limit=limit))


def _watch(where: str, job: str, limit: int | None, *, as_json: bool) -> None:
    from controller.cli.tables import plans_view
    from controller.cli.watching import follow, show

    def ask(
        connected: Controller, previous: "collective_pb2.GetPlanResponse | None"
    ) -> "collective_pb2.GetPlanResponse":
        if previous is None:
            return connected.plans(job)
        return connected.plans(job, newer_than=previous.revision, wait_s=WATCH_WAIT_S)

    show(follow(where, ask), lambda answer: plans_view(answer.plans, limit=limit), as_json=as_json)


def withdraw(
    ctx: typer.Context,
    job: Annotated[str, typer.Argument(help="Job id.", show_default=False)],
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Take a job's rules off the switches; its flows go back to ECMP."""
    with connect(address(ctx, controller)) as connected:
        answer = connected.withdraw(job)
    if as_json:
        output.print_json(output.as_plain(answer))
    else:
        output.stdout().print(f"withdrew {job}: {answer.rules_changed} rules changed", markup=False)
