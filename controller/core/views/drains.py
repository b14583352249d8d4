"""What is avoided, by whom and why, and whether traffic has left it; and what a caller means by a switch or a link."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.core.avoidance import Origin
from controller.core.drains import covers
from controller.core.forecast import Forecast, forecast
from controller.core.machine import Core
from controller.core.remembered import Avoidance, Cable, Target
from controller.core.views.common import UnknownLink, UnknownSwitch, find_switches
from controller.fabric.reach import reached


@dataclass(frozen=True, slots=True)
class DrainView:
    target: str
    origin: str
    reason: str
    forced: bool
    state: str
    note: str


def drains(core: Core, only: Sequence[Target] = ()) -> tuple[DrainView, ...]:
    """Everything that is avoided; with `only`, what concerns these targets."""
    held = [(origin, target, why) for origin in Origin for target, why in core.state.avoided.of(origin).items()]
    return tuple(
        _view(core, origin, target, why)
        for origin, target, why in sorted(held, key=lambda one: (one[0], core.chronicle.target(one[1])))
        if not only or any(_overlap(target, other) for other in only)
    )


def _overlap(one: Target, other: Target) -> bool:
    if isinstance(one, int):
        return one == other if isinstance(other, int) else covers(one, other)
    return covers(other, one)


def _view(core: Core, origin: Origin, target: Target, why: Avoidance) -> DrainView:
    return DrainView(core.chronicle.target(target), origin.value, why.reason, why.forced, *_state(core, target))


def _state(core: Core, target: Target) -> tuple[str, str]:
    """(state, why it is not "drained")."""
    reduced = core.state.reduced
    used = [cable for cable in reduced.used if covers(target, cable)]
    if used:
        names = ", ".join(core.chronicle.target(cable) for cable in sorted(used))
        return "used", f"nothing else joins the hosts beyond {names}"
    if not any(covers(target, cable) for cable in reduced.left_out):
        return "idle", "no usable link"
    ends = {end.dpid for cable in reduced.left_out if covers(target, cable) for end in cable}
    # What is cut off from the target can send nothing there.
    mute = sorted(core.state.unready & reached(ends, ((link.a, link.b) for link in reduced.whole.links)))
    if mute:
        names = ", ".join(core.plan.name(dpid) for dpid in mute)
        return "leaving", f"cannot be told at present, and may still send over it: {names}"
    if core.state.replan_due_s is not None or not core.reconciler.settled:
        return "leaving", "switches are being told"
    return "drained", ""


def find_targets(core: Core, switch: str, link_ends: Sequence[str]) -> tuple[Target, ...]:
    """What is meant by a switch, or by the two ends of a link. Raises UnknownSwitch, UnknownLink."""
    if switch:
        return (min(find_switches(core, switch)),)
    ends = [_end(core, text) for text in link_ends]
    known = {
        *core.links.of,
        *core.plan.links,
        *(t for t in core.state.avoided.of(Origin.OPERATOR) if not isinstance(t, int)),
    }
    found = [cable for cable in sorted(known) if _fits(cable, ends) or _fits(cable, ends[::-1])]
    if not found:
        raise UnknownLink(f"no link between {' and '.join(link_ends)} is known")
    return tuple(found)


def _end(core: Core, text: str) -> tuple[int, int | None]:
    """(switch, port number or None for any)."""
    name, colon, port = text.rpartition(":")
    if colon and port.isdecimal():
        return min(find_switches(core, name)), int(port)
    if not text:
        raise UnknownSwitch("no switch is named")
    return min(find_switches(core, text)), None


def _fits(cable: Cable, ends: Sequence[tuple[int, int | None]]) -> bool:
    return all(ref.dpid == dpid and port in (None, ref.port_no) for ref, (dpid, port) in zip(cable, ends, strict=True))


def drain_forecast(core: Core, targets: Sequence[Target], forced: bool) -> Forecast:
    """What draining them would cost."""
    return forecast(core.state, targets, core.base, forced=forced)
