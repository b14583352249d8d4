"""What a failed link or spine costs, with no controller to help, beside plain ECMP and a controller's repair alone.

    ./heddle bench failover [--json] [--repetitions 3] [--fabric 4x4] [--rate 1000] [--ways ecmp,controller,heddle]

On a Mininet fabric of its own (root). A cable between leaf and spine is cut, at either end in turn, then its spine goes
dark, then the next cable; probes of every pair of leaves that cross it run at 1 kHz, others between all leaves slowly.
Loss is in milliseconds, of the probe that loses most: local uplink (what the leaf sends up), downstream (what comes
down to it from elsewhere) and spine. docs/benchmarks.md explains the ways and the JSON keys.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "mininet"))

from demo_controllers import OPENFLOW, ecmp  # noqa: E402
from failover_run import Pace, at_rest, cables, fail_all, shown, watched  # noqa: E402
from hitless_processes import Processes, processes  # noqa: E402
from lab_fabric import FabricLab  # noqa: E402
from lab_meters import cpu_share  # noqa: E402
from lab_namespace import LabError  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from silent_run import frozen  # noqa: E402

from controller.formats.topology_file import load  # noqa: E402

# In the order in which they are measured: Heddle takes over whatever rules of its own it finds, ECMP does not.
NAMES = {
    "ecmp": "ECMP, controller stopped",
    "controller": "controller alone repairs",
    "heddle": "Heddle, controller stopped",
}
# Without BFD Open vSwitch takes a port as live within milliseconds after it is up again.
_WHOLE_AGAIN_S = 0.5
# ECMP lays its rules when a switch connects, and says nothing when it has.
_RULES_LAID_S = 3.0


class Bench:
    """One lab, in which the ways take turns."""

    def __init__(self, lab: FabricLab, topology: Path, folder: Path, repetitions: int, pace: Pace) -> None:
        self.lab, self.topology, self.folder = lab, topology, folder
        self.repetitions, self.pace = repetitions, pace

    def measure(self, way: str) -> dict[str, Any]:
        with {"heddle": self._stopped, "ecmp": self._ecmp, "controller": self._alone}[way]() as whole_again:
            lost_at_rest = at_rest(self.lab, watched(self.lab, cables(self.lab)[0]), self.pace)
            before = self.lab.cpu()
            losses = fail_all(self.lab, self.repetitions, self.pace, whole_again, lambda said: say(f"{way}: {said}"))
            share = cpu_share(before, self.lab.cpu())
        summary = {name: summed_up(values) for name, values in shown(losses)}
        busy = {"machine": share.machine, "switch_daemon": share.process[self.lab.ovs.switch_pid]}
        return {**summary, "lost_elsewhere": losses.elsewhere, "lost_at_rest": lost_at_rest, "cpu_share": busy}

    @contextmanager
    def _stopped(self) -> Iterator[Any]:
        with processes(self.lab, self.topology, self.folder / "heddle.log") as control:
            self.lab.teach_neighbours()
            time.sleep(_RULES_LAID_S)
            with frozen(control):
                yield lambda: time.sleep(_WHOLE_AGAIN_S)

    @contextmanager
    def _ecmp(self) -> Iterator[Any]:
        with ecmp(self.lab, self.topology, self.folder) as process:
            self.lab.teach_neighbours()
            time.sleep(_RULES_LAID_S)
            with frozen(Processes(self.lab, {}, self.folder / "ecmp.log", controller=process)):
                yield lambda: time.sleep(_WHOLE_AGAIN_S)

    @contextmanager
    def _alone(self) -> Iterator[Any]:
        program = (str(ROOT / "benchmarks/_static_controller.py"),)
        with processes(self.lab, self.topology, self.folder / "static.log", program=program) as control:
            self.lab.teach_neighbours()
            time.sleep(_RULES_LAID_S)
            yield control.wait_ready


def summed_up(losses_ms: list[float]) -> dict[str, Any]:
    if not losses_ms:
        return {"losses_ms": []}
    return {"median_ms": statistics.median(losses_ms), "worst_ms": max(losses_ms), "losses_ms": losses_ms}


def say(text: str) -> None:
    Console(stderr=True).print(text, highlight=False)


def leaf_spine(fabric: str, folder: Path) -> Path:
    """A topology file for "LEAVESxSPINES" with two hosts on each leaf."""
    leaves, _, spines = fabric.partition("x")
    shape = f"{{leaves: {int(leaves)}, spines: {int(spines)}, hosts_per_leaf: 2}}"
    file = folder / f"leafspine-{fabric}.yaml"
    file.write_text(f"name: leafspine-{fabric}\nrate: 8M\nleaf_spine: {shape}\n")
    return file


def show(result: dict[str, Any]) -> None:
    window_ms = result["window_s"] * 1000
    title = (
        f"{result['fabric']}: loss in ms, median (worst) of {result['repetitions']}; {window_ms:g} or more: not healed"
    )
    table = Table(title=title)
    for column in ("", "local uplink", "downstream", "spine killed", "lost elsewhere", "lost at rest"):
        table.add_column(column, justify="right" if column else "left")
    for way, found in result["ways"].items():
        cells = [
            f"{cell['median_ms']:.0f} ({cell['worst_ms']:.0f})" if "median_ms" in cell else "not seen"
            for cell in (found["uplink"], found["downstream"], found["spine"])
        ]
        table.add_row(NAMES[way], *cells, str(found["lost_elsewhere"]), str(found["lost_at_rest"]))
    Console(width=120).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repetitions", type=int, default=3, help="cables that are cut, and spines, for each way")
    parser.add_argument("--fabric", default="4x4", help="leaves x spines")
    parser.add_argument("--rate", type=float, default=Pace().touched, help="packets per second of the touched probes")
    parser.add_argument("--ways", default=",".join(NAMES), help="which of the three")
    options = parser.parse_args()
    pace = Pace(touched=options.rate)
    result: dict[str, Any] = {"fabric": options.fabric, "rate": options.rate, "window_s": pace.window_s}
    result |= {"repetitions": options.repetitions, "load_average": os.getloadavg()[0], "ways": {}}
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        topology = leaf_spine(options.fabric, Path(folder))
        try:
            with FabricLab(load(topology), controllers=[OPENFLOW], name=f"failover-{os.getpid()}") as lab:
                bench = Bench(lab, topology, Path(folder), options.repetitions, pace)
                result["ways"] = {way: bench.measure(way) for way in NAMES if way in options.ways.split(",")}
        except LabError as error:
            say(f"failover: {error}")
            return 2
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
