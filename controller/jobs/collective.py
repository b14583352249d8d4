"""What a job announces: one collective, its ranks and its size.

Pure data; checked in `announcement`, expanded in `flows`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Operation(StrEnum):
    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALL_TO_ALL = "all-to-all"
    SEND_RECV = "send-recv"


class Algorithm(StrEnum):
    RING = "ring"
    DIRECT = "direct"
    TREE = "tree"
    HALVING_DOUBLING = "halving-doubling"
    HIERARCHICAL = "hierarchical"


@dataclass(frozen=True, slots=True)
class QueuePairPorts:
    """UDP source ports of the queue pairs from one rank to another."""

    src_rank: int
    dst_rank: int
    udp_source_ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """When in an iteration a collective runs: those of one `iteration` with different numbers never run together."""

    iteration: str
    number: int


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective as announced.

    `ranks[i]` is the host name or address of rank i; several ranks may be on one host. `size_bytes` is the per-rank
    buffer (for all-gather: the *output* buffer, as in NCCL's bus-bandwidth formulas). `rings` holds one permutation of
    the ranks per channel, which is the order of trees too; empty means one channel in rank order. `ranks_per_host`
    consecutive ranks share a server, each with a network interface of its own or not: what they send one another never
    meets the fabric (0 means 1). Of several jobs, those with the higher `priority` are placed first.
    Without a `phase` it may run at any time.
    """

    job_id: str
    operation: Operation
    algorithm: Algorithm
    ranks: tuple[str, ...]
    size_bytes: int
    rings: tuple[tuple[int, ...], ...] = ()
    queue_pairs: int = 1
    ports: tuple[QueuePairPorts, ...] = ()
    ranks_per_host: int = 1
    priority: int = 0
    phase: Phase | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """A steerable unit: what one rule can match. `udp_source_port` 0 means: by addresses only.

    `flow_id` is "<job_id>/<src rank>-<dst rank>[:<udp port>]". `size_bytes` is what one run of the collective sends
    over it. Same 5-tuple = one flow, however many queue pairs it carries.
    """

    flow_id: str
    job_id: str
    src_host: str
    dst_host: str
    src_address: str
    dst_address: str
    size_bytes: int
    queue_pairs: int
    udp_source_port: int = 0
