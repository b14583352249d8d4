"""What follows from a change: paths are placed anew, and switches brought one stage nearer to what they should hold.

Events say that something has changed, and by when it is to be acted on; `_settle` acts on all that is due. Which events
mean what is decided in `machine`, and how good a plan is, or what a switch is told, in the parts that are called here.
"""

from functools import partial

from controller.core import absent, capacity, fitting, planning, requests
from controller.core.commands import Command, ReadPortStatistics, Report, Severity
from controller.core.link_watch import SETTLE_S
from controller.core.memory import worth_remembering
from controller.core.parts import Parts
from controller.core.settings import CoreSettings
from controller.core.state import SwitchState
from controller.pipeline.compile import merged
from controller.placement.moves import Replan


class Settling(Parts):
    """The part of the core that looks at everything; see the module. All times are the core's seconds."""

    def __init__(self, settings: CoreSettings) -> None:
        super().__init__(settings)
        self._silent: frozenset[int] = frozenset()
        # State's revision, changes and silent switches when everything was last settled.
        self._noted: tuple[int, int, frozenset[int]] | None = None
        self._capacity_alarms: dict[str, str] = {}
        # When a plan that could gain by moving live flows is looked at for that; None: it could not, or has been.
        self.moves_due_s: float | None = None
        # When to see whether what ports have told changes the view; None: they have told nothing.
        self._glance_due_s: float | None = None
        # Something has changed since all was last settled.
        self._stirred = False
        self._periodic_due_s = float("-inf")

    # --- what is to be acted on --------------------------------------------------------------------------

    def _fabric_changed(self, due_s: float) -> None:
        self.state.base_stale = True
        self._jobs_changed(due_s)

    def _jobs_changed(self, due_s: float) -> None:
        self._stirred = True
        due = self.state.replan_due_s
        self.state.replan_due_s = due_s if due is None else min(due, due_s)

    def _ports_changed(self, due_s: float) -> None:
        """Perhaps nothing that paths and tables are made of: both ends of a link tell that it is gone, and the first
        has been acted on when the second does."""
        self._stirred = True
        due = self._glance_due_s
        self._glance_due_s = due_s if due is None else min(due, due_s)

    def _next_settling_s(self) -> float | None:
        deadlines = [*self.reconciler.deadlines(), *capacity.retries_due_s(self.state), *self.comparisons.deadlines()]
        due_s = (self.state.replan_due_s, self._glance_due_s, self.moves_due_s, self.memory.next_deadline_s())
        deadlines += [due for due in due_s if due is not None]
        deadlines += self._overdue_s()
        if any(s.session_id for s in self.state.switches.values()):
            deadlines.append(self._periodic_due_s)
        return min(deadlines, default=None)

    # --- acting on it ------------------------------------------------------------------------------------

    def _settle(self, now_s: float) -> list[Command]:
        commands: list[Command] = []
        if now_s >= self._periodic_due_s:
            commands += self._periodic(now_s)
        commands += self.reconciler.give_up_late(now_s)
        commands += self.comparisons.give_up(now_s)
        commands += self.reconciler.ask_tables(now_s)
        if capacity.retry(self.state, now_s, settled=self.reconciler.settled):
            self._fabric_changed(now_s)
        self._suspect_overdue(now_s)
        silent = planning.silent_switches(self.state)
        if silent != self._silent:
            # An agent takes all its sessions with it, one by one. A switch that is back is told what is meant now.
            some_are_back = not self._silent <= silent
            self.chronicle.silent(self._silent, silent, now_s)
            self._silent = silent
            self._jobs_changed(now_s if some_are_back else now_s + SETTLE_S)
        if self.reconciler.holding and (self.reconciler.hold_is_over(now_s) or self._everything_is_seen(now_s)):
            self._end_learning(now_s)
            self._fabric_changed(now_s)
        if self._glance_due_s is not None and now_s >= self._glance_due_s:
            self._glance(now_s)
        if self.state.replan_due_s is not None and now_s >= self.state.replan_due_s:
            self._replan(now_s)
        elif self.moves_due_s is not None and now_s >= self.moves_due_s:
            commands += self._reconsider(now_s)
        # Written down while the switches work: callers hear of it when both are done, and a repair waits for no disk.
        batches = self.reconciler.next_batches(now_s)
        self.chronicle.sent(batches)
        commands += batches
        commands += self.memory.due(now_s)
        if self.reconciler.switched_over:
            self.chronicle.history.carried_out(now_s)
        settled = self.state.replan_due_s is None and self._glance_due_s is None and self.reconciler.settled
        if settled:
            commands += self._note_settled()
        carried_out = settled and not self.memory.busy
        if self.state.waiters and carried_out:
            commands += requests.answers(self.state, self.memory.problem)
        return commands

    def _glance(self, now_s: float) -> None:
        self._glance_due_s = None
        if self.survey.shows_news():
            self._fabric_changed(now_s)

    def _everything_is_seen(self, now_s: float) -> bool:
        sessions = {s.dpid for s in self.state.switches.values() if s.session_id}
        return self.learning.is_done(now_s, partial(self.discovery.told, sessions), self.answers, sessions)

    def _suspect_overdue(self, now_s: float) -> None:
        """A switch may freeze while nothing is to be changed on it: then its statistics stay out."""
        for switch in self.state.switches.values():
            due_s = self._overdue_of(switch)
            if due_s is not None and now_s >= due_s:
                self.reconciler.suspect(switch, now_s)

    def _overdue_of(self, switch: SwitchState) -> float | None:
        """When the switch is to be suspected for what it owes; None where that would change nothing."""
        if not switch.ready or switch.in_flight:
            return None
        asked_s = self.answers.owing_since_s(switch.dpid, switch.heard_s)
        return None if asked_s is None else asked_s + self.settings.batch_timeout_s

    def _overdue_s(self) -> list[float]:
        found = (self._overdue_of(switch) for switch in self.state.switches.values())
        return [due_s for due_s in found if due_s is not None]

    def _note_settled(self) -> list[Command]:
        """The switches hold what was decided: what that means for later, and what people should know about it."""
        seen = (self.state.revision, self.state.changes_sent, self._silent)
        if seen == self._noted:
            return []
        self._noted = seen
        planning.note_laid(self.state)
        before, self._capacity_alarms = self._capacity_alarms, capacity.alarms(self.state, self.plan.name)
        for key in before:
            self.state.alarms.pop(key, None)
        self.state.alarms |= self._capacity_alarms
        return [
            Report(Severity.ERROR, sentence) if new else Report(Severity.INFO, f"over: {sentence}")
            for sentence, new in capacity.changed(before, self._capacity_alarms)
        ]

    def _periodic(self, now_s: float) -> list[Command]:
        self._periodic_due_s = now_s + self.settings.statistics_period_s
        if self.survey.servers_have_changed():
            # Looked at now and then, or whoever is plugged in could have everything worked out anew at will.
            self._fabric_changed(now_s)
        sessions = [(s.dpid, s.session_id) for s in self.state.switches.values() if s.session_id]
        reads: list[Command] = [
            ReadPortStatistics(dpid, session)
            for dpid, session in sessions
            if not self.heartbeats.watches(dpid) and self.answers.ask(dpid, now_s)
        ]
        return reads + self.packets.probe_planned({dpid for dpid, _ in sessions})

    def _reconsider(self, now_s: float) -> list[Command]:
        """Everything has been still for a while: live flows may be moved now, if the plan gains enough by it."""
        self.moves_due_s = None
        if not planning.could_gain(self.state):
            return []
        if not self.reconciler.settled:
            self.moves_due_s = now_s + self.settings.calm_s
        elif self.searches.wanted:
            return [self.searches.ask()]
        else:
            self._replan(now_s, may_move=True)
        return []

    def _replan(self, now_s: float, *, may_move: bool = False, better: Replan | None = None) -> None:
        self.state.replan_due_s = None
        if self.state.base_stale:
            self._glance_due_s = None
            self._look_at_fabric(now_s)
        used = {hop for path in self.state.paths.values() for hop in path}
        base = capacity.without_withheld(self.state, self.survey.base)
        self.chronicle.history.planning()
        planning.replan(self.state, self.rates.background_bps(used, now_s), base, may_move=may_move, better=better)
        # What was looked at once is left as it is until something changes.
        self.moves_due_s = now_s + self.settings.calm_s if not may_move and planning.could_gain(self.state) else None
        capacity.plan_retries(self.state, now_s)
        self.reconciler.set_desired(merged(base, fitting.tables(self.state)))
        if not self.state.learning:
            planning.take_over_restored(self.state)
        self.memory.want(worth_remembering(self.state, self.hosts, self.usable))
        self.state.revision += 1

    def _end_learning(self, now_s: float) -> None:
        """From now on only what has been seen counts, and what switches that are away cannot show."""
        self.reconciler.release()
        self.learning.end()
        absent.believe(self.state, self.discovery, self.hosts, self.usable)
        self.hosts.remembered.clear()
        if self.state.learning:
            self.chronicle.known(now_s)
        self.state.learning = False

    def _look_at_fabric(self, now_s: float) -> None:
        self.state.base_stale = False
        if not self.state.learning:
            absent.forget_unreached(self.state, self.discovery, self.hosts, self.usable)
        self.survey.look()
        if self.survey.is_as_planned() and (self.state.learning or self.reconciler.holding):
            self._end_learning(now_s)
            self.survey.look()
        self.chronicle.needed(now_s)
        self.survey.compile()
