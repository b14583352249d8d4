"""How long a scheduler's topology file of 10,000 nodes takes to load, beside the 5 s that are promised.

The file has the shape of Slurm's own largest test (one root, 2 and 26 switches below it, 500 leaves of 20 nodes). The
naive baseline splits lines and expands "a[1-20]" with nothing checked and no plan made: what loading costs at the least
in Python. JSON keys: `promised_s`; `switches`, `nodes`; `load_s` and `naive_s` (best of the repetitions),
`over_promise` and `over_naive` (ratios).
"""

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from controller.formats.plan_files import load_text

PROMISED_S = 5.0
_LEAVES, _NODES_PER_LEAF, _GROUPS = 500, 20, 26


def topology_conf() -> str:
    """A topology.conf with 529 switches and 10,000 nodes."""
    lines = ["SwitchName=root Switches=im[0-1]"]
    lines += [f"SwitchName=im{n} Switches=grp[{n * 13}-{n * 13 + 12}]" for n in (0, 1)]
    for group in range(_GROUPS):
        first, last = group * _LEAVES // _GROUPS, (group + 1) * _LEAVES // _GROUPS - 1
        lines.append(f"SwitchName=grp{group} Switches=leaf[{first}-{last}]")
    for leaf in range(_LEAVES):
        first = 10_000 + leaf * _NODES_PER_LEAF
        lines.append(f"SwitchName=leaf{leaf} Nodes=node[{first}-{first + _NODES_PER_LEAF - 1}]")
    return "\n".join(lines) + "\n"


def naive(text: str) -> dict[str, list[str]]:
    """Children by switch."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        members = []
        for prefix, low, high in re.findall(r"(\w+)\[(\d+)-(\d+)\]", rest):
            members += [f"{prefix}{number}" for number in range(int(low), int(high) + 1)]
        found[name] = members
    return found


def best_s(action: Callable[[], object], repetitions: int) -> float:
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--file", type=Path, help="a topology file of your own instead")
    options = parser.parse_args()
    text = options.file.read_text() if options.file else topology_conf()
    plan = load_text(text)
    load_s = best_s(lambda: load_text(text), options.repeat)
    naive_s = best_s(lambda: naive(text), options.repeat)
    result = {
        "promised_s": PROMISED_S,
        "switches": len(plan.switches),
        "nodes": len(plan.hosts),
        "load_s": load_s,
        "naive_s": naive_s,
        "over_promise": load_s / PROMISED_S,
        "over_naive": load_s / naive_s,
    }
    if options.json:
        print(json.dumps(result))
        return
    table = Table(title=f"A topology file, loaded and checked (promised: {PROMISED_S:g} s)")
    for column in ("switches", "nodes", "load", "of the promise", "naive", "load / naive"):
        table.add_column(column)
    figures = (f"{load_s:.3f} s", f"{load_s / PROMISED_S:.3f}", f"{naive_s:.4f} s", f"{load_s / naive_s:.1f}")
    table.add_row(str(len(plan.switches)), str(len(plan.hosts)), *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
