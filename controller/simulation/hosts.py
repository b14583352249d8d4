"""A model host: it answers ARP for its address, announces itself, and remembers what reached it."""

from collections import deque

from controller.fabric.model import PortRef
from controller.fabric.plan import PlannedHost
from controller.pipeline.packet import (
    ARP_REPLY,
    ARP_REQUEST,
    BROADCAST_MAC,
    Packet,
    arp,
    ip_value,
    mac_value,
)

_MULTICAST_BIT = 1 << 40
_KEPT_PACKETS = 1000


class ModelHost:
    """One network interface. `neighbours` is its ARP cache, address to MAC, both as numbers."""

    def __init__(self, planned: PlannedHost, port: PortRef) -> None:
        self.name = planned.label
        self.mac_text = planned.mac
        self.ipv4_text = planned.ipv4
        self.mac = mac_value(planned.mac)
        self.ipv4 = ip_value(planned.ipv4)
        self.port = port
        self.neighbours: dict[int, int] = {}
        # Packets for this host, also those no longer kept in `received`.
        self.received_packets = 0
        # Packets that reached the interface with somebody else's destination MAC.
        self.foreign_packets = 0
        self.received: deque[tuple[float, Packet]] = deque(maxlen=_KEPT_PACKETS)

    def receive(self, packet: Packet, now_s: float) -> Packet | None:
        """Takes a packet from the wire; the answer to send, if it asks for one."""
        destination = packet.headers["eth_dst"]
        if destination != self.mac and not destination & _MULTICAST_BIT:
            self.foreign_packets += 1
            return None
        self.received_packets += 1
        self.received.append((now_s, packet))
        if packet.get("arp_tpa") != self.ipv4:
            return None
        sender_mac, sender_ip = packet.headers["arp_sha"], packet.headers["arp_spa"]
        # The all-zero sender of an ARP probe (RFC 5227) owns no address yet.
        if sender_ip and sender_ip != self.ipv4:
            self.neighbours[sender_ip] = sender_mac
        if packet.headers["arp_op"] != ARP_REQUEST or sender_ip == self.ipv4:
            return None
        return arp(ARP_REPLY, self.mac, self.ipv4, sender_mac, sender_ip)

    def announcement(self) -> Packet:
        """A gratuitous ARP request (RFC 5227, section 3)."""
        return arp(ARP_REQUEST, self.mac, self.ipv4, 0, self.ipv4)

    def request(self, ipv4: str) -> Packet:
        """An ARP request for somebody else's address."""
        return arp(ARP_REQUEST, self.mac, self.ipv4, 0, ip_value(ipv4))

    def probe(self, ipv4: str) -> Packet:
        """An ARP probe (RFC 5227): asks without saying who asks."""
        return arp(ARP_REQUEST, self.mac, 0, 0, ip_value(ipv4)).with_fields(eth_dst=BROADCAST_MAC)
