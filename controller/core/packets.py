"""What the controller does with punted packets: beacons make links; ARP and IPv6 neighbour discovery make hosts and are
answered here.

Neither is flooded: a question for a known host is answered, one for an unknown host is asked, at most once a second, at
those edge ports where no host is known.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from controller.core.commands import Command, Report, SendPacket, Severity
from controller.core.events import PacketReceived
from controller.core.odd_packets import OddPacket
from controller.fabric import arp, beacon, ndp, resolution
from controller.fabric.discovery import Discovery
from controller.fabric.hosts import UNKNOWN_MAC, HostTable
from controller.fabric.lldp import MalformedLldp, Neighbour
from controller.fabric.model import PortRef
from controller.fabric.neighbours import Neighbours
from controller.fabric.resolution import Word
from controller.pipeline.steering import ROCE_V1_ETHERTYPE

_ASK_AGAIN_S = 1.0
_WAIT_FOR_ANSWER_S = 3.0
_ALARM_S = 60.0


@dataclass(slots=True)
class PacketHandler:
    """Mutable; owned by the core. `changed` tells the core that links or hosts are not what they were."""

    key: bytes
    discovery: Discovery
    hosts: HostTable
    # What a port is called in sentences.
    name: Callable[[PortRef], str] = str
    # By kind, and by kind and port.
    counts: Counter[OddPacket] = field(default_factory=Counter)
    counts_at: Counter[tuple[OddPacket, PortRef]] = field(default_factory=Counter)
    neighbours: Neighbours = field(default_factory=Neighbours)
    _asked_s: dict[str, float] = field(default_factory=dict)
    # Unknown address -> those who asked for it and when.
    _waiting: dict[str, dict[PortRef, tuple[Word, float]]] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)
    # Address -> when its owner last said something, and when it was last asked whether it still has it.
    _heard_s: dict[str, float] = field(default_factory=dict)
    _contested_s: dict[str, float] = field(default_factory=dict)
    # Key -> (sentence, until when it is shown), for what passes by itself.
    passing_alarms: dict[str, tuple[str, float]] = field(default_factory=dict)

    def receive(self, event: PacketReceived, now_s: float) -> tuple[bool, list[Command]]:
        """(links or hosts changed, what to send)."""
        at = PortRef(event.dpid, event.in_port)
        located = beacon.payload_offset(event.data)
        ethertype = located[0] if located else None
        if ethertype == beacon.ETHERTYPE_LLDP:
            return self._lldp(event.data, at, now_s)
        if ethertype in (arp.ETHERTYPE_ARP, ndp.ETHERTYPE_IPV6):
            return self._resolution(event.data, ethertype, at, now_s)
        if ethertype == ROCE_V1_ETHERTYPE:
            self._count(OddPacket.ROCE_V1, at)
            sentence = (
                f"RoCEv1 from {event.data[6:12].hex(':')} at {self.name(at)}: it has no IP header, and is not routed; "
                "choose a GID of RoCEv2 (NCCL_IB_GID_INDEX; show_gids lists them)"
            )
            return False, self.alarm(f"roce v1 {at}", sentence, now_s)
        self._count(OddPacket.PACKET_UNEXPECTED, at)
        return False, []

    def _count(self, kind: OddPacket, at: PortRef) -> None:
        self.counts[kind] += 1
        if at in self.discovery.ports:
            self.counts_at[kind, at] += 1

    def _once(self, key: str, message: str, severity: Severity = Severity.WARNING) -> list[Command]:
        if key in self._reported:
            return []
        self._reported.add(key)
        return [Report(severity, message)]

    def _lldp(self, data: bytes, at: PortRef, now_s: float) -> tuple[bool, list[Command]]:
        match beacon.decode(data, self.key):
            case beacon.Beacon() as heard if self.hosts.is_host_port(at):
                # Two hosts that relay what they hear would join their leaves by a cable that is not there.
                self._count(OddPacket.BEACON_AT_HOST_PORT, at)
                sentence = (
                    f"a beacon of {self.name(heard.sender)} came out of a host at {self.name(at)}: "
                    "somebody relays; no link is made"
                )
                return False, self.alarm(f"relay {at}", sentence, now_s)
            case beacon.Beacon() as heard:
                if not self.discovery.hear(heard, at, now_s):
                    # From before its port last went down, or said a second time.
                    self._count(OddPacket.BEACON_STALE, at)
                return False, []
            case Neighbour() as neighbour:
                self._count(OddPacket.LLDP_FOREIGN, at)
                return False, self._foreign(neighbour, at, now_s)
            case MalformedLldp(reason):
                self._count(OddPacket.LLDP_MALFORMED, at)
                return False, self._once(f"malformed {at}", f"malformed LLDP at {self.name(at)}: {reason}")

    def _foreign(self, neighbour: Neighbour, at: PortRef, now_s: float) -> list[Command]:
        """A neighbour is shown and makes no link. One that claims to be a switch of ours lacks the key of this run."""
        if at not in self.discovery.ports:
            return []
        self.neighbours.hear(neighbour, at, now_s)
        if neighbour.chassis_id.startswith(beacon.CHASSIS_PREFIX):
            self._count(OddPacket.BEACON_WITHOUT_KEY, at)
            sentence = (
                f"{neighbour.source_mac} at {self.name(at)} claims to be switch {neighbour.chassis_id}, without the key"
            )
            return self.alarm(f"forged {at}", f"{sentence}: no link is made", now_s)
        return self._once(f"foreign {at} {neighbour.kind}", f"at {self.name(at)}: {neighbour}", Severity.INFO)

    def _resolution(self, data: bytes, ethertype: int, at: PortRef, now_s: float) -> tuple[bool, list[Command]]:
        word = resolution.decode(data, ethertype)
        if word is None:
            is_arp = ethertype == arp.ETHERTYPE_ARP
            protocol = "ARP" if is_arp else "neighbour discovery"
            self._count(OddPacket.ARP_MALFORMED if is_arp else OddPacket.ND_MALFORMED, at)
            return False, self._once(f"{protocol} {at}", f"malformed {protocol} at {self.name(at)}")
        if self.discovery.is_recalled(at):
            return self._test_memory(word, at, now_s)
        return self._hear_host(word, at, now_s)

    def _test_memory(self, word: Word, at: PortRef, now_s: float) -> tuple[bool, list[Command]]:
        """ARP where a remembered cable should be may have come through it, from a switch that is away. Our own
        questions tell: the first switch on their way punts the answers, so they come straight from a host."""
        if word.to_us:
            self.discovery.disprove(at)
            _, commands = self._hear_host(word, at, now_s)
            return True, commands
        if now_s - self._asked_s.get(f"{at}", float("-inf")) < _ASK_AGAIN_S:
            return False, []
        self._asked_s[f"{at}"] = now_s
        return False, [self._probe(word.address, at.dpid, (at.port_no,))]

    def _hear_host(self, word: Word, at: PortRef, now_s: float) -> tuple[bool, list[Command]]:
        if self.discovery.faces_switch(at):
            # A host is behind its own leaf port only; anything else was let loose by someone who floods.
            self._count(OddPacket.ARP_ON_FABRIC_PORT, at)
            return False, []
        contested = self._contest(word, at, now_s)
        if contested is not None:
            return False, contested
        self._heard_s[word.address] = now_s
        learnt = self.hosts.learn(word.address, word.mac, at)
        commands = self._answer_waiting(word.address, now_s) if learnt else []
        if word.asks_for is not None:
            commands += self._request(word, word.asks_for, at, now_s)
        return learnt, commands

    def _contest(self, word: Word, at: PortRef, now_s: float) -> list[Command] | None:
        """What to do about a claim on an address that somebody else has; None when there is nothing against it.

        The present owner is asked. Only one that stays silent has moved; one that answers keeps its address.
        """
        address = word.address
        owner = self.hosts.seen.get(address)
        if owner is None or (owner.port, owner.mac) == (at, word.mac) or self.hosts.belongs_at(address, at):
            return None
        if owner.port == at and owner.mac == UNKNOWN_MAC:
            return None
        asked_s = self._contested_s.get(address)
        if asked_s is not None and now_s - asked_s < _ASK_AGAIN_S:
            return []
        if asked_s is not None and self._heard_s.get(address, asked_s) < asked_s:
            del self._contested_s[address]
            return None
        self._contested_s[address] = now_s
        self._count(OddPacket.ADDRESS_CONTESTED, at)
        sentence = f"{word.mac} at {self.name(at)} claims {address}, which {owner.mac} at {self.name(owner.port)} has"
        question = self._probe(address, owner.port.dpid, (owner.port.port_no,))
        return [question, *self.alarm(f"contest {address} {at}", sentence, now_s)]

    def alarm(self, key: str, sentence: str, now_s: float) -> list[Command]:
        """Shown for a minute after it was last so; said once in that time."""
        known = self.passing_alarms.get(key)
        self.passing_alarms[key] = (sentence, now_s + _ALARM_S)
        return [] if known is not None and known[1] > now_s else [Report(Severity.ERROR, sentence)]

    def _request(self, word: Word, asks_for: str, at: PortRef, now_s: float) -> list[Command]:
        target = self.hosts.seen.get(asks_for)
        if target is not None and target.mac == UNKNOWN_MAC:
            # The tables take the question to it.
            return []
        if target is not None:
            # A host that asks for its own port's address (a duplicate check) is left to its own answer.
            return [] if target.port == at else [self._reply(word, at, target.mac)]
        self._waiting.setdefault(asks_for, {})[at] = (word, now_s)
        return self._ask(asks_for, now_s)

    def _reply(self, request: Word, at: PortRef, mac: str) -> SendPacket:
        return SendPacket(at.dpid, (at.port_no,), request.answer(mac))

    def _answer_waiting(self, address: str, now_s: float) -> list[Command]:
        mac = self.hosts.seen[address].mac
        return [
            self._reply(request, at, mac)
            for at, (request, asked_s) in self._waiting.pop(address, {}).items()
            if now_s - asked_s <= _WAIT_FOR_ANSWER_S
        ]

    def _ask(self, address: str, now_s: float) -> list[Command]:
        if now_s - self._asked_s.get(address, float("-inf")) < _ASK_AGAIN_S:
            return []
        self._forget_old(now_s)
        self._asked_s[address] = now_s
        ports: dict[int, list[int]] = {}
        for ref, state in self.discovery.ports.items():
            if state.port.up and not state.heard and not self._is_settled(ref, address):
                ports.setdefault(ref.dpid, []).append(ref.port_no)
        return [self._probe(address, dpid, tuple(sorted(found))) for dpid, found in sorted(ports.items())]

    def _is_settled(self, ref: PortRef, address: str) -> bool:
        """A host whose address of this family is known is not asked for another one."""
        version = ":" in address
        return any((":" in known) == version for known in self.hosts.at(ref))

    def _forget_old(self, now_s: float) -> None:
        """Scans for addresses nobody has must not fill the memory."""
        self._asked_s = {a: t for a, t in self._asked_s.items() if now_s - t < _ASK_AGAIN_S}
        self._waiting = {
            address: waiting
            for address, waiting in self._waiting.items()
            if any(now_s - asked_s <= _WAIT_FOR_ANSWER_S for _, asked_s in waiting.values())
        }

    def _probe(self, address: str, dpid: int, ports: tuple[int, ...]) -> SendPacket:
        return SendPacket(dpid, ports, resolution.question(address))

    def warn_of_speeds(self, ends: Iterable[PortRef]) -> list[Command]:
        """Ports of links whose rate nobody knows; once for all of them."""
        silent = [ref for ref in ends if (known := self.discovery.ports.get(ref)) and not known.port.speed_bps]
        if not silent:
            return []
        sentence = (
            f"{self.name(silent[0])} does not say its speed, and the plan does not either: links count as if they"
        )
        return self._once("speed", f"{sentence} had the default rate; give rates in a topology file")

    def probe_planned(self, dpids: set[int]) -> list[Command]:
        """Asks for every planned or remembered host not seen yet at the port where it should be."""
        result: list[Command] = []
        for address, at in self.hosts.expected_but_unseen():
            state = self.discovery.ports.get(at)
            if at.dpid in dpids and state is not None and state.port.up:
                result.append(self._probe(address, at.dpid, (at.port_no,)))
        return result
