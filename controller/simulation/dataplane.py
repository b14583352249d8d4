"""Frames on cables: what a port or host sends travels to the other end and is forwarded there."""

from collections import Counter
from collections.abc import Callable
from random import Random

from controller.core.commands import SendPacket
from controller.core.events import PacketReceived
from controller.fabric.model import PortRef
from controller.pipeline.outcome import Outcome
from controller.pipeline.packet import Packet
from controller.pipeline.rules import OFPP_CONTROLLER
from controller.simulation.agenda import Agenda
from controller.simulation.cables import Cable, End
from controller.simulation.frame import TruncatedFrameError, decode, encode
from controller.simulation.switches import ModelSwitch
from controller.simulation.timing import Timing
from controller.simulation.wiring import Wiring

# No path in a leaf-spine fabric, detours included, is that long.
HOP_LIMIT = 64


class DataPlane:
    """Moves frames in simulated time. `losses` counts why frames ended other than in a host or the controller."""

    def __init__(
        self,
        wiring: Wiring,
        agenda: Agenda,
        random: Random,
        timing: Timing,
        punt: Callable[[ModelSwitch, PacketReceived], None],
    ) -> None:
        self._wiring = wiring
        self._agenda = agenda
        self._random = random
        self._timing = timing
        self._punt = punt
        self._last_arrival_s: dict[End, float] = {}
        self.off: set[str] = set()
        self.losses: Counter[str] = Counter()

    def send_from_host(self, host: str, packet: Packet) -> None:
        self._send(host, packet, hops=0)

    def carry_out(self, message: SendPacket) -> None:
        """A packet-out of the controller."""
        switch = self._wiring.by_dpid[message.dpid]
        try:
            packet = decode(message.data)
        except TruncatedFrameError:
            self.losses["truncated packet-out"] += 1
            return
        switch.now_s = self._agenda.now_s
        self._spread(switch, switch.send_out(packet, OFPP_CONTROLLER, message.out_ports), hops=0)

    def _spread(self, switch: ModelSwitch, outcome: Outcome, hops: int) -> None:
        self.losses.update(outcome.drops)
        for punt in outcome.punts:
            data = encode(punt.packet)
            if punt.max_len:
                data = data[: punt.max_len]
            self._punt(switch, PacketReceived(switch.dpid, "", punt.in_port, data))
        for sent in outcome.sent:
            traffic = switch.traffic[sent.port_no]
            traffic.tx_packets += 1
            traffic.tx_bytes += sent.packet.size_bytes
            if switch.ports[sent.port_no].up:
                self._send(PortRef(switch.dpid, sent.port_no), sent.packet, hops)
            else:
                self.losses["sent out of a port that is down"] += 1

    def _send(self, sender: End, packet: Packet, hops: int) -> None:
        cable = self._wiring.cable_at(sender)
        if cable is None or not cable.carries(sender) or self._wiring.name_of(sender) in self.off:
            self.losses["sent into a cable that does not carry"] += 1
            return
        if (share := cable.lossy_from.get(sender)) and self._random.random() < share:
            self._lose(cable, cable.other(sender))
            return
        if hops >= HOP_LIMIT:
            self.losses[f"looped for {HOP_LIMIT} hops"] += 1
            return
        latency_s = self._random.uniform(*self._timing.cable_latency_s)
        arrival_s = max(self._agenda.now_s + latency_s, self._last_arrival_s.get(sender, 0.0))
        self._last_arrival_s[sender] = arrival_s
        receiver = cable.other(sender)
        self._agenda.at(arrival_s, lambda: self._arrive(receiver, packet, hops + 1))

    def _lose(self, cable: Cable, receiver: End) -> None:
        self.losses["lost by a lossy cable"] += 1
        if cable.breaks_frames and isinstance(receiver, PortRef):
            self._wiring.by_dpid[receiver.dpid].traffic[receiver.port_no].rx_errors += 1

    def _arrive(self, receiver: End, packet: Packet, hops: int) -> None:
        if self._wiring.name_of(receiver) in self.off:
            return
        if isinstance(receiver, str):
            answer = self._wiring.hosts[receiver].receive(packet, self._agenda.now_s)
            if answer is not None:
                self._send(receiver, answer, hops=0)
            return
        switch = self._wiring.by_dpid[receiver.dpid]
        if not switch.is_live(receiver.port_no):
            self.losses["arrived at a port that is down"] += 1
            return
        switch.now_s = self._agenda.now_s
        traffic = switch.traffic[receiver.port_no]
        traffic.rx_packets += 1
        traffic.rx_bytes += packet.size_bytes
        self._spread(switch, switch.forward(packet, receiver.port_no), hops)
