"""What forwarding needs to know of a switch, and what it says about a packet. How one follows from the other is decided
in `forwarding`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from controller.pipeline.flow_table import Entry
from controller.pipeline.packet import Packet
from controller.pipeline.rules import Bundle, Group, Rule


@dataclass(frozen=True, slots=True)
class Sent:
    """A packet handed to a port; `queue_id` is None for the port's default queue. The port may be down.

    `by_hash`: with every choice followed, this is one of several ports of which a hash picks one.
    """

    port_no: int
    packet: Packet
    queue_id: int | None
    by_hash: bool = False


@dataclass(frozen=True, slots=True)
class Punt:
    """A packet handed to the controller."""

    in_port: int
    packet: Packet
    table_id: int
    cookie: int
    max_len: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What a group or a bundle did. `live` and `taken` are positions among its buckets or members.

    Of a bundle or a select group that takes several, a hash picks one.
    """

    of: Group | Bundle
    live: tuple[int, ...]
    taken: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One table that the packet met, and the choices that the rule's actions led to; no rule is a table miss."""

    table_id: int
    rule: Rule | None
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that came of one packet. `rules` are those it hit, in order; `drops` say why copies ended."""

    sent: tuple[Sent, ...]
    punts: tuple[Punt, ...]
    drops: tuple[str, ...]
    rules: tuple[Rule, ...]
    # Dry runs only: rules that matched with the same priority as one that was hit. OpenFlow leaves open which applies.
    rivals: tuple[Rule, ...] = ()
    # Dry runs only.
    steps: tuple[Step, ...] = ()


class Tables(Protocol):
    """What forwarding needs to know of a switch. `hash_salt` varies the choice of select groups and bundles."""

    hash_salt: int

    def hit(self, table_id: int, headers: Mapping[str, int]) -> Entry | None: ...
    def rivals(self, table_id: int, headers: Mapping[str, int], winner: Entry) -> Sequence[Entry]: ...
    def group(self, group_id: int) -> Group | None: ...
    def conforms(self, meter_id: int) -> bool: ...
    def port_numbers(self) -> Sequence[int]: ...
    def is_live(self, port_no: int) -> bool: ...
    def count(self, entry: Entry, size_bytes: int) -> None: ...
