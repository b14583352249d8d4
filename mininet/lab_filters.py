"""Makes queues work in Open vSwitch's userspace datapath, where `set_queue` has no effect.

The datapath's own HTB classes (queue n = class 1:(n+1)) are real but nothing is ever put into them. A u32 filter per
DSCP does that here, and a short pfifo under each class keeps one class from filling what others wait in. On the kernel
datapath and on hardware `set_queue` is the mechanism and none of this is needed.

Classes also get a burst of a few frames. Open vSwitch's own is one frame: a timer that is late by half a frame's time,
which is usual on a busy machine, then loses rate for good (measured at 8 Mbit/s: 2 to 5 %).

The controller may reconfigure queues over OVSDB whenever it likes, which replaces the qdisc and takes the filters
along, so `ensure` lays only what is missing, and `FilterKeeper` calls it whenever the kernel reports a change.
"""

import json
import re
import select
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab_namespace import LabError, run

from controller.qos.classes import QosSettings, TrafficClass

_RTMGRP_TC = 0x8
_SETTLE_S = 0.05
_CLASS = re.compile(
    r"^class htb 1:(\w+) (?:parent )?(root|1:\w+) (?:leaf \w+: )?(?:prio (\d+) )?"
    r"rate (\w+) ceil (\w+) burst (\d+[KM]?b)",
    flags=re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class ClassMap:
    """Which queue a packet goes to. `limit_packets` is the depth of every queue, `burst_bytes` of its token bucket.

    LLDP and ARP go to `network_control_queue`, as in hardware where the switch's own protocols have a queue of their
    own: otherwise a full best-effort queue would make discovery lose links.
    """

    queue_of_dscp: Mapping[int, int]
    network_control_queue: int
    limit_packets: int
    burst_bytes: int

    @staticmethod
    def of(settings: QosSettings, limit_packets: int, burst_bytes: int) -> "ClassMap":
        control = settings.of(TrafficClass.CONTROL)
        queues = {c.dscp: c.queue_id for c in settings.classes if c.traffic_class != TrafficClass.BEST_EFFORT}
        queues |= dict.fromkeys(settings.control_dscps, control.queue_id)
        return ClassMap(queues, control.queue_id, limit_packets, burst_bytes)

    def filters(self, queues: frozenset[int], *, classified: bool) -> dict[int, frozenset["Filter"]]:
        """What a port with these queues should have, by preference; a DSCP whose queue is missing is best effort."""
        by_dscp = sorted(self.queue_of_dscp.items()) if classified else ()
        found = [f for d, q in by_dscp for f in (Filter.of_dscp(_IPV4, d, q), Filter.of_dscp(_IPV6, d, q))]
        found += [Filter(protocol, _ANY, self.network_control_queue + 1) for protocol in (_LLDP, _ARP)]
        return {
            p.preference: frozenset(f for f in found if f.protocol == p and f.leaf - 1 in queues) for p in _PROTOCOLS
        }


@dataclass(frozen=True, slots=True)
class Protocol:
    """Every protocol needs a preference of its own in one filter list. `dscp_shift`: where its six bits start."""

    preference: int
    name: str
    dscp_shift: int = 0


_IPV4, _IPV6 = Protocol(10, "ip", 18), Protocol(11, "ipv6", 22)
_LLDP, _ARP = Protocol(12, "0x88cc"), Protocol(13, "arp")
_PROTOCOLS = (_IPV4, _IPV6, _LLDP, _ARP)
_ANY = (0, 0)


@dataclass(frozen=True, slots=True)
class Filter:
    """A u32 match of (value, mask) on the first word of the network header, into class 1:`leaf`."""

    protocol: Protocol
    match: tuple[int, int]
    leaf: int

    @staticmethod
    def of_dscp(protocol: Protocol, dscp: int, queue_id: int) -> "Filter":
        return Filter(protocol, (dscp << protocol.dscp_shift, 0x3F << protocol.dscp_shift), queue_id + 1)

    def add_line(self, port: str) -> str:
        value, mask = self.match
        which = f"protocol {self.protocol.name} pref {self.protocol.preference}"
        return f"filter add dev {port} parent 1: {which} u32 match u32 {value:#x} {mask:#x} at 0 flowid 1:{self.leaf:x}"


@dataclass(frozen=True, slots=True)
class HtbClass:
    """A class as `tc` spells it; `parent` is "root" for the port's own. Rates stay text: they are only handed back."""

    minor: int
    parent: str
    priority: str
    rate: str
    ceil: str
    burst_bytes: int

    def change_line(self, port: str, burst_bytes: int) -> str:
        parent = "1:0" if self.parent == "root" else self.parent
        priority = f" prio {self.priority}" if self.priority else ""
        bucket = f"burst {burst_bytes} cburst {burst_bytes}"
        return (
            f"class change dev {port} parent {parent} classid 1:{self.minor:x}"
            f" htb rate {self.rate} ceil {self.ceil}{priority} {bucket}"
        )


@dataclass(frozen=True, slots=True)
class PortState:
    """What the kernel has on one port: classes, leaf classes with a pfifo of their own, and filters."""

    classes: frozenset[HtbClass]
    with_pfifo: frozenset[int]
    filters: frozenset[Filter]

    @property
    def leaves(self) -> frozenset[int]:
        return frozenset(c.minor for c in self.classes if c.parent != "root")


def ensure(ports: Sequence[str], mapping: ClassMap, *, classified: bool = True) -> int:
    """Brings all ports to what `mapping` says, or to no DSCP filter at all; returns how many changes that took.

    With `classified` false the pfifos and the network-control filters stay: only traffic classes lose their effect.
    """
    changes = [
        line
        for port, state in read_ports(ports).items()
        for line in missing_lines(port, state, mapping, classified=classified)
    ]
    if changes:
        # A port may be reconfigured between reading and writing: -force carries on, and the next round corrects.
        run(["tc", "-force", "-batch", "-"], stdin="\n".join(changes) + "\n", check=False)
    return len(changes)


def missing_lines(port: str, state: PortState, mapping: ClassMap, *, classified: bool) -> list[str]:
    """`tc -batch` lines from what a port has to what it should have."""
    lines = [
        f"qdisc add dev {port} parent 1:{leaf:x} handle {leaf + 0x10:x}: pfifo limit {mapping.limit_packets}"
        for leaf in sorted(state.leaves - state.with_pfifo)
    ]
    # The kernel rounds what it is given by a few bytes.
    small = [c for c in state.classes if c.burst_bytes < 0.9 * mapping.burst_bytes]
    lines += sorted(c.change_line(port, mapping.burst_bytes) for c in small)
    queues = frozenset(leaf - 1 for leaf in state.leaves)
    for preference, wanted in mapping.filters(queues, classified=classified).items():
        present = frozenset(f for f in state.filters if f.protocol.preference == preference)
        if present == wanted:
            continue
        if present:
            lines.append(f"filter del dev {port} parent 1: pref {preference}")
        lines += sorted(f.add_line(port) for f in wanted)
    return lines


def read_ports(ports: Sequence[str]) -> dict[str, PortState]:
    """Reads qdiscs, classes and filters of all ports, with two processes in all; ports without HTB are left out."""
    qdiscs = json.loads(run(["tc", "-j", "qdisc", "show"]) or "[]")
    roots = {q["dev"] for q in qdiscs if q["kind"] == "htb" and q.get("root")}
    fifos = {(q["dev"], q["parent"]) for q in qdiscs if q["kind"] == "pfifo" and "parent" in q}
    ready = [port for port in ports if port in roots]
    # `class show` does not say which device it speaks of; the loopback's qdisc, which is always there, parts the ports.
    questions = "".join(
        f"qdisc show dev lo\nclass show dev {port}\nfilter show dev {port} parent 1:\n" for port in ready
    )
    answers = run(["tc", "-force", "-batch", "-"], stdin=questions, check=False) if ready else ""
    return {
        port: parse_port(text, frozenset(parent for dev, parent in fifos if dev == port))
        for port, text in zip(ready, re.split(r"^qdisc .*\n", answers, flags=re.M)[1:], strict=False)
    }


def parse_port(text: str, fifo_parents: frozenset[str]) -> PortState:
    """Reads `tc class show` and `tc filter show` of one port (iproute2's text form)."""
    classes = frozenset(
        HtbClass(int(minor, 16), parent, priority, rate, ceil, _size_bytes(burst))
        for minor, parent, priority, rate, ceil, burst in _CLASS.findall(text)
    )
    found = re.findall(r"pref (\d+) u32 .*flowid 1:(\w+).*\n\s+match (\w+)/(\w+) at 0", text)
    protocols = {p.preference: p for p in _PROTOCOLS}
    filters = frozenset(
        Filter(protocols.get(int(pref), Protocol(int(pref), "?")), (int(value, 16), int(mask, 16)), int(leaf, 16))
        for pref, leaf, value, mask in found
    )
    return PortState(classes, frozenset(int(p.split(":")[1], 16) for p in fifo_parents), filters)


def _size_bytes(text: str) -> int:
    """iproute2's sizes: 1564b, 12Kb, 1Mb, in powers of 1024."""
    number, unit = re.fullmatch(r"(\d+)([KM]?)b", text).groups()  # type: ignore[union-attr] # by the pattern of _CLASS
    return int(number) * {"": 1, "K": 1 << 10, "M": 1 << 20}[unit]


class FilterKeeper:
    """Calls `ensure` whenever a qdisc, class or filter changes in the namespace of the thread that starts it.

    The kernel announces such changes (rtnetlink, group TC), so nothing is polled and nothing runs on a quiet fabric.
    """

    def __init__(self, ports: Sequence[str], mapping: ClassMap) -> None:
        self._ports = tuple(ports)
        self._mapping = mapping
        self._classified = True
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="filter-keeper", daemon=True)

    def start(self) -> None:
        self.ensure()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def ensure(self) -> int:
        """Lays what is missing, now; returns how many changes that took."""
        with self._lock:
            return ensure(self._ports, self._mapping, classified=self._classified)

    def classify(self, *, on: bool) -> None:
        """Switches the traffic classes' effect on or off on all ports, for a comparison."""
        self._classified = on
        self.ensure()

    def _watch(self) -> None:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as events:
            events.bind((0, _RTMGRP_TC))
            events.setblocking(False)
            # Changes made before the socket was there are found by looking once.
            self._ensure_quietly()
            while not self._stopping.is_set():
                if select.select([events], [], [], 0.2)[0]:
                    # One reconfiguration is a burst of messages: wait for its end.
                    self._stopping.wait(_SETTLE_S)
                    _drain(events)
                    self._ensure_quietly()

    def _ensure_quietly(self) -> None:
        try:
            self.ensure()
        except LabError:
            # The fabric is being taken down, or a port changed meanwhile: then another event follows.
            return


def _drain(events: socket.socket) -> None:
    while True:
        try:
            events.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            # ENOBUFS: messages were lost. That is a change as well, and everything is read anyway.
            continue
