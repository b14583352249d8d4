"""The kinds of packets that the controller counts: what a fabric should not have, or what says something about a host.

What is done about each is decided in `packets`.
"""

from collections.abc import Mapping
from enum import StrEnum


class OddPacket(StrEnum):
    """The words are `PacketCount.kind` in the API."""

    ADDRESS_CONTESTED = "address_contested"
    ARP_MALFORMED = "arp_malformed"
    ARP_ON_FABRIC_PORT = "arp_on_fabric_port"
    BEACON_AT_HOST_PORT = "beacon_at_host_port"
    BEACON_STALE = "beacon_stale"
    BEACON_WITHOUT_KEY = "beacon_without_key"
    LLDP_FOREIGN = "lldp_foreign"
    LLDP_MALFORMED = "lldp_malformed"
    ND_MALFORMED = "nd_malformed"
    PACKET_UNEXPECTED = "packet_unexpected"
    ROCE_V1 = "roce_v1"


MEANING: Mapping[OddPacket, str] = {
    OddPacket.ADDRESS_CONTESTED: "claims on an address that somebody else has",
    OddPacket.ARP_MALFORMED: "malformed ARP",
    OddPacket.ARP_ON_FABRIC_PORT: "ARP or neighbour discovery on a port that leads to a switch: somebody floods",
    OddPacket.BEACON_AT_HOST_PORT: "our own beacons out of a host's port: somebody relays",
    OddPacket.BEACON_STALE: "our own beacons, from before their port last went down or twice",
    OddPacket.BEACON_WITHOUT_KEY: "LLDP that claims to be one of our switches, without the key",
    OddPacket.LLDP_FOREIGN: "LLDP of hosts and of other people's switches",
    OddPacket.LLDP_MALFORMED: "malformed LLDP",
    OddPacket.ND_MALFORMED: "malformed IPv6 neighbour discovery",
    OddPacket.PACKET_UNEXPECTED: "frames that no rule of ours sends to the controller, or too short for any",
    OddPacket.ROCE_V1: "RoCEv1, which cannot be routed (one a second is looked at)",
}
