"""The demo's job: ranks and rings of a real NCCL log, laid so that every ring step crosses the spine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from lab_namespace import LabError
from roce_traffic import Connection, ring_all_reduce

from controller.fabric.plan import FabricPlan
from controller.formats import nccl
from controller.formats.nccl_job import NcclJob, hosts_by_rank, job_from_log

_SHARED_LOG = Path(__file__).resolve().parents[2] / "shared/inputs/nccl/nccl-392-roce-16rank-2.5.7.log"


@dataclass(frozen=True, slots=True)
class RingJob:
    """`hosts[rank]`, and one ring per channel as rank numbers. `size_bytes` is the buffer that is all-reduced."""

    hosts: tuple[str, ...]
    rings: tuple[tuple[int, ...], ...]
    size_bytes: int
    source: str

    def connections(self, queue_pairs: int, seed: int) -> list[Connection]:
        """What the job sends: one pipelined ring per distinct channel order, with its channels' share of the buffer."""
        result: list[Connection] = []
        for ring in dict.fromkeys(self.rings):
            share = self.size_bytes * self.rings.count(ring) // len(self.rings)
            offset = len(result)
            result += [
                replace(c, gate=None if c.gate is None else c.gate + offset)
                for c in ring_all_reduce([self.hosts[r] for r in ring], share, queue_pairs=queue_pairs, seed=seed)
            ]
        return result


def default_log() -> Path:
    """A real log where one lies beside the project, else the project's own sample."""
    return _SHARED_LOG if _SHARED_LOG.is_file() else nccl.sample_path()


def crossing_order(plan: FabricPlan, hosts_per_leaf: int | None = None) -> tuple[str, ...]:
    """Hosts in turn from each leaf, so that neighbours in a ring never share one."""
    by_leaf: dict[str, list[str]] = {}
    for host in plan.hosts:
        by_leaf.setdefault(host.switch, []).append(host.label)
    columns = [names[:hosts_per_leaf] for names in by_leaf.values()]
    height = min(len(names) for names in columns)
    return tuple(names[row] for row in range(height) for names in columns)


def job_from(log: Path, plan: FabricPlan, size_bytes: int) -> RingJob:
    """The log's job on this fabric. Raises the readers' errors, and LabError when the log shows no whole ring."""
    found: NcclJob = job_from_log(nccl.load(log))
    if not found.rings:
        raise LabError(f"{log}: no complete ring in it; {'; '.join(found.remarks)}")
    hosts = hosts_by_rank(found, crossing_order(plan))
    if len(set(hosts)) < len(hosts):
        raise LabError(f"{log}: several ranks share a host on this fabric; give a log with one rank per machine")
    return RingJob(hosts, found.rings, size_bytes, log.name)


def small_ring(plan: FabricPlan, size_bytes: int) -> RingJob:
    """Half the hosts of each leaf in one ring; the other half is left for background traffic."""
    per_leaf = len(plan.hosts) // len({h.switch for h in plan.hosts})
    hosts = crossing_order(plan, per_leaf // 2)
    return RingJob(hosts, (tuple(range(len(hosts))),), size_bytes, "half of each leaf's hosts")
