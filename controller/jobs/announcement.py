"""Whether an announced collective makes sense, and if not, everything that is wrong with it.

Each problem is one sentence that begins with the field's name and says what would be right. Whether the named hosts
exist is only known with the fabric at hand and is decided in `core`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from controller.jobs.collective import Algorithm, Collective, Operation, QueuePairPorts
from controller.jobs.edges import SUPPORTED, edge_count, edges

MAX_RANKS = 65_536
MAX_SIZE_BYTES = 2**63
MAX_QUEUE_PAIRS = 1_024
MAX_RANKS_PER_HOST = 1_024
MAX_PRIORITY = 7
MAX_PHASE = 1_023
# Beyond a million connections neither switches nor this process have room; a mistake is far likelier than a job.
MAX_CONNECTIONS = 1 << 20
# Every port is a rule; more than this many keep switches and controller busy for seconds at a time.
MAX_LISTED_PORTS = 1 << 14

_WHOLE_POWERS = (Operation.ALL_GATHER, Operation.REDUCE_SCATTER)

_NAME = re.compile(r"[A-Za-z0-9._/-]{1,128}")
_NAME_CURE = "use 1 to 128 letters, digits and . _ - /"
# Longest host name (RFC 1035).
_MAX_HOST_NAME = 253
# Items named in one sentence before the rest is only counted.
_NAMED = 8


def problems(collective: Collective) -> tuple[str, ...]:
    """Every wrong field; empty when the collective can be expanded."""
    sizes = (*_job_id(collective), *_operation(collective), *_ranks(collective), *_size(collective))
    rings = tuple(_rings(collective))
    # Neighbours are only known when operation, ranks and rings are right.
    neighbours = None if sizes or rings else _neighbours(collective)
    return (*sizes, *rings, *_queue_pairs(collective), *_ports(collective, neighbours))


def _job_id(collective: Collective) -> Iterator[str]:
    if not _NAME.fullmatch(collective.job_id):
        yield f"job_id: {_said(collective.job_id)}; {_NAME_CURE}"


def _said(name: str) -> str:
    return repr(name[:40]) if name else "empty"


def _operation(collective: Collective) -> Iterator[str]:
    if (collective.operation, collective.algorithm) not in SUPPORTED:
        possible = " or ".join(sorted(a for o, a in SUPPORTED if o == collective.operation))
        yield f"algorithm: {collective.operation} is not supported with {collective.algorithm}; use {possible}"
    ranks = len(collective.ranks)
    halves = collective.algorithm == Algorithm.HALVING_DOUBLING and collective.operation in _WHOLE_POWERS
    if halves and ranks > 1 and ranks & (ranks - 1):
        yield (
            f"algorithm: {Algorithm.HALVING_DOUBLING} of {collective.operation} needs a power of two ranks, "
            f"{ranks} given; use {Algorithm.RING}"
        )
    phase = collective.phase
    if phase is not None and not _NAME.fullmatch(phase.iteration):
        yield f"phase.iteration: {_said(phase.iteration)}; {_NAME_CURE}, the same for all phases of an iteration"
    if phase is not None and not 0 <= phase.number <= MAX_PHASE:
        yield f"phase.number: {phase.number}; use 0 to {MAX_PHASE}"
    if not 0 <= collective.priority <= MAX_PRIORITY:
        yield f"priority: {collective.priority}; use 0 (the usual one) to {MAX_PRIORITY} (placed first)"


def _ranks(collective: Collective) -> Iterator[str]:
    count = len(collective.ranks)
    if count < 2:
        yield f"ranks: {count} given; a collective needs 2 at least"
    if count > MAX_RANKS:
        yield f"ranks: {count:,} given; {MAX_RANKS:,} at most"
        return
    odd = [rank for rank, text in enumerate(collective.ranks) if not _is_host(text)]
    if odd:
        yield f"ranks: {_listed('rank', odd)}: not a host name or address (1 to {_MAX_HOST_NAME} characters, no spaces)"
    if count > 1 and len(set(collective.ranks)) == 1 and collective.ranks[0]:
        yield f"ranks: all {count:,} are on {collective.ranks[0]}; nothing would meet the fabric, so announce nothing"
    together = collective.ranks_per_host
    if not 0 <= together <= MAX_RANKS_PER_HOST:
        yield f"ranks_per_host: {together}; use 0 (meaning 1) to {MAX_RANKS_PER_HOST}"
    elif together > 1 and count % together:
        yield f"ranks_per_host: {together} does not divide {count} ranks; list the ranks server by server"
    elif together > 1 and count == together:
        yield f"ranks_per_host: all {count} ranks share one server; nothing would meet the fabric"


def _is_host(text: str) -> bool:
    return 0 < len(text) <= _MAX_HOST_NAME and text.isprintable() and " " not in text


def _size(collective: Collective) -> Iterator[str]:
    if collective.size_bytes <= 0:
        yield f"size_bytes: {collective.size_bytes}; it must be positive"
    if collective.size_bytes > MAX_SIZE_BYTES:
        yield f"size_bytes: {collective.size_bytes} is more than 2^63"
    if edge_count(collective) > MAX_CONNECTIONS:
        yield (
            f"ranks, rings: {edge_count(collective):,} connections in all; {MAX_CONNECTIONS:,} at most: "
            "announce fewer ranks or channels at a time"
        )


def _rings(collective: Collective) -> Iterator[str]:
    ranks = len(collective.ranks)
    wrong = [i for i, ring in enumerate(collective.rings) if len(ring) != ranks or set(ring) != set(range(ranks))]
    for i in wrong[:_NAMED]:
        yield f"rings[{i}]: not a permutation of the ranks; {_ring_fault(collective.rings[i], ranks)}"
    if len(wrong) > _NAMED:
        yield f"rings: {len(wrong) - _NAMED} more are not permutations of the ranks"


def _ring_fault(ring: tuple[int, ...], ranks: int) -> str:
    uses = Counter(ring)
    faults = (
        ("is not a rank", "are not ranks", [rank for rank in uses if not 0 <= rank < ranks]),
        ("is there twice", "are there twice or more", [rank for rank, n in uses.items() if n > 1]),
        ("is missing", "are missing", [rank for rank in range(ranks) if rank not in uses]),
    )
    return ", ".join(f"{_listed('', who)} {one if len(who) == 1 else many}" for one, many, who in faults if who)


def _queue_pairs(collective: Collective) -> Iterator[str]:
    if not 0 <= collective.queue_pairs <= MAX_QUEUE_PAIRS:
        yield f"queue_pairs: {collective.queue_pairs}; use 0 (meaning 1) to {MAX_QUEUE_PAIRS}"


def _ports(collective: Collective, neighbours: frozenset[tuple[int, int]] | None) -> Iterator[str]:
    found = [
        text for i, entry in enumerate(collective.ports) for text in _port_faults(collective, i, entry, neighbours)
    ]
    pairs = Counter((entry.src_rank, entry.dst_rank) for entry in collective.ports)
    found += [f"ports: {a} -> {b} is listed {n} times; list it once" for (a, b), n in pairs.items() if n > 1]
    yield from found[:_NAMED]
    if len(found) > _NAMED:
        yield f"ports: {len(found) - _NAMED} more problems of these kinds"
    listed = sum(len(entry.udp_source_ports) for entry in collective.ports)
    if listed > MAX_LISTED_PORTS:
        yield (
            f"ports: {listed:,} udp_source_ports in all, each a rule of its own; {MAX_LISTED_PORTS:,} at most: "
            "leave them out, and each connection is steered as a whole"
        )


def _port_faults(
    collective: Collective, i: int, entry: QueuePairPorts, neighbours: frozenset[tuple[int, int]] | None
) -> Iterator[str]:
    pair = (entry.src_rank, entry.dst_rank)
    known = all(0 <= rank < len(collective.ranks) for rank in pair)
    if not known:
        yield f"ports[{i}]: {pair[0]} -> {pair[1]} names a rank that does not exist"
    elif neighbours is not None and pair not in neighbours:
        yield f"ports[{i}]: {pair[0]} -> {pair[1]} are not neighbours in this collective; nothing is sent between them"
    if not entry.udp_source_ports:
        yield f"ports[{i}]: no udp_source_ports; leave the entry out when they are not known"
    if len(entry.udp_source_ports) > MAX_QUEUE_PAIRS:
        yield f"ports[{i}]: {len(entry.udp_source_ports)} udp_source_ports; {MAX_QUEUE_PAIRS} at most"
    odd = sorted({port for port in entry.udp_source_ports if not 1 <= port <= 65_535})
    if odd:
        yield f"ports[{i}]: udp_source_ports {_listed('', odd)} out of 1 to 65535"


def _neighbours(collective: Collective) -> frozenset[tuple[int, int]] | None:
    if not collective.ports:
        return frozenset()
    if collective.algorithm == Algorithm.DIRECT and collective.operation == Operation.ALL_TO_ALL:
        ranks = len(collective.ranks)
        asked = {(entry.src_rank, entry.dst_rank) for entry in collective.ports}
        return frozenset((a, b) for a, b in asked if a != b and 0 <= a < ranks and 0 <= b < ranks)
    return frozenset((edge.src_rank, edge.dst_rank) for edge in edges(collective))


def _listed(noun: str, numbers: Iterable[int]) -> str:
    """ "ranks 0, 3 and 5"; long lists are cut and counted."""
    every = list(numbers)
    shown = [str(number) for number in every[:_NAMED]]
    if len(every) > _NAMED:
        shown.append(f"{len(every) - _NAMED} more")
    text = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{noun}{'s' if len(every) > 1 else ''} {text}" if noun else text
