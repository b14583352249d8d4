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
# A link that is clean and was held for its time is given back once enough was read to be sure.
GIVEN_BACK_S = 300.0
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


def soon_released(network: ModelNetwork, core: Core, within_s: float) -> Iterator[str]:
    """Gray links that are about to carry traffic again, as far as their ends can be compared."""
    for cable, gray in core.watch.gray.links.gray.items():
        is_due = gray.released_at_s <= network.now_s + within_s and cable in core.links.up
        if is_due and all(_counts(network, end) for end in cable):
            yield f"{network.wiring.describe(cable)} is held although it loses nothing: {gray.evidence}"
