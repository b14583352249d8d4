"""Whether the flow simulator says what real switches do: the same job on Mininet and in simulation, side by side.

    ./heddle bench simulator_vs_lab [--seeds 5] [--queue-pairs 1,4,16] [--rate 4M] [--bytes 1200000] [--json]

A ring all-reduce of 16 ranks on 4 leaves x 4 spines, every step over the spine, under ECMP with 1, 4 and 16 queue pairs
and under Heddle. Which uplink each queue pair takes is read from the lab: the leaf switch itself is asked
(ofproto/trace), Heddle's plan over gRPC; the simulator gets these paths and nothing else that was measured. Its wire
carries the lab's headers, and acknowledgements: one for every fourth packet, or for every window of fewer. `--rate` is
that of every link: as slow as it can be without the senders' timers taking a queue for a loss (below 4M they do, and
send hundreds of packets again), so that the one thread that forwards everything is no bottleneck.

JSON keys: `topology`, `rate_bps`, `size_bytes`, `bound_s`, `limit`; `runs`, each with `strategy`, `queue_pairs`,
`seed`, `lab_s`, `simulated_s`, `error` (simulated / lab - 1), `load_s` (the fullest link alone), `bytes_ratio` (sent
between switches, lab / simulated), `retransmissions`, `cpu_share` of the machine; `summary` by strategy with
`mean_error`, `worst_error` (largest absolute) and `within` (share of the runs within `limit`).
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "mininet"))

import demo_controllers  # noqa: E402 - found with the lab's folder on the path
from demo_job import RingJob, crossing_order  # noqa: E402
from demo_northbound import Controller  # noqa: E402
from demo_scenarios import Run, run_job  # noqa: E402
from lab_bridges import switch_ports  # noqa: E402
from lab_checks import interface_name  # noqa: E402
from lab_fabric import FabricLab  # noqa: E402
from lab_namespace import LabError  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from roce_headers import ACK_BYTES, BTH_BYTES, ICRC_BYTES, OVERHEAD_BYTES, UDP_PORT  # noqa: E402
from roce_traffic import Connection, TrafficSettings, ideal_ring_s, packets_of  # noqa: E402

from controller.fabric.model import Path as FabricPath  # noqa: E402
from controller.fabric.model import PortRef  # noqa: E402
from controller.fabric.plan import FabricPlan  # noqa: E402
from controller.formats.rates import parse_rate  # noqa: E402
from controller.formats.topology_file import load  # noqa: E402
from controller.jobs.collective import Algorithm, Collective, Operation  # noqa: E402
from controller.simulation.flows.fabric import FlowFabric  # noqa: E402
from controller.simulation.flows.jobs import Job, Phase, collective_transfers  # noqa: E402
from controller.simulation.flows.run import Settings, simulate  # noqa: E402
from controller.simulation.flows.shapes import planned_view  # noqa: E402
from controller.simulation.flows.strategies import Strategy  # noqa: E402

LIMIT = 0.10
_TOPOLOGY = ROOT / "topologies" / "leafspine-4x4.yaml"
# Enough that finer ones change no time by as much as a percent.
_SEGMENTS = 4
# An acknowledgement's own Ethernet, IPv4 and UDP headers.
_ACK_FRAME_BYTES = OVERHEAD_BYTES - BTH_BYTES - ICRC_BYTES + ACK_BYTES

# (source host, target host) -> the path of each queue pair.
Paths = Mapping[tuple[str, str], tuple[FabricPath, ...]]


@dataclass(frozen=True)
class Compared:
    """One run: seconds in the lab, in simulation, and of the fullest link alone; bytes that all ports between switches
    sent in the lab, as a multiple of those simulated."""

    strategy: str
    queue_pairs: int
    seed: int
    lab_s: float
    simulated_s: float
    error: float
    load_s: float
    bytes_ratio: float
    retransmissions: int
    cpu_share: float


def hashed_paths(lab: FabricLab, connections: Sequence[Connection]) -> Paths:
    """By which uplink each queue pair leaves its leaf, as the leaf's own tables and hash say."""
    spine_of, down = _cables(lab.plan)
    found: dict[tuple[str, str], tuple[FabricPath, ...]] = {}
    for c in connections:
        start, end = lab.host(c.source), lab.host(c.target)
        hops = []
        for port in c.udp_source_ports:
            uplink = _uplink(lab, c.source, c.target, port)
            hops.append((uplink, down[spine_of[uplink], end.switch]))
        found[c.source, c.target] = tuple(hops) if start.switch != end.switch else ()
    return found


def _cables(plan: FabricPlan) -> tuple[dict[PortRef, str], dict[tuple[str, str], PortRef]]:
    """(leaf port -> spine, (spine, leaf) -> spine port)."""
    dpid = {s.name: s.dpid for s in plan.switches}
    spine_of = {PortRef(dpid[k.a], k.a_port): k.b for k in plan.links}
    down = {(k.b, k.a): PortRef(dpid[k.b], k.b_port) for k in plan.links}
    return spine_of, down


def _uplink(lab: FabricLab, source: str, target: str, port: int) -> PortRef:
    start, end = lab.host(source), lab.host(target)
    flow = (
        f"udp,in_port={start.port},dl_src={start.mac},dl_dst={end.mac},nw_src={start.ipv4},nw_dst={end.ipv4},"
        f"nw_ttl=64,udp_src={port},udp_dst={UDP_PORT}"
    )
    said = lab.ovs.appctl("ofproto/trace", "--names", start.switch, flow)
    taken = re.findall(r"^Datapath actions: .*?(\S+)$", said, re.MULTILINE)
    names = {interface_name(start.switch, number): number for number in switch_ports(lab.plan)[start.switch]}
    name = taken[-1].rpartition(",")[2]
    dpid = {s.name: s.dpid for s in lab.plan.switches}
    return PortRef(dpid[start.switch], names[name])


def planned_paths(controller: Controller, job_id: str) -> Paths:
    """What Heddle says it steers each flow over."""
    return {
        (flow.src_host, flow.dst_host): (tuple(PortRef(hop.dpid, hop.port_no) for hop in flow.path),)
        for flow in controller.plan(job_id).flows
    }


def simulated(plan: FabricPlan, job: RingJob, paths: Paths, queue_pairs: int) -> tuple[float, float, float]:
    """(completion and the fullest link's load of the job on these paths, in seconds; bytes between switches)."""
    fabric = FlowFabric(planned_view(plan))
    ranks = tuple(job.hosts[rank] for rank in job.rings[0])
    ring = Collective("ring", Operation.ALL_REDUCE, Algorithm.RING, ranks, _whole_packets(job))
    transfers = collective_transfers(fabric, [ring], "ring")
    by_flow = {f"ring/{a}>{b}": parts for (a, b), parts in paths.items() if parts}
    lab = Strategy("lab", "as in the lab", lambda _problem, _seed, _to: by_flow, queue_pairs, controlled=False)
    traffic = TrafficSettings()
    acks = _ACK_FRAME_BYTES / traffic.packets_per_ack(queue_pairs)
    settings = Settings(traffic.payload_bytes, round(OVERHEAD_BYTES + acks), segments=_SEGMENTS, lane_steps=10**9)
    result = simulate(fabric, [Job("ring", (Phase(0.0, transfers),), ())], lab, settings=settings)
    completion_s = result.jobs[0].completion_s
    if completion_s is None:
        raise LabError(f"flows without a path in the lab: {', '.join(result.stranded)}")
    load_s = result.link_bits / fabric.capacity_bps()[: fabric.own_links]
    return completion_s, float(load_s.max()), float(result.link_bits[: fabric.ports].sum()) / 8


def _whole_packets(job: RingJob) -> int:
    """The buffer as the lab sends it: chunks filled up to whole packets."""
    payload = TrafficSettings().payload_bytes
    first = job.connections(1, 0)[0]
    steps = 2 * (len(job.hosts) - 1)
    return packets_of(first, payload) * payload * len(job.hosts) // steps


def compare(options: argparse.Namespace, console: Console) -> Iterator[Compared]:
    rate = parse_rate(options.rate)
    with tempfile.TemporaryDirectory() as folder:
        # The same fabric at another rate, for the controllers as well.
        topology = Path(folder) / "fabric.yaml"
        topology.write_text(re.sub(r"^rate: .*$", f"rate: {options.rate}", _TOPOLOGY.read_text(), flags=re.MULTILINE))
        plan = replace(load(topology), name="leafspine-4x4")
        order = crossing_order(plan)
        job = RingJob(order, (tuple(range(len(order))),), options.bytes, "16 ranks in turn from each leaf")
        bound_s = ideal_ring_s(len(order), job.size_bytes, rate)
        with FabricLab(plan, controllers=[demo_controllers.OPENFLOW], name="simulator-vs-lab") as lab:
            with demo_controllers.ecmp(lab, topology, Path(folder)):
                lab.ping_pairs()
                for count in map(int, options.queue_pairs.split(",")):
                    for seed in range(1, options.seeds + 1):
                        paths = hashed_paths(lab, job.connections(count, seed))
                        run = run_job(lab, job, count, seed, bound_s)
                        yield _told(console, _compared(f"ECMP, {count} QP", plan, job, paths, count, seed, run))
            with (
                demo_controllers.heddle(lab, topology, Path(folder)) as address,
                Controller(address) as controller,
            ):
                controller.wait_for(len(plan.links), len(plan.hosts), timeout_s=60)
                lab.ping_pairs()
                controller.announce("ring", job)
                paths = planned_paths(controller, "ring")
                for seed in range(1, options.seeds + 1):
                    run = run_job(lab, job, 1, seed, bound_s)
                    yield _told(console, _compared("Heddle", plan, job, paths, 1, seed, run))


def _compared(
    name: str, plan: FabricPlan, job: RingJob, paths: Paths, queue_pairs: int, seed: int, run: Run
) -> Compared:
    completion_s, load_s, sent_bytes = simulated(plan, job, paths, queue_pairs)
    return Compared(
        strategy=name,
        queue_pairs=queue_pairs,
        seed=seed,
        lab_s=run.completion_s,
        simulated_s=completion_s,
        error=completion_s / run.completion_s - 1,
        load_s=load_s,
        bytes_ratio=sum(run.load.values()) / sent_bytes,
        retransmissions=run.retransmissions,
        cpu_share=run.cpu_machine,
    )


def _told(console: Console, found: Compared) -> Compared:
    console.print(
        f"{found.strategy}, seed {found.seed}: lab {found.lab_s:.2f} s, simulated {found.simulated_s:.2f} s "
        f"({found.error:+.1%}), {found.bytes_ratio:.3f} x the bytes, {found.retransmissions} packets sent again, "
        f"processors {found.cpu_share:.0%} busy",
        highlight=False,
    )
    return found


def summary(runs: Sequence[Compared]) -> dict[str, dict[str, float]]:
    by_strategy: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        by_strategy[run.strategy].append(run.error)
    return {
        name: {
            "mean_error": statistics.mean(errors),
            "worst_error": max(errors, key=abs),
            "within": sum(abs(e) <= LIMIT for e in errors) / len(errors),
        }
        for name, errors in by_strategy.items()
    }


def _table(runs: Sequence[Compared]) -> Table:
    table = Table(title="Completion time of one all-reduce: lab against simulator")
    for column in ("strategy", "runs", "lab, mean", "simulated, mean", "mean error", "worst error", "within 10 %"):
        table.add_column(column, justify="left" if column == "strategy" else "right")
    for name, row in summary(runs).items():
        own = [run for run in runs if run.strategy == name]
        means = (statistics.mean(run.lab_s for run in own), statistics.mean(run.simulated_s for run in own))
        times = [f"{mean:.2f} s" for mean in means]
        errors = (f"{row['mean_error']:+.1%}", f"{row['worst_error']:+.1%}", f"{row['within']:.0%}")
        table.add_row(name, str(len(own)), *times, *errors)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="runs of each strategy (default: 5)")
    parser.add_argument("--queue-pairs", default="1,4,16", help="of ECMP's connections (default: 1,4,16)")
    parser.add_argument("--rate", default="4M", help="of every link (default: 4M)")
    parser.add_argument("--bytes", type=int, default=1_200_000, help="buffer of the all-reduce, per rank")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    runs = list(compare(options, Console(stderr=True)))
    if not options.json:
        Console(width=110).print(_table(runs))
        return
    rate = parse_rate(options.rate)
    document: dict[str, Any] = {
        "topology": _TOPOLOGY.name,
        "rate_bps": rate,
        "size_bytes": options.bytes,
        "bound_s": ideal_ring_s(16, options.bytes, rate),
        "limit": LIMIT,
        "runs": [asdict(run) for run in runs],
        "summary": summary(runs),
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
