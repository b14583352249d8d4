"""Traffic that nobody follows packet by packet: so much a second through every cable between switches, counted at both
ends' ports. What a cable loses shows in the counters, as it would in a network that is used.

It decides nothing about paths: where the traffic comes from and goes to is nobody's business.
"""

from random import Random

from controller.fabric.model import PortRef
from controller.simulation.cables import Cable
from controller.simulation.wiring import Wiring

_SIZE_BYTES = 1000


class Background:
    """`packets_per_second` through each direction of each cable, evenly; 0: none."""

    def __init__(self, wiring: Wiring, random: Random, packets_per_second: float = 0.0) -> None:
        self.packets_per_second = packets_per_second
        self._wiring, self._random = wiring, random
        self._until_s = 0.0

    def count(self, now_s: float, off: set[str]) -> None:
        """To be called before any counter is read: everything up to now has been sent, or lost."""
        before, after = (int(time_s * self.packets_per_second) for time_s in (self._until_s, now_s))
        self._until_s = now_s
        if before == after:
            return
        for cable in self._wiring.cables:
            for sender in (cable.a, cable.b):
                receiver = cable.other(sender)
                if isinstance(sender, PortRef) and isinstance(receiver, PortRef):
                    self._carry(cable, sender, receiver, after - before, off)

    def _carry(self, cable: Cable, sender: PortRef, receiver: PortRef, packets: int, off: set[str]) -> None:
        source, target = self._wiring.by_dpid[sender.dpid], self._wiring.by_dpid[receiver.dpid]
        if source.name in off or not source.is_live(sender.port_no):
            return
        source.traffic[sender.port_no].tx_packets += packets
        source.traffic[sender.port_no].tx_bytes += packets * _SIZE_BYTES
        if target.name in off or not target.is_live(receiver.port_no) or not cable.carries(sender):
            return
        arrived = packets
        if share := cable.lossy_from.get(sender):
            arrived -= sum(self._random.random() < share for _ in range(packets))
        if cable.breaks_frames:
            target.traffic[receiver.port_no].rx_errors += packets - arrived
        target.traffic[receiver.port_no].rx_packets += arrived
        target.traffic[receiver.port_no].rx_bytes += arrived * _SIZE_BYTES
