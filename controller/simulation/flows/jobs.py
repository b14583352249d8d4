"""Jobs for the flow simulator: phases of computing and sending, and the transfers that a collective or a pattern means.

Decides how a collective becomes transfers between servers, step by step. The collectives themselves are `jobs`'; which
path a transfer takes is `router`'s. What moves inside a server takes no time and is left out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.jobs.collective import Algorithm, Collective, Operation
from controller.jobs.edges import edges
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.wave import IntArray, Pace

# (source host, target host) as numbers of the fabric.
Ends = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Transfers:
    """What one run of something sends. Row i: from `source[i]` to `target[i]` (host numbers), `size_bytes[i]` in each
    of `steps[i]` steps from step `first[i]` on. `server[host]` numbers the server that a host's interface belongs to.
    """

    name: str
    source: IntArray
    target: IntArray
    first: IntArray
    steps: IntArray
    size_bytes: IntArray
    server: Mapping[int, int]
    pace: Pace = Pace.RANK

    def __len__(self) -> int:
        return len(self.source)

    def ends(self) -> Iterator[tuple[Ends, int]]:
        """((source, target), bytes altogether) of every transfer."""
        sizes = (self.size_bytes * self.steps).tolist()
        return zip(zip(self.source.tolist(), self.target.tolist(), strict=True), sizes, strict=True)


@dataclass(frozen=True, slots=True)
class Phase:
    """First `compute_s` seconds on every host (longer on slow ones), then the transfers."""

    compute_s: float
    transfers: Transfers | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """`phases` in order, `iterations` times, from `start_s` on. `hosts` are the numbers of those it runs on."""

    name: str
    phases: tuple[Phase, ...]
    hosts: tuple[int, ...]
    iterations: int = 1
    start_s: float = 0.0
    priority: int = 0

    def units(self) -> dict[Ends, dict[int, int]]:
        """Bytes of one iteration from host to host, which are placed as one, by what is sent at one time: phases with
        the same transfers have one number, whether they follow one another or not."""
        found: dict[Ends, dict[int, int]] = {}
        # Phases of long workloads share their transfers: each is gone through once.
        sent = [phase.transfers for phase in self.phases if phase.transfers is not None]
        times = Counter(id(transfers) for transfers in sent)
        for number, transfers in enumerate({id(each): each for each in sent}.values()):
            for ends, size in transfers.ends():
                sizes = found.setdefault(ends, {})
                sizes[number] = sizes.get(number, 0) + size * times[id(transfers)]
        return found


@dataclass(slots=True)
class _Rows:
    """Transfers by (source, target, first step, steps): channels between the same hosts are one."""

    size: dict[tuple[int, int, int, int], int] = field(default_factory=dict)

    def add(self, source: int, target: int, first: int, steps: int, size_bytes: int) -> None:
        key = (source, target, first, steps)
        self.size[key] = self.size.get(key, 0) + size_bytes

    def transfers(self, name: str, server: Mapping[int, int], pace: Pace) -> Transfers:
        table = np.array(list(self.size), dtype=np.int64).reshape(-1, 4)
        sizes = np.array(list(self.size.values()), dtype=np.int64)
        return Transfers(name, table[:, 0], table[:, 1], table[:, 2], table[:, 3], sizes, server, pace)


def usual_pace(collectives: Sequence[Collective]) -> Pace:
    """By rank; but a direct all-to-all at once, because libraries post all its sends together (as NCCL groups them)."""
    direct = all(c.operation == Operation.ALL_TO_ALL and c.algorithm == Algorithm.DIRECT for c in collectives)
    return Pace.AT_ONCE if direct else Pace.RANK


def collective_transfers(
    fabric: FlowFabric,
    collectives: Sequence[Collective],
    name: str,
    pace: Pace | None = None,
    server: Mapping[int, int] | None = None,
) -> Transfers:
    """Several collectives that run at the same time, such as one in each group of a parallel job.

    Ranks are host names of the fabric (KeyError for others). `server[host]` numbers the server of each host's
    interface; without it, a collective's `ranks_per_host` says which ranks share one. At `AT_ONCE` every connection is
    one transfer. Left out, the pace is `usual_pace`.
    """
    pace = pace or usual_pace(collectives)
    rows = _Rows()
    of: dict[int, int] = dict(server or {})
    for collective in collectives:
        hosts = [fabric.host_number[rank] for rank in collective.ranks]
        if server is None:
            together = max(collective.ranks_per_host, 1)
            of.update((host, hosts[rank - rank % together]) for rank, host in enumerate(hosts))
        for edge in edges(collective):
            source, target = hosts[edge.src_rank], hosts[edge.dst_rank]
            if of.get(source, source) == of.get(target, target) or not edge.size_bytes:
                continue
            if pace == Pace.AT_ONCE:
                rows.add(source, target, 0, 1, edge.size_bytes)
            else:
                rows.add(source, target, edge.first_step, edge.steps, edge.step_bytes)
    return rows.transfers(name, of, pace)


def pattern_transfers(ends: Sequence[Ends], size_bytes: int, name: str) -> Transfers:
    """Independent transfers of `size_bytes` each, all at once."""
    rows = _Rows()
    for source, target in ends:
        if source != target:
            rows.add(source, target, 0, 1, size_bytes)
    return rows.transfers(name, {}, Pace.AT_ONCE)
