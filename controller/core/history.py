"""What has happened to fabric and plan, and what became of it: a bounded list that people and machines can follow.

Every cause (a link, a switch, a drain, a job) is an entry at once. When the plan that answers it is made and the
switches have carried it out, an entry of its own says how long each tier took, how many flows moved and how good the
new plan is. Entries never change and are numbered without gaps, so that a reader can go on where it stopped. What is
worth an entry is decided by whoever calls; nothing here changes anything.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controller.core.state import State, Unit
from controller.fabric.model import Path
from controller.placement.certificate import Certificate

# An hour of a fabric in which something happens every few seconds.
KEPT = 1000


class Topic(StrEnum):
    """What an entry is about. The words are `Event.topic` in the API."""

    LINK = "link"
    SWITCH = "switch"
    DRAIN = "drain"
    JOB = "job"
    CONTROLLER = "controller"
    # A plan is on the switches: `Entry.outcome` says what it took.
    PLAN = "plan"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds count from the first of the causes: until the new plan was made and certified, and until every switch
    that answers had confirmed what moves traffic. Loads are seconds, as the certificate's."""

    causes: tuple[int, ...]
    planned_s: float
    repaired_s: float
    flows: int
    moved: int
    unplaced: int
    switches: int
    changes: int
    max_load_before_s: float
    certificate: Certificate | None


@dataclass(frozen=True, slots=True)
class Entry:
    """`at_s` is the core's time. `cause` is one word where there is one: "no-carrier", "flapping", ..."""

    number: int
    at_s: float
    topic: Topic
    subject: str
    message: str
    cause: str = ""
    outcome: Outcome | None = None


@dataclass(slots=True)
class _Open:
    """Causes that wait for a plan, or for the switches to carry it out."""

    causes: tuple[int, ...]
    since_s: float
    paths_before: Mapping[Unit, Path] = field(default_factory=dict)
    max_load_before_s: float = 0.0
    changes_before: int = 0
    switches: set[int] = field(default_factory=set)
    # None: not stamped yet.
    planned_at_s: float | None = None


class History:
    """Mutable; owned by the core. `last` is the number of the latest entry; 0 before the first."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.entries: deque[Entry] = deque(maxlen=KEPT)
        self.last = 0
        self._waiting: list[Entry] = []
        self._open: _Open | None = None

    def after(self, number: int) -> tuple[list[Entry], int]:
        """The entries with higher numbers, oldest first, and how many of them are forgotten already."""
        found = [entry for entry in self.entries if entry.number > number]
        first = found[0].number if found else self.last + 1
        return found, max(0, first - number - 1)

    def note(
        self, topic: Topic, subject: str, message: str, now_s: float, cause: str = "", *, acts: bool = True
    ) -> None:
        """`acts` says that a plan will follow from it."""
        entry = self._add(Entry(self.last + 1, now_s, topic, subject, message, cause))
        if acts:
            self._waiting.append(entry)

    def _add(self, entry: Entry) -> Entry:
        self.last = entry.number
        self.entries.append(entry)
        return entry

    # --- from causes to outcomes -------------------------------------------------------------------------

    def planning(self) -> None:
        """To be called right before paths are placed anew."""
        placed = self._state.placement
        if self._open is None:
            self._open = _Open((), float("inf"), self._state.paths, changes_before=self._state.changes_sent)
            self._open.max_load_before_s = placed.certificate.max_load_s if placed else 0.0
        new = tuple(entry.number for entry in self._waiting)
        self._open.causes += new
        self._open.since_s = min((self._open.since_s, *(entry.at_s for entry in self._waiting)))
        self._open.planned_at_s = None
        self._waiting.clear()

    @property
    def stamp_wanted(self) -> bool:
        """A plan was made in the step at hand: when that was done shows at the next one, which should come soon."""
        return self._open is not None and self._open.planned_at_s is None

    def stamp(self, now_s: float) -> None:
        """To be called at the beginning of every step."""
        if self._open is not None and self._open.planned_at_s is None:
            self._open.planned_at_s = now_s

    def sent(self, dpids: Iterable[int]) -> None:
        """Switches to which changes go."""
        if self._open is not None:
            self._open.switches.update(dpids)

    def carried_out(self, now_s: float) -> None:
        """To be called whenever every switch that answers has confirmed what moves traffic."""
        found = self._open
        if found is None or found.planned_at_s is None:
            return
        self._open = None
        changes = self._state.changes_sent - found.changes_before
        moved = _moved(found.paths_before, self._state.paths)
        if not found.causes and not moved:
            # A host that was heard, or tables that were put right: no news of plan or fabric.
            return
        since_s = found.since_s if found.causes else found.planned_at_s
        placed = self._state.placement
        outcome = Outcome(
            causes=found.causes,
            planned_s=found.planned_at_s - since_s,
            repaired_s=now_s - since_s,
            flows=len(self._state.paths),
            moved=moved,
            unplaced=len(placed.unplaced) if placed else 0,
            switches=len(found.switches),
            changes=changes,
            max_load_before_s=found.max_load_before_s,
            certificate=placed.certificate if placed else None,
        )
        self._add(Entry(self.last + 1, now_s, Topic.PLAN, "", _words(outcome), outcome=outcome))


def _moved(before: Mapping[Unit, Path], after: Mapping[Unit, Path]) -> int:
    """Units that had a path and have another one or none."""
    if before is after:
        return 0
    return sum(after.get(unit) != path for unit, path in before.items())


def _words(outcome: Outcome) -> str:
    done = f"{outcome.changes} changes on {_count(outcome.switches, 'switch', 'switches')}"
    if not outcome.changes:
        done = "nothing to change"
    moved = f"{outcome.moved} of {_count(outcome.flows, 'flow', 'flows')} moved"
    planned_ms, repaired_ms = 1000 * outcome.planned_s, 1000 * outcome.repaired_s
    return f"{done}, {moved}; planned after {planned_ms:.0f} ms, carried out after {repaired_ms:.0f} ms"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
