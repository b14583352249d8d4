"""What passed between the core and a model network, with its times, for tests to ask questions about."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from controller.core.commands import Accepted, Command, Refused, SendBatch
from controller.core.events import Event
from controller.pipeline.rules import (
    AddGroup,
    AddRule,
    Barrier,
    Bucket,
    DeleteGroup,
    Group,
    Modification,
    ModifyGroup,
    Rule,
    ToGroup,
)

T = TypeVar("T")


@dataclass(slots=True)
class Record:
    """Commands and events with the time they were given or handed over, in order."""

    commands: list[tuple[float, Command]] = field(default_factory=list)
    events: list[tuple[float, Event]] = field(default_factory=list)

    def commands_of(self, kind: type[T], *, since_s: float = 0.0) -> list[T]:
        return [command for time_s, command in self.commands if time_s >= since_s and isinstance(command, kind)]

    def events_of(self, kind: type[T], *, since_s: float = 0.0) -> list[T]:
        return [event for time_s, event in self.events if time_s >= since_s and isinstance(event, kind)]

    def modifications(self, *, dpid: int | None = None, since_s: float = 0.0) -> list[Modification]:
        """Every modification sent, barriers left out."""
        batches = self.commands_of(SendBatch, since_s=since_s)
        chosen = (batch for batch in batches if dpid is None or batch.dpid == dpid)
        return [m for batch in chosen for m in batch.modifications if not isinstance(m, Barrier)]

    def answer(self, request_id: int) -> Accepted | Refused | None:
        """The core's answer to a request, if it has given one."""
        for _, command in reversed(self.commands):
            if isinstance(command, Accepted | Refused) and command.request_id == request_id:
                return command
        return None

    def ordering_problems(self) -> list[str]:
        """Uses of a group that no barrier keeps apart from the group's addition or deletion (see `_misuses`).

        They work on a switch that keeps order, and fail on one that uses the freedom OpenFlow gives it.
        """
        problems: list[str] = []
        for time_s, batch in ((t, c) for t, c in self.commands if isinstance(c, SendBatch)):
            # Every batch ends with a barrier, whose answer is part of the batch's answer.
            touched: set[int] = set()
            for index, modification in enumerate(batch.modifications):
                place = f"{time_s:.6f} s, switch {batch.dpid:x}, batch {batch.batch_id}, modification {index}"
                problems += (f"{place}: {text}" for text in _misuses(modification, touched))
        return problems


def _misuses(modification: Modification, touched: set[int]) -> Iterator[str]:
    """What is wrong with a modification, when the groups in `touched` were added or deleted since the last barrier."""
    match modification:
        case Barrier():
            touched.clear()
        case AddRule(rule):
            yield from (f"no barrier between group {g} and the rule that names it" for g in _named(rule) & touched)
        case AddGroup(group) | ModifyGroup(group):
            yield from (f"no barrier between group {g} and the bucket that names it" for g in _named(group) & touched)
            if group.group_id in touched:
                yield f"no barrier between two changes of group {group.group_id}"
            if isinstance(modification, AddGroup):
                touched.add(group.group_id)
        case DeleteGroup(group_id):
            if group_id in touched:
                yield f"no barrier between two changes of group {group_id}"
            touched.add(group_id)


def _named(holder: Rule | Group | Bucket) -> set[int]:
    """The groups that a rule's or a group's actions name."""
    if isinstance(holder, Group):
        return {group_id for bucket in holder.buckets for group_id in _named(bucket)}
    return {action.group_id for action in holder.actions if isinstance(action, ToGroup)}
