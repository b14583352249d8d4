"""From an NCCL log to what Heddle is told about the job: its ranks, rings and queue pairs.

It decides which facts of the log make a job and how its machines match the fabric's hosts. It does not decide the
operation or its size: NCCL does not log those at INFO.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.formats.nccl import Communicator, NcclLog, NcclLogError
from controller.formats.problems import FileProblem

MAX_RANKS = 65536
QUEUE_PAIRS_SETTING = "NCCL_IB_QPS_PER_CONNECTION"
MAX_QUEUE_PAIRS = 128  # ncclIbMaxQps in NCCL's net_ib.


class RankMappingError(ValueError):
    """The job's ranks do not fit the fabric's hosts; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class NcclJob:
    """`machines[rank]` is the host name in the log, or None. `rings` are by channel, each a permutation of the ranks.

    `queue_pairs` is per connection. `remarks` say what the log leaves open, one sentence each.
    """

    machines: tuple[str | None, ...]
    rings: tuple[tuple[int, ...], ...]
    queue_pairs: int
    remarks: tuple[str, ...]


def job_from_log(log: NcclLog, communicator: int = 0) -> NcclJob:
    """The job of the log's largest communicator, or of another one by its place in `log.communicators`.

    Raises NcclLogError if the log does not tell how many ranks there are, or sets a number of queue pairs that is none.
    """
    chosen = log.communicators[communicator]
    problems = []
    if chosen.n_ranks is None:
        what = "it does not say how many ranks the job has"
        problems.append((what, 'keep the lines "comm ... rank ... nranks ..." or "Channel 00/02 : 0 1 ..." of rank 0'))
    elif chosen.n_ranks > MAX_RANKS:
        problems.append((f"{chosen.n_ranks} ranks, more than the limit of {MAX_RANKS}", "check the log"))
    setting = log.settings.get(QUEUE_PAIRS_SETTING, "1")
    queue_pairs = int(setting) if setting.isdecimal() and len(setting) < 4 else 0
    if not 1 <= queue_pairs <= MAX_QUEUE_PAIRS:
        cure = f"set it to a number from 1 to {MAX_QUEUE_PAIRS}"
        problems.append((f'{QUEUE_PAIRS_SETTING} is "{setting[:40]}"', cure))
    if problems or chosen.n_ranks is None:
        raise NcclLogError(FileProblem(log.filename, 0, what, cure) for what, cure in problems)
    machines = tuple(chosen.ranks[rank].host if rank in chosen.ranks else None for rank in range(chosen.n_ranks))
    rings = tuple(chosen.rings[channel] for channel in sorted(chosen.rings))
    return NcclJob(machines, rings, queue_pairs, tuple(_remarks(log, chosen, machines)))


def _remarks(log: NcclLog, chosen: Communicator, machines: Sequence[str | None]) -> list[str]:
    remarks = []
    if chosen.incomplete_rings:
        channels = _some([str(channel) for channel in chosen.incomplete_rings])
        rings = (
            f"ring of channel {channels} is"
            if len(chosen.incomplete_rings) == 1
            else f"rings of channels {channels} are"
        )
        remarks.append(f"the {rings} not complete in the log: collect the logs of all ranks")
    elif not chosen.rings:
        remarks.append("the log shows no ring: collect the log of rank 0")
    if unknown := [str(rank) for rank, machine in enumerate(machines) if machine is None]:
        remarks.append(f"the log does not say on which host ranks {_some(unknown)} are")
    if others := len(log.communicators) - 1:
        count = "1 other communicator is" if others == 1 else f"{others} other communicators are"
        remarks.append(f"{count} in the log; this one has {len(machines)} ranks")
    if log.skipped_lines:
        count = "1 torn line was" if log.skipped_lines == 1 else f"{log.skipped_lines} torn lines were"
        remarks.append(f"{count} skipped; the first is line {log.first_skipped}")
    return remarks


def hosts_by_rank(job: NcclJob, fabric_hosts: Sequence[str]) -> tuple[str, ...]:
    """The fabric's host for each rank.

    If the fabric has the machines that the log names, those. Otherwise in the order of `fabric_hosts`: one host for
    each machine if the log tells every rank's machine, else one host for each rank. Raises RankMappingError.
    """
    known = set(fabric_hosts)
    named = [machine for machine in job.machines if machine is not None]
    missing = sorted(set(named) - known)
    if named and len(missing) < len(set(named)):
        return _by_name(job, missing)
    if len(known) < len(fabric_hosts):
        twice = sorted(host for host in known if fabric_hosts.count(host) > 1)
        raise RankMappingError(f"hosts given more than once: {_some(twice)}; give each host once")
    # Ranks of one machine share a host only if every rank's machine is known; half a picture would be a wrong one.
    whole = len(named) == len(job.machines)
    units: list[str | int] = list(dict.fromkeys(named)) if whole else list(range(len(job.machines)))
    if len(units) > len(fabric_hosts):
        kind = "machines" if whole else "ranks"
        left = _some([str(unit) for unit in units[len(fabric_hosts) :]])
        raise RankMappingError(
            f"the job has {len(units)} {kind} and {len(fabric_hosts)} hosts are given: none is left for {kind} {left}; "
            "give more hosts, or a smaller job"
        )
    host_of = dict(zip(units, fabric_hosts, strict=False))
    return tuple(
        host_of[machine if whole and machine is not None else rank] for rank, machine in enumerate(job.machines)
    )


def _by_name(job: NcclJob, missing: Sequence[str]) -> tuple[str, ...]:
    homeless = [str(rank) for rank, machine in enumerate(job.machines) if machine is None]
    problems = []
    if missing:
        problems.append(f"the fabric has no host named {_some(missing)}, but has others that the log names")
    if homeless:
        problems.append(f"the log does not say on which host ranks {_some(homeless)} are")
    if problems:
        raise RankMappingError("; ".join(problems) + "; correct the names, or collect the logs of all ranks")
    return tuple(machine for machine in job.machines if machine is not None)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
