"""The main job, end to end: one ring all-reduce under static ECMP, E-ECMP and Heddle, on real switches and hosts.

`heddle demo` runs this. It builds the fabric in a network namespace of its own, runs the same collective under each
strategy, cuts a link, adds background traffic, and leaves tables, pictures and JSON. Exit status: 0, 2 for something
the user can put right, 130 after Ctrl-C, 128 and the signal's number after SIGTERM or SIGHUP.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import demo_controllers
import demo_report
from demo_job import RingJob, default_log, job_from
from demo_northbound import Controller
from demo_scenarios import Failover, Qos, Strategy, background_and_queues, fail_uplink, leaf_uplinks, run_seeds
from lab_fabric import FabricLab
from lab_namespace import LabError
from rich.console import Console
from roce_traffic import ideal_ring_s

from controller.fabric.plan import FabricPlan
from controller.formats.nccl_job import RankMappingError
from controller.formats.problems import FileFormatError
from controller.formats.topology_file import load

ROOT = Path(__file__).resolve().parent.parent
_JOB = "demo"
_LEAVES, _HOSTS_PER_LEAF = 4, 4
Say = Callable[[str], None]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="heddle demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else there")
    parser.add_argument("--seeds", type=_at_least_one, default=5, help="runs of each strategy (default 5)")
    parser.add_argument("--topology", type=Path, default=ROOT / "topologies/leafspine-4x4.yaml")
    parser.add_argument("--nccl-log", type=Path, default=None, help="NCCL_DEBUG log that tells ranks and rings")
    parser.add_argument("--bytes", type=_at_least_one, default=1_200_000, help="buffer of the all-reduce, per rank")
    parser.add_argument("--output", type=Path, default=ROOT / "demo-output", help="folder for JSON, pictures and logs")
    return parser.parse_args(arguments)


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def link_rate(plan: FabricPlan) -> int:
    """The one rate of all links. Raises LabError: with several there is no single bound to hold the ring against."""
    rates = {k.rate_bps for k in plan.links} | {h.rate_bps for h in plan.hosts}
    if len(rates) != 1:
        raise LabError("the demo needs a fabric whose links all have one rate; topologies/leafspine-4x4.yaml is one")
    return rates.pop()


def check_shape(plan: FabricPlan) -> None:
    """Raises LabError: background comes from two hosts each of two leaves, to two others, beside a ring of as many."""
    hosts = Counter(host.switch for host in plan.hosts)
    if len(hosts) < _LEAVES or min(hosts.values()) < _HOSTS_PER_LEAF:
        raise LabError(
            f"the demo needs {_LEAVES} leaves with {_HOSTS_PER_LEAF} hosts each, at the least; "
            "topologies/leafspine-4x4.yaml is such a fabric"
        )


def measure(options: argparse.Namespace, say: Say) -> dict[str, Any]:
    plan = load(options.topology)
    rate = link_rate(plan)
    job = job_from(options.nccl_log or default_log(), plan, options.bytes)
    check_shape(plan)

    def bound_of(ring: RingJob) -> float:
        return ideal_ring_s(len(ring.hosts), ring.size_bytes, rate)

    bound_s = bound_of(job)
    options.output.mkdir(parents=True, exist_ok=True)
    seeds = range(1, options.seeds + 1)
    strategies: list[Strategy] = []
    say(f"building {plan.name}: {len(plan.switches)} switches, {len(plan.links)} links, {len(plan.hosts)} hosts")
    with FabricLab(plan, controllers=[demo_controllers.OPENFLOW], name=f"demo-{plan.name}") as lab:
        say("static ECMP (ryu-manager apps/ecmp.py)")
        with demo_controllers.ecmp(lab, options.topology, options.output):
            _check_pings(lab)
            strategies += [run_seeds(lab, f"ecmp-{n}qp", job, n, seeds, bound_s, say) for n in (1, 4, 16)]
        say("Heddle (ryu-manager apps/fabric.py)")
        with (
            demo_controllers.heddle(lab, options.topology, options.output) as address,
            Controller(address) as controller,
        ):
            found_s = controller.wait_for(len(plan.links), len(plan.hosts))
            say(f"all links and hosts found {found_s:.1f} s after the last switch connected")
            _check_pings(lab)
            planned, failover, qos = _with_heddle(lab, controller, job, seeds, bound_of, say)
        strategies.append(planned)
        uplinks = leaf_uplinks(lab)
        fabric = _fabric(plan, job, rate, bound_s, options.topology)
        result = demo_report.as_json(fabric, bound_s, strategies, uplinks, failover, qos)
        for file in demo_report.pictures(lab, strategies, bound_s, options.output):
            say(f"picture: {file}")
    demo_report.write_json(result, options.output / "result.json")
    return result


def _with_heddle(
    lab: FabricLab,
    controller: Controller,
    job: RingJob,
    seeds: range,
    bound_of: Callable[[RingJob], float],
    say: Say,
) -> tuple[Strategy, Failover, Qos]:
    bound_s = bound_of(job)
    proof = controller.announce(_JOB, job).plan.certificate
    say(f"announced: {proof.method}, fullest link {proof.max_load_s:.2f} s, bound {proof.lower_bound_s:.2f} s")
    planned = run_seeds(lab, "heddle", job, 1, seeds, bound_s, say)
    failover = fail_uplink(lab, controller, _JOB, job, bound_s)
    say(f"cut {failover.link} under way: {failover.completion_s:.2f} s")
    controller.wait_for(len(lab.plan.links), len(lab.plan.hosts))
    controller.withdraw(_JOB)
    return planned, failover, background_and_queues(lab, controller, job.size_bytes, bound_of, say)


def _check_pings(lab: FabricLab) -> None:
    dead = [f"{a} -> {b}" for (a, b), time_ms in lab.ping_pairs().items() if time_ms is None]
    if dead:
        raise LabError(f"hosts do not reach one another: {', '.join(dead)}")


def _fabric(plan: FabricPlan, job: RingJob, rate: int, bound_s: float, topology: Path) -> dict[str, Any]:
    leaves = sum(s.role == "leaf" for s in plan.switches)
    return {
        "name": plan.name,
        "topology": topology.name,
        "shape": f"{leaves} leaves x {len(plan.switches) - leaves} spines, {len(plan.hosts)} hosts",
        "switches": len(plan.switches),
        "links": len(plan.links),
        "hosts": len(plan.hosts),
        "rate_bps": rate,
        "ranks": len(job.hosts),
        "source": f"ranks and rings of {job.source}",
        "size_bytes": job.size_bytes,
        # What one flow puts on its links, headers included.
        "flow_bytes": round(bound_s * rate / 8),
    }


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    console = Console(stderr=options.json)
    started = time.monotonic()

    told_to_end: list[int] = []

    def end(number: int, _frame: object) -> NoReturn:
        # Leaves by way of every `finally`, so that nothing of the lab stays behind.
        told_to_end.append(128 + number)
        raise SystemExit(128 + number)

    def say(text: str) -> None:
        if told_to_end:
            # The interpreter was in a destructor or a callback, where it drops exceptions.
            raise SystemExit(told_to_end[0])
        console.print(f"[dim]{time.monotonic() - started:6.1f} s[/]  {text}", highlight=False)

    def unraisable(dropped: sys.UnraisableHookArgs) -> None:
        # An end that fell into such a place comes again with the next word said.
        if not isinstance(dropped.exc_value, SystemExit):
            sys.__unraisablehook__(dropped)

    sys.unraisablehook = unraisable
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        result = measure(options, say)
    except (LabError, FileFormatError, RankMappingError) as error:
        errors = Console(stderr=True, soft_wrap=True)
        for line in str(error).splitlines():
            errors.print(f"heddle demo: {line}", style="red", highlight=False, markup=False)
        return 2
    if options.json:
        print(json.dumps(result))
    else:
        demo_report.show(console, result)
        console.print(f"All of it: {options.output / 'result.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
