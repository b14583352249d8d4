"""The cuts that bound a placement, in words. Which cuts there are is decided in `placement.bounds`."""

from dataclasses import dataclass

from controller.core.machine import Core
from controller.placement.bounds import Cut, cuts


@dataclass(frozen=True, slots=True)
class BoundView:
    cut: str
    bound_s: float
    links: int
    flows: int
    size_bytes: int


def present_cuts(core: Core) -> list[Cut]:
    """Of everything placed at present, highest bound first."""
    return [cut for cut in cuts(core.state.problem) if cut.bound_s > 0] if core.state.problem.demands else []


def bound_view(core: Core, cut: Cut) -> BoundView:
    return BoundView(cut_words(core, cut), cut.bound_s, cut.ways, len(cut.flow_ids), cut.size_bytes)


def cut_words(core: Core, cut: Cut) -> str:
    """ "what leaves leaf1 over its 4 uplinks"."""
    source = core.plan.name(cut.src_leaf) if cut.src_leaf is not None else ""
    destination = core.plan.name(cut.dst_leaf) if cut.dst_leaf is not None else ""
    if source and destination:
        return f"what goes from {source} to {destination} over {_counted(cut.ways, 'path')}"
    if source:
        return f"what leaves {source} over {_counted(cut.ways, 'uplink')}"
    return f"what enters {destination} over {_counted(cut.ways, 'downlink')}"


def _counted(number: int, noun: str) -> str:
    return f"its one {noun}" if number == 1 else f"{number} {noun}s"
