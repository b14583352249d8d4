"""What a training job does in one step, as workload generators write it down: computing and collectives by turns.

Decides only the words that the readers (`simai`, `chakra`) share. On which hosts it runs, and what each collective
means there, is decided by who uses it.
"""

from dataclasses import dataclass
from enum import StrEnum

from controller.jobs.collective import Operation


class Group(StrEnum):
    """Among which ranks a collective runs: those that share one shard, one copy, the experts, or copies of experts."""

    TENSOR = "tensor"
    DATA = "data"
    EXPERT = "expert"
    DATA_EXPERT = "data-expert"


@dataclass(frozen=True, slots=True)
class WorkloadStep:
    """`compute_s` seconds on every rank, then, unless `operation` is None, a collective of `size_bytes` in `group`."""

    name: str
    compute_s: float
    operation: Operation | None = None
    group: Group = Group.DATA
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    """`steps` in order. `tensor` ranks share a copy's layer, `expert` of the copies share the experts, and `pipeline`
    stages follow one another. `ranks` is how many it was written for, 0 where the file does not say. `remarks` tell
    what the file holds that is not in `steps`."""

    source: str
    ranks: int
    tensor: int
    expert: int
    pipeline: int
    steps: tuple[WorkloadStep, ...]
    remarks: tuple[str, ...] = ()
