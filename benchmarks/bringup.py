"""How long until a fabric is known: from the last switch's connection to every link and host found and in sync.

On real Open vSwitch and Mininet, for each topology: Heddle is started as its users start it (`ryu-manager
apps/fabric.py`, which starts the controller), then the fabric. Beside it stands the bound that the product promises.
JSON keys: `promised_s`; per topology `switches`, `links`, `hosts`, `known_s` (one per repetition), `over_promise`
(worst / promised) and `pairs_unreached` (host pairs that did not ping).
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "mininet"))

from demo_controllers import OPENFLOW, heddle  # noqa: E402 - found with the lab's folder on the path
from demo_northbound import Controller  # noqa: E402
from lab_fabric import FabricLab  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from controller.formats.topology_file import load  # noqa: E402

PROMISED_S = 5.0
TOPOLOGIES = ("leafspine-1x", "leafspine-2x2", "leafspine-2x4", "leafspine-4x4", "parallel-unequal")


def measure(name: str, repetitions: int) -> dict[str, Any]:
    topology = ROOT / "topologies" / f"{name}.yaml"
    plan = load(topology)
    known, unreached = [], 0
    for _ in range(repetitions):
        with (
            tempfile.TemporaryDirectory() as logs,
            FabricLab(plan, controllers=[OPENFLOW], name=f"bringup-{name}") as lab,
            heddle(lab, topology, Path(logs)) as address,
            Controller(address) as controller,
        ):
            # Every switch is connected now; hosts come up with a gratuitous ARP, as servers do.
            known.append(controller.wait_for(len(plan.links), len(plan.hosts), timeout_s=60))
            names = [host.name for host in plan.hosts]
            answers = lab.ping_pairs([(a, b) for a in names for b in names if a != b], timeout_s=5.0)
            unreached += sum(time_ms is None for time_ms in answers.values())
    return {
        "switches": len(plan.switches),
        "links": len(plan.links),
        "hosts": len(plan.hosts),
        "known_s": known,
        "over_promise": max(known) / PROMISED_S,
        "pairs_unreached": unreached,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    console = Console(stderr=True)
    results = {}
    for name in TOPOLOGIES:
        console.print(f"{name} ...", highlight=False)
        results[name] = measure(name, options.repeat)
    if options.json:
        print(json.dumps({"promised_s": PROMISED_S, "topologies": results}))
        return
    table = Table(title=f"Known after the last switch connected (promised: {PROMISED_S:g} s)")
    for column in ("topology", "switches", "links", "hosts", "median", "worst", "worst / promised", "pairs unreached"):
        table.add_column(column)
    for name, r in results.items():
        times = sorted(r["known_s"])
        figures = (f"{times[len(times) // 2]:.2f} s", f"{times[-1]:.2f} s", f"{r['over_promise']:.2f}")
        counts = (str(r["switches"]), str(r["links"]), str(r["hosts"]))
        table.add_row(name, *counts, *figures, str(r["pairs_unreached"]))
    Console().print(table)


if __name__ == "__main__":
    main()
