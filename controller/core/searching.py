"""Looks for a better plan for many live flows aside, so that meanwhile everything else is answered.

With thousands of flows a search takes seconds. The shell carries it out beside the core's events, and what it finds is
taken if nothing has changed since it was asked for. Decides only that: what is searched, and what counts as a gain, is
`placement.moves`'s.
"""

from dataclasses import dataclass, replace

from controller.core.commands import SearchPlan
from controller.core.events import PlanFound
from controller.core.planning import groups_of
from controller.core.state import State
from controller.placement.moves import Replan
from controller.placement.problem import Problem


@dataclass(slots=True)
class Searches:
    """Mutable; owned by the core. Problems of more than `above_flows` are searched aside."""

    state: State
    above_flows: int
    # The latest search, and the state's revision when it was asked for.
    _asked: tuple[int, int] = (0, 0)

    @property
    def wanted(self) -> bool:
        """Whether looking for a better plan would take too long to be done at once."""
        return len(self.state.problem.demands) > self.above_flows

    def ask(self) -> SearchPlan:
        """What is to be searched: the plan as it is, from where all flows are now. An earlier search counts no more."""
        self._asked = (self._asked[0] + 1, self.state.revision)
        return SearchPlan(self._asked[0], self._question(), groups_of(self.state.paths))

    def take(self, event: PlanFound) -> Replan | None:
        """What was found, if it is worth a move and the plan is still the one that it is better than."""
        current = self._asked == (event.search_id, self.state.revision) and self.state.replan_due_s is None
        return event.found if current and event.found.gain > 0 else None

    def _question(self) -> Problem:
        problem, placed = self.state.problem, self.state.placement
        now = placed.paths if placed else {}
        return replace(problem, demands=tuple(replace(d, pinned=now.get(d.flow_id)) for d in problem.demands))
