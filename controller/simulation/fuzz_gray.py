"""Lossy cables on a fuzzed fabric: whether they end up avoided, and no healthy one ever does.

The checks look at what cables do and know nothing of how the core decides. A cable counts as found out where its ends
can be compared: both switches are at work, answer at a human pace, and count as they forward.
"""

from collections.abc import Collection, Iterator

from controller.core.avoidance import Origin
from controller.core.machine import Core
from controller.core.remembered import Cable
from controller.fabric.discovery import cable_of
from controller.fabric.model import PortRef
from controller.simulation import cables
from controller.simulation.network import ModelNetwork

# Through every cable between switches, in fabrics where lossy ones may be.
PACKETS_PER_S = 500.0
SHARES = (0.005, 0.01, 0.02)
# The longest time over which loss is judged is 48 readings; a round of them takes two heartbeats.
LONGEST_S = 150.0
_SLOWEST = 10.0


def ends_of(cable: cables.Cable) -> Cable | None:
    """None for a host's cable."""
    if isinstance(cable.a, PortRef) and isinstance(cable.b, PortRef):
        return cable_of(cable.a, cable.b)
    return None


def unnoticed(network: ModelNetwork, core: Core) -> Iterator[str]:
    """Cables that lose packets, could be found out, and are neither avoided nor kept for want of others."""
    gray = core.state.avoided.of(Origin.GRAY).keys() | core.watch.gray.kept.keys()
    for cable in network.wiring.cables:
        ends = ends_of(cable)
        if ends is None or not cable.lossy_from or ends not in core.links.up or ends in gray:
            continue
        if all(_counts(network, end) for end in ends):
            yield f"{network.wiring.describe(ends)} loses {cable.lossy_from}, and is not avoided"


def _counts(network: ModelNetwork, end: PortRef) -> bool:
    session, switch = network.sessions.get(end.dpid), network.wiring.by_dpid[end.dpid]
    if session is None or not (session.open_at_core and session.open_at_switch) or session.frozen:
        return False
    return switch.nicira and session.slowness <= _SLOWEST


def false_alarms(network: ModelNetwork, core: Core, ever_lossy: Collection[Cable]) -> Iterator[str]:
    """Cables that are avoided for losing packets and never did."""
    for target, why in core.state.avoided.of(Origin.GRAY).items():
        if not isinstance(target, int) and target not in ever_lossy:
            yield f"{network.wiring.describe(target)} has never lost anything: {why.reason}"


def soon_released(core: Core, within_s: float, now_s: float) -> bool:
    """A gray link is about to carry traffic again."""
    return any(
        gray.released_at_s <= now_s + within_s
        for cable, gray in core.watch.gray.links.gray.items()
        if cable in core.links.up
    )
