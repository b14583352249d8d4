"""What the core knows: sessions, jobs, placements, and what is on its way. Mutable; owned by `machine.Core` alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.core.avoidance import Avoided, Reduced
from controller.core.commands import SendBatch
from controller.core.remembered import Facts
from controller.core.remembered import Unit as Unit
from controller.fabric.attached import AttachedHosts
from controller.fabric.model import FabricView, Path
from controller.jobs.collective import Collective, Flow
from controller.pipeline.diff import ActualTables
from controller.pipeline.neighbourhood import Neighbourhood
from controller.pipeline.room import Room
from controller.pipeline.rules import SwitchTables
from controller.pipeline.steering import Steering
from controller.placement.moves import Move
from controller.placement.problem import Placement, Problem


@dataclass(slots=True)
class InFlight:
    """A batch that the switch has not answered yet."""

    batch: SendBatch
    deadline_s: float
    # False: it only removes what nothing uses any more.
    moves_traffic: bool = True


@dataclass(slots=True)
class SwitchState:
    """A switch and its session. `session_id` is None while it is away; its ports and hosts are remembered."""

    dpid: int
    session_id: str | None = None
    peer_address: str = ""
    nicira: bool = False
    software: str = ""
    # None: not read yet, or no longer trusted.
    actual: ActualTables | None = None
    # (request id, deadline) of the read under way; `read_due_s` is when the next one is asked for.
    reading: tuple[int, float] | None = None
    read_due_s: float | None = None
    read_backoff_s: float = 0.0
    in_flight: InFlight | None = None
    # Its latest batch was rolled back: the next one goes change by change, so that each is answered.
    rolled_back: bool = False
    # The switch did not answer a batch in time, or refused what it must take: left alone until it is read again.
    suspect: bool = False
    # When it last answered anything.
    heard_s: float = float("-inf")
    # It held rules of ours when this controller first read it; None: not read yet.
    inherited: bool | None = None
    # Its tables may differ from what is wanted.
    unsettled: bool = True

    @property
    def met(self) -> bool:
        """It has had a session in this run; else it is known from an earlier one."""
        return self.heard_s > float("-inf")

    @property
    def ready(self) -> bool:
        return self.session_id is not None and self.actual is not None and not self.suspect


@dataclass(slots=True)
class JobState:
    """An announced collective and what it expanded to; `ends[i]` is (host name, address) of rank i."""

    collective: Collective
    ends: tuple[tuple[str, str], ...]
    flows: tuple[Flow, ...]
    notes: tuple[str, ...]
    revision: int


@dataclass(slots=True)
class Waiter:
    """A caller who is answered when the switches hold what its request led to."""

    request_id: int
    job_id: str
    # State.changes_sent when the request came in.
    changes_before: int


@dataclass(frozen=True, slots=True)
class UnitMove:
    """The latest move of a unit, and the revision of the plan that made it."""

    move: Move
    revision: int


@dataclass(slots=True)
class State:
    switches: dict[int, SwitchState] = field(default_factory=dict)
    jobs: dict[str, JobState] = field(default_factory=dict)
    # What paths and routes are made of: usable links, less those that are avoided.
    view: FabricView = field(default_factory=FabricView)
    avoided: Avoided = field(default_factory=Avoided)
    # How the view came about.
    reduced: Reduced = field(default_factory=Reduced)
    view_problems: tuple[str, ...] = ()
    # The view's hosts by every spelling, as `naming` last needed them.
    attached: AttachedHosts | None = None
    # Path of every unit that crosses the fabric, as last placed.
    paths: dict[Unit, Path] = field(default_factory=dict)
    # What an earlier run remembered; empty once everything that is there has had the time to show itself.
    restored: Facts = field(default_factory=Facts)
    # What is there may not all have been seen yet.
    learning: bool = True
    # The rules that steer them, by switch, as last fitted into what the switches can hold.
    steering: Mapping[int, Sequence[Steering]] = field(default_factory=dict)
    # Paths that the switches were known to hold when everything was last settled.
    laid: dict[Unit, Path] = field(default_factory=dict)
    # Units that use ECMP since their rules do not fit: all, and by the switch that is full.
    refused_units: set[Unit] = field(default_factory=set)
    given_up: Mapping[int, frozenset[Unit]] = field(default_factory=dict)
    # Units that use ECMP since their leaf does not answer, and that leaf.
    waiting: Mapping[Unit, int] = field(default_factory=dict)
    # Switches of which some limit is known, until their session ends.
    rooms: dict[int, Room] = field(default_factory=dict)
    problem: Problem = field(default_factory=lambda: Problem((), {}, {}))
    placement: Placement | None = None
    moves: Mapping[Unit, UnitMove] = field(default_factory=dict)
    desired: Mapping[int, SwitchTables] = field(default_factory=dict)
    waiters: list[Waiter] = field(default_factory=list)
    # Grows with every change of plan or topology.
    revision: int = 0
    # When the fabric is to be looked at anew; None: nothing has changed since.
    replan_due_s: float | None = None
    base_stale: bool = True
    # Rule and group changes sent to switches so far, for answers and tests.
    changes_sent: int = 0
    alarms: dict[str, str] = field(default_factory=dict)
    _near: Neighbourhood | None = None

    @property
    def near(self) -> Neighbourhood:
        """The view turned around; worked out once for each view."""
        if self._near is None or self._near.view is not self.view:
            self._near = Neighbourhood.of(self.view, self.reduced.last_resort)
        return self._near

    @property
    def unready(self) -> frozenset[int]:
        """Switches that cannot be told anything at present; one that has just connected has to be read first."""
        return frozenset(s.dpid for s in self.switches.values() if not s.ready)

    @property
    def full(self) -> frozenset[int]:
        """Switches that have refused something for want of room, in their present session."""
        return frozenset(dpid for dpid, room in self.rooms.items() if room.is_full)
