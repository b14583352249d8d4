"""What happens when: a simulated clock that jumps from one event to the next.

Events at the same time happen in the order in which they were scheduled, so that a run depends on nothing but its seed.
"""

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Agenda:
    """Scheduled actions and the current time, in seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Action]] = []
        self._count = 0

    def at(self, time_s: float, action: Action) -> None:
        """Schedules an action; a time that has passed means now."""
        self._count += 1
        heapq.heappush(self._heap, (max(time_s, self.now_s), self._count, action))

    def after(self, delay_s: float, action: Action) -> None:
        self.at(self.now_s + delay_s, action)

    def next_s(self) -> float | None:
        """When the next action is due; None when nothing is scheduled."""
        return self._heap[0][0] if self._heap else None

    def run_next(self) -> None:
        """Jumps to the next action and carries it out. Raises IndexError when nothing is scheduled."""
        self.now_s, _, action = heapq.heappop(self._heap)
        action()

    def jump(self, time_s: float) -> None:
        """Moves the clock forward, to a time before the next action."""
        self.now_s = max(self.now_s, time_s)
