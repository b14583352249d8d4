"""Links and spines that fail under probes: what that costs in milliseconds, by where the failure lies.

It decides what is done to a lab and which probes watch it; with which controller, and what the figures should be, is
for those who ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice, permutations

from hitless_probes import FIRST_PORT, ProbeFlow, Router, finish, running
from lab_checks import interface_name
from lab_fabric import FabricLab
from lab_namespace import LabError, run

from controller.fabric.model import Role
from controller.fabric.plan import PlannedLink

_LEAD_S = 0.5
# One cable in four is hit by a hash; after so many tries one that is not hit is not on any way.
_PORTS_TRIED = 24


@dataclass(frozen=True, slots=True)
class Cable:
    """Between a leaf and a spine; the interfaces are those of its two ends."""

    leaf: str
    spine: str
    leaf_end: str
    spine_end: str


def cables(lab: FabricLab) -> list[Cable]:
    """Of every leaf to every spine, so that neighbours in the list have neither leaf nor spine in common."""
    roles = {switch.name: switch.role for switch in lab.plan.switches}
    found = [_cable(link, roles[link.a] == Role.LEAF) for link in lab.plan.links]
    leaves, spines = (sorted({getattr(cable, end) for cable in found}) for end in ("leaf", "spine"))
    turn = {
        cable: ((spines.index(cable.spine) - leaves.index(cable.leaf)) % len(spines), leaves.index(cable.leaf))
        for cable in found
    }
    return sorted(found, key=turn.__getitem__)


def _cable(link: PlannedLink, a_is_leaf: bool) -> Cable:
    a, b = (link.a, interface_name(link.a, link.a_port)), (link.b, interface_name(link.b, link.b_port))
    (leaf, leaf_end), (spine, spine_end) = (a, b) if a_is_leaf else (b, a)
    return Cable(leaf, spine, leaf_end, spine_end)


@dataclass(frozen=True, slots=True)
class Watched:
    """A cable, and probes of every pair of leaves that cross it upwards and downwards."""

    cable: Cable
    up: Sequence[ProbeFlow]
    down: Sequence[ProbeFlow]


def watched(lab: FabricLab, cable: Cable) -> Watched:
    """Probes that cross the cable now; a pair of leaves whose hashes never do so has none."""
    router, ports = Router(lab), count(FIRST_PORT)
    hosts = {s.name: [h.name for h in lab.plan.hosts if h.switch == s.name] for s in lab.plan.switches}
    others = [s.name for s in lab.plan.switches if s.role == Role.LEAF and s.name != cable.leaf]

    def crossing(direction: str, pairs: Iterator[tuple[str, str]]) -> list[ProbeFlow]:
        found = []
        for source, target in pairs:
            for port in islice(ports, _PORTS_TRIED):
                route = router.route(source, target, port)
                if direction in route:
                    found.append(ProbeFlow(source, target, port, route))
                    break
        return found

    here = hosts[cable.leaf]
    near = [here[number % len(here)] for number in range(len(others))]
    far = [hosts[other][-1] for other in others]
    up = crossing(cable.leaf_end, zip(near, far, strict=True))
    return Watched(cable, up, crossing(cable.spine_end, zip(far, near, strict=True)))


@dataclass(slots=True)
class Losses:
    """Milliseconds of packets lost in each failure, by the probe that lost most. `elsewhere` counts packets of probes
    between all leaves that do not cross what failed."""

    uplink: list[float] = field(default_factory=list)
    downstream: list[float] = field(default_factory=list)
    spine: list[float] = field(default_factory=list)
    elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """Packets per second of probes that a failure touches and of the others; how long a failure is watched."""

    touched: float = 1000.0
    others: float = 20.0
    window_s: float = 1.0


def at_rest(lab: FabricLab, seen: Watched, pace: Pace) -> int:
    """Packets lost while nothing fails: by the machine itself."""
    with running(lab, [*seen.up, *seen.down], pace.touched) as probes:
        time.sleep(pace.window_s)
        return sum(result.lost for result in finish(probes))


def cut_cable(lab: FabricLab, seen: Watched, at: str, pace: Pace, losses: Losses) -> None:
    """The cable's carrier goes at one of its ends, and comes back afterwards."""
    interface = seen.cable.leaf_end if at == seen.cable.leaf else seen.cable.spine_end
    up, down = _failing(lab, seen, [interface], pace, losses)
    losses.uplink += up
    losses.downstream += down


def kill_spine(lab: FabricLab, seen: Watched, pace: Pace, losses: Losses) -> None:
    """All cables of the spine lose their carrier at once, as when its power goes, and come back afterwards."""
    every = [cable.spine_end for cable in cables(lab) if cable.spine == seen.cable.spine]
    for worst in _failing(lab, seen, every, pace, losses):
        losses.spine += worst


def _failing(
    lab: FabricLab, seen: Watched, interfaces: Sequence[str], pace: Pace, losses: Losses
) -> tuple[list[float], list[float]]:
    """The worst of the probes up and of those down; an empty list where there is none."""
    flows = [*seen.up, *seen.down]
    with running(lab, _others(lab, seen.cable), pace.others) as others, running(lab, flows, pace.touched) as probes:
        time.sleep(_LEAD_S)
        _set(interfaces, "down")
        time.sleep(pace.window_s)
        results = finish([*probes, *others])
    _set(interfaces, "up")
    lost_ms = [result.lost / pace.touched * 1000 for result in results[: len(flows)]]
    losses.elsewhere += sum(result.lost for result in results[len(flows) :])
    up, down = lost_ms[: len(seen.up)], lost_ms[len(seen.up) :]
    return [max(up)] if up else [], [max(down)] if down else []


def _set(interfaces: Sequence[str], state: str) -> None:
    run(["ip", "-batch", "-"], stdin="".join(f"link set dev {name} {state}\n" for name in interfaces))


def _others(lab: FabricLab, cable: Cable) -> list[ProbeFlow]:
    """One probe for each ordered pair of leaves whose way avoids the cable's spine."""
    router = Router(lab)
    hosts = {h.switch: h.name for h in lab.plan.hosts}
    dead = {end for c in cables(lab) if c.spine == cable.spine for end in (c.leaf_end, c.spine_end)}
    found = []
    for number, (a, b) in enumerate(permutations(hosts, 2)):
        for port in islice(count(FIRST_PORT - 10_000 + 100 * number), _PORTS_TRIED):
            route = router.route(hosts[a], hosts[b], port)
            if dead.isdisjoint(route):
                found.append(ProbeFlow(hosts[a], hosts[b], port, route))
                break
    return found


def fail_all(
    lab: FabricLab,
    repetitions: int,
    pace: Pace,
    whole_again: Callable[[], object],
    progress: Callable[[str], object] = lambda _: None,
) -> Losses:
    """So many cables and as many spines, one after the other; `whole_again` returns once the fabric is so."""
    losses = Losses()
    every = cables(lab)
    if not every:
        raise LabError(f"{lab.plan.name!r} has no cable between a leaf and a spine")
    # Links that flap are held down by a controller, so no link fails twice in a row.
    further = len({cable.spine for cable in every}) // 2
    for number in range(repetitions):
        seen = watched(lab, every[number % len(every)])
        end = seen.cable.spine if number % 2 else seen.cable.leaf
        cut_cable(lab, seen, end, pace, losses)
        whole_again()
        other = watched(lab, every[(number + further) % len(every)])
        kill_spine(lab, other, pace, losses)
        whole_again()
        last = ", ".join(f"{name} {values[-1]:.0f} ms" for name, values in shown(losses) if values)
        progress(f"{seen.cable.leaf} - {seen.cable.spine} cut at {end}, then {other.cable.spine} killed: {last}")
    return losses


def shown(losses: Losses) -> list[tuple[str, list[float]]]:
    return [("uplink", losses.uplink), ("downstream", losses.downstream), ("spine", losses.spine)]
