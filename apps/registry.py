"""Which connection speaks for which datapath id, when two claim the same one.

The same switch that comes back replaces its dead session at once: a switch knows before we do that its old connection
is gone. Another switch is refused: both would take turns for ever. Two connections are of one switch when they share
a port's hardware address, because no two switches have one in common; ports may have come and gone in between.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from apps.connection import Connection


class Verdict(Enum):
    ACCEPTED = auto()
    # Accepted in the place of `other`, which is dead.
    REPLACES = auto()
    REFUSED = auto()
    # Refused, like before: it was already reported.
    REFUSED_AGAIN = auto()


@dataclass(frozen=True, slots=True)
class Claim:
    verdict: Verdict
    other: Connection | None = None


@dataclass(slots=True)
class Registry:
    _by_dpid: dict[int, Connection] = field(default_factory=dict)
    _refused: dict[int, set[frozenset[bytes]]] = field(default_factory=dict)

    def claim(self, connection: Connection) -> Claim:
        """Decides about a connection whose ports are known, and registers it unless it is refused."""
        other = self._by_dpid.get(connection.dpid)
        if other is not None and not _same_switch(connection, other):
            return Claim(self._refusal(connection), other)
        self._by_dpid[connection.dpid] = connection
        return Claim(Verdict.ACCEPTED if other is None else Verdict.REPLACES, other)

    def release(self, connection: Connection) -> bool:
        """The connection ended. True when it was the one that spoke for its switch."""
        if self._by_dpid.get(connection.dpid) is not connection:
            return False
        del self._by_dpid[connection.dpid]
        # The next conflict about this id is a new one and is reported again.
        self._refused.pop(connection.dpid, None)
        return True

    def find(self, dpid: int, session_id: str | None = None) -> Connection | None:
        """The connection of a switch; None when there is none, or when it is of another session."""
        connection = self._by_dpid.get(dpid)
        if connection is None or connection.switch_up is None:
            return None
        return connection if session_id in (None, connection.session_id) else None

    def holds(self, connection: Connection) -> bool:
        return self._by_dpid.get(connection.dpid) is connection

    def all(self) -> list[Connection]:
        return list(self._by_dpid.values())

    def _refusal(self, connection: Connection) -> Verdict:
        known = self._refused.setdefault(connection.dpid, set())
        identity = frozenset(connection.addresses)
        if identity in known:
            return Verdict.REFUSED_AGAIN
        known.add(identity)
        return Verdict.REFUSED


def _same_switch(one: Connection, other: Connection) -> bool:
    if one.addresses or other.addresses:
        return bool(one.addresses & other.addresses)
    # Neither has a port: the host they connect from is all there is to go by.
    return bool(one.datapath.address[0] == other.datapath.address[0])
