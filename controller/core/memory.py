"""Keeps a store in step with what must outlive a restart: wanted facts, held facts, and the difference to be written.

It decides when something is written and whether it counts as written; the store itself is the shell's. A caller is
told that its request is carried out only when `busy` is over and there is no `problem`. Like the switches, the store
is brought from what it holds to what it should hold, so a write that failed needs no path of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from controller.core.avoidance import Origin
from controller.core.commands import Command, Remember, Report, Severity
from controller.core.events import Remembered
from controller.core.remembered import Cable, FactKeys, Facts, RememberedJob
from controller.core.requests import unit_of
from controller.core.state import State
from controller.fabric.hosts import HostTable

_TRY_AGAIN_S = 5.0

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class Memory:
    """Mutable; owned by the core. `problem` says why the last write failed, and is empty when it did not."""

    held: Facts = field(default_factory=Facts)
    problem: str = ""
    _wanted: Facts = field(default_factory=Facts)
    # (change id, what the store holds once it is acknowledged).
    _pending: tuple[int, Facts] | None = None
    _retry_due_s: float = float("-inf")
    _last_id: int = 0

    @property
    def busy(self) -> bool:
        """A write is under way."""
        return self._pending is not None

    def restore(self, facts: Facts) -> None:
        """What the store held when the controller started."""
        self.held = self._wanted = facts

    def want(self, facts: Facts) -> None:
        if facts == self._wanted:
            return
        self._wanted = self.held if facts == self.held else facts
        self._retry_due_s = float("-inf")

    def due(self, now_s: float) -> list[Command]:
        """The write that is due, if any; at most one is under way."""
        if self.busy or now_s < self._retry_due_s or self._in_step:
            return []
        self._last_id += 1
        self._pending = (self._last_id, self._wanted)
        return [_difference(self._last_id, self.held, self._wanted)]

    @property
    def _in_step(self) -> bool:
        # With a problem standing, also a write of nothing new is worth trying: it tells whether the problem is cured.
        return self._wanted is self.held and not self.problem

    def take(self, event: Remembered, now_s: float) -> list[Command]:
        """The store's answer to a write."""
        if self._pending is None or self._pending[0] != event.change_id:
            return []
        (_, written), self._pending = self._pending, None
        before, self.problem = self.problem, event.problem
        if event.problem:
            self._retry_due_s = now_s + _TRY_AGAIN_S
            return [] if before == event.problem else [Report(Severity.ERROR, self.alarm)]
        self.held = written
        self._retry_due_s = float("-inf")
        return [Report(Severity.INFO, "jobs are written down again")] if before else []

    @property
    def alarm(self) -> str:
        """What a person should see; empty when all is well."""
        if not self.problem:
            return ""
        return f"jobs cannot be written down and would be forgotten at a restart: {self.problem}"

    def next_deadline_s(self) -> float | None:
        """When a failed write is tried again."""
        return self._retry_due_s if self.problem and not self.busy else None


def _difference(change_id: int, held: Facts, wanted: Facts) -> Remember:
    learnt = Facts(
        jobs=_new(held.jobs, wanted.jobs),
        paths=_new(held.paths, wanted.paths),
        hosts=_new(held.hosts, wanted.hosts),
        switches=wanted.switches - held.switches,
        cables=wanted.cables - held.cables,
        drains=_new(held.drains, wanted.drains),
    )
    forgotten = FactKeys(
        jobs=_gone(held.jobs, wanted.jobs),
        paths=_gone(held.paths, wanted.paths),
        hosts=_gone(held.hosts, wanted.hosts),
        switches=tuple(sorted(held.switches - wanted.switches)),
        cables=tuple(sorted(held.cables - wanted.cables)),
        drains=_gone(held.drains, wanted.drains),
    )
    return Remember(change_id, learnt, forgotten)


def _new(held: Mapping[K, V], wanted: Mapping[K, V]) -> dict[K, V]:
    return {key: value for key, value in wanted.items() if held.get(key) != value}


def _gone(held: Mapping[K, V], wanted: Mapping[K, V]) -> tuple[K, ...]:
    return tuple(key for key in held if key not in wanted)


def worth_remembering(state: State, hosts: HostTable, usable: Iterable[Cable]) -> Facts:
    """What was restored counts until it has had the time to show itself: this run may end before that, too."""
    restored = state.restored
    jobs = {job_id: RememberedJob(job.collective, job.ends) for job_id, job in state.jobs.items()}
    paths = dict(state.paths)
    if restored.paths:
        used = {unit_of(flow) for job in state.jobs.values() for flow in job.flows}
        paths = {unit: path for unit, path in restored.paths.items() if unit in used} | paths
    at = hosts.remembered | {address: host.port for address, host in hosts.seen.items()}
    switches = restored.switches | state.switches.keys()
    return Facts(jobs, paths, at, switches, frozenset(usable), dict(state.avoided.of(Origin.OPERATOR)))
