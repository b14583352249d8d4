"""Writes down what happens, in words: links, switches, drains, jobs. Decides what is worth an entry of `history`.

While a controller that has just started is finding out what is there, everything is news and nothing is; one entry then
says what there is.
"""

from collections.abc import Iterable, Sequence

from controller.core.avoidance import Origin
from controller.core.commands import Command, SendBatch
from controller.core.events import CollectiveAnnounced, CollectiveWithdrawn, DrainWanted, UndrainWanted
from controller.core.gray_watch import Turn, Verdict
from controller.core.history import History, Topic
from controller.core.remembered import Cable, Target
from controller.core.state import State
from controller.fabric.model import PortRef
from controller.fabric.view import PlanIndex
from controller.health.links import Links

# More links than these that change at one moment are one entry.
_SINGLY = 8


class Chronicle:
    """Mutable; owned by the core. Every method is called when what it is about has just become so."""

    def __init__(self, state: State, plan: PlanIndex, links: Links) -> None:
        self.history = History(state)
        self._state, self._plan, self._links = state, plan, links
        self._usable: frozenset[Cable] = frozenset()
        self._used: frozenset[Cable] = frozenset()
        # Switches of which is written that they do not answer.
        self._mute: set[int] = set()

    def target(self, target: Target) -> str:
        """What is drained, in words."""
        if isinstance(target, int):
            return self._plan.name(target)
        return " - ".join(map(self._port, target))

    def _port(self, ref: PortRef) -> str:
        return f"{self._plan.name(ref.dpid)}:{ref.port_no}"

    def links(self, usable: Iterable[Cable], now_s: float) -> None:
        """The links that may be used are others than before."""
        before, self._usable = self._usable, frozenset(usable)
        if not self._state.learning:
            self._several(sorted(before - self._usable), "no more usable", now_s)
            self._several(sorted(self._usable - before), "usable", now_s)

    def _several(self, cables: Sequence[Cable], word: str, now_s: float) -> None:
        if len(cables) > _SINGLY:
            dpids = sorted({end.dpid for cable in cables for end in cable})
            names = ", ".join(self._plan.name(dpid) for dpid in dpids[:_SINGLY])
            more = f" and {len(dpids) - _SINGLY} more switches" if len(dpids) > _SINGLY else ""
            subject = self._plan.name(dpids[0])
            message = f"{len(cables)} links of {names}{more} are {word}"
            self.history.note(Topic.LINK, subject, message, now_s)
            return
        for cable in cables:
            record, name = self._links.of.get(cable), self.target(cable)
            state, cause = (record.state.value, record.cause.value) if record else ("gone", "")
            why = f" ({cause})" if record and state != "up" else ""
            held = ", used all the same" if word == "usable" and state != "up" else ""
            message = f"link {name} is {state}{why}{held}"
            self.history.note(Topic.LINK, name, message, now_s, cause if state != "up" else "")

    def needed(self, now_s: float) -> None:
        """The view was built anew: which avoided links are used all the same may have changed."""
        before, self._used = self._used, frozenset(self._state.reduced.used)
        for cable in sorted(self._used - before):
            message = f"link {self.target(cable)} is used although it is to be avoided: nothing else joins its hosts"
            self.history.note(Topic.LINK, self.target(cable), message, now_s)
        for cable in sorted((before - self._used) & self._usable):
            message = f"link {self.target(cable)} is not used any more"
            self.history.note(Topic.LINK, self.target(cable), message, now_s)

    def switch(self, dpid: int, message: str, now_s: float) -> None:
        if not self._state.learning:
            self.history.note(Topic.SWITCH, self._plan.name(dpid), message, now_s)

    def silent(self, before: frozenset[int], after: frozenset[int], now_s: float) -> None:
        """Switches that have a session and do not answer, or do so again."""
        connected = {dpid for dpid, switch in self._state.switches.items() if switch.session_id}
        for dpid in sorted((after - before) & connected):
            self._mute.add(dpid)
            self.switch(dpid, f"{self._plan.name(dpid)} does not answer", now_s)
        for dpid in sorted(self._mute - after):
            self._mute.discard(dpid)
            self.switch(dpid, f"{self._plan.name(dpid)} answers again", now_s)

    def known(self, now_s: float) -> None:
        """Everything that is there has been seen."""
        count = (len(self._state.switches), len(self._usable), len(self._state.view.hosts))
        message = "the fabric is known: {} switches, {} links, {} hosts".format(*count)
        self.history.note(Topic.CONTROLLER, "", message, now_s)

    def avoided(self, target: Target, origin: str, reason: str, now_s: float, *, over: bool = False) -> None:
        """Traffic is to keep off something from now on, or not any more."""
        name = self.target(target)
        words = f"{name} may be used again ({origin})" if over else f"{name} is to be avoided ({origin})"
        self.history.note(Topic.DRAIN, name, f"{words}: {reason}" if reason else words, now_s, origin)

    def gray(self, verdict: Verdict, now_s: float) -> None:
        """What becomes of a link that loses packets, or has lost some."""
        name = self.target(verdict.cable)
        match verdict.turn:
            case Turn.AVOIDED | Turn.RELEASED:
                over = verdict.turn is Turn.RELEASED
                self.avoided(verdict.cable, Origin.GRAY, verdict.reason, now_s, over=over)
            case Turn.KEPT:
                message = f"{name} is gray and is used all the same: {verdict.reason}"
                self.history.note(Topic.LINK, name, message, now_s, acts=verdict.acts)
            case Turn.CLEAN:
                self.history.note(Topic.LINK, name, f"{name} has been clean for long", now_s, acts=False)

    def request(
        self, event: CollectiveAnnounced | CollectiveWithdrawn | DrainWanted | UndrainWanted, now_s: float
    ) -> None:
        """A request changes what is wanted."""
        match event:
            case CollectiveAnnounced():
                job = event.collective
                message = f"job {job.job_id}: {job.operation} of {job.size_bytes} bytes over {len(job.ranks)} ranks"
                self.history.note(Topic.JOB, job.job_id, message, now_s)
            case CollectiveWithdrawn():
                self.history.note(Topic.JOB, event.job_id, f"job {event.job_id} is over", now_s)
            case DrainWanted():
                for target in event.targets:
                    self.avoided(target, "operator", event.reason, now_s)
            case UndrainWanted():
                for target in event.targets:
                    self.avoided(target, "operator", "", now_s, over=True)

    def sent(self, commands: Iterable[Command]) -> None:
        self.history.sent(command.dpid for command in commands if isinstance(command, SendBatch))
