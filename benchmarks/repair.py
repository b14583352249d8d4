"""How long a failure takes the controller: until the groups are repaired, and until the new plan is certified.

    ./heddle bench repair [--leaves 4] [--spines 4] [--queue-pairs 16] [--repetitions 20] [--cases 0] [--json]

On a private Mininet fabric (root), with the controller and its agent running and a ring of 256 flows announced, links
are cut one after the other. Printed are, from the moment of the cut: the switch's own port report, as any controller
would get it; the controller's first word of it; the new certified plan; and the last barrier of the repair, by which
all groups and routes are right. The first is what the switch takes, the rest what Heddle adds. Median and worst of all.

With `--cases N`, so many times two or three links or spines fail 20 ms after one another, under probes between all
leaves: printed are the pairs that a spine still joins and that do not deliver within a second, packets that come twice
or circle, and certificates that are not true of what is left.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "mininet"))

from demo_controllers import OPENFLOW  # noqa: E402
from demo_northbound import Controller  # noqa: E402
from hitless_processes import processes  # noqa: E402
from lab_fabric import FabricLab  # noqa: E402
from lab_namespace import LabError  # noqa: E402
from overlap_run import MOST_CROSSINGS, Outcome, OverlapRun, cases  # noqa: E402
from repair_watch import RING, Timed, announce_ring, events, port_reports  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import track  # noqa: E402

from controller.formats.topology_file import load  # noqa: E402

_HOSTS = 16
_SEED = 6
# A link that has just come back waits before it is believed, and flapping would hold it: none is cut twice in a row.
_CALM_S = 2.0
_WANTED_MS = {"repaired": 50.0, "certified plan": 200.0}


@dataclass(frozen=True, slots=True)
class Cut:
    """Milliseconds since the cut."""

    link: str
    port_report: float
    seen: float
    planned: float
    repaired: float
    moved: int
    changes: int
    switches: int


def topology(folder: Path, leaves: int, spines: int) -> Path:
    hosts = max(1, _HOSTS // leaves)
    path = folder / "repair.yaml"
    path.write_text(
        f"name: repair-{leaves}x{spines}\nrate: 20M\n"
        f"leaf_spine: {{leaves: {leaves}, spines: {spines}, hosts_per_leaf: {hosts}}}\n",
        encoding="utf-8",
    )
    return path


def cut_one(lab: FabricLab, leaf: str, spine: str, told: Timed, reports: dict[str, Timed]) -> Cut:
    """Cuts a link, waits for its repair, and restores it."""
    name = f"{leaf}:"
    since = {"events": len(told.items), **{s: len(reports[s].items) for s in (leaf, spine)}}
    before_s = time.time()
    lab.cut_link(leaf, spine)
    reported_s = min(reports[s].first(lambda _: True, since[s])[0] for s in (leaf, spine))
    _, seen = told.first(
        lambda e: e.topic == "link" and e.subject.startswith(name) and e.cause != "",
        since["events"],  # type: ignore[attr-defined]
    )
    _, plan = told.first(lambda e: e.topic == "plan" and seen.sequence in e.outcome.causes, since["events"])  # type: ignore[attr-defined]
    lab.restore_link(leaf, spine)
    outcome = plan.outcome  # type: ignore[attr-defined]
    start_s = seen.time_s  # type: ignore[attr-defined]
    return Cut(
        link=f"{leaf} - {spine}",
        port_report=_ms(reported_s - before_s),
        seen=_ms(start_s - before_s),
        planned=_ms(start_s + outcome.planned_s - before_s),
        repaired=_ms(start_s + outcome.repaired_s - before_s),
        moved=outcome.moved,
        changes=outcome.changes,
        switches=outcome.switches,
    )


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)


def run(
    leaves: int, spines: int, queue_pairs: int, repetitions: int, overlaps: int, log: Path
) -> tuple[int, list[Cut], list[Outcome]]:
    """Raises LabError when the fabric does not come up or a repair does not come."""
    path = topology(log.parent, leaves, spines)
    plan = load(path)
    with (
        FabricLab(plan, controllers=[OPENFLOW], name=f"repair-{os.getpid()}") as lab,
        # What is cut loses its carrier; with BFD a busy machine would add failures of its own.
        processes(lab, path, log) as control,
    ):
        flows = len(announce_ring(control.grpc, plan, queue_pairs))
        with events(control.grpc) as told, port_reports([s.name for s in plan.switches]) as reports:
            cuts = []
            for number in range(repetitions):
                time.sleep(_CALM_S)
                leaf, spine = f"leaf{number % leaves + 1}", f"spine{number // leaves % spines + 1}"
                cuts.append(cut_one(lab, leaf, spine, told, reports))
                control.wait_ready()
        outcomes = []
        if overlaps:
            lab.teach_neighbours()
            with Controller(control.grpc) as controller:
                chosen = track(cases(lab, overlaps, seed=_SEED), "overlapping failures", console=Console(stderr=True))
                outcomes = OverlapRun(lab, controller, RING).run(chosen)
    return flows, cuts, outcomes


def summary(cuts: list[Cut]) -> dict[str, dict[str, float]]:
    """Milliseconds since the cut, median and worst; and what Heddle adds to the switch's own report."""
    columns = {
        "port report": [cut.port_report for cut in cuts],
        "seen": [cut.seen for cut in cuts],
        "certified plan": [cut.planned for cut in cuts],
        "repaired": [cut.repaired for cut in cuts],
        "repaired since report": [cut.repaired - cut.port_report for cut in cuts],
    }
    return {
        name: {"median": round(statistics.median(values), 1), "worst": round(max(values), 1)}
        for name, values in columns.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, default=4)
    parser.add_argument("--spines", type=int, default=4)
    parser.add_argument("--queue-pairs", type=int, default=16, help="of each of the ring's 16 connections")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument(
        "--cases",
        type=int,
        default=0,
        help="overlapping failures besides; up to a minute each, for links that fail often are held",
    )
    parser.add_argument("--log", type=Path, help="where controller and agent write; a temporary file by default")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = arguments.log or Path(folder) / "heddle.log"
        try:
            flows, cuts, outcomes = run(
                arguments.leaves, arguments.spines, arguments.queue_pairs, arguments.repetitions, arguments.cases, log
            )
        except LabError as error:
            print(f"repair: {error}", file=sys.stderr)
            return 2
    found = summary(cuts) if cuts else {}
    missed = [name for name, wanted in _WANTED_MS.items() if name in found and found[name]["worst"] > wanted]
    faults = [fault for outcome in outcomes for fault in wrong(outcome)]
    if arguments.json:
        shape = {"leaves": arguments.leaves, "spines": arguments.spines, "flows": flows}
        every = [{name: getattr(cut, name) for name in Cut.__slots__} for cut in cuts]
        figures = {"milliseconds": found, "wanted": _WANTED_MS, "missed": missed, "cuts": every}
        print(json.dumps({**shape, **figures, "cases": len(outcomes), "faults": faults}, indent=2))
        return int(bool(missed or faults))
    print(f"{arguments.leaves} leaves, {arguments.spines} spines, {flows} flows")
    show(cuts, found)
    if outcomes:
        circling = max(outcome.crossings for outcome in outcomes)
        print(f"{len(outcomes)} overlapping failures: {len(faults)} faults; {circling:.1f} crossings a packet at most")
    for fault in faults:
        print(f"FAULT {fault}")
    return int(bool(missed or faults))


def show(cuts: list[Cut], found: dict[str, dict[str, float]]) -> None:
    if not cuts:
        return
    print(f"{len(cuts)} cuts; milliseconds since the cut")
    for name, figures in found.items():
        wanted = f"   wanted {_WANTED_MS[name]:.0f}" if name in _WANTED_MS else ""
        print(f"  {name:<22} median {figures['median']:7.1f}   worst {figures['worst']:7.1f}{wanted}")
    moved = statistics.median(cut.moved for cut in cuts)
    changes = statistics.median(cut.changes for cut in cuts)
    switches = statistics.median(cut.switches for cut in cuts)
    print(f"  a cut moves {moved:.0f} flows with {changes:.0f} changes on {switches:.0f} switches (medians)")


def wrong(outcome: Outcome) -> list[str]:
    """Everything that should not have been."""
    found = [f"{outcome.case}: {a} -> {b} delivers nothing within a second" for a, b in outcome.silent]
    found += [f"{outcome.case}: {outcome.duplicated} packets came twice"] if outcome.duplicated else []
    found += [f"{outcome.case}: {outcome.certificate}"] if outcome.certificate else []
    if outcome.crossings > MOST_CROSSINGS:
        found.append(f"{outcome.case}: {outcome.crossings:.0f} crossings a packet: some circle")
    return found


if __name__ == "__main__":
    sys.exit(main())
