"""Drains: an operator takes links or switches out of use and gives them back.

Decides whether a drain may be had and whom it would cut off; what follows from it for paths and routes is `avoidance`'s
and, for the switches, the reconciler's. Draining again, or undraining what is not drained, changes nothing.
"""

from collections.abc import Collection, Iterable

from controller.core.avoidance import Avoided, Origin
from controller.core.commands import Command, Failure, Refused
from controller.core.events import DrainWanted, UndrainWanted
from controller.core.remembered import Avoidance, Cable, Target
from controller.core.state import State, Waiter
from controller.fabric.model import Link
from controller.fabric.reach import cut_off, without

_STILL_LEARNING = (
    "the controller has just started and is still finding out what is there, so that nobody can say who would be cut "
    "off: ask again in a few seconds"
)


def covers(target: Target, cable: Cable) -> bool:
    """Whether what is to be avoided includes this cable."""
    return target in (cable, cable[0].dpid, cable[1].dpid)


def would_cut_off(state: State, targets: Collection[Target]) -> tuple[str, ...]:
    """Who would lose whom, one sentence each, if no traffic took these, beside what is avoided already."""
    whole = state.reduced.whole
    return cut_off(state.reduced.view, without(whole, list(_left_behind(whole.links, state.avoided, targets))))


def _left_behind(links: Iterable[Link], avoided: Avoided, targets: Collection[Target]) -> Iterable[Link]:
    for link in links:
        cable = (link.a, link.b)
        if avoided.concerning(cable) or any(covers(target, cable) for target in targets):
            yield link


def drain(state: State, event: DrainWanted) -> tuple[bool, list[Command]]:
    """(the fabric must be looked at anew, immediate answers)."""
    why = Avoidance(event.reason, event.forced)
    held = state.avoided.of(Origin.OPERATOR)
    # A reason given anew does not weaken a drain that was forced, nor does it have to be forced again.
    new = [target for target in event.targets if target not in held or (event.forced and not held[target].forced)]
    if new and not event.forced:
        if state.learning:
            return False, [Refused(event.request_id, Failure.UNAVAILABLE, (_STILL_LEARNING,))]
        if lost := would_cut_off(state, new):
            cure = "bring another way back first, or drain by force (--force)"
            problems = (*(f"this would cut off {sentence}" for sentence in lost), cure)
            return False, [Refused(event.request_id, Failure.FAILED_PRECONDITION, problems)]
    for target in new:
        state.avoided.avoid(target, Origin.OPERATOR, why)
    return _changed(state, event.request_id, bool(new))


def undrain(state: State, event: UndrainWanted) -> tuple[bool, list[Command]]:
    """(the fabric must be looked at anew, immediate answers)."""
    released = [target for target in event.targets if state.avoided.release(target, Origin.OPERATOR)]
    return _changed(state, event.request_id, bool(released))


def _changed(state: State, request_id: int, changed: bool) -> tuple[bool, list[Command]]:
    """Answered once the switches hold what follows, also where an earlier request brought it about."""
    state.waiters.append(Waiter(request_id, "", state.changes_sent))
    if changed:
        state.base_stale = True
        state.revision += 1
    return changed, []
