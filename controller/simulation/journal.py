"""A store in memory, for a simulated controller: what it was told to remember outlives the core, as a file would.

It decides nothing. `problem` makes every write fail, as a full disk does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from controller.core.commands import Remember
from controller.core.events import Remembered
from controller.core.remembered import Avoidance, Cable, Facts, RememberedJob, Target, Unit
from controller.fabric.model import Path, PortRef

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class ModelJournal:
    jobs: dict[str, RememberedJob] = field(default_factory=dict)
    paths: dict[Unit, Path] = field(default_factory=dict)
    hosts: dict[str, PortRef] = field(default_factory=dict)
    switches: set[int] = field(default_factory=set)
    cables: set[Cable] = field(default_factory=set)
    drains: dict[Target, Avoidance] = field(default_factory=dict)
    problem: str = ""

    def write(self, command: Remember) -> Remembered:
        """All of the change, or nothing of it while there is a problem."""
        if self.problem:
            return Remembered(command.change_id, self.problem)
        learnt, forgotten = command.learnt, command.forgotten
        _update(self.jobs, learnt.jobs, forgotten.jobs)
        _update(self.paths, learnt.paths, forgotten.paths)
        _update(self.hosts, learnt.hosts, forgotten.hosts)
        self.switches = (self.switches | learnt.switches) - set(forgotten.switches)
        self.cables = (self.cables | learnt.cables) - set(forgotten.cables)
        _update(self.drains, learnt.drains, forgotten.drains)
        return Remembered(command.change_id)

    def facts(self) -> Facts:
        sets = frozenset(self.switches), frozenset(self.cables)
        return Facts(dict(self.jobs), dict(self.paths), dict(self.hosts), *sets, dict(self.drains))


def _update(held: dict[K, V], learnt: Mapping[K, V], forgotten: Iterable[K]) -> None:
    held.update(learnt)
    for key in forgotten:
        held.pop(key, None)
