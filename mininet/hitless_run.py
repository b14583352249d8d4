"""The fabric under probes while its controller and agent are killed, paths are moved and a queue's weight is changed.

It decides what is done to the fabric and in which order, and gathers what the probes and the switches saw. What
would be right (nothing lost, nothing twice, nothing deleted wholesale) is for those who call it to demand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from demo_controllers import OPENFLOW
from demo_job import RingJob
from demo_northbound import Controller
from hitless_probes import FIRST_PORT, ProbeFlow, Router, covering, finish, running
from hitless_processes import Processes, processes
from hitless_record import Changes, MessageRecord
from lab_fabric import FabricLab
from lab_namespace import LabError

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan
from controller.formats.topology_file import load

# Other weights than the usual ones (qos.classes).
_OTHER_SHARES = "control=5,collective=60,best-effort=35"
_REST_S = 0.5
_MOVES_PER_ROUND_TRIED = 4


@dataclass(frozen=True, slots=True)
class Counts:
    """How often each thing is done."""

    controller_kills: int = 5
    agent_kills: int = 5
    path_moves: int = 20
    queue_changes: int = 1


@dataclass(slots=True)
class Outcome:
    """Packets of all probes together; changes by phase, as the switches saw them; times in seconds."""

    probes: int = 0
    packets_per_second: float = 0.0
    leaf_pairs: int = 0
    cable_directions: int = 0
    sent: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    longest_gap_s: float = 0.0
    moves: int = 0
    queue_rows_changed: int = 0
    duration_s: float = 0.0
    ready_again_s: list[float] = field(default_factory=list)
    changes: dict[str, Changes] = field(default_factory=dict)
    lost_by_probe: dict[str, int] = field(default_factory=dict)

    @property
    def wholesale(self) -> list[str]:
        return [line for changes in self.changes.values() for line in changes.wholesale]


@dataclass(frozen=True, slots=True)
class Jobs:
    """`mover` is led elsewhere by laying `blocker` first; `stays` is never touched."""

    mover: RingJob
    blocker: RingJob
    stays: RingJob

    @classmethod
    def on(cls, plan: FabricPlan) -> Jobs:
        """All three between the first two leaves. Raises LabError when there are no two hosts on each."""
        leaves = [s.name for s in plan.switches if s.role == Role.LEAF][:2]
        rows = list(zip(*([h.name for h in plan.hosts if h.switch == leaf] for leaf in leaves), strict=False))
        if len(leaves) < 2 or len(rows) < 2:
            raise LabError(f"{plan.name!r} has no two leaves with two hosts each")
        (a, b), (c, d) = rows[:2]
        rings = [RingJob(pair, ((0, 1),), 1_000_000, "hitless") for pair in ((a, b), (c, d), (a, d))]
        return cls(*rings)

    @property
    def moving_pairs(self) -> tuple[tuple[str, str], ...]:
        a, b = self.mover.hosts
        return ((a, b), (b, a))


class HitlessRun:
    """One fabric, brought up and probed; the methods are what is done to it."""

    def __init__(self, lab: FabricLab, control: Processes, jobs: Jobs) -> None:
        self.lab, self.control, self.jobs = lab, control, jobs
        self.outcome = Outcome()
        self._router = Router(lab)
        self._record = MessageRecord(lab)
        self._movers: list[ProbeFlow] = []

    def flows(self) -> list[ProbeFlow]:
        """Probes that cover everything on unplanned pairs, and one on each pair whose path is moved."""
        covered = covering(self.lab, avoid=self.jobs.mover.hosts[:1])
        self._movers = [ProbeFlow(a, b, FIRST_PORT - 1 - i) for i, (a, b) in enumerate(self.jobs.moving_pairs)]
        self.outcome.leaf_pairs = len({(self._leaf(f.source), self._leaf(f.target)) for f in covered})
        self.outcome.cable_directions = len({direction for f in covered for direction in f.crosses})
        return [*covered, *self._movers]

    def _leaf(self, host: str) -> str:
        return next(h.switch for h in self.lab.plan.hosts if h.name == host)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What the switches are sent meanwhile is counted under this name."""
        self._record.take()
        yield
        time.sleep(_REST_S)
        self.outcome.changes[name] = self._record.take()

    def kill_controller(self) -> None:
        self.control.kill_controller()
        self.control.start_controller()
        self.outcome.ready_again_s.append(self.control.wait_ready())

    def kill_agent(self) -> None:
        self.control.kill_agent()
        self.control.start_agent()
        self.lab.wait_connected()
        self.outcome.ready_again_s.append(self.control.wait_ready())

    def move_paths(self, moves: int) -> None:
        """Until the switches lead the probed flows another way that often. Raises LabError when they will not."""
        with Controller(self.control.grpc) as controller:
            steps = self._steps(controller)
            before = self._ways()
            for step in (step for _ in range(_MOVES_PER_ROUND_TRIED * moves) for step in steps):
                step()
                after = self._ways()
                self.outcome.moves += sum(a != b for a, b in zip(before, after, strict=True))
                before = after
                if self.outcome.moves >= moves:
                    break
            for job in ("mover", "blocker"):
                _withdraw_if_there(controller, job)
        if self.outcome.moves < moves:
            raise LabError(f"only {self.outcome.moves} of {moves} path moves came about")

    def _steps(self, controller: Controller) -> list[Callable[[], object]]:
        """Alone the mover takes the first free path; behind the blocker another one; without a job its hash's."""
        mover, blocker = self.jobs.mover, self.jobs.blocker
        return [
            lambda: controller.announce("mover", mover),
            lambda: controller.withdraw("mover"),
            lambda: controller.announce("blocker", blocker),
            lambda: controller.announce("mover", mover),
            lambda: controller.withdraw("mover"),
            lambda: controller.withdraw("blocker"),
        ]

    def _ways(self) -> list[tuple[str, ...]]:
        return [self._router.route(f.source, f.target, f.udp_source_port) for f in self._movers]

    def change_queues(self) -> None:
        """The controller starts anew with other weights and brings the switches' queues to them."""
        before = self._queue_rows()
        environment = self.control.environment
        other = "" if environment.get("HEDDLE_QOS_SHARES") else _OTHER_SHARES
        environment["HEDDLE_QOS_SHARES"] = other
        self.kill_controller()
        deadline = time.monotonic() + 30.0
        while (after := self._queue_rows()) == before:
            if time.monotonic() > deadline:
                raise LabError("the queues' weights did not change")
            time.sleep(0.1)
        time.sleep(_REST_S)
        after = self._queue_rows()
        self.outcome.queue_rows_changed += sum(after.get(row) != config for row, config in before.items())

    def _queue_rows(self) -> dict[str, str]:
        said = self.lab.ovs.vsctl("--format=csv", "--no-headings", "--columns=_uuid,other_config", "list", "Queue")
        return {row: config for row, _, config in (line.partition(",") for line in said.splitlines())}


def _withdraw_if_there(controller: Controller, job_id: str) -> None:
    import grpc

    try:
        controller.withdraw(job_id)
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.NOT_FOUND:
            raise


def run(
    topology: Path,
    name: str,
    log: Path,
    counts: Counts,
    packets_per_second: float,
    progress: Callable[[str], object] = lambda _: None,
) -> Outcome:
    """Everything in `counts`, under probes. Raises LabError when the fabric does not come up or back."""
    plan = load(topology)
    jobs = Jobs.on(plan)
    with (
        FabricLab(plan, controllers=[OPENFLOW], name=name, progress=progress) as lab,
        processes(lab, topology, log) as control,
    ):
        # Hosts that know one another ask nobody: what is probed is the fabric, not ARP.
        lab.teach_neighbours()
        with Controller(control.grpc) as controller:
            controller.announce("stays", jobs.stays)
        progress("finding probes that cover every cable")
        hitless = HitlessRun(lab, control, jobs)
        flows = hitless.flows()
        outcome = hitless.outcome
        outcome.probes, outcome.packets_per_second = len(flows), packets_per_second
        started = time.monotonic()
        with running(lab, flows, packets_per_second) as probes:
            _disturb(hitless, counts, progress)
            results = finish(probes)
        outcome.duration_s = time.monotonic() - started
    for flow, result in zip(flows, results, strict=True):
        outcome.sent += result.sent
        outcome.lost += result.lost
        outcome.duplicated += result.duplicated
        outcome.reordered += result.reordered
        outcome.longest_gap_s = max(outcome.longest_gap_s, result.longest_gap_s)
        if result.lost:
            outcome.lost_by_probe[f"{flow.source}>{flow.target}:{flow.udp_source_port}"] = result.lost
    return outcome


def _disturb(hitless: HitlessRun, counts: Counts, progress: Callable[[str], object]) -> None:
    with hitless.phase("nothing"):
        progress("nothing is done")
        time.sleep(2.0)
    for what, times, action in (
        ("controller killed", counts.controller_kills, hitless.kill_controller),
        ("agent killed", counts.agent_kills, hitless.kill_agent),
        ("queue weight changed", counts.queue_changes, hitless.change_queues),
    ):
        if not times:
            continue
        with hitless.phase(what):
            for number in range(times):
                progress(f"{what}, {number + 1} of {times}")
                action()
    if counts.path_moves:
        progress(f"{counts.path_moves} path moves")
        with hitless.phase("paths moved"):
            hitless.move_paths(counts.path_moves)
