"""Placement where an iteration sends in phases: each slot of time is a problem of its own, joined by flows in several.

What is to be short is the iteration, hence the *sum* over slots of what the slot's fullest link needs; the bound is the
sum of the slots' bounds, and no placement can beat it. Decides in which order slots are placed and what is tried again;
how one slot is placed is the caller's to say.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from controller.fabric.model import Path
from controller.fabric.paths import IntArray
from controller.placement.certificate import Certificate
from controller.placement.instance import TOLERANCE, FloatArray, Instance
from controller.placement.load import LoadByPort
from controller.placement.phases import in_slot
from controller.placement.problem import Placement, Problem

BY_PHASE = "by phase: "
PHASES = "phase by phase"

# A placement of one slot's problem, which has no phases.
PlaceSlot = Callable[[Problem], Placement]

# Times that slots with a gap are placed again, given all others.
_ROUNDS = 2
_AGAIN_ABOVE = 0.001


def place_by_phase(problem: Problem, place_slot: PlaceSlot) -> Placement:
    """A path for every demand that has one. Raises as `place_slot` does, and KeyError for a demand without phases."""
    search = _Phased(problem, place_slot)
    search.place_anew()
    search.place_again()
    search.place_as_one()
    return search.answer()


def moved_by_phase(
    problem: Problem, paths: Mapping[str, Path], place_slot: PlaceSlot, move_slot: PlaceSlot
) -> Placement:
    """From `paths`, which some flows of a slot leave where `move_slot` says so and the whole gains by it."""
    search = _Phased(problem, place_slot)
    search.paths = dict(paths)
    search.move(move_slot)
    return search.answer()


class _Phased:
    """A placement under change: `paths` by flow_id, and what each slot's fullest link needs."""

    def __init__(self, problem: Problem, place_slot: PlaceSlot) -> None:
        self._problem, self._place = problem, place_slot
        self._instance = Instance.of(problem)
        sent = [dict(problem.phases[d.flow_id]) for d in self._instance.demands]
        totals: dict[int, int] = {}
        for parts in sent:
            for slot, size in parts.items():
                totals[slot] = totals.get(slot, 0) + size
        # The largest first: whoever sends in several slots is placed where most depends on it.
        self._slots = sorted(totals, key=lambda slot: (-totals[slot], slot))
        self._bits: dict[int, FloatArray] = {
            s: np.array([8.0 * parts.get(s, 0) for parts in sent]) for s in self._slots
        }
        self._main = {
            d.flow_id: max(parts, key=lambda slot, sizes=parts: (sizes[slot], -slot))  # type: ignore[misc]
            for d, parts in zip(self._instance.demands, sent, strict=True)
        }
        stays = (~self._instance.movable).tolist()
        self._kept = {
            d.flow_id: d.pinned for d, yes in zip(self._instance.demands, stays, strict=True) if yes and d.pinned
        }
        self.paths: dict[str, Path] = {}
        self._bound_s = dict.fromkeys(self._slots, 0.0)
        self._methods: dict[int, str] = {}

    def place_anew(self) -> None:
        """Slot by slot, each flow where it sends most."""
        for slot in self._slots:
            mine = {flow_id for flow_id, main in self._main.items() if main == slot}
            pins = {**self.paths, **{flow: path for flow, path in self._kept.items() if flow in mine}}
            placed = self._placed(slot, pins, mine)
            self.paths.update((flow, placed.paths[flow]) for flow in mine if flow in placed.paths)

    def place_again(self) -> None:
        """Slots with a gap, given all others: kept where the whole gains."""
        for _ in range(_ROUNDS):
            gained = [slot for slot in self._with_gap(_AGAIN_ABOVE) if self._again(slot)]
            if not gained:
                return

    def place_as_one(self) -> None:
        """Everything as if it were sent at one time, where that is better: many flows that send in all slots alike."""
        if self._with_gap(_AGAIN_ABOVE):
            self._take(self._place(replace(self._problem, phases={})).paths)

    def move(self, move_slot: PlaceSlot) -> None:
        """Slots one after another, from where all flows are; those with the largest gaps first."""
        for slot in self._slots:
            self._placed(slot, self.paths, ())
        for slot in self._with_gap(_AGAIN_ABOVE):
            self._take(move_slot(in_slot(self._problem, slot, self.paths)).paths)

    def _again(self, slot: int) -> bool:
        sends = {d.flow_id for d, bits in zip(self._instance.demands, self._bits[slot], strict=True) if bits}
        # Whoever sends more elsewhere had no say in the first round; all of them, or only those that have one.
        mine = {flow for flow in sends if self._main[flow] == slot}
        for free in (sends,) if sends == mine else (mine, sends):
            pins = {flow: path for flow, path in self.paths.items() if flow not in free or flow in self._kept}
            if self._take(self._placed(slot, pins, free).paths):
                return True
        return False

    def _placed(self, slot: int, pins: Mapping[str, Path], free: Collection[str]) -> Placement:
        placed = self._place(in_slot(self._problem, slot, pins, free))
        # True of these flows however they are placed, and of more flows all the more.
        self._bound_s[slot] = max(self._bound_s[slot], placed.certificate.lower_bound_s)
        self._methods[slot] = placed.certificate.method
        return placed

    def _take(self, changed: Mapping[str, Path]) -> bool:
        """The paths of `changed`, if the whole gains by them."""
        tried = {**self.paths, **{flow: path for flow, path in changed.items() if flow in self.paths}}
        if self._whole_s(tried) >= self._whole_s(self.paths) * (1 - TOLERANCE):
            return False
        self.paths = tried
        return True

    def _whole_s(self, paths: Mapping[str, Path]) -> float:
        return sum(self._peaks_s(paths).values())

    def _peaks_s(self, paths: Mapping[str, Path]) -> dict[int, float]:
        chosen = self._rows(paths)
        instance = self._instance
        return {
            slot: float((instance.bits_on(chosen, bits) / instance.rates_bps).max())
            for slot, bits in self._bits.items()
        }

    def _rows(self, paths: Mapping[str, Path]) -> IntArray:
        instance = self._instance
        chosen = np.zeros_like(instance.chosen)
        for i, demand in enumerate(instance.demands):
            row = instance.routes.row_of(instance.candidates.pairs[i], paths[demand.flow_id])
            if row is not None:
                chosen[i] = row
        return chosen

    def _with_gap(self, share: float) -> list[int]:
        peaks = self._peaks_s(self.paths)
        open_ = [slot for slot in self._slots if peaks[slot] > self._bound_s[slot] * (1 + share)]
        return sorted(open_, key=lambda slot: (self._bound_s[slot] - peaks[slot], slot))

    def answer(self) -> Placement:
        """The placement, every slot's bound proven as well as can be."""
        for slot in self._with_gap(TOLERANCE):
            self._placed(slot, self.paths, ())
        instance = self._instance
        load = instance.load_s(self._rows(self.paths))
        return Placement(
            paths={d.flow_id: self.paths[d.flow_id] for d in instance.demands},
            unplaced=instance.unplaced,
            load_s=LoadByPort(self._problem.capacity_bps, instance.routes.index, load[:-1]),
            certificate=self._certificate(),
        )

    def _certificate(self) -> Certificate:
        peaks = self._peaks_s(self.paths)
        # Rounding may put equal sums a last digit apart.
        bounds = {slot: min(self._bound_s[slot], peak_s) for slot, peak_s in peaks.items()}
        max_load_s, bound_s = sum(peaks.values()), sum(bounds.values())
        return Certificate(
            max_load_s=max_load_s,
            lower_bound_s=bound_s,
            gap=max_load_s / bound_s - 1 if bound_s else 0.0,
            method=BY_PHASE + ", ".join(dict.fromkeys(self._methods[slot] for slot in self._slots)),
            proven_optimal=max_load_s <= bound_s * (1 + TOLERANCE),
            completion_bound_s=bound_s,
            bound=PHASES,
        )
