"""Which links each flow of a run uses at present, and what is done about it when links die.

Decides when a strategy is asked and with what: at the start for all flows together; after a failure first the switches
pass over dead links (a flow on one draws another among its live paths), then, where a controller is in charge and not
away, it places again. Rows are only ever changed here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.fabric.model import Path
from controller.placement import baselines
from controller.placement.phases import PhaseKey, spread
from controller.placement.problem import Demand, Problem
from controller.simulation.flows.fabric import FlowFabric, dead_ports
from controller.simulation.flows.maxmin import FloatArray, LinkRows
from controller.simulation.flows.strategies import Paths, Strategy, pinned
from controller.simulation.flows.wave import IntArray


@dataclass(frozen=True, slots=True)
class Unit:
    """Everything that one job sends from one host to another in one iteration, by phase; placed as one flow."""

    name: str
    source: int
    target: int
    phases: Mapping[PhaseKey, int]
    priority: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(self.phases.values())


class Router:
    """`rows[first[u] + n]` are the links of part n of unit u, of which there are `parts[u]`, all alike in size."""

    def __init__(
        self, fabric: FlowFabric, strategy: Strategy, units: Sequence[Unit], factor: FloatArray, seed: int
    ) -> None:
        """`factor[link]` is what is left of each link that exists by itself, as the controller knows it."""
        self._fabric, self._strategy, self._seed = fabric, strategy, seed
        self._units = tuple(units)
        self._crossing = [u for u in self._units if fabric.leaf[u.source] != fabric.leaf[u.target]]
        self._demands = tuple(
            Demand(u.name, fabric.leaf[u.source], fabric.leaf[u.target], u.size_bytes, priority=u.priority)
            for u in self._crossing
        )
        self._phases = spread({u.name: u.phases for u in self._crossing})
        self._destination = {u.name: fabric.hosts[u.target] for u in self._crossing}
        self._failures = 0
        self._paths: Paths = strategy.place(self._problem(factor), seed, self._destination)
        # Fixed for the whole run: a flow that may be split has its parts from the start.
        self.parts: IntArray = np.full(len(self._units), strategy.queue_pairs)
        self.first: IntArray = np.cumsum(self.parts) - self.parts
        self.rows: LinkRows
        self._relay()

    def _problem(self, factor: FloatArray, demands: tuple[Demand, ...] | None = None) -> Problem:
        """What the strategy is asked, on links of which `factor` is left."""
        fabric = self._fabric
        left = factor[: fabric.ports]
        ports = fabric.paths.ports
        slowed = {ports[n]: max(round(fabric.between_bps[ports[n]] * left[n]), 1) for n in np.flatnonzero(left != 1.0)}
        capacity = {**fabric.between_bps, **slowed} if slowed else fabric.between_bps
        dead = dead_ports(fabric, factor)
        paths = fabric.paths.without(dead) if dead else fabric.paths
        return Problem(self._demands if demands is None else demands, paths, capacity, phases=self._phases)

    # --- after a change ----------------------------------------------------------------------------------

    def fail_over(self, factor: FloatArray) -> None:
        """The switches' own doing: parts on dead links take another live path, drawn by hash."""
        if self._strategy.ideal:
            return
        self._failures += 1
        dead = set(dead_ports(self._fabric, factor))
        hit = {
            flow: [n for n, path in enumerate(parts) if not dead.isdisjoint(path)]
            for flow, parts in self._paths.items()
        }
        hit = {flow: numbers for flow, numbers in hit.items() if numbers}
        known = {d.flow_id: d for d in self._demands}
        lost = [flow for flow in known if flow not in self._paths]
        demands = [
            replace(known[flow], flow_id=f"{flow}#{n}", pinned=None)
            for flow, numbers in (*hit.items(), *((flow, [0]) for flow in lost))
            for n in numbers
        ]
        drawn = baselines.ecmp(
            self._problem(factor, tuple(demands)), seed=self._seed + self._failures * 1_000_003
        ).paths
        for flow, numbers in hit.items():
            parts = list(self._paths[flow])
            for n in numbers:
                parts[n] = drawn.get(f"{flow}#{n}", parts[n])
            self._paths[flow] = tuple(parts)
        for flow in lost:
            if (path := drawn.get(f"{flow}#0")) is not None:
                self._paths[flow] = (path,) * self._strategy.queue_pairs
        self._relay()

    def replan(self, factor: FloatArray) -> None:
        """The controller places everything again; where flows keep to one path it knows where they are now."""
        if not self._strategy.controlled or self._strategy.ideal:
            return
        again = self._strategy.replace
        place = again or self._strategy.place
        demands = pinned(self._demands, self._paths) if again else self._demands
        self._paths = place(self._problem(factor, demands), self._seed, self._destination)
        self._relay()

    # --- rows --------------------------------------------------------------------------------------------

    def _relay(self) -> None:
        made = [row for i, unit in enumerate(self._units) for row in self._rows_of(i, unit)]
        self.rows = np.array(made, dtype=np.int32).reshape(-1, self._fabric.hops)

    def _rows_of(self, number: int, unit: Unit) -> list[list[int]]:
        fabric, count = self._fabric, int(self.parts[number])
        if self._strategy.ideal:
            return [fabric.ideal_row(unit.source, unit.target)]
        if fabric.leaf[unit.source] == fabric.leaf[unit.target]:
            return [fabric.row(unit.source, unit.target, ())] * count
        paths: Sequence[Path | None] = self._paths.get(unit.name, (None,))
        if len(paths) < count:
            paths = [paths[0]] * count
        return [fabric.row(unit.source, unit.target, path) for path in paths]
