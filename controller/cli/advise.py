"""`heddle advise`: where a job should run and in which order its ranks should lie, before it is announced.

The collective comes from a job file or from options, as for `heddle announce`; what is best is the controller's to say.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import output
from controller.cli.announce import as_message
from controller.cli.client import connect
from controller.cli.options import (
    AlgorithmOption,
    ControllerOption,
    JobFileArgument,
    JsonOption,
    OperationOption,
    RanksOption,
    SizeOption,
    address,
)

if TYPE_CHECKING:
    from heddle.v1 import advice_pb2

# What asks for advice need not have a name yet.
_UNNAMED = "advice"


def advise(
    ctx: typer.Context,
    file: JobFileArgument = None,
    op: OperationOption = None,
    size: SizeOption = None,
    ranks: RanksOption = None,
    algorithm: AlgorithmOption = None,
    ranks_per_host: Annotated[
        int | None, typer.Option(min=1, help="Consecutive ranks that share a server.", show_default=False)
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            metavar="HOST,...",
            help="Hosts to choose from; left out: the job's own, in another order.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Ask which hosts and which rank order cross the spines least, with the predicted gain. Announces nothing."""
    from controller.cli.job_flags import job_of

    given: dict[str, object] = {"operation": op, "size_bytes": size, "ranks": ranks, "algorithm": algorithm}
    given["ranks_per_host"] = ranks_per_host
    flags = {name: value for name, value in given.items() if value is not None}
    collective = as_message(job_of(file, flags, {"job_id": _UNNAMED, "ranks_per_host": 1}))
    free = [host.strip() for host in candidates.split(",")] if candidates else []
    with connect(address(ctx, controller)) as connected:
        answer = connected.advise(collective, free)
    if as_json:
        output.print_json(output.as_plain(answer))
    else:
        _show(answer)


def _show(answer: "advice_pb2.AdvisePlacementResponse") -> None:
    from rich.table import Table

    table = Table("", "leaves", "flows over spines", "bytes over spines", "fullest link", "one run", box=None)
    for name, found in (("given", answer.given), ("advised", answer.advised)):
        times = (f"{seconds:.6g} s" for seconds in (found.fullest_link_s, found.completion_s))
        table.add_row(name, str(found.leaves), str(found.crossing_flows), f"{found.crossing_bytes:,}", *times)
    console = output.stdout()
    console.print(table)
    for sentence in answer.sentences:
        console.print(sentence, markup=False)
    console.print(f"--ranks {','.join(answer.ranks)}", markup=False, soft_wrap=True)
