"""Compares the cabling that was meant with what is seen, and says of every cable what is wrong with it.

It decides which seen cable a planned one is: by both its ports where the plan names them, by the pair of nodes where
it does not. Ports are compared by `port_names`, nodes by `names`, so that spelling never makes a right cable wrong; a
doubt becomes a question ("two names"), never a fault. What nobody has plugged in yet and what is plugged in elsewhere
are told apart, since they need different hands. It knows no clock and asks nobody.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from controller.fabric.cabling import Cable, CableEnd, CablingPlan, SeenCable, SeenEnd, SeenFabric, SeenNeighbour
from controller.fabric.cabling_match import NodeNames, meets, with_neighbours
from controller.fabric.port_names import PortMatch


class Kind(StrEnum):
    MISSING = "missing"
    MISWIRED = "miswired"
    WRONG_RATE = "wrong rate"
    ONE_WAY = "one-way"
    UNPLANNED = "unplanned"
    TWO_NAMES = "two names"
    SILENT_HOST = "host not seen"


# A question or a host that is switched off does not make a cabling wrong.
FAULTS = frozenset(Kind) - {Kind.TWO_NAMES, Kind.SILENT_HOST}


@dataclass(frozen=True, slots=True)
class Finding:
    """`planned` is None for what nobody planned; `seen` are the cables that stand for it or in its way, if any."""

    kind: Kind
    planned: Cable | None
    seen: tuple[SeenCable, ...]
    expected: str
    found: str
    cure: str

    @property
    def fault(self) -> bool:
        return self.kind in FAULTS

    def __str__(self) -> str:
        place = f" ({self.planned.place})" if self.planned and self.planned.place else ""
        return f"{self.kind}: expected {self.expected}, found {self.found}; {self.cure}{place}"


@dataclass(frozen=True, slots=True)
class CablingVerdict:
    """`right` are the planned cables with nothing to say about, `planned` how many there are."""

    plan: str
    planned: int
    right: tuple[Cable, ...]
    findings: tuple[Finding, ...]

    @property
    def faults(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.fault)

    @property
    def holds(self) -> bool:
        return not self.faults


def verdict(plan: CablingPlan, seen: SeenFabric) -> CablingVerdict:
    """What is right and what is not. Linear in the number of cables, but for parallel cables of one pair."""
    return _Comparison(plan, seen).result()


@dataclass(frozen=True, slots=True)
class _Planned:
    """A planned cable with its ends in the words of what is seen."""

    cable: Cable
    a: CableEnd
    b: CableEnd

    @property
    def pair(self) -> frozenset[str]:
        return frozenset((self.a.node, self.b.node))

    @property
    def ports_known(self) -> int:
        return bool(self.a.port) + bool(self.b.port)


class _Comparison:
    def __init__(self, plan: CablingPlan, seen: SeenFabric) -> None:
        seen = with_neighbours(plan, seen)
        self._plan = plan
        self._neighbours: dict[str, list[SeenNeighbour]] = defaultdict(list)
        for neighbour in seen.neighbours:
            self._neighbours[neighbour.cable.b.node].append(neighbour)
        self._names = NodeNames(plan, seen)
        self._planned = [_Planned(c, self._names.end(c.a), self._names.end(c.b)) for c in plan.cables]
        self._hosts = frozenset(self._names.seen_name(host) for host in plan.hosts) | seen.hosts.keys()
        self._open = dict.fromkeys(range(len(seen.cables)))
        self._cables = seen.cables
        self._by_pair: dict[frozenset[str], list[int]] = defaultdict(list)
        self._by_node: dict[str, list[int]] = defaultdict(list)
        for index, cable in enumerate(seen.cables):
            self._by_pair[frozenset((cable.a.node, cable.b.node))].append(index)
            for node in {cable.a.node, cable.b.node}:
                self._by_node[node].append(index)
        self._findings: list[Finding] = []
        self._right: list[Cable] = []
        # Seen cables that a miswired one was explained by: they are not reported again as unplanned.
        self._explained: set[int] = set()

    def result(self) -> CablingVerdict:
        # Entries that name their ports choose first; what is left over is for those that do not.
        waiting = sorted(self._planned, key=lambda planned: -planned.ports_known)
        for wanted in (PortMatch.SAME, PortMatch.MAYBE):
            waiting = [planned for planned in waiting if not self._match(planned, wanted)]
        misplaced = self._misplaced(waiting)
        for planned in waiting:
            self._absent(planned, misplaced)
        self._unplanned()
        order = {kind: number for number, kind in enumerate(Kind)}
        self._findings.sort(key=lambda finding: order[finding.kind])
        return CablingVerdict(self._plan.name, len(self._planned), tuple(self._right), tuple(self._findings))

    # --- the cable is there ----------------------------------------------------------------------------

    def _match(self, planned: _Planned, wanted: PortMatch) -> bool:
        fitting = [
            index
            for index in self._by_pair[planned.pair]
            if index in self._open and meets(planned.a, planned.b, self._cables[index]) is wanted
        ]
        if not fitting:
            return False
        # Something that works is preferred where the plan leaves the choice.
        fitting.sort(key=lambda index: (self._cables[index].state != "up", index))
        taken = fitting if not self._plan.cables_counted else fitting[:1]
        for index in taken:
            del self._open[index]
        found = [self._cables[index] for index in taken]
        first = found[0]
        if wanted is PortMatch.MAYBE and first.state != "down":
            cure = "use the switch's own names in the plan, or check that both mean this port"
            self._say(Kind.TWO_NAMES, planned.cable, found[:1], _ends(planned), _seen_ends(first), cure)
        before = len(self._findings)
        self._judge(planned, first)
        if len(self._findings) == before and wanted is PortMatch.SAME:
            self._right.append(planned.cable)
        return True

    def _judge(self, planned: _Planned, found: SeenCable) -> None:
        """State and rate of the cable that was meant."""
        expected, cable = _ends(planned), planned.cable
        if found.state == "down":
            cure = "look whether both ports are lit and the cable is whole"
            self._say(Kind.MISSING, cable, (found,), expected, "no link", cure)
            return
        if found.state == "one-way":
            cure = "replace the cable or clean its ends: one fibre is broken, or one side does not send"
            self._say(Kind.ONE_WAY, cable, (found,), expected, "a link that works in one direction only", cure)
        if cable.rate_bps and found.rate_bps and cable.rate_bps != found.rate_bps:
            said = f"{_rate(found.rate_bps)} ({found.rate_source})" if found.rate_source else _rate(found.rate_bps)
            cure = "set the ports' speed, or fit the cable or module that was meant"
            self._say(Kind.WRONG_RATE, cable, (found,), f"{expected} at {_rate(cable.rate_bps)}", said, cure)

    # --- it is not, or not where it should be -----------------------------------------------------------

    def _misplaced(self, waiting: Iterable[_Planned]) -> dict[CableEnd, CableEnd]:
        """Planned end -> planned other end, of the cables that were not found."""
        ends = [(planned.a, planned.b) for planned in waiting]
        return {near: far for a, b in ends for near, far in ((a, b), (b, a)) if near.port}

    def _absent(self, planned: _Planned, misplaced: dict[CableEnd, CableEnd]) -> None:
        at_a, at_b = self._in_port(planned.a), self._in_port(planned.b)
        if at_a is None and at_b is None:
            self._missing(planned)
            return
        sentences, seen = [], []
        for end, at in ((planned.a, at_a), (planned.b, at_b)):
            if at is not None:
                near, far = at
                self._explained.add(near)
                seen.append(self._cables[near])
                sentences.append(f"{end} to {far}")
        cure = self._cure(planned, at_a, at_b, misplaced)
        self._say(Kind.MISWIRED, planned.cable, seen, _ends(planned), " and ".join(sentences), cure)

    def _in_port(self, end: CableEnd) -> tuple[int, SeenEnd] | None:
        """What is plugged into that port now: (cable, far end). A host's only cable is in its port, whatever it is."""
        if not end.port and end.node not in self._hosts:
            return None
        for index in self._by_node.get(end.node, ()):
            cable = self._cables[index]
            if index not in self._open or cable.state == "down":
                continue
            for near, far in ((cable.a, cable.b), (cable.b, cable.a)):
                if near.node == end.node and self._names.same_port(end, near):
                    return index, far
        return None

    def _cure(
        self,
        planned: _Planned,
        at_a: tuple[int, SeenEnd] | None,
        at_b: tuple[int, SeenEnd] | None,
        misplaced: dict[CableEnd, CableEnd],
    ) -> str:
        """Two cables that each sit in the other's port are one mistake with one cure."""
        if at_a is not None and at_b is not None:
            for wrong, partner in misplaced.items():
                if self._names.same_port(wrong, at_a[1]) and self._names.same_port(partner, at_b[1]):
                    return f"swap the plugs in {planned.b} and {wrong}"
        if at_a is not None:
            return f"move the plug in {at_a[1]} to {planned.b}"
        return f"move the plug in {at_b[1]} to {planned.a}" if at_b is not None else "plug it in"

    def _missing(self, planned: _Planned) -> None:
        host = next((end.node for end in (planned.a, planned.b) if end.node in self._hosts), None)
        away = [end.node for end in (planned.a, planned.b) if not self._names.is_seen(end.node)]
        if host is not None:
            why = f"{host} is not seen at all" if host in away else f"nothing of {host} there"
            there = [n.words for end in (planned.a, planned.b) for n in self._neighbours_at(end)]
            why += f", but {' and '.join(there)} is plugged in" if there else ""
            cure = "a host is seen once it sends: switch it on, then look at its cable"
            self._say(Kind.SILENT_HOST, planned.cable, (), _ends(planned), why, cure)
            return
        why = f"{' and '.join(away)} not connected to the controller" if away else "no link"
        cure = "connect the switch first" if away else "plug a cable in, or look whether both ports are lit"
        self._say(Kind.MISSING, planned.cable, (), _ends(planned), why, cure)

    def _neighbours_at(self, end: CableEnd) -> list[SeenNeighbour]:
        return [n for n in self._neighbours.get(end.node, ()) if end.port and self._names.same_port(end, n.cable.b)]

    # --- what nobody planned ----------------------------------------------------------------------------

    def _unplanned(self) -> None:
        speaks_of_hosts, speaks_of_switches = bool(self._plan.to_hosts()), bool(self._plan.between_switches())
        for index in self._open:
            cable = self._cables[index]
            to_host = bool({cable.a.node, cable.b.node} & self._hosts)
            if index in self._explained or cable.state == "down":
                continue
            if speaks_of_hosts if to_host else speaks_of_switches:
                cure = "take it out, or add it to the plan"
                self._say(Kind.UNPLANNED, None, (cable,), "nothing", _seen_ends(cable), cure)

    def _say(
        self, kind: Kind, planned: Cable | None, seen: Sequence[SeenCable], expected: str, found: str, cure: str
    ) -> None:
        self._findings.append(Finding(kind, planned, tuple(seen), expected, found, cure))


def _ends(planned: _Planned) -> str:
    return f"{planned.a} to {planned.b}"


def _seen_ends(cable: SeenCable) -> str:
    return f"{cable.a} to {cable.b}"


def _rate(rate_bps: int) -> str:
    for unit, factor in (("Tb/s", 10**12), ("Gb/s", 10**9), ("Mb/s", 10**6), ("kb/s", 10**3)):
        if rate_bps >= factor:
            return f"{rate_bps / factor:.6g} {unit}"
    return f"{rate_bps} b/s"
