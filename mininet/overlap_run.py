"""Failures that overlap: two or three at a time, each 20 ms after the one before, under probes between all leaves.

It decides what fails, at random but repeatably, and says of each case what was delivered, whether packets circled, and
whether the certificate that the controller gives is true of the fabric that is left. What is right is for those who
call.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from demo_northbound import Controller
from failover_run import Cable, cables
from heddle.v1 import collective_pb2
from hitless_probes import FIRST_PORT, ProbeFlow, running, stop_together
from lab_fabric import FabricLab
from roce_probe import RunningProbe

from controller.fabric.model import Role

GAP_S = 0.02
# By then every pair that still has a way must deliver again.
DELIVERED_WITHIN_S = 1.0
# What is looked at of that and after it, the pause at the beginning, and the time in which all is whole again.
_WINDOW_S, _LEAD_S, _WHOLE_AGAIN_S = 0.4, 1.0, 120.0
_PACKETS_PER_S = 50.0
# Frames on cables for each probe packet: two on a straight way, four more while it takes a detour, and beacons and BFD
# besides. What circles makes dozens.
MOST_CROSSINGS = 12.0
# Relative; the controller adds the same numbers in another order.
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Case:
    """Each failure is the cables that go at one moment: one of them, or all of a spine."""

    failures: tuple[tuple[Cable, ...], ...]

    @property
    def gone(self) -> frozenset[Cable]:
        return frozenset(itertools.chain.from_iterable(self.failures))

    def __str__(self) -> str:
        return ", then ".join(
            f"{one[0].leaf} - {one[0].spine}" if len(one) == 1 else one[0].spine for one in self.failures
        )


def cases(lab: FabricLab, count: int, seed: int) -> list[Case]:
    """Two or three failures each, every fifth of them a spine's."""
    random, every = Random(seed), cables(lab)
    spines = sorted({cable.spine for cable in every})

    def failure() -> tuple[Cable, ...]:
        if random.random() < 0.2:
            spine = random.choice(spines)
            return tuple(cable for cable in every if cable.spine == spine)
        return (random.choice(every),)

    found: list[Case] = []
    while len(found) < count:
        case = Case(tuple(failure() for _ in range(random.choice((2, 3)))))
        if len(set(case.failures)) == len(case.failures):
            found.append(case)
    return found


@dataclass(slots=True)
class Outcome:
    """`silent` are pairs of leaves that a spine still joins and that delivered nothing in the window; `joined` counts
    those that it joins. `certificate` is empty when that was true, else what was wrong. `crossings` are frames on the
    cables for each probe packet sent meanwhile: some two on straight ways, dozens when packets circle."""

    case: Case
    failed_s: float
    settled_s: float
    joined: frozenset[tuple[str, str]]
    certificate: str = ""
    crossings: float = 0.0
    silent: list[tuple[str, str]] = field(default_factory=list)
    duplicated: int = 0


class OverlapRun:
    """One lab under probes between every two leaves."""

    def __init__(self, lab: FabricLab, controller: Controller, job_id: str) -> None:
        self.lab, self._controller, self._job_id = lab, controller, job_id
        self._leaves = [s.name for s in lab.plan.switches if s.role == Role.LEAF]
        first = {leaf: next(h.name for h in lab.plan.hosts if h.switch == leaf) for leaf in self._leaves}
        self._pairs = list(itertools.permutations(self._leaves, 2))
        self._flows = [ProbeFlow(first[a], first[b], FIRST_PORT + i) for i, (a, b) in enumerate(self._pairs)]
        self._interfaces = [end for cable in cables(lab) for end in (cable.leaf_end, cable.spine_end)]

    def run(self, chosen: Iterable[Case]) -> list[Outcome]:
        """Raises LabError when the fabric does not become whole again between two cases."""
        with running(self.lab, self._flows, _PACKETS_PER_S) as probes:
            time.sleep(_LEAD_S)
            outcomes = [self._one(case) for case in chosen]
            self._take_arrivals(probes, outcomes)
        return outcomes

    def _one(self, case: Case) -> Outcome:
        before, started_s = self._frames(), time.monotonic()
        for number, failure in enumerate(case.failures):
            if number:
                time.sleep(max(0.0, started_s + number * GAP_S - time.monotonic()))
            self._set(failure, up=False)
        failed_s = time.monotonic()
        outcome = Outcome(case, failed_s, failed_s + DELIVERED_WITHIN_S, self._joined(case))
        time.sleep(DELIVERED_WITHIN_S)
        outcome.certificate = self._judge_certificate(case)
        time.sleep(max(0.0, outcome.settled_s + _WINDOW_S - time.monotonic()))
        sent = len(self._flows) * _PACKETS_PER_S * (time.monotonic() - started_s)
        outcome.crossings = (self._frames() - before) / sent
        self._set(tuple(case.gone), up=True)
        # Also until no link is held for having failed before: each case is one for itself.
        self._controller.wait_for(len(self.lab.plan.links), len(self.lab.plan.hosts), _WHOLE_AGAIN_S)
        return outcome

    def _set(self, failing: Sequence[Cable], *, up: bool) -> None:
        change = self.lab.restore_link if up else self.lab.cut_link
        for cable in failing:
            change(cable.spine, cable.leaf)

    def _frames(self) -> int:
        counters = self.lab.counters()
        return sum(counters[interface].tx_packets for interface in self._interfaces)

    def _joined(self, case: Case) -> frozenset[tuple[str, str]]:
        left = {(cable.leaf, cable.spine) for cable in cables(self.lab) if cable not in case.gone}
        spines = {spine for _, spine in left}
        return frozenset((a, b) for a, b in self._pairs if any((a, s) in left and (b, s) in left for s in spines))

    def _judge_certificate(self, case: Case) -> str:
        """What is wrong with the plan that the controller gives now; empty when nothing is."""
        plan = self._controller.plan(self._job_id)
        rate = {frozenset((link.a, link.b)): link.rate_bps for link in self.lab.plan.links}
        dead = {frozenset((cable.leaf, cable.spine)) for cable in case.gone}
        load_s: dict[tuple[str, int], float] = {}
        for flow in plan.flows:
            for hop in flow.path:
                ends = frozenset((hop.switch, hop.to))
                if ends in dead:
                    return f"{flow.flow_id} is planned over {hop.switch} - {hop.to}, which is cut"
                port = (hop.switch, hop.port_no)
                load_s[port] = load_s.get(port, 0.0) + 8 * flow.size_bytes / rate[ends]
        return _wrong_with(plan.certificate, max(load_s.values(), default=0.0))

    def _take_arrivals(self, probes: Sequence[RunningProbe], outcomes: Sequence[Outcome]) -> None:
        stop_together(probes)
        for pair, probe in zip(self._pairs, probes, strict=True):
            arrivals, _ = probe.arrivals()
            received = [at for _, _, at in arrivals]
            for outcome in outcomes:
                heard = any(outcome.settled_s - _WINDOW_S < at < outcome.settled_s for at in received)
                if pair in outcome.joined and not heard:
                    outcome.silent.append(pair)
                numbers = [n for n, sent_s, _ in arrivals if outcome.failed_s - 1 < sent_s < outcome.settled_s]
                outcome.duplicated += len(numbers) - len(set(numbers))


def _wrong_with(certificate: collective_pb2.Certificate, load_s: float) -> str:
    if certificate.max_load_s + _TOLERANCE * load_s < load_s:
        return (
            f"the fullest link needs {load_s} s for this job alone, and the certificate says {certificate.max_load_s} s"
        )
    if certificate.lower_bound_s > certificate.max_load_s * (1 + _TOLERANCE):
        return f"the bound {certificate.lower_bound_s} s is above the load {certificate.max_load_s} s"
    return ""
