"""Everything the core can ask its shell to do. Frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from controller.core.remembered import FactKeys, Facts
from controller.health.bfd import BfdSettings
from controller.pipeline.difference import SwitchComparison
from controller.pipeline.rules import Modification
from controller.placement.problem import Problem
from controller.qos.queues import PortQueues


@dataclass(frozen=True, slots=True)
class SendPacket:
    dpid: int
    out_ports: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class SendBatch:
    """In order, on one switch; answered by one `BatchAnswered` with the same `batch_id`."""

    dpid: int
    session_id: str
    batch_id: int
    modifications: tuple[Modification, ...]
    # All of it or nothing, at one moment, on a switch that can do so; elsewhere as if it were not set.
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class ReadTables:
    dpid: int
    session_id: str
    request_id: int


@dataclass(frozen=True, slots=True)
class ReadPortStatistics:
    dpid: int
    session_id: str


@dataclass(frozen=True, slots=True)
class ConfigureQueues:
    """The queues that the ports of one switch should have; idempotent, carried out over OVSDB."""

    dpid: int
    ports: tuple[PortQueues, ...]


@dataclass(frozen=True, slots=True)
class ConfigureBfd:
    """The ports of one switch that should run BFD, carried out over OVSDB and kept so; answered by a `BfdRead` at once
    and at every change. `ports` None: it is not decided yet, and only what runs is to be told."""

    dpid: int
    ports: frozenset[int] | None
    settings: BfdSettings


@dataclass(frozen=True, slots=True)
class Remember:
    """To be written to the store as one change, all of it or nothing; answered by `Remembered` with its number."""

    change_id: int
    learnt: Facts
    forgotten: FactKeys


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """To look for a better plan with all flows free to move (`placement.moves.replan`, full effort), beside other
    events; answered by one `PlanFound` with the same `search_id`, unless a later search has been asked for."""

    search_id: int
    problem: Problem
    group_of: Mapping[str, str]


class Failure(StrEnum):
    """Why a request was refused; the names are those of gRPC's status codes."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    UNAVAILABLE = "UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request is carried out: the switches hold the rules. The plan is read from the state."""

    request_id: int
    job_id: str
    rules_changed: int


@dataclass(frozen=True, slots=True)
class Refused:
    """`problems` lists everything that is wrong, not only the first."""

    request_id: int
    failure: Failure
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """The answer to `ComparisonWanted`: one comparison for each switch, by datapath id."""

    request_id: int
    comparisons: tuple[SwitchComparison, ...]


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Report:
    """Something a person should read, once. `fields` are (name, value) pairs for the structured log."""

    severity: Severity
    message: str
    fields: tuple[tuple[str, str], ...] = ()


Command = (
    SendPacket
    | SendBatch
    | ReadTables
    | ReadPortStatistics
    | ConfigureQueues
    | ConfigureBfd
    | Remember
    | SearchPlan
    | Accepted
    | Refused
    | Compared
    | Report
)
