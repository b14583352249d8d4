"""The words of cabling: what was meant, in whatever detail somebody wrote it down, and what is seen.

It decides nothing but what the two have in common. Plans come from our topology files and from other people's
(`controller.formats`), so partial information is normal: ports, rates and even the number of cables may be unknown.
The comparison of the two is `cabling_verdict`'s. Rates are bit/s.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan
from controller.fabric.rails import Nic, infer

# States of a cable that carries nothing, or that nobody should count on.
UNUSABLE_STATES = frozenset({"down", "one-way", "ambiguous", "held"})


_NIC = re.compile(r"nic[0-9]+")


def nic_port(number: int) -> str:
    """What stands for the port of a host whose interfaces are counted and not named; empty for an only one (0)."""
    return f"nic{number}" if number else ""


def is_nic_port(name: str) -> bool:
    return _NIC.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, order=True)
class CableEnd:
    """A node (switch or host) and its port as the plan spells it: "swp1", "Ethernet1/47", or a number in text.

    The port is empty where the plan does not say."""

    node: str
    port: str = ""

    def __str__(self) -> str:
        return f"{self.node}:{self.port}" if self.port else self.node


@dataclass(frozen=True, slots=True)
class Cable:
    """A cable that was meant. `place` is where it is written ("topology.dot:12"). `state` is "up" in a plan that came
    from a file; a plan taken from a running fabric carries what was seen."""

    a: CableEnd
    b: CableEnd
    rate_bps: int | None = None
    place: str = ""
    state: str = "up"

    @property
    def usable(self) -> bool:
        return self.state not in UNUSABLE_STATES


@dataclass(frozen=True, slots=True)
class CabledSwitch:
    """`level` counts from 0 at the hosts' switches, None where the plan does not say; `alias` is a second name; `rails`
    are those that a leaf of a rail-optimised pod carries."""

    name: str
    role: Role = Role.UNKNOWN
    dpid: int | None = None
    level: int | None = None
    alias: str = ""
    rails: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CablingPlan:
    """What was meant. A host may have several cables, to one switch or to several (rails).

    `cables_counted` is False where one entry stands for any number of parallel cables between two switches, as in a
    scheduler's tree. `blocks` are groups of hosts that a file names without saying how they are cabled. `remarks` say
    what the file holds that was left out, and why.
    """

    name: str
    source: str
    switches: tuple[CabledSwitch, ...]
    hosts: tuple[str, ...]
    cables: tuple[Cable, ...]
    cables_counted: bool = True
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def between_switches(self) -> tuple[Cable, ...]:
        hosts = frozenset(self.hosts)
        return tuple(c for c in self.cables if c.a.node not in hosts and c.b.node not in hosts)

    def to_hosts(self) -> tuple[tuple[str, str, Cable], ...]:
        """(host, switch, cable) of each host's cable."""
        hosts = frozenset(self.hosts)
        found = []
        for cable in self.cables:
            for near, far in ((cable.a, cable.b), (cable.b, cable.a)):
                if near.node in hosts and far.node not in hosts:
                    found.append((near.node, far.node, cable))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Outline:
    """What every format can say: which switches and hosts there are and which of them are joined at all."""

    switches: frozenset[str]
    hosts: frozenset[str]
    joined: frozenset[frozenset[str]]


def outline(plan: CablingPlan) -> Outline:
    """Of the cables that can be used."""
    joined = frozenset(frozenset((cable.a.node, cable.b.node)) for cable in plan.cables if cable.usable)
    return Outline(frozenset(s.name for s in plan.switches), frozenset(plan.hosts), joined)


def of_fabric_plan(plan: FabricPlan) -> CablingPlan:
    """Our own topology file, whose ports are OpenFlow numbers."""
    cables = [Cable(CableEnd(k.a, str(k.a_port)), CableEnd(k.b, str(k.b_port)), k.rate_bps or None) for k in plan.links]
    # A host's ports have no names in a topology file: several are told apart by their numbers.
    cables += [
        Cable(CableEnd(h.name, nic_port(h.nic)), CableEnd(h.switch, str(h.port)), h.rate_bps or None)
        for h in plan.hosts
    ]
    dpid = {switch.name: switch.dpid for switch in plan.switches}
    carried = infer((Nic(h.name, h.nic, dpid[h.switch]) for h in plan.hosts if h.nic), str).of_leaf
    return CablingPlan(
        plan.name,
        "heddle",
        tuple(CabledSwitch(s.name, s.role, s.dpid, rails=carried.get(s.dpid, ())) for s in plan.switches),
        tuple(dict.fromkeys(h.name for h in plan.hosts)),
        tuple(cables),
    )


# --- what is seen --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SeenEnd:
    """`number` is the OpenFlow port number, None at a host; `name` is the switch's name for the port, or empty."""

    node: str
    number: int | None = None
    name: str = ""

    def __str__(self) -> str:
        # The number says it all where the name only repeats it, as in "leaf1-eth3".
        known = "" if self.number is None else str(self.number)
        named = self.name and self.name not in (known, f"{self.node}-eth{known}")
        return f"{self.node}:{self.name if named else known}" if named or known else self.node


@dataclass(frozen=True, slots=True)
class SeenCable:
    """A cable as it is. `state` is "up", "one-way", "ambiguous" (several neighbours share it), "held" (it flaps) or
    "down"; a cable that is down was there or was meant to be.

    `rate_bps` is None when unknown; `rate_source` says in words who claims it.
    """

    a: SeenEnd
    b: SeenEnd
    state: str = "up"
    rate_bps: int | None = None
    rate_source: str = ""


@dataclass(frozen=True, slots=True)
class SeenSwitch:
    name: str
    role: Role = Role.UNKNOWN
    connected: bool = True
    rails: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenNeighbour:
    """Who speaks LLDP at one of our ports, `cable.b`, and is neither a switch of ours nor a host that was heard there.

    `kind` is what it says it is: "NIC", "host", "switch" or "unknown"; `words` describe it to people.
    """

    cable: SeenCable
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class SeenFabric:
    """`hosts` maps each host's name to its addresses; where it is plugged in is one of the cables."""

    switches: tuple[SeenSwitch, ...]
    hosts: Mapping[str, tuple[str, ...]]
    cables: tuple[SeenCable, ...]
    neighbours: tuple[SeenNeighbour, ...] = ()


def of_seen(seen: SeenFabric, name: str) -> CablingPlan:
    """The running fabric in the form of a plan, for writing it down."""
    cables = (Cable(_end(c.a), _end(c.b), c.rate_bps, "", c.state) for c in seen.cables)
    switches = tuple(CabledSwitch(s.name, s.role, rails=s.rails) for s in seen.switches)
    return CablingPlan(name, "live", switches, tuple(seen.hosts), tuple(cables))


def _end(end: SeenEnd) -> CableEnd:
    return CableEnd(end.node, end.name or ("" if end.number is None else str(end.number)))
