"""Failures that no port reports: with BFD and without, false alarms under load, and links that only lose a share.

    ./heddle bench silent [--json] [--parts silent,load,lossy] [--repeat 8] [--topology leafspine-4x4] [--rate 1000]

On a Mininet fabric of its own (root). Silent failures: everything that a cable carries, in both directions or in one,
gets lost while the carrier stays; probes at 1 kHz cross it both ways; the loss counts in milliseconds. Ways: BFD off
(heartbeats and beacons), BFD on, and BFD on while controller and agent are stopped, so that switches alone heal it.
docs/benchmarks.md explains the JSON keys.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "mininet"))

from demo_controllers import OPENFLOW  # noqa: E402
from demo_northbound import Controller  # noqa: E402
from hitless_processes import Processes, processes  # noqa: E402
from lab_fabric import FabricLab  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from silent_run import (  # noqa: E402
    daemon_share,
    false_alarms,
    frozen,
    leaf_spine_pairs,
    lost_in_failure,
    make_gray,
    touched,
    wait_for_sessions,
)

from controller.formats.topology_file import load  # noqa: E402

_WAYS = ("both", "up", "down")
_FAILED_S = {"off": 3.0, "on": 2.0, "alone": 2.0}
_LOAD_S, _CPU_S = 20.0, 10.0
_HOGS = (0, 2, 4, 8)
_INTERVALS = ("20x3", "50x3", "100x3")
_SHARES = (0.05, 0.01, 0.005)
_MENDED_S = 1.0


class Bench:
    """One lab, and one controller after the other in it."""

    def __init__(self, lab: FabricLab, topology: Path, folder: Path, rate: float, bfd: str) -> None:
        self.lab, self.topology, self.folder, self.rate, self.bfd = lab, topology, folder, rate, bfd
        # Every cable in turn: one that fails again soon would be held for flapping.
        self._pairs = itertools.cycle(leaf_spine_pairs(lab))

    @contextmanager
    def controlled(self, bfd: str) -> Iterator[Processes]:
        with processes(self.lab, self.topology, self.folder / f"{bfd}.log", {"HEDDLE_BFD": bfd}) as control:
            if bfd != "off":
                say(f"BFD {bfd}: all sessions are up after {wait_for_sessions(self.lab):.0f} s more")
            yield control

    def silent(self, repeat: int) -> dict[str, Any]:
        result: dict[str, Any] = {"cpu_share": {}}
        for bfd in ("off", "on"):
            with self.controlled(self.bfd if bfd == "on" else bfd) as control:
                result["cpu_share"][bfd] = daemon_share(self.lab, _CPU_S)
                for variant in ("off",) if bfd == "off" else ("on", "alone"):
                    result[variant] = {way: self._losses(control, variant, way, repeat) for way in _WAYS}
        return result

    def _losses(self, control: Processes, variant: str, way: str, repeat: int) -> list[float]:
        """The worse of both probes' losses, for one cable after the other."""
        losses = []
        for _ in range(repeat):
            probed = touched(self.lab, *next(self._pairs))
            sender = {"both": None, "up": probed.leaf, "down": probed.spine}[way]
            with frozen(control) if variant == "alone" else nullcontext():
                losses.append(max(lost_in_failure(self.lab, probed, sender, _FAILED_S[variant], self.rate)))
            time.sleep(_MENDED_S)
            say(f"{variant}, {way}: {probed.leaf} - {probed.spine} {losses[-1]:.0f} ms")
        control.wait_ready()
        return losses

    def load(self) -> list[dict[str, Any]]:
        rows = []
        for bfd in _INTERVALS:
            with self.controlled(bfd):
                cpu = daemon_share(self.lab, _CPU_S)
                for busy in _HOGS:
                    alarms = false_alarms(self.lab, busy, _LOAD_S)
                    rows.append({"bfd": bfd, "busy_programs": busy, "changes": alarms, "cpu_share": cpu})
                    say(f"BFD {bfd} beside {busy} busy programs: {alarms} changes; load {os.getloadavg()[0]:.1f}")
        return rows

    def lossy(self) -> list[dict[str, Any]]:
        rows = []
        with self.controlled(self.bfd) as control, Controller(control.grpc) as client:
            for share, pair in zip(_SHARES, self._pairs, strict=False):
                found = make_gray(self.lab, client, touched(self.lab, *pair), share, self.rate)
                rows.append({"share": share, **asdict(found)})
                say(f"{100 * share:g} %: {found.after_s:.0f} s, {found.lost_after} of {found.sent_after} lost after")
                self.lab.impair(*pair, 0.0)
        return rows


def say(text: str) -> None:
    Console(stderr=True).print(text, highlight=False)


def measure(topology: Path, parts: list[str], repeat: int, rate: float, bfd: str) -> dict[str, Any]:
    plan = load(topology)
    pairs = {(link.a, link.b) for link in plan.links}
    result: dict[str, Any] = {"topology": topology.stem, "rate": rate, "bfd": bfd, "load_average": os.getloadavg()[0]}
    with (
        tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder,
        FabricLab(plan, controllers=[OPENFLOW], name=f"silent-{os.getpid()}", relayed=sorted(pairs)) as lab,
    ):
        bench = Bench(lab, topology, Path(folder), rate, bfd)
        if "silent" in parts:
            result["silent"] = bench.silent(repeat)
        if "load" in parts:
            result["load"] = bench.load()
        if "lossy" in parts:
            result["lossy"] = bench.lossy()
    return result


def show(result: dict[str, Any]) -> None:
    console = Console(width=140)
    if silent := result.get("silent"):
        table = Table(title="silent failure: loss in ms, median (worst)")
        for column in ("BFD", *_WAYS, "switch daemon at rest"):
            table.add_column(column, justify="right")
        for variant, name in (("off", "off"), ("on", "on"), ("alone", "on, no controller")):
            cells = [
                f"{statistics.median(silent[variant][way]):.0f} ({max(silent[variant][way]):.0f})" for way in _WAYS
            ]
            table.add_row(name, *cells, f"{100 * silent['cpu_share']['off' if variant == 'off' else 'on']:.0f} %")
        console.print(table)
    if load_rows := result.get("load"):
        table = Table(title=f"sessions that changed their state in {_LOAD_S:g} s though nothing failed")
        for column in ("BFD", "busy programs", "changes", "switch daemon at rest"):
            table.add_column(column, justify="right")
        for row in load_rows:
            table.add_row(row["bfd"], str(row["busy_programs"]), str(row["changes"]), f"{100 * row['cpu_share']:.0f} %")
        console.print(table)
    if lossy := result.get("lossy"):
        table = Table(title="links that lose a share")
        for column in ("loss", "avoided after", "lost until then", "lost afterwards", "evidence"):
            table.add_column(column, justify="right")
        for row in lossy:
            until, after = (
                f"{row[lost]} of {row[sent]}" for lost, sent in (("lost", "sent"), ("lost_after", "sent_after"))
            )
            table.add_row(f"{100 * row['share']:g} %", f"{row['after_s']:.0f} s", until, after, row["condition"])
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--parts", default="silent,load,lossy")
    parser.add_argument("--repeat", type=int, default=8, help="cables that fail, for each way")
    parser.add_argument("--topology", default="leafspine-4x4", help="one of those in topologies/, or a file")
    parser.add_argument("--bfd", default="on", help="what HEDDLE_BFD is where BFD is on, for example 50x3")
    parser.add_argument("--rate", type=float, default=1000.0, help="packets per second of each probe")
    options = parser.parse_args()
    topology = Path(options.topology)
    topology = topology.resolve() if topology.is_file() else ROOT / "topologies" / f"{options.topology}.yaml"
    result = measure(topology, options.parts.split(","), options.repeat, options.rate, options.bfd)
    if options.json:
        print(json.dumps(result))
        return
    show(result)


if __name__ == "__main__":
    main()
