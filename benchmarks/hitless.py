"""Restarts and changes under load: does anybody on the fabric notice?

    ./heddle bench hitless [--rate 200] [--topology FILE] [--json]

On a private Mininet fabric (root), probes that together cross every pair of leaves and every cable in both directions
run while the controller and the agent are killed and started again, paths are moved and a queue's weight is changed.
Printed are packets sent, lost and duplicated, and what Open vSwitch says it was sent meanwhile. Status 1 when a packet
was lost or came twice, when a restart changed a switch, or when something was deleted wholesale.
"""

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "mininet"))

from hitless_run import Counts, Outcome, run  # noqa: E402
from lab_namespace import LabError  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", type=Path, default=ROOT / "topologies/leafspine-4x4.yaml")
    parser.add_argument("--rate", type=float, default=200.0, help="packets per second of each probe")
    parser.add_argument("--controller-kills", type=int, default=5)
    parser.add_argument("--agent-kills", type=int, default=5)
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--queue-changes", type=int, default=1)
    parser.add_argument("--log", type=Path, help="where controller and agent write; a temporary file by default")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    counts = Counts(arguments.controller_kills, arguments.agent_kills, arguments.moves, arguments.queue_changes)

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    with tempfile.TemporaryDirectory() as folder:
        log = arguments.log or Path(folder) / "heddle.log"
        try:
            outcome = run(arguments.topology, f"hitless-{os.getpid()}", log, counts, arguments.rate, say)
        except LabError as error:
            say(f"hitless: {error}")
            return 2
    show(outcome, as_json=arguments.json)
    return int(bool(faults(outcome)))


def faults(outcome: Outcome) -> list[str]:
    """Everything that should not have happened."""
    found = [f"{outcome.lost} packets lost"] if outcome.lost else []
    found += [f"{outcome.duplicated} packets came twice"] if outcome.duplicated else []
    found += [f"deleted wholesale: {line}" for line in outcome.wholesale]
    still = ("nothing", "controller killed", "agent killed", "queue weight changed")
    found += [
        f"{name}: {changes.commands}" for name, changes in outcome.changes.items() if name in still and changes.total
    ]
    return found


def show(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**asdict(outcome), "faults": faults(outcome)}, indent=2))
        return
    print(
        f"{outcome.probes} probes of {outcome.packets_per_second:g} packets/s cover {outcome.leaf_pairs} leaf pairs "
        f"and {outcome.cable_directions} cable directions for {outcome.duration_s:.0f} s"
    )
    print(f"sent {outcome.sent}, lost {outcome.lost}, duplicated {outcome.duplicated}, reordered {outcome.reordered}")
    print(f"paths moved {outcome.moves}, queues changed {outcome.queue_rows_changed}")
    if outcome.ready_again_s:
        print(f"in sync again after {max(outcome.ready_again_s):.1f} s at most")
    for name, changes in outcome.changes.items():
        print(f"  {name}: {changes.total} changes sent to switches")
    for fault in faults(outcome):
        print(f"FAULT {fault}")


if __name__ == "__main__":
    sys.exit(main())
