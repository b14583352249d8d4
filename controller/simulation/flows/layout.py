"""What the collectives of a workload file mean for the hosts of a job.

Decides which ranks form a group. Ranks are numbered as Megatron-LM does: tensor ranks are neighbours, then come the
copies of the model (data), then the stages of the pipeline; neighbouring copies share the experts.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from controller.formats.workload import Group, Workload
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.jobs import Phase, Transfers, collective_transfers
from controller.simulation.flows.wave import Pace

# What a library would choose where a file does not.
USUAL = {Operation.ALL_TO_ALL: Algorithm.DIRECT, Operation.SEND_RECV: Algorithm.DIRECT}


@dataclass(frozen=True, slots=True)
class Scale:
    """Factors on every size and every time of computing, and how many of the file's steps are used (0: all)."""

    size: float = 1.0
    compute: float = 1.0
    steps: int = 0


@dataclass(slots=True)
class Layout:
    """`hosts[rank]` are host names; `ranks_per_host` consecutive ranks share a server."""

    fabric: FlowFabric
    hosts: tuple[str, ...]
    workload: Workload
    ranks_per_host: int = 1
    pace: Pace | None = None
    _made: dict[tuple[Operation, Group, int], Transfers] = field(default_factory=dict)

    @property
    def whole(self) -> int:
        """The number of hosts must be a multiple of this."""
        return self.workload.tensor * self.workload.expert * self.workload.pipeline

    def phases(self, job: str, scale: Scale) -> tuple[Phase, ...]:
        """All steps of the file. Equal ones share one object, so that the simulator sees that they are equal."""
        steps = self.workload.steps[: scale.steps or None]
        found = []
        for step in steps:
            transfers = None
            if step.operation is not None:
                size = max(round(step.size_bytes * scale.size), 1)
                transfers = self._transfers(job, step.operation, step.group, size)
            found.append(Phase(step.compute_s * scale.compute, transfers))
        return tuple(_merged(found))

    def _transfers(self, job: str, operation: Operation, group: Group, size_bytes: int) -> Transfers:
        key = (operation, group, size_bytes)
        if key not in self._made:
            number = self.fabric.host_number
            server = {number[host]: rank // self.ranks_per_host for rank, host in enumerate(self.hosts)}
            collectives = list(self.collectives(job, *key))
            self._made[key] = collective_transfers(self.fabric, collectives, job, self.pace, server)
        return self._made[key]

    def collectives(self, job: str, operation: Operation, group: Group, size_bytes: int) -> Iterator[Collective]:
        """The collective in every group of that kind that has two ranks at least."""
        algorithm = USUAL.get(operation, Algorithm.RING)
        for members in self._groups(group):
            if len(members) > 1:
                yield Collective(job, operation, algorithm, tuple(self.hosts[m] for m in members), size_bytes)

    def _groups(self, group: Group) -> list[list[int]]:
        tensor, expert = self.workload.tensor, self.workload.expert
        copies = len(self.hosts) // (tensor * self.workload.pipeline)
        found: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for rank in range(len(self.hosts)):
            shard, rest = rank % tensor, rank // tensor
            copy, stage = rest % copies, rest // copies
            key = {
                Group.TENSOR: (stage, copy),
                Group.DATA: (stage, shard),
                Group.EXPERT: (stage, shard, copy // expert),
                Group.DATA_EXPERT: (stage, shard, copy % expert),
            }[group]
            found[key].append(rank)
        return list(found.values())


def _merged(phases: Sequence[Phase]) -> Iterator[Phase]:
    """Computing that no transfer follows is added to what comes next."""
    waiting_s = 0.0
    for phase in phases:
        waiting_s += phase.compute_s
        if phase.transfers is not None and len(phase.transfers):
            yield Phase(waiting_s, phase.transfers)
            waiting_s = 0.0
    if waiting_s:
        yield Phase(waiting_s)
