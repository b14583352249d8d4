"""`heddle advise`: where a job should run and in which order its ranks should lie, before it is announced.

The collective comes from a job file or from options, as for `heddle announce`; what is best is the controller's to say.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import output
from controller.cli.announce import as_message
from controller.cli.client import connect
from controller.cli.errors import bad_input
from controller.cli.options import ControllerOption, JsonOption, address
from controller.jobs.collective import Algorithm, Operation

if TYPE_CHECKING:
    from heddle.v1 import advice_pb2

    from controller.cli.job_file import JobFile

# What asks for advice need not have a name yet.
_UNNAMED = "advice"


def advise(
    ctx: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Job file, YAML or JSON.", show_default=False)
    ] = None,
    op: Annotated[Operation | None, typer.Option(help="Collective operation.", show_default=False)] = None,
    size: Annotated[
        str | None,
        typer.Option("--bytes", metavar="SIZE", help="Buffer per rank: 268435456 or 256MiB.", show_default=False),
    ] = None,
    ranks: Annotated[
        str | None, typer.Option(metavar="HOST,...", help="Host of each rank, in rank order.", show_default=False)
    ] = None,
    algorithm: Annotated[
        Algorithm | None, typer.Option(help="Left out: the operation's usual one.", show_default=False)
    ] = None,
    ranks_per_host: Annotated[
        int, typer.Option(min=1, help="Consecutive ranks that share a server.", show_default=False)
    ] = 1,
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
    given: dict[str, object] = {"operation": op, "size_bytes": size, "ranks": ranks, "algorithm": algorithm}
    flags = {name: value for name, value in given.items() if value is not None}
    collective = as_message(_job(file, flags, ranks_per_host))
    free = [host.strip() for host in candidates.split(",")] if candidates else []
    with connect(address(ctx, controller)) as connected:
        answer = connected.advise(collective, free)
    if as_json:
        output.print_json(output.as_plain(answer))
    else:
        _show(answer)


def _job(file: Path | None, flags: dict[str, object], ranks_per_host: int) -> "JobFile":
    from controller.cli.job_file import load_job
    from controller.cli.job_flags import job_from_flags

    if file is None:
        return job_from_flags({"job_id": _UNNAMED, "ranks_per_host": ranks_per_host, **flags})
    if flags or ranks_per_host != 1:
        raise bad_input("the job file says everything: change it there, or leave the file out and use options only")
    return load_job(file)


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
