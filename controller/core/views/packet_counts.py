"""How many packets came in that a fabric should not have, or that say something about a host: by kind and port.

They are those that switches hand to the controller, and of some kinds these are few: the figures show that there are
such packets and where, not how many the fabric carries.
"""

from dataclasses import dataclass

from controller.core.machine import Core
from controller.core.odd_packets import MEANING
from controller.core.views.common import EndpointView, endpoint


@dataclass(frozen=True, slots=True)
class PacketCountView:
    """`meaning` is the kind for people."""

    kind: str
    port: EndpointView
    packets: int
    meaning: str


def packet_counts(core: Core) -> tuple[PacketCountView, ...]:
    """Since the controller started, by kind and then port; what never came is left out."""
    return tuple(
        PacketCountView(kind, endpoint(core, port), packets, MEANING[kind])
        for (kind, port), packets in sorted(core.packets.counts_at.items())
    )
