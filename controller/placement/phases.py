"""What of each flow falls into which phase of an iteration, and what that makes of a placement problem.

A training iteration sends different things one after another: flows of different phases never meet, however full the
links are that they share over the whole iteration. Decides how flows without a phase, and those of another job whose
phases do not keep step with these, are counted; where flows go is decided elsewhere.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import accumulate

from controller.fabric.model import Path
from controller.placement.problem import Demand, Phases, Problem

# (iteration, number): phases of one iteration do not overlap in time. None: at any time.
PhaseKey = tuple[str, int] | None

# Each phase is a placement of its own; beyond so many the smallest of an iteration count as one.
MOST_PHASES = 16


def spread(sizes: Mapping[str, Mapping[PhaseKey, int]]) -> Phases:
    """By flow_id: (slot, bytes) for every slot that it sends in, which add up to all that the flow sends.

    `sizes[flow_id]` says what it sends in which phase. Where one iteration has phases, each is a slot, and what may be
    sent at any time is dealt over them in proportion to their bytes. Where several iterations have, nobody knows which
    of their phases meet: while one goes through a phase, the others are taken to go through as large a share of all
    that they send, and each iteration's slots count by its share of all bytes. Empty where all is one phase, and where
    there are too many iterations for this to tell anything.
    """
    totals: dict[tuple[str, int], int] = defaultdict(int)
    for parts in sizes.values():
        for key, size in parts.items():
            if key is not None and size:
                totals[key] += size
    slot_of = _slots(totals)
    slots = len(set(slot_of.values()))
    if slots < 2:
        return {}
    iteration_of = {slot: key[0] for key, slot in slot_of.items()}
    weight = [0.0] * slots
    bytes_of: dict[str, int] = defaultdict(int)
    every = sum(totals.values())
    for key, size in totals.items():
        weight[slot_of[key]] += size / every
        bytes_of[key[0]] += size
    shares: dict[PhaseKey, list[float]] = {None: weight}
    for key, own in slot_of.items():
        shares[key] = [0.0 if iteration_of[slot] == key[0] else weight[slot] for slot in range(slots)]
        shares[key][own] = bytes_of[key[0]] / every
    return {flow_id: _of_flow(parts, shares) for flow_id, parts in sizes.items()}


def _slots(totals: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """A number for each phase; the smallest of an iteration share one where there would be too many."""
    largest_first = sorted(totals, key=lambda key: (-totals[key], key))
    iterations = len({iteration for iteration, _ in largest_first})
    if 2 * iterations > MOST_PHASES:
        return {}
    alone = len(largest_first) if len(largest_first) <= MOST_PHASES else MOST_PHASES - iterations
    found: dict[tuple[str, int], int] = {key: number for number, key in enumerate(largest_first[:alone])}
    shared: dict[str, int] = {}
    for key in largest_first[alone:]:
        found[key] = shared.setdefault(key[0], alone + len(shared))
    return found


def _of_flow(parts: Mapping[PhaseKey, int], shares: Mapping[PhaseKey, list[float]]) -> tuple[tuple[int, int], ...]:
    found: dict[int, int] = defaultdict(int)
    for key, size in parts.items():
        for slot, part in enumerate(_dealt(size, shares.get(key, shares[None]))):
            found[slot] += part
    # A flow without bytes needs a path all the same.
    return tuple((slot, size) for slot, size in sorted(found.items()) if size) or ((0, 0),)


def _dealt(size: int, shares: list[float]) -> list[int]:
    """`size` in whole bytes by `shares`, which add up to 1; equal sizes are dealt alike."""
    ends = [round(size * end) for end in accumulate(shares)]
    ends[-1] = size
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def split(phases: Phases, flow_id: str, count: int) -> list[tuple[tuple[int, int], ...]]:
    """Of each of `count` equal parts of a flow; all bytes are there."""
    sent = phases[flow_id]
    return [tuple((slot, size // count + (n < size % count)) for slot, size in sent) for n in range(count)]


def in_slot(problem: Problem, slot: int, pins: Mapping[str, Path], free: Collection[str] = ()) -> Problem:
    """What is sent in one slot, as a problem of its own. Flows stay where `pins` say; those neither pinned there nor
    `free` are left out."""
    sent = {flow_id: size for flow_id, parts in problem.phases.items() for at, size in parts if at == slot}
    demands = tuple(
        Demand(d.flow_id, d.src_leaf, d.dst_leaf, sent[d.flow_id], pins.get(d.flow_id), d.priority)
        for d in problem.demands
        if d.flow_id in sent and (d.flow_id in pins or d.flow_id in free)
    )
    return Problem(demands, problem.paths, problem.capacity_bps, problem.background_bps)
