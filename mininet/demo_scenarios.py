"""What the demo measures: one collective under each strategy, a link failure under way, and background traffic.

Every scenario returns plain figures. How they are shown is decided in `demo_report`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from demo_job import RingJob, small_ring
from demo_northbound import Controller
from heddle.v1 import collective_pb2
from lab_checks import interface_name
from lab_fabric import FabricLab
from lab_meters import cpu_share, sent_bytes
from lab_namespace import LabError
from roce_background import UDP_PORT, Background
from roce_traffic import RunningTraffic, TrafficResult, TrafficSettings, packets_of

from controller.fabric.model import Role

# A run that takes this many times the bound has failed.
_PATIENCE = 15.0
# Without queues the collective all but stops; waiting longer shows nothing more.
_WITHOUT_QUEUES_PATIENCE = 6.0
_FRAME_BYTES = TrafficSettings().payload_bytes
Say = Callable[[str], None]


@dataclass(slots=True)
class Run:
    """One collective. `load` is bytes sent per inter-switch port, by interface name."""

    completion_s: float
    load: Mapping[str, int]
    cpu_machine: float
    cpu_switch: float
    retransmissions: int
    traffic: TrafficResult

    def uplink_load(self, uplinks: Sequence[str]) -> list[int]:
        return [self.load[name] for name in uplinks]


@dataclass(slots=True)
class Strategy:
    """The runs of one strategy, one per seed."""

    name: str
    runs: list[Run] = field(default_factory=list)


def max_over_mean(loads: Sequence[int]) -> float:
    mean = sum(loads) / len(loads)
    return max(loads) / mean if mean else 1.0


def leaf_uplinks(lab: FabricLab) -> list[str]:
    """Interfaces by which leaves send to spines: where hashing decides."""
    leaves = {s.name for s in lab.plan.switches if s.role == Role.LEAF}
    ends = [end for k in lab.plan.links for end in ((k.a, k.a_port), (k.b, k.b_port)) if end[0] in leaves]
    return [interface_name(name, port) for name, port in ends]


def run_job(lab: FabricLab, job: RingJob, queue_pairs: int, seed: int, bound_s: float) -> Run:
    """One all-reduce from its start to its end. Raises LabError when it does not complete."""
    uplinks = lab.uplink_interfaces()
    with RunningTraffic(lab, job.connections(queue_pairs, seed), _PATIENCE * bound_s) as traffic:
        before, cpu = lab.counters(), lab.cpu()
        traffic.start()
        result = traffic.wait()
        share, after = cpu_share(cpu, lab.cpu()), lab.counters()
    completion = result.completion_s
    if completion is None:
        late = [f"{c.source} -> {c.target}" for c in result.connections if c.completion_s is None]
        raise LabError(f"the collective did not complete: {'; '.join(result.faults) or ', '.join(late)}")
    sent = sent_bytes(before, after)
    load = {name: sent[name] for name in uplinks}
    return Run(completion, load, share.machine, share.process[lab.ovs.switch_pid], result.retransmissions, result)


def run_seeds(
    lab: FabricLab, name: str, job: RingJob, queue_pairs: int, seeds: Sequence[int], bound_s: float, say: Say
) -> Strategy:
    strategy = Strategy(name)
    for seed in seeds:
        run = run_job(lab, job, queue_pairs, seed, bound_s)
        say(f"{name}, seed {seed}: {run.completion_s:.2f} s, {run.completion_s / bound_s:.2f} x the bound")
        strategy.runs.append(run)
    return strategy


# --- a failure under way ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failover:
    """`gap_s` is the longest pause at a receiver after the cut, `usual_gap_s` the longest one before it; `gap_packets`
    is how many packets of a flow at full rate the pause stands for."""

    link: str
    completion_s: float
    gap_s: float
    usual_gap_s: float
    gap_packets: int
    retransmissions: int
    flows_moved: int


def fail_uplink(lab: FabricLab, controller: Controller, job_id: str, job: RingJob, bound_s: float) -> Failover:
    """Cuts the uplink of the first planned flow a third into the collective, at the leaf's end."""
    before = {f.flow_id: [(h.dpid, h.port_no) for h in f.path] for f in controller.plan(job_id).flows}
    flow = next(f for f in controller.plan(job_id).flows if f.path)
    leaf, spine = flow.path[0].switch, flow.path[0].to
    connections = job.connections(queue_pairs=1, seed=0)
    cut_after_s = bound_s / 3
    with RunningTraffic(lab, connections, _PATIENCE * bound_s) as traffic:
        started = traffic.start()
        time.sleep(max(0.0, started + cut_after_s - time.monotonic()))
        lab.cut_link(leaf, spine)
        try:
            result = traffic.wait()
            after = {f.flow_id: [(h.dpid, h.port_no) for h in f.path] for f in controller.plan(job_id).flows}
        finally:
            lab.restore_link(leaf, spine)
    if result.completion_s is None:
        raise LabError(f"the collective did not survive the cut of {leaf} - {spine}")
    hit = next(c for c in result.connections if (c.source, c.target) == (flow.src_host, flow.dst_host))
    bucket = int(cut_after_s / 0.1)
    calm, shaken = hit.longest_gaps_s[1:bucket], hit.longest_gaps_s[bucket : bucket + 10]
    gap = max(shaken, default=0.0)
    packets_per_s = packets_of(connections[0], _FRAME_BYTES) / bound_s
    return Failover(
        link=f"{leaf} - {spine}",
        completion_s=result.completion_s,
        gap_s=gap,
        usual_gap_s=max(calm, default=0.0),
        gap_packets=round(gap * packets_per_s),
        retransmissions=result.retransmissions,
        flows_moved=sum(before[name] != path for name, path in after.items()),
    )


# --- background ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Qos:
    """Completion times of the same small collective: alone, and with background on two of its uplinks, with and
    without queues. Without queues it may not complete within the limit: then `without_queues_s` is None and
    `without_queues_delivered` tells which part of its bytes had arrived. `mechanism` says what served the queues."""

    bound_s: float
    idle_s: float
    with_queues_s: float
    without_queues_s: float | None
    without_queues_limit_s: float
    without_queues_delivered: float
    background: str
    mechanism: str


def background_and_queues(
    lab: FabricLab, controller: Controller, size_bytes: int, bound_of: Callable[[RingJob], float], say: Say
) -> Qos:
    """Background UDP at twice a link's rate on two uplinks that the collective uses."""
    job = small_ring(lab.plan, size_bytes)
    bound_s = bound_of(job)
    limit_s = _WITHOUT_QUEUES_PATIENCE * bound_s
    plan = controller.announce("demo-qos", job).plan
    try:
        idle = run_job(lab, job, 1, 0, bound_s).completion_s
        say(f"alone: {idle:.2f} s")
        streams, names = _background_streams(lab, plan, set(job.hosts))
        with _background(lab, streams):
            queued = run_job(lab, job, 1, 0, bound_s).completion_s
        say(f"with background and queues: {queued:.2f} s")
        lab.classify(on=False)
        with _background(lab, streams), RunningTraffic(lab, job.connections(1, 0), limit_s) as traffic:
            traffic.start()
            unqueued = traffic.wait()
    finally:
        lab.classify(on=True)
        controller.withdraw("demo-qos")
    delivered = _delivered(unqueued, limit_s)
    said = f"{unqueued.completion_s:.2f} s" if unqueued.completion_s else f"{delivered:.0%} of it after {limit_s:.1f} s"
    say(f"with background, without queues: {said}")
    return Qos(
        bound_s=bound_s,
        idle_s=idle,
        with_queues_s=queued,
        without_queues_s=unqueued.completion_s,
        without_queues_limit_s=limit_s,
        without_queues_delivered=delivered,
        background=f"2 x the link rate on {' and '.join(names)}",
        mechanism="linux-htb classes set over OVSDB, chosen by DSCP filters (set_queue does nothing in this datapath)",
    )


@contextmanager
def _background(lab: FabricLab, streams: Sequence[tuple[str, str, int]]) -> Iterator[None]:
    with ExitStack() as stack:
        for source, target, port in streams:
            stack.enter_context(Background(lab, source, target, lab.rate_of(source), udp_source_port=port))
        # Let the queues fill before anything is measured.
        time.sleep(0.5)
        yield


def _delivered(result: TrafficResult, elapsed_s: float) -> float:
    """Part of all bytes that arrived in order."""
    arrived = sum(c.goodput_bps / 8 * (c.completion_s or elapsed_s) for c in result.connections)
    return arrived / sum(c.size_bytes for c in result.connections)


def _background_streams(
    lab: FabricLab, plan: collective_pb2.Plan, busy: set[str]
) -> tuple[list[tuple[str, str, int]], list[str]]:
    """(source, target, UDP source port) of two full-rate streams onto one planned uplink of each of two leaves."""
    hops: dict[str, collective_pb2.PlannedFlow] = {}
    for flow in plan.flows:
        if flow.path:
            hops.setdefault(flow.path[0].switch, flow)
    leaves = sorted(hops)
    streams, names = [], []
    for leaf, other in ((leaves[0], leaves[1]), (leaves[2], leaves[3])):
        hop = hops[leaf].path[0]
        sources = [h.label for h in lab.plan.hosts if h.switch == leaf and h.label not in busy]
        targets = [h.label for h in lab.plan.hosts if h.switch == other and h.label not in busy]
        for source, target in list(zip(sources, targets, strict=True))[:2]:
            streams.append((source, target, _port_over(lab, source, target, interface_name(leaf, hop.port_no))))
        names.append(f"{leaf} - {hop.to}")
    return streams, names


def _port_over(lab: FabricLab, source: str, target: str, uplink: str) -> int:
    """A UDP source port for which the switch itself says that its hash takes this uplink."""
    start, end = lab.host(source), lab.host(target)
    said = ""
    for port in range(20_000, 20_200):
        flow = (
            f"udp,in_port={start.port},dl_src={start.mac},dl_dst={end.mac},nw_src={start.ipv4},nw_dst={end.ipv4},"
            f"nw_ttl=64,udp_src={port},udp_dst={UDP_PORT}"
        )
        said = lab.ovs.appctl("ofproto/trace", "--names", start.switch, flow)
        taken = re.findall(r"^Datapath actions: .*?(\S+)$", said, re.MULTILINE)
        if taken and taken[-1].rpartition(",")[2] == uplink:
            return port
    raise LabError(f"no UDP port of {source} takes {uplink}; the switch says of the last one:\n{said}")
