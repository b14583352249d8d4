"""Who asks for whose link-layer address, and who says that he has one: ARP and IPv6 neighbour discovery as one thing.

It decides nothing; what is believed and answered is decided in `core.packets`.
"""

from dataclasses import dataclass

from controller.fabric import arp, ndp

_UNSPECIFIED = "0.0.0.0"  # noqa: S104 - an address in a packet, nothing is bound


@dataclass(frozen=True, slots=True)
class Word:
    """`mac` says that it has `address` (unspecified when it only asks), and asks for `asks_for`, or for nothing.

    `to_us`: it answers a question of the controller's own.
    """

    address: str
    mac: str
    asks_for: str | None
    to_us: bool
    _original: "arp.Arp | ndp.NeighbourMessage"

    def answer(self, mac: str) -> bytes:
        """The whole frame that tells who asks that `mac` has what it asks for."""
        asked = self._original
        if isinstance(asked, ndp.NeighbourMessage):
            return ndp.encode_answer(asked, mac)
        reply = arp.Arp(arp.REPLY, mac, asked.target_ip, asked.sender_mac, asked.sender_ip)
        return arp.encode(reply, asked.sender_mac)


def decode(frame: bytes, ethertype: int) -> Word | None:
    """What a frame of one of the two protocols says; None when it is malformed."""
    if ethertype == arp.ETHERTYPE_ARP:
        said = arp.decode(frame)
        return None if said is None else _of_arp(said)
    heard = ndp.decode(frame)
    return None if heard is None else _of_ndp(heard)


def _of_arp(said: arp.Arp) -> Word:
    asks = said.operation == arp.REQUEST and said.sender_ip != said.target_ip
    return Word(
        said.sender_ip, said.sender_mac, said.target_ip if asks else None, said.target_mac == arp.PROBE_MAC, said
    )


def _of_ndp(heard: ndp.NeighbourMessage) -> Word:
    if heard.kind == ndp.SOLICITATION:
        return Word(heard.source, heard.link_address, heard.target, False, heard)
    return Word(heard.target, heard.link_address, None, heard.frame_destination == arp.PROBE_MAC, heard)


def question(address: str) -> bytes:
    """The whole frame in which the controller asks for an address. It changes nobody's idea of who has it: an ARP probe
    (RFC 5227), or a solicitation from an address of the controller's own."""
    if ":" in address:
        return ndp.encode_question(address)
    probe = arp.Arp(arp.REQUEST, arp.PROBE_MAC, _UNSPECIFIED, "00:00:00:00:00:00", address)
    return arp.encode(probe, arp.BROADCAST)
