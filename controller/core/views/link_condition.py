"""What is to be said of a link: its state, the cause as one word, and a sentence that says where and what to look at.

What the states mean, and what leads to them, is decided in `health.link_states`. A link that is up and loses packets is
called "gray" (`health.gray`), one that works and that an operator has taken out of use "drained".
"""

from collections.abc import Iterator

from controller.core.avoidance import Origin
from controller.core.machine import Core
from controller.core.remembered import Avoidance
from controller.fabric.discovery import Cable, Seen
from controller.fabric.model import PortRef
from controller.health.link_states import LinkState, Past
from controller.health.links import LinkRecord

_ALL_THE_SAME = "used all the same, as nothing else joins the hosts beyond it"


def link_condition(core: Core, cable: Cable, now_s: float) -> tuple[str, str, str]:
    """(state, cause, reason); a link that is up needs no reason."""
    record = core.links.of.get(cable)
    if record is None or record.state is LinkState.UNKNOWN:
        return _never_seen(core, cable)
    if record.state is LinkState.UP:
        if gray := core.state.avoided.of(Origin.GRAY).get(cable):
            return "gray", "lossy", _why_gray(core, cable, gray, now_s)
        drained = [why for origin, _, why in core.state.avoided.concerning(cable) if origin is Origin.OPERATOR]
        if drained:
            return "drained", "operator", _why_drained(core, cable, drained[0])
        if kept := core.watch.gray.kept.get(cable):
            evidence = core.watch.gray.links.gray[cable].evidence
            return "gray", "lossy", f"{core.watch.gray.worded(evidence)}; used all the same: {kept}"
        return record.state.value, "", ""
    return record.state.value, record.cause.value, _reason(core, cable, record, now_s)


def unused_links(core: Core) -> list[Cable]:
    """Every cable that is known or planned and could carry nothing (yet); one whose ports are gone is not known."""
    used = {(link.a, link.b) for link in core.state.reduced.whole.links}
    ports = core.discovery.ports
    known = {
        cable
        for cable, record in core.links.of.items()
        if record.state is not LinkState.UNKNOWN and cable[0] in ports and cable[1] in ports
    }
    # What is in a planned link's ports instead of it is shown, and says enough about the link itself.
    taken = {end for cable in used | known for end in cable}
    planned = {cable for cable in core.plan.links if cable in known or taken.isdisjoint(cable)}
    return sorted((known | planned) - used)


def port_alarms(core: Core, now_s: float) -> Iterator[str]:
    """Ports at which something is plugged in that no fabric should have."""
    for ref in core.discovery.shared():
        yield f"{_port(core, ref)} {_neighbours(core, ref)}: look for a hub or a bridge between them"
    for ref in core.discovery.echoing(now_s):
        yield f"{_port(core, ref)} hears its own beacons: a loopback plug, or a loop behind it"


def _never_seen(core: Core, cable: Cable) -> tuple[str, str, str]:
    away = [core.plan.name(end.dpid) for end in cable if not _connected(core, end)]
    if away:
        return LinkState.UNKNOWN.value, "", f"{' and '.join(dict.fromkeys(away))} not connected to the controller"
    dark = [_port(core, end) for end in cable if not _has_carrier(core, end)]
    if dark:
        return LinkState.DOWN.value, Seen.NO_CARRIER.value, f"no carrier at {' and '.join(dark)}"
    if core.state.learning:
        return LinkState.UNKNOWN.value, "", "nothing has been heard yet"
    return LinkState.DOWN.value, Seen.SILENT.value, "nothing has been heard at either end since the controller started"


def _reason(core: Core, cable: Cable, record: LinkRecord, now_s: float) -> str:
    a, b = (_port(core, end) for end in cable)
    match record.cause:
        case Seen.ONE_WAY:
            heard_at_b = cable[0] in core.discovery.hears(cable[1])
            sender, receiver = (b, a) if heard_at_b else (a, b)
            return f"what {sender} sends does not arrive at {receiver}"
        case Seen.AMBIGUOUS:
            return _why_ambiguous(core, cable)
        case Seen.NO_CARRIER:
            dark = [_port(core, end) for end in cable if not _has_carrier(core, end)]
            return f"no carrier at {' and '.join(dark)}" if dark else "its carrier was lost a moment ago"
        case Seen.BFD_DOWN:
            return "beacons arrive, but the switches' own check (BFD) has failed, so they do not use it"
        case Past.FLAPPING:
            back_s = max(0.0, record.penalty.released_at_s(core.links.settings) - now_s)
            used = "; used all the same, as nothing else joins its leaves" if cable in core.usable else ""
            return f"it flapped {record.penalty.flaps} times; back in {back_s:.0f} s if it stays calm{used}"
    return "no beacon arrives at either end, although both switches are at work"


def _why_drained(core: Core, cable: Cable, why: Avoidance) -> str:
    reason = why.reason or "no reason given"
    return f"{reason}; {_ALL_THE_SAME}" if cable in core.state.reduced.used else reason


def _why_gray(core: Core, cable: Cable, why: Avoidance, now_s: float) -> str:
    if cable in core.state.reduced.used:
        return f"{why.reason}; {_ALL_THE_SAME}"
    known = core.watch.gray.links.gray.get(cable)
    left_s = 0.0 if known is None else max(0.0, known.released_at_s - now_s)
    return f"{why.reason}; avoided, and back in {left_s:.0f} s if it loses nothing more"


def _why_ambiguous(core: Core, cable: Cable) -> str:
    if cable[0].dpid == cable[1].dpid:
        return f"both ends are in {core.plan.name(cable[0].dpid)}"
    several = [end for end in cable if len(core.discovery.hears(end)) > 1]
    return (
        " and ".join(f"{_port(core, end)} {_neighbours(core, end)}" for end in several) or "another neighbour was heard"
    )


def _neighbours(core: Core, ref: PortRef) -> str:
    heard = sorted(core.discovery.hears(ref))
    return f"hears {len(heard)} neighbours ({', '.join(_port(core, end) for end in heard)})"


def _port(core: Core, ref: PortRef) -> str:
    return f"{core.plan.name(ref.dpid)}:{ref.port_no}"


def _connected(core: Core, end: PortRef) -> bool:
    switch = core.state.switches.get(end.dpid)
    return switch is not None and switch.session_id is not None


def _has_carrier(core: Core, end: PortRef) -> bool:
    known = core.discovery.ports.get(end)
    return known is not None and known.port.up
