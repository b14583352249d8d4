"""Cables that fail with their carrier up, under probes: what that costs, and what watching for it costs.

It decides what is done to a lab and in which order, and gathers figures; what they should be is for those who ask.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from demo_northbound import Controller
from heddle.v1 import fabric_pb2
from hitless_probes import ProbeFlow, Router, finish, running
from hitless_processes import Processes
from lab_checks import interface_name
from lab_fabric import FabricLab
from lab_meters import cpu_share
from lab_namespace import LabError, die_with_parent, stop_process

from controller.fabric.model import Role
from controller.fabric.plan import PlannedLink

_FIRST_PORT, _PORTS_TRIED = 50_000, 256
_LEAD_S, _TAIL_S = 0.5, 0.5
_PATIENCE_S = 90.0
_SESSION_UP = re.compile(r"\bstate=up\b")
_FLAPS = re.compile(r'\bflap_count="?(\d+)')


@dataclass(frozen=True, slots=True)
class Touched:
    """A leaf and a spine, and a probe for each direction of the cable between them."""

    leaf: str
    spine: str
    up: ProbeFlow
    down: ProbeFlow


def touched(lab: FabricLab, leaf: str, spine: str) -> Touched:
    """Probes that now cross the first cable between the two. Raises LabError when none can be found."""
    router = Router(lab)
    leaves = [switch.name for switch in lab.plan.switches if switch.role == Role.LEAF]
    other = leaves[(leaves.index(leaf) + 1) % len(leaves)]
    here, there = ([host.name for host in lab.plan.hosts if host.switch == name] for name in (leaf, other))
    up, down = ends(lab.cables(leaf, spine)[0], leaf)
    return Touched(leaf, spine, _crossing(router, here[0], there[0], up), _crossing(router, there[-1], here[-1], down))


def ends(link: PlannedLink, leaf: str) -> tuple[str, str]:
    """The interfaces of a cable: the leaf's, the spine's."""
    a, b = interface_name(link.a, link.a_port), interface_name(link.b, link.b_port)
    return (a, b) if link.a == leaf else (b, a)


def _crossing(router: Router, source: str, target: str, direction: str) -> ProbeFlow:
    for port in range(_FIRST_PORT, _FIRST_PORT + _PORTS_TRIED):
        crosses = router.route(source, target, port)
        if direction in crosses:
            return ProbeFlow(source, target, port, crosses)
    raise LabError(f"no probe from {source} to {target} crosses {direction}")


def lost_in_failure(
    lab: FabricLab, probed: Touched, sender: str | None, failed_s: float, packets_per_second: float
) -> tuple[float, float]:
    """Milliseconds' worth of packets that the probe up and the probe down lose while what `sender` sends (None: what
    both send) gets lost; the cable is mended afterwards."""
    with running(lab, [probed.up, probed.down], packets_per_second) as probes:
        time.sleep(_LEAD_S)
        lab.impair(probed.leaf, probed.spine, 1.0, sender=sender)
        time.sleep(failed_s)
        up, down = finish(probes)
    lab.impair(probed.leaf, probed.spine, 0.0)
    return up.lost / packets_per_second * 1000, down.lost / packets_per_second * 1000


# --- BFD ------------------------------------------------------------------------------------------------------------


def _statuses(lab: FabricLab) -> str:
    return lab.ovs.vsctl("--bare", "--columns=bfd_status", "list", "interface")


def sessions_up(lab: FabricLab) -> int:
    """Ends of cables whose BFD session is up."""
    return len(_SESSION_UP.findall(_without_remote(_statuses(lab))))


def _without_remote(text: str) -> str:
    return text.replace("remote_state=", "remote=")


def flaps(lab: FabricLab) -> int:
    """Changes of all sessions together since they were set up."""
    return sum(map(int, _FLAPS.findall(_statuses(lab))))


def wait_for_sessions(lab: FabricLab) -> float:
    """Until every end of every cable has one that is up; how long that took. Raises LabError."""
    started = time.monotonic()
    wanted = 2 * len(lab.plan.links)
    while (now := sessions_up(lab)) < wanted:
        if time.monotonic() > started + _PATIENCE_S:
            raise LabError(f"{now} of {wanted} BFD sessions are up after {_PATIENCE_S:g} s")
        time.sleep(0.1)
    return time.monotonic() - started


@contextmanager
def frozen(control: Processes) -> Iterator[None]:
    """The controller and its agent do nothing meanwhile."""
    both = [process for process in (control.controller, control.agent) if process is not None]
    for process in both:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in both:
            process.send_signal(signal.SIGCONT)


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """So many programs that do nothing but use the processors."""
    command = [sys.executable, "-S", "-E", "-c", "while True: pass"]
    started = [subprocess.Popen(command, preexec_fn=die_with_parent) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            stop_process(process)


def false_alarms(lab: FabricLab, busy: int, seconds: float) -> int:
    """Sessions that changed their state while `busy` programs compete for the processors and no cable fails."""
    before = flaps(lab)
    with hogs(busy):
        time.sleep(seconds)
    return flaps(lab) - before


def daemon_share(lab: FabricLab, seconds: float) -> float:
    """Of one core, that the switch daemon uses."""
    before = lab.cpu()
    time.sleep(seconds)
    return cpu_share(before, lab.cpu()).process[lab.ovs.switch_pid]


# --- loss -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds from the first loss until traffic was off the link; packets of the probe that crosses it, before that and
    after; and what the controller says of the link."""

    after_s: float
    sent: int
    lost: int
    sent_after: int
    lost_after: int
    condition: str


def link_state(control: Controller, one: str, other: str) -> tuple[str, str]:
    """(state, reason) of the first cable between two switches. Raises LabError when there is none."""
    answer = control._fabric.GetTopology(fabric_pb2.GetTopologyRequest(), timeout=30)
    for link in answer.links:
        if {link.a.switch, link.b.switch} == {one, other}:
            return link.state, link.reason
    raise LabError(f"the controller knows no link between {one} and {other}")


def make_gray(
    lab: FabricLab,
    control: Controller,
    probed: Touched,
    share: float,
    packets_per_second: float,
    after_s: float = 5.0,
    patience_s: float = _PATIENCE_S,
) -> Found:
    """What the leaf sends into the cable gets lost by that share, from now on. Raises LabError when nobody notices."""
    with running(lab, [probed.up], packets_per_second) as probes:
        time.sleep(_LEAD_S)
        started = time.monotonic()
        lab.impair(probed.leaf, probed.spine, share, sender=probed.leaf)
        while (found := link_state(control, probed.leaf, probed.spine))[0] != "gray":
            if time.monotonic() > started + patience_s:
                raise LabError(f"the link is {found[0]} {patience_s:g} s after it began to lose {100 * share:g} %")
            time.sleep(0.1)
        seen_s = time.monotonic() - started
        time.sleep(_TAIL_S)
        (before,) = finish(probes)
    with running(lab, [probed.up], packets_per_second) as probes:
        time.sleep(after_s)
        (after,) = finish(probes)
    condition = link_state(control, probed.leaf, probed.spine)[1]
    return Found(seen_s, before.sent, before.lost, after.sent, after.lost, condition)


def leaf_spine_pairs(lab: FabricLab) -> Sequence[tuple[str, str]]:
    """Every leaf with every spine it is cabled to, the spines taking turns."""
    roles = {switch.name: switch.role for switch in lab.plan.switches}
    pairs = {(link.a, link.b) if roles[link.a] == Role.LEAF else (link.b, link.a) for link in lab.plan.links}
    leaves = sorted({leaf for leaf, _ in pairs})
    spines = sorted({spine for _, spine in pairs})
    turns = [
        (leaf, spines[(row + turn) % len(spines)]) for turn in range(len(spines)) for row, leaf in enumerate(leaves)
    ]
    return [pair for pair in turns if pair in pairs]
