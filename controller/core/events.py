"""Everything that can happen to the core. Frozen values; the time of an event is an argument of `handle`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controller.core.remembered import Facts, Target
from controller.fabric.model import Port
from controller.health.bfd import Session
from controller.jobs.collective import Collective
from controller.pipeline.rules import SwitchTables
from controller.placement.moves import Replan


@dataclass(frozen=True, slots=True)
class SwitchConnected:
    """A switch's OpenFlow session is up. `session_id` differs for every session, also of the same switch."""

    dpid: int
    session_id: str
    peer_address: str
    ports: tuple[Port, ...]
    nicira: bool
    software: str = ""
    # What it says that it can hold: most rules by table, most fast-failover groups. Empty, None: it does not say.
    table_limits: Mapping[int, int] = field(default_factory=dict)
    max_groups: int | None = None


@dataclass(frozen=True, slots=True)
class SwitchDisconnected:
    dpid: int
    session_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SwitchRefused:
    """The agent turned away a second switch with a datapath id that is in use."""

    dpid: int
    peer_address: str
    kept_peer_address: str
    reason: str


@dataclass(frozen=True, slots=True)
class PortChanged:
    """`port.up` is the new state; `removed` when the port is gone altogether."""

    dpid: int
    session_id: str
    port: Port
    removed: bool = False


@dataclass(frozen=True, slots=True)
class PacketReceived:
    dpid: int
    session_id: str
    in_port: int
    data: bytes


@dataclass(frozen=True, slots=True)
class TablesRead:
    """Answer to ReadTables. `tables` is None when the switch did not answer."""

    dpid: int
    session_id: str
    request_id: int
    tables: SwitchTables | None


class BatchStatus(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    LOST = "lost"
    # The batch was atomic and something in it was refused: nothing has changed. Not every refusal need be named.
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True, slots=True)
class Refusal:
    """`index` into the batch's modifications; `name` like "OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL"."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class BatchAnswered:
    dpid: int
    session_id: str
    batch_id: int
    status: BatchStatus
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class PortCounters:
    """None: the switch does not know (all-ones on the wire)."""

    rx_bytes: int | None
    tx_bytes: int | None
    rx_packets: int | None = None
    tx_packets: int | None = None
    tx_dropped: int | None = None
    # Without overruns, which are congestion.
    rx_errors: int | None = None
    tx_errors: int | None = None
    duration_s: int = 0


@dataclass(frozen=True, slots=True)
class PortStatisticsRead:
    dpid: int
    session_id: str
    counters: Mapping[int, PortCounters]


@dataclass(frozen=True, slots=True)
class CollectiveAnnounced:
    """A caller asks for paths; the core answers with a command that carries the same `request_id`."""

    request_id: int
    collective: Collective


@dataclass(frozen=True, slots=True)
class CollectiveWithdrawn:
    request_id: int
    job_id: str


@dataclass(frozen=True, slots=True)
class DrainWanted:
    """An operator wants traffic off some links or switches. `forced`: also where that cuts hosts off."""

    request_id: int
    targets: tuple[Target, ...]
    reason: str = ""
    forced: bool = False


@dataclass(frozen=True, slots=True)
class UndrainWanted:
    """They may carry traffic again."""

    request_id: int
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """What the store holds, handed in before any other event. Without a store there is no such event."""

    facts: Facts


@dataclass(frozen=True, slots=True)
class Remembered:
    """Answer to Remember. `problem` is empty when the change outlives this process from now on."""

    change_id: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ComparisonWanted:
    """A caller asks what differs on these switches, with their tables read anew; answered by `Compared`."""

    request_id: int
    dpids: frozenset[int]


@dataclass(frozen=True, slots=True)
class MtusRead:
    """The MTUs of a switch's ports by port number, as its database says; ports that have none are left out."""

    dpid: int
    mtu_bytes: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class BfdRead:
    """How BFD stands at the ports of a switch that run it, by port number, as its database says. None: its database
    cannot be asked (any more)."""

    dpid: int
    sessions: Mapping[int, Session] | None


@dataclass(frozen=True, slots=True)
class PlanFound:
    """The answer to `SearchPlan`: the best that the search found, which may be that nothing is worth a move."""

    search_id: int
    found: Replan


@dataclass(frozen=True, slots=True)
class Tick:
    """A deadline the core asked for has come."""


Event = (
    SwitchConnected
    | SwitchDisconnected
    | SwitchRefused
    | PortChanged
    | PacketReceived
    | TablesRead
    | BatchAnswered
    | PortStatisticsRead
    | CollectiveAnnounced
    | CollectiveWithdrawn
    | ComparisonWanted
    | DrainWanted
    | UndrainWanted
    | MtusRead
    | BfdRead
    | Restored
    | Remembered
    | PlanFound
    | Tick
)
