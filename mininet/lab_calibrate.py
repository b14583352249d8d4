"""Measures the lab itself: how near a ring all-reduce comes to what its links allow, without collisions and with.

`python mininet/lab_calibrate.py TOPOLOGY --rate 8M --size 1.25e6`. Every step of the ring crosses the spine; each has
an uplink to itself, or (`--collide`) shares it with one other. Static rules, no controller. The figures say which rates
this machine carries; they are no benchmark of anything else.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from pathlib import Path

# The checkout itself, when Heddle is not installed. Appended, so that nothing there hides an installed package.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from lab_fabric import FabricLab
from lab_meters import cpu_share
from lab_namespace import LabError
from lab_rules import lay_static_rules
from roce_traffic import RunningTraffic, ideal_ring_s, ring_all_reduce

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan
from controller.formats.problems import FileFormatError
from controller.formats.rates import parse_rate
from controller.formats.topology_file import load

_TIMEOUT_S = 120.0


def at_rate(plan: FabricPlan, rate_bps: int) -> FabricPlan:
    """The same fabric with one rate everywhere."""
    links = tuple(dataclasses.replace(link, rate_bps=rate_bps) for link in plan.links)
    hosts = tuple(dataclasses.replace(host, rate_bps=rate_bps) for host in plan.hosts)
    return dataclasses.replace(plan, links=links, hosts=hosts)


def spread_ring(plan: FabricPlan, *, collide: bool) -> tuple[list[str], dict[tuple[str, str], str]]:
    """Ranks in turns over the leaves, and a spine per step: its own at its leaf, or one for two steps.

    Raises LabError when the leaves have different numbers of hosts, or more hosts than spines.
    """
    racks = [[h.name for h in plan.hosts if h.switch == s.name] for s in plan.switches if s.role == Role.LEAF]
    spines = [s.name for s in plan.switches if s.role == Role.SPINE]
    per_rack = len(racks[0]) if racks else 0
    if len(racks) < 2 or any(len(rack) != per_rack for rack in racks) or not 0 < per_rack <= len(spines):
        raise LabError("calibration needs two leaves or more, with equally many hosts, and a spine for each of those")
    ranks = [rack[turn] for turn in range(per_rack) for rack in racks]
    steps = zip(ranks, ranks[1:] + ranks[:1], strict=True)
    turns = [i // len(racks) for i in range(len(ranks))]
    spine_of = {step: spines[turn // 2 if collide else turn] for step, turn in zip(steps, turns, strict=True)}
    # Acknowledgements go back the same way.
    return ranks, spine_of | {(b, a): spine for (a, b), spine in spine_of.items()}


def calibrate(plan: FabricPlan, size_bytes: int, queue_pairs: int, repeat: int, *, collide: bool) -> None:
    """Prints one line per run."""
    ranks, spine_of = spread_ring(plan, collide=collide)
    ideal = ideal_ring_s(len(ranks), size_bytes, plan.hosts[0].rate_bps)
    with FabricLab(plan, name=f"calibrate-{plan.name}") as lab:
        lay_static_rules(lab, spine_of)
        if dead := [pair for pair, time_ms in lab.ping_pairs().items() if time_ms is None]:
            raise LabError(f"no answer between {dead}")
        for _ in range(repeat):
            connections = ring_all_reduce(ranks, size_bytes, queue_pairs=queue_pairs)
            with RunningTraffic(lab, connections, _TIMEOUT_S) as running:
                running.start()
                before, started = lab.cpu(), time.monotonic()
                result = running.wait()
            share, elapsed = cpu_share(before, lab.cpu()), time.monotonic() - started
            if result.completion_s is None:
                raise LabError(f"not complete within {_TIMEOUT_S:.0f} s; {'; '.join(result.faults)}")
            print(
                f"{result.completion_s:.3f} s, ideal {ideal:.3f} s, ratio {result.completion_s / ideal:.3f}; "
                f"{result.retransmissions} sent again; one core: switches {sum(share.process.values()):.0%}, "
                f"hosts {result.worker_cpu_s / elapsed:.0%}; whole machine {share.machine:.0%}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("topology", type=Path)
    parser.add_argument("--rate", default="8M", help="of every cable, bit/s")
    parser.add_argument("--size", type=float, default=1.25e6, help="bytes that each rank reduces")
    parser.add_argument("--queue-pairs", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--collide", action="store_true")
    given = parser.parse_args()
    try:
        plan = at_rate(load(given.topology), parse_rate(given.rate))
        calibrate(plan, int(given.size), given.queue_pairs, given.repeat, collide=given.collide)
    except (LabError, FileFormatError, ValueError) as error:
        raise SystemExit(f"lab_calibrate: {error}") from None


if __name__ == "__main__":
    main()
