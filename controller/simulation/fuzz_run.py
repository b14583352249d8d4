"""Carries out the steps of one fuzzed run against the real core, and looks at every invariant when it is asked to.

What the steps are is decided in `fuzz_steps`, what must hold in `fuzz_checks`.
"""

import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controller.core.commands import Accepted, Refused
from controller.core.commands import Failure as Refusal
from controller.core.events import CollectiveAnnounced, CollectiveWithdrawn, DrainWanted, UndrainWanted
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.jobs.collective import Collective
from controller.pipeline.foreign import ForeignPolicy
from controller.qos.classes import QosSettings
from controller.simulation import fuzz_checks, fuzz_drains, fuzz_gray
from controller.simulation.admission import Limits
from controller.simulation.driver import NotQuietError, StuckClockError
from controller.simulation.fuzz_deeds import Deeds
from controller.simulation.fuzz_fabric import FuzzFabric
from controller.simulation.fuzz_steps import Step, What, collective_of
from controller.simulation.network import ModelNetwork
from controller.simulation.watch import DeliveryWatch

_AUDIT_S = 5.0
_STATISTICS_S = 2.0
# Beacons are half of a run's work; so seldom, more of it goes into what they may meet.
_BEACON_S = 2.0
_HEARTBEAT_S = 1.0
# Longer than a beacon's period; and than a silent failure takes to show, where there has been one.
_SETTLE_S, _SETTLE_AFTER_SILENCE_S = 2.5, 10.5
# A frozen switch is read again after at most 30 s of back-off; a read may take 10 s to be given up.
_LONGEST_TROUBLE_S = 120.0
_AT_REST_S = 10.0
_WATCHED_PAIRS = 4

Request = CollectiveAnnounced | CollectiveWithdrawn | DrainWanted | UndrainWanted


@dataclass(frozen=True, slots=True)
class Failure:
    """The invariant that did not hold, with what was seen, after `steps` steps."""

    invariant: str
    details: tuple[str, ...]
    steps: int


class _Broken(Exception):
    def __init__(self, invariant: str, details: Iterable[str]) -> None:
        self.invariant, self.details = invariant, tuple(details)
        super().__init__(invariant)


def run(fabric: FuzzFabric, steps: Sequence[Step]) -> Failure | None:
    """Runs all steps, and a last check; the first failure, or None. Anything that the core raises is a failure."""
    done = 0
    try:
        fuzzed = FuzzRun(fabric)
        for done, step in enumerate(steps, 1):  # noqa: B007 - how far it came is part of a failure
            fuzzed.take(step)
        if not steps or steps[-1].what is not What.CHECK:
            fuzzed.take(Step(What.CHECK))
        fuzzed.rest()
    except _Broken as broken:
        return Failure(broken.invariant, broken.details, done)
    except (StuckClockError, NotQuietError) as stuck:
        return Failure(type(stuck).__name__, (str(stuck),), done)
    except Exception as error:  # noqa: BLE001 - finding any is what this is for
        return Failure(f"exception {type(error).__name__}", (traceback.format_exc(limit=-6),), done)
    return None


class FuzzRun:
    """A network under fuzzing. `owed` are the requests that the present core has not answered yet."""

    def __init__(self, fabric: FuzzFabric) -> None:
        self.fabric = fabric
        self._plan = fabric.plan()
        self._cores = 0
        self.core = self._new_core()
        self.network = ModelNetwork(self._plan, self.core, seed=fabric.seed)
        self.network.reorders_between_barriers = fabric.reorders_between_barriers
        for name, nicira in zip(fabric.switches, fabric.nicira, strict=False):
            self.network.switch(name).nicira = nicira
        self._deeds = Deeds(fabric, self.network)
        if fabric.heartbeats:
            self.network.background.packets_per_second = fuzz_gray.PACKETS_PER_S
        self._owed: dict[int, Request] = {}
        # What every core must know from now on: the jobs and drains it said yes to. None: withdrawn, undrained.
        self._promised: dict[str, Collective | str | None] = {}
        # The latest request of each job, or drain, that was not simply refused.
        self._latest: dict[str, int] = {}
        self._requests = 0
        # How much of the record has been looked through for answers.
        self._read = 0
        self._watch: DeliveryWatch | None = None
        self._checked = False
        if fabric.limited:
            self._limit()

    def _new_core(self) -> Core:
        self._cores += 1
        key = self._cores.to_bytes(32, "big")
        plan = self._plan if self.fabric.with_plan else None
        qos = QosSettings(enabled=self.fabric.qos)
        settings = CoreSettings(key, plan, qos, ForeignPolicy(self.fabric.removes_foreign), beacon_period_s=_BEACON_S)
        heartbeat_s = _HEARTBEAT_S if self.fabric.heartbeats else 0.0
        return Core(
            replace(
                settings,
                statistics_period_s=_STATISTICS_S,
                audit_period_s=_AUDIT_S,
                heartbeat_period_s=heartbeat_s,
            )
        )

    # --- steps --------------------------------------------------------------------------------------------

    def take(self, step: Step) -> None:
        """Carries a step out; one that makes no sense now does nothing."""
        self.network.run_for(step.wait_s)
        name, number = step.where, step.number
        match step.what:
            case What.ANNOUNCE:
                collective = collective_of(self.fabric, name, int(number))
                self._ask(CollectiveAnnounced(self._requests + 1, collective))
            case What.WITHDRAW:
                self._ask(CollectiveWithdrawn(self._requests + 1, name))
            case What.DRAIN | What.UNDRAIN:
                wanted = DrainWanted if step.what is What.DRAIN else UndrainWanted
                target = fuzz_drains.target(self.network, name, int(number))
                if target is not None:
                    self._ask(wanted(self._requests + 1, (target,)))
            case What.CONTROLLER_CRASH:
                self._crash(number)
            case What.CHECK:
                self.check()
            case _:
                self._deeds.do(step)

    def _ask(self, request: Request) -> None:
        if self.network.core is None:
            return
        self._requests = request.request_id
        self._owed[request.request_id] = request
        self.network.inject(request)

    def _crash(self, down_s: float) -> None:
        if self.network.core is None:
            return
        self.network.stop_controller()
        # Whoever has not been answered is told by the broken connection, and knows nothing.
        self._take_answers()
        for request in self._owed.values():
            self._promised.pop(_subject(request), None)
        self._owed.clear()
        self.network.later(down_s, self._start_controller)

    def _start_controller(self) -> None:
        self.core = self._new_core()
        self.network.start_controller(self.core)

    # --- checks -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Waits for rest and raises on the first invariant that does not hold."""
        network = self.network
        self._come_to_rest()
        rested_s = network.now_s
        if self._deeds.altered:
            # What others change shows with the next audit.
            network.run_for(_AUDIT_S + 1.0)
            self._deeds.altered = False
            self._come_to_rest()
        settle_s = (
            max(_SETTLE_S, rested_s + _SETTLE_AFTER_SILENCE_S - network.now_s) if self._deeds.silent else _SETTLE_S
        )
        self._deeds.silent = False
        self._notice_losses()
        self._hear_hosts(settle_s)
        self._look()
        if self._checked:
            return
        self._checked = True
        if self.fabric.calm:
            self._start_watch()

    def _notice_losses(self) -> None:
        """Gives lossy cables the time that it takes to find them out."""
        end_s = self.network.now_s + fuzz_gray.LONGEST_S
        while tuple(fuzz_gray.unnoticed(self.network, self.core)):
            if self.network.now_s > end_s:
                raise _Broken("losses noticed", fuzz_gray.unnoticed(self.network, self.core))
            self.network.run_for(2.0)

    def _hear_hosts(self, settle_s: float) -> None:
        """Without a plan a host is known once it has said something."""
        self.network.announce_hosts()
        self.network.run_until_quiet(_LONGEST_TROUBLE_S, settle_s=settle_s)
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        """Until every switch that answers is read and holds what it should."""
        end_s = self.network.now_s + _LONGEST_TROUBLE_S
        self.network.run_until_quiet(_LONGEST_TROUBLE_S, settle_s=0.3)
        while self._unsettled():
            if self.network.now_s > end_s:
                raise _Broken("unsettled", self._unsettled())
            self.network.run_for(0.5)
            self.network.run_until_quiet(_LONGEST_TROUBLE_S, settle_s=0.3)

    def _unsettled(self) -> list[str]:
        core = self.core
        found = [
            f"{core.plan.name(s.dpid)} is not ready: suspect {s.suspect}, read {s.actual is not None}"
            for s in core.state.switches.values()
            if s.session_id is not None and not s.ready
        ]
        # A slow switch's first word may be under way for longer than the network needs to seem quiet.
        found += [
            f"{session.switch.name} has a session that the core does not know"
            for dpid, session in self.network.sessions.items()
            if session.open_at_switch
            and session.open_at_core
            and (dpid not in core.state.switches or core.state.switches[dpid].session_id != session.session_id)
        ]
        if not core.reconciler.settled:
            found.append("the reconciler is not settled")
        if core.state.replan_due_s is not None:
            found.append("a replan is due")
        return found

    def _look(self) -> None:
        network, core = self.network, self.core
        if self._watch is not None:
            _require("lost in a calm time", fuzz_checks.worded(self._watch.violations))
        self._answers()
        for wrong, texts in fuzz_checks.delivery(network, core).items():
            _require(wrong, texts)
        _require("desired is actual", fuzz_checks.tables(network, core))
        removed = self.fabric.removes_foreign
        _require("foreign rules", fuzz_checks.foreign(network, self._deeds.foreign, removed=removed))
        _require("reservations", fuzz_checks.reservations(core))
        _require("planned paths", fuzz_checks.planned_paths(network, core))
        _require("drained", fuzz_drains.wrongly_used(network, core))
        _require("no false alarm", fuzz_gray.false_alarms(network, core, self._deeds.ever_lossy))
        if not self.fabric.limited:
            _require("nothing refused", fuzz_checks.unlimited(core))
        _require("message order", network.record.ordering_problems())
        network.record.commands.clear()
        network.record.events.clear()
        self._read = 0

    def _answers(self) -> None:
        self._take_answers()
        _require("answered once", [f"request {i} was not answered" for i in sorted(self._owed)])
        held: dict[str, Collective | str] = {job_id: job.collective for job_id, job in self.core.state.jobs.items()}
        held |= fuzz_drains.held(self.core)
        _require(
            "promises kept",
            [
                f"{subject} should be {promised}, and is {held.get(subject)}"
                for subject, promised in self._promised.items()
                if held.get(subject) != promised
            ],
        )

    def _take_answers(self) -> None:
        """Every request is answered at most once; a yes is a promise."""
        commands = self.network.record.commands
        for answer in [c for _, c in commands[self._read :] if isinstance(c, Accepted | Refused)]:
            request = self._owed.pop(answer.request_id, None)
            if request is None:
                raise _Broken("answered once", [f"request {answer.request_id} was answered, and not asked (again)"])
            subject = _subject(request)
            if answer.request_id < self._latest.get(subject, 0) or _is_no(answer):
                continue
            self._latest[subject] = answer.request_id
            if isinstance(answer, Accepted):
                self._promised[subject] = _promise(request)
            else:
                self._promised.pop(subject, None)
        self._read = len(commands)

    def _limit(self) -> None:
        """What a switch must hold is only known once the whole fabric has been laid, and everything is whole."""
        self._come_to_rest()
        self._hear_hosts(_SETTLE_S)
        rules, groups = self.fabric.spare_rules, self.fabric.spare_groups
        for switch in self.network.wiring.switches.values():
            held = switch.tables()
            switch.limits = Limits(
                rules=None if rules is None else len(held.rules) + rules,
                groups=None if groups is None else len(held.groups) + groups,
            )

    def _start_watch(self) -> None:
        names = self.fabric.host_names
        pairs = [(a, b) for a in names for b in names if a != b]
        chosen = pairs[:: max(1, len(pairs) // _WATCHED_PAIRS)]
        self._watch = DeliveryWatch(
            self.network,
            chosen,
            probes=lambda a, b: fuzz_checks.probes(self.core.state.paths)(a, b),
            longest_path=fuzz_checks.LONGEST_PATH,
        )

    def rest(self) -> None:
        """Lets nothing happen for a while, and looks at how much is said all the same."""
        self._release_links()
        end_s = self.network.now_s + fuzz_gray.GIVEN_BACK_S
        while tuple(fuzz_gray.soon_released(self.network, self.core, 2 * _AT_REST_S)):
            if self.network.now_s > end_s:
                raise _Broken("given back", fuzz_gray.soon_released(self.network, self.core, 2 * _AT_REST_S))
            self.network.run_for(_AT_REST_S)
            self._come_to_rest()
        record = self.network.record
        record.commands.clear()
        self.network.run_for(_AT_REST_S)
        _require(
            "quiet at rest",
            fuzz_checks.quiet_traffic(self.network, self.core, record, _AT_REST_S, limited=self._may_still_change()),
        )

    def _may_still_change(self) -> bool:
        """Where room is short the core tries again now and then; and a lossy cable may show itself, or be given back
        when it has been mended, at any time."""
        is_lossy = any(cable.lossy_from for cable in self.network.wiring.cables)
        return self.fabric.limited or is_lossy or bool(self.core.watch.gray.links.gray)

    def _release_links(self) -> None:
        """Links that are held for having flapped come back, live flows move for what that gains, and all holds then."""
        end_s = self.network.now_s + _LONGEST_TROUBLE_S
        due_s = self._next_release_s()
        if due_s is None:
            return
        while due_s is not None:
            if due_s > end_s:
                raise _Broken("held for too long", [f"a link or a move is to be looked at again at {due_s} s"])
            self.network.run_until(max(due_s, self.network.now_s))
            self._come_to_rest()
            due_s = self._next_release_s()
        self._look()

    def _next_release_s(self) -> float | None:
        found = (self.core.links.next_deadline_s(), self.core.moves_due_s)
        return min((due_s for due_s in found if due_s is not None), default=None)


def _subject(request: Request) -> str:
    """What it is about: no job is called like a drain."""
    match request:
        case CollectiveAnnounced():
            return request.collective.job_id
        case CollectiveWithdrawn():
            return request.job_id
    return fuzz_drains.subject(request.targets[0])


def _promise(request: Request) -> Collective | str | None:
    """What holds once it was accepted."""
    match request:
        case CollectiveAnnounced():
            return request.collective
        case DrainWanted():
            return fuzz_drains.DRAINED
    return None


def _is_no(answer: Accepted | Refused) -> bool:
    """The request made no sense and has changed nothing. Any other refusal says what could not be done yet."""
    nothing_done = (Refusal.INVALID_ARGUMENT, Refusal.NOT_FOUND, Refusal.FAILED_PRECONDITION)
    return isinstance(answer, Refused) and answer.failure in nothing_done


def _require(invariant: str, details: Iterable[str]) -> None:
    found = tuple(details)
    if found:
        raise _Broken(invariant, found)
