"""`heddle announce`: tells the controller what a job is about to run, and prints the plan it answers.

The collective comes from the command line, from a job file (`job_file`) or from an NCCL log (`nccl_job`); whether it
makes sense on this fabric is the controller's to say.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import output
from controller.cli.client import connect
from controller.cli.errors import bad_input
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
from controller.cli.plans import FLOWS_SHOWN, AllOption

if TYPE_CHECKING:
    from heddle.v1 import collective_pb2

    from controller.cli.job_file import JobFile


def announce(
    ctx: typer.Context,
    file: JobFileArgument = None,
    job: Annotated[str | None, typer.Option(metavar="ID", help="Job id.", show_default=False)] = None,
    op: OperationOption = None,
    size: SizeOption = None,
    ranks: RanksOption = None,
    rings: Annotated[
        list[str] | None,
        typer.Option(metavar="RANK,...", help="Ring order of one channel; repeat it per channel.", show_default=False),
    ] = None,
    qps: Annotated[int | None, typer.Option(min=1, help="Queue pairs per connection.", show_default=False)] = None,
    algorithm: AlgorithmOption = None,
    ranks_per_host: Annotated[
        int | None, typer.Option(min=1, help="Consecutive ranks that share a server.", show_default=False)
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(min=0, max=7, help="0 to 7: jobs with the higher one are placed first.", show_default=False),
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option(
            metavar="ITERATION:N",
            help="When in an iteration it runs: with the same name, other numbers never run together.",
            show_default=False,
        ),
    ] = None,
    nccl_log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="NCCL_DEBUG=INFO log to take ranks, rings and hosts from.", show_default=False
        ),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            metavar="HOST,...",
            help="This fabric's hosts for the log's machines, in order.",
            show_default=False,
        ),
    ] = None,
    show_all: AllOption = False,
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Announce a job's collective: every flow gets its own path. Announcing it again changes nothing."""
    given: dict[str, object] = {"job_id": job, "operation": op, "size_bytes": size, "ranks": ranks, "rings": rings}
    given |= {"queue_pairs": qps, "algorithm": algorithm}
    given |= {"ranks_per_host": ranks_per_host, "priority": priority, "phase": phase}
    flags = {name: value for name, value in given.items() if value is not None}
    collective = as_message(_job(file, flags, nccl_log, hosts))
    with connect(address(ctx, controller)) as connected:
        answer = connected.announce(collective)
    if as_json:
        output.print_json(output.as_plain(answer))
        return
    from controller.cli.tables import plan_view

    output.stdout().print(plan_view(answer.plan, limit=None if show_all else FLOWS_SHOWN))
    changed = f"{answer.rules_changed} rules changed on the switches"
    output.stdout().print(changed if answer.rules_changed else "nothing changed: the switches hold this plan already")


def _job(file: Path | None, flags: dict[str, object], nccl_log: Path | None, hosts: str | None) -> "JobFile":
    from controller.cli.job_flags import job_of
    from controller.cli.nccl_job import job_from_nccl_log

    if hosts is not None and nccl_log is None:
        raise bad_input("--hosts goes with --nccl-log; without a log, name the host of each rank with --ranks")
    if nccl_log is not None:
        if file is not None:
            raise bad_input("a job file and --nccl-log both say what runs: give one of them")
        return job_from_nccl_log(nccl_log, hosts, flags)
    return job_of(file, flags)


def as_message(job: "JobFile") -> "collective_pb2.Collective":
    """The announcement's message; what the job leaves out is left to the controller."""
    from heddle.v1 import collective_pb2 as pb

    return pb.Collective(
        job_id=job.job_id,
        # The names differ by the prefix only; protobuf takes an enumeration's value by name.
        operation=f"OPERATION_{job.operation.name}",
        algorithm=f"ALGORITHM_{job.algorithm.name if job.algorithm else 'UNSPECIFIED'}",
        ranks=job.ranks,
        size_bytes=job.size_bytes,
        rings=[pb.Ring(ranks=ring) for ring in job.rings],
        queue_pairs=job.queue_pairs,
        ranks_per_host=job.ranks_per_host,
        priority=job.priority,
        phase=pb.Phase(iteration=job.phase.iteration, number=job.phase.number) if job.phase else None,
        ports=[
            pb.QueuePairPorts(src_rank=p.src_rank, dst_rank=p.dst_rank, udp_source_ports=p.udp_source_ports)
            for p in job.ports
        ],
    )
