"""A job from an NCCL log: ranks, rings and queue pairs from the log; its id, operation and size, which NCCL does not
log, from options. How a log is read is decided in `controller.formats.nccl`.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from controller.cli import output
from controller.cli.errors import bad_input
from controller.cli.job_file import JobFile
from controller.cli.job_flags import OPTIONS, fields_of
from controller.formats.nccl import load
from controller.formats.nccl_job import NcclJob, RankMappingError, hosts_by_rank, job_from_log

_FROM_THE_LOG = {"ranks": "--ranks", "rings": "--rings"}


def job_from_nccl_log(log: Path, hosts: str | None, flags: Mapping[str, object]) -> JobFile:
    """`hosts`: the fabric's hosts, in the order of the log's machines; None when the log names them itself.

    Says on standard error what the log leaves open. NcclLogError and CommandError list what is wrong.
    """
    fields, problems = fields_of(flags)
    problems += [
        f"{_FROM_THE_LOG[name]}: the NCCL log says that; leave it out" for name in _FROM_THE_LOG if name in flags
    ]
    needed = [option for name, option in OPTIONS.items() if name not in _FROM_THE_LOG and name not in flags]
    if needed:
        problems.append(f"missing: {', '.join(needed)}; NCCL does not log them")
    if problems:
        raise bad_input(problems)
    job = job_from_log(load(log))
    for remark in job.remarks:
        output.say(f"{log}: {remark}")
    ranks = _ranks(job, hosts)
    from_log = {
        "ranks": ranks,
        # Several ranks of one machine stand on one host.
        "ranks_per_host": max(Counter(ranks).values()),
        "rings": [list(ring) for ring in job.rings],
        "queue_pairs": job.queue_pairs,
    }
    return JobFile.model_validate({**from_log, **fields})


def _ranks(job: NcclJob, hosts: str | None) -> list[str]:
    if hosts is not None:
        given = [host.strip() for host in hosts.split(",")]
        if not all(given):
            raise bad_input("--hosts: an empty name between commas: write --hosts h1,h2,h3")
        try:
            return list(hosts_by_rank(job, given))
        except RankMappingError as error:
            raise bad_input(f"--hosts: {error}") from error
    unknown = [rank for rank, machine in enumerate(job.machines) if machine is None]
    if unknown:
        raise bad_input(
            f"the log does not say where {len(unknown)} of {len(job.machines)} ranks are, rank {unknown[0]} first: "
            "name the hosts in rank order with --hosts, or collect the logs of all ranks"
        )
    return [machine for machine in job.machines if machine is not None]
