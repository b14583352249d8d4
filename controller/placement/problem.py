"""What placement is asked, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.fabric.model import Path, PortRef
from controller.placement.certificate import Certificate


@dataclass(frozen=True, slots=True)
class Demand:
    """One flow that must cross from one leaf to another. `pinned` keeps it where it is while that path lives.

    Of several priorities the higher are placed first, as if the lower did not exist; the lower then fit themselves in.
    """

    flow_id: str
    src_leaf: int
    dst_leaf: int
    size_bytes: int
    pinned: Path | None = None
    priority: int = 0


# By flow_id: (slot, bytes) of every slot that the flow sends in.
Phases = Mapping[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class Problem:
    """`paths[(src_leaf, dst_leaf)]` are the live paths; `capacity_bps[port]` the rate of each link direction they use,
    keyed by the sending port; `background_bps[port]` what others were measured to send there.

    `phases`, if not empty, says of every demand which of its bytes fall into which slot of time (`phases.spread`): what
    counts is then the fullest link of each slot, slot after slot, and not the fullest link of them all together.
    """

    demands: tuple[Demand, ...]
    paths: Mapping[tuple[int, int], tuple[Path, ...]]
    capacity_bps: Mapping[PortRef, int]
    background_bps: Mapping[PortRef, float] = field(default_factory=dict)
    phases: Phases = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placement:
    """`paths[flow_id]` for every demand with a live path; `unplaced` the rest; `load_s` per link direction
    in the problem's `capacity_bps`, 0.0 where nothing is placed."""

    paths: Mapping[str, Path]
    unplaced: tuple[str, ...]
    load_s: Mapping[PortRef, float]
    certificate: Certificate


def at_level(problem: Problem, level: int, settled: Mapping[str, Path]) -> Problem:
    """The flows of one priority and of those above it, as one; whichever are `settled` already stay where that says."""
    present = tuple(
        replace(d, priority=0, pinned=settled.get(d.flow_id, d.pinned)) for d in problem.demands if d.priority >= level
    )
    return replace(problem, demands=present)
