"""What else is plugged in: neighbours that speak LLDP and are none of our switches, by port.

It decides how long a neighbour counts, and what is worth telling. A neighbour makes no link and no host, whatever it
says of itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from controller.fabric.lldp import Neighbour
from controller.fabric.model import PortRef

# A port with more has a hub behind it, or somebody who makes them up; the first ones tell as much.
_MOST_AT_A_PORT = 4


@dataclass(frozen=True, slots=True)
class HeardNeighbour:
    port: PortRef
    neighbour: Neighbour
    heard_s: float

    def is_fresh(self, now_s: float) -> bool:
        return now_s - self.heard_s <= self.neighbour.lifetime_s


@dataclass(slots=True)
class Neighbours:
    """Mutable; owned by the core. All times are the core's seconds."""

    # Port -> (chassis id, port id) -> what was heard last.
    _at: dict[PortRef, dict[tuple[str, str], HeardNeighbour]] = field(default_factory=dict)

    def hear(self, neighbour: Neighbour, at: PortRef, now_s: float) -> bool:
        """True when it is new at this port, or says another thing of itself than before."""
        here = self._at.setdefault(at, {})
        identity = (neighbour.chassis_id, neighbour.port_id)
        known = here.get(identity)
        if neighbour.lifetime_s == 0:
            # It says that it is leaving.
            here.pop(identity, None)
            return False
        if known is None and len(here) >= _MOST_AT_A_PORT:
            gone = [each for each, heard in here.items() if not heard.is_fresh(now_s)]
            if not gone:
                return False
            del here[gone[0]]
        here[identity] = HeardNeighbour(at, neighbour, now_s)
        return known is None or known.neighbour != neighbour

    def forget_port(self, port: PortRef) -> None:
        """It has no carrier any more: whoever comes next is somebody else."""
        self._at.pop(port, None)

    def alone(self) -> Iterator[tuple[PortRef, Neighbour]]:
        """The latest word of every port at which only one neighbour has been heard since it has a carrier."""
        for port, here in self._at.items():
            if len(here) == 1:
                yield port, next(iter(here.values())).neighbour

    def present(self, now_s: float, is_up: Callable[[PortRef], bool]) -> list[HeardNeighbour]:
        """Those heard within the time for which they said they would count, sorted by port."""
        return [
            heard
            for port, here in sorted(self._at.items(), key=lambda entry: entry[0])
            if is_up(port)
            for _, heard in sorted(here.items())
            if heard.is_fresh(now_s)
        ]
