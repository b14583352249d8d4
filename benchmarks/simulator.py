"""How long a data-parallel training step of 1,024, 8,192 and 65,536 GPUs takes to simulate, and in how much memory.

    ./heddle bench simulator [--sizes 1024,8192,65536] [--strategies ecmp-1,heddle,ideal] [--json]

Servers of eight GPUs with a 400 Gb/s interface each, scattered at random over leaves of 32 hosts and 32 uplinks: two
tiers for 1,024 GPUs, three above. A step computes for 100 ms and all-reduces 8 GiB per GPU hierarchically: each rail is
a ring over all servers. Each row is a process of its own, so that its memory is its own: building the fabric, the jobs
and the paths is counted as well. 65,536 GPUs are promised within 120 s and 8 GiB. Beside it stands the same run looked
at lane by lane, where that is affordable: exact without any skipping, which must give the same time.

JSON keys: `promised`; `rows` with `gpus`, `strategy`, `links`, `flows`, `simulated_s` (length of the step), `to_ideal`,
`seconds` (wall clock), `cpu_s`, `peak_bytes`, `events`, `every_event_s` (the step's length without skipping, or null).
"""

import argparse
import json
import multiprocessing
import random
import resource
import time
from dataclasses import asdict, dataclass, replace

from rich.console import Console
from rich.table import Table

from controller.jobs.collective import Algorithm, Collective, Operation
from controller.simulation.flows.engine import FlowEngine
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.jobs import Job, Phase, collective_transfers
from controller.simulation.flows.run import Settings, simulate
from controller.simulation.flows.shapes import Shape, shaped_view
from controller.simulation.flows.strategies import STRATEGIES

RATE_BPS = 400_000_000_000
SIZE_BYTES = 8 << 30
COMPUTE_S = 0.1
PER_SERVER, PER_LEAF, UPLINKS = 8, 32, 32
LEAVES_PER_POD = 32
PROMISED_GPUS, PROMISED_S, PROMISED_BYTES = 65_536, 120.0, 8 << 30
# Above this, or with several queue pairs, following every event would take longer than all the rest.
_EVERY_EVENT_GPUS = 1_024
_SEED = 1


@dataclass(frozen=True)
class Row:
    gpus: int
    strategy: str
    links: int
    flows: int
    simulated_s: float
    to_ideal: float | None
    seconds: float
    cpu_s: float
    peak_bytes: int
    events: int
    every_event_s: float | None


def shape(gpus: int) -> Shape:
    leaves = gpus // PER_LEAF
    if leaves <= LEAVES_PER_POD:
        return Shape(leaves, UPLINKS, PER_LEAF, RATE_BPS, RATE_BPS)
    pods = leaves // LEAVES_PER_POD
    return Shape(LEAVES_PER_POD, UPLINKS, PER_LEAF, RATE_BPS, RATE_BPS, pods=pods, cores=32, core_bps=RATE_BPS)


def job(fabric: FlowFabric) -> Job:
    hosts = fabric.hosts
    servers = [hosts[n : n + PER_SERVER] for n in range(0, len(hosts), PER_SERVER)]
    random.Random(_SEED).shuffle(servers)
    ranks = tuple(host for server in servers for host in server)
    reduce = Collective(
        "step", Operation.ALL_REDUCE, Algorithm.HIERARCHICAL, ranks, SIZE_BYTES, ranks_per_host=PER_SERVER
    )
    return Job("step", (Phase(COMPUTE_S, collective_transfers(fabric, [reduce], "step")),), tuple(range(len(hosts))))


def measure(gpus: int, strategy: str) -> Row:
    """In a process of its own: everything from nothing to the result."""
    started_s, cpu_s = time.monotonic(), time.process_time()
    fabric = FlowFabric(shaped_view(shape(gpus)))
    work = job(fabric)
    result = simulate(fabric, [work], STRATEGIES[strategy], _SEED)
    seconds, used_s = time.monotonic() - started_s, time.process_time() - cpu_s
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    affordable = gpus <= _EVERY_EVENT_GPUS and STRATEGIES[strategy].queue_pairs == 1
    every_event_s = _every_event_s(fabric, work, strategy) if affordable else None
    transfers = work.phases[0].transfers
    return Row(
        gpus=gpus,
        strategy=strategy,
        links=fabric.own_links,
        flows=len(transfers) if transfers else 0,
        simulated_s=result.duration_s,
        to_ideal=None,
        seconds=seconds,
        cpu_s=used_s,
        peak_bytes=peak_bytes,
        events=result.events,
        every_event_s=every_event_s,
    )


class _EveryEvent(FlowEngine):
    """The engine without its skipping of repetitions."""

    def _leap(self) -> None:
        return


def _every_event_s(fabric: FlowFabric, work: Job, strategy: str) -> float:
    from controller.simulation.flows import run

    usual = run.FlowEngine
    run.FlowEngine = _EveryEvent  # type: ignore[misc]
    try:
        return simulate(fabric, [work], STRATEGIES[strategy], _SEED, settings=Settings(detail_lanes=10**9)).duration_s
    finally:
        run.FlowEngine = usual  # type: ignore[misc]


def rows(sizes: list[int], strategies: list[str], console: Console) -> list[Row]:
    found = []
    # A fork would count the parent's memory as its own.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for gpus in sizes:
            same = []
            for strategy in strategies:
                console.print(f"{gpus:,} GPUs, {STRATEGIES[strategy].title} ...", highlight=False)
                same.append(pool.apply(measure, (gpus, strategy)))
            ideal = next((row.simulated_s for row in same if STRATEGIES[row.strategy].ideal), None)
            found += [replace(row, to_ideal=row.simulated_s / ideal if ideal else None) for row in same]
    return found


def _table(found: list[Row]) -> Table:
    title = (
        f"A data-parallel step (promised for {PROMISED_GPUS:,} GPUs: {PROMISED_S:.0f} s, {PROMISED_BYTES >> 30} GiB)"
    )
    table = Table(title=title)
    columns = (
        "GPUs",
        "strategy",
        "links",
        "flows a step",
        "step takes",
        "to ideal",
        "simulated in",
        "CPU",
        "memory",
        "events",
    )
    for column in (*columns, "every event"):
        table.add_column(column, justify="left" if column == "strategy" else "right")
    for row in found:
        ideal = f"{row.to_ideal:.2f}" if row.to_ideal else ""
        counts = (f"{row.gpus:,}", STRATEGIES[row.strategy].title, f"{row.links:,}", f"{row.flows:,}")
        costs = (f"{row.seconds:.1f} s", f"{row.cpu_s:.1f} s", f"{row.peak_bytes / 2**20:,.0f} MiB", str(row.events))
        every = f"{row.every_event_s:.4f} s" if row.every_event_s else ""
        table.add_row(*counts, f"{row.simulated_s:.4f} s", ideal, *costs, every)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1024,8192,65536", help="numbers of GPUs, multiples of 1,024")
    parser.add_argument("--strategies", default="ecmp-1,ecmp-4,heddle,ideal", help="as `heddle simulate` has them")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    found = rows(sizes, options.strategies.split(","), Console(stderr=True))
    if options.json:
        promised = {"gpus": PROMISED_GPUS, "seconds": PROMISED_S, "bytes": PROMISED_BYTES}
        print(json.dumps({"promised": promised, "rows": [asdict(row) for row in found]}, indent=1))
        return
    Console(width=160).print(_table(found))


if __name__ == "__main__":
    main()
