"""How soon a fabric is known and a silent loss is noticed: Heddle beside Ryu's own topology application, in one run.

    ./heddle bench discovery [--json] [--losses 5] [--patience 90] [--sizes 8x8x1,32x16x2]

Bridges of a private Open vSwitch, joined by patch ports, which never report that their peer has gone. Measured are the
time from the last switch's connection to every link in both directions, and from a loss without any port status to the
link's being down. A loss is made in two ways: both ends of a cable lead nowhere, so that nothing arrives any more; or a
rule at one end drops what arrives, so that the port goes on counting. docs/benchmarks.md explains the JSON keys.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _patch_fabric import ROOT, cut_silently, disconnect, drop_arrivals, patch_switches, restore
from _processes import cpu_seconds, program, ryu_manager
from demo_northbound import Controller
from heddle.v1 import fabric_pb2
from rich.console import Console
from rich.table import Table

from controller.fabric.plan import FabricPlan, PlannedLink
from controller.formats.topology_file import load

SIZES = "8x8x1,32x16x2"
_POLL_S = 0.05
_STEADY_S = 10.0
_CONNECT_PATIENCE_S = 120.0
Loss = Callable[[Any, PlannedLink], None]
LOSSES: dict[str, Loss] = {"nothing arrives": cut_silently, "a rule drops": drop_arrivals}


class Gone(Exception):
    """Waited in vain."""


def wait(condition: Callable[[], bool], patience_s: float, what: str) -> float:
    """The monotonic second at which the condition was first seen to hold. Raises Gone."""
    end_s = time.monotonic() + patience_s
    while True:
        asked_s = time.monotonic()
        if condition():
            return time.monotonic()
        if asked_s > end_s:
            raise Gone(f"waited {patience_s:g} s in vain for {what}")
        # Who is asked pays for the answer: a large topology must not be asked for all the time.
        time.sleep(max(_POLL_S, 4 * (time.monotonic() - asked_s)))


# --- the two of them ----------------------------------------------------------------------------------------


class Heddle:
    """As users start it: `ryu-manager apps/fabric.py`, without a topology file."""

    def __init__(self, controller: Controller, pid: int) -> None:
        self._controller = controller
        self.pid = pid

    def _topology(self) -> fabric_pb2.GetTopologyResponse:
        return self._controller._fabric.GetTopology(fabric_pb2.GetTopologyRequest(), timeout=30)

    def switches(self) -> int:
        return sum(switch.connected for switch in self._topology().switches)

    def links(self) -> int:
        return sum(link.state == "up" for link in self._topology().links)

    def has(self, dpid: int, port: int) -> bool:
        return any(
            link.state == "up" and (dpid, port) in ((link.a.dpid, link.a.port_no), (link.b.dpid, link.b.port_no))
            for link in self._topology().links
        )


@contextmanager
def heddle(folder: Path) -> Iterator[Heddle]:
    address = f"unix:{folder}/grpc.sock"
    environment = {
        "HEDDLE_SOUTHBOUND": f"unix:{folder}/heddle.sock",
        "HEDDLE_GRPC": address,
        "HEDDLE_STATE": "none",
        "HEDDLE_OVSDB": "unix:/nowhere",
        "HEDDLE_QOS": "off",
        "HEDDLE_TOPOLOGY": "",
    }
    command = ryu_manager("apps/fabric.py")
    with program(command, environment, folder / "heddle.log") as process, Controller(address) as controller:
        wait((folder / "heddle.sock").exists, _CONNECT_PATIENCE_S, "the controller")
        yield Heddle(controller, process.pid)


class Ryu:
    """`ryu-manager --observe-links` with an application that notes its events."""

    def __init__(self, events: Path, pid: int) -> None:
        self._events = events
        self.pid = pid

    def _said(self) -> list[list[Any]]:
        lines = self._events.read_text(encoding="utf-8").splitlines() if self._events.exists() else []
        return [json.loads(line) for line in lines if line.endswith("]")]

    def switches(self) -> int:
        return sum(said[1] == "switch" for said in self._said())

    def links(self) -> int:
        """Cables of which both directions are known."""
        return len(self._known()) // 2

    def _known(self) -> set[tuple[int, int]]:
        known: set[tuple[int, int]] = set()
        for said in self._said():
            if said[1] == "link":
                known.add((said[2], said[3]))
            elif said[1] == "lost":
                known.discard((said[2], said[3]))
        return known

    def has(self, dpid: int, port: int) -> bool:
        return (dpid, port) in self._known()


@contextmanager
def ryu(folder: Path) -> Iterator[Ryu]:
    events = folder / "ryu-events.json"
    application = str(ROOT / "benchmarks" / "_ryu_topology_app.py")
    command = [*ryu_manager("--observe-links"), "ryu.topology.switches", application]
    with program(command, {"NOTED_EVENTS": str(events)}, folder / "ryu.log") as process:
        time.sleep(3)
        yield Ryu(events, process.pid)


# --- what is measured ---------------------------------------------------------------------------------------


def find(ovs: Any, plan: FabricPlan, found: Heddle | Ryu) -> dict[str, Any]:
    """From the last connection to every link, None when it took longer than patience lasts; and the processor time of
    each process from the first connection on, which does not depend on what else the machine does."""
    before = cpu_seconds(found.pid)
    connect_all(ovs, plan)
    last_s = wait(lambda: found.switches() == len(plan.switches), _CONNECT_PATIENCE_S, "all switches")
    try:
        known_s = wait(lambda: found.links() == len(plan.links), _CONNECT_PATIENCE_S, "all links") - last_s
    except Gone:
        known_s = None
    return {"known_s": known_s, "known_cpu_s": _spent(before, cpu_seconds(found.pid))}


def _spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: used - before.get(name, 0.0) for name, used in after.items()}


def connect_all(ovs: Any, plan: FabricPlan) -> None:
    """At once, so that the last connection is not long after the first."""
    arguments: list[str] = []
    for switch in plan.switches:
        settings = ["max_backoff=1000", "connection_mode=out-of-band", "inactivity_probe=30000"]
        arguments += ["--", "set-controller", switch.name, "tcp:127.0.0.1:6653"]
        arguments += ["--", "set", "controller", switch.name, *settings]
    ovs.vsctl(*arguments[1:])


def noticed(
    ovs: Any, plan: FabricPlan, link: PlannedLink, lose: Loss, found: Heddle | Ryu, patience_s: float
) -> tuple[float | None, int]:
    """(from a silent loss to the link's being down, None when it was not noticed; how many others were down then). The
    cable is mended again."""
    dpid = next(switch.dpid for switch in plan.switches if switch.name == link.a)
    wait(lambda: found.has(dpid, link.a_port), patience_s, "the link to lose")
    lose(ovs, link)
    started_s = time.monotonic()
    try:
        after_s = wait(lambda: not found.has(dpid, link.a_port), patience_s, "the loss") - started_s
        return after_s, len(plan.links) - 1 - found.links()
    except Gone:
        return None, 0
    finally:
        restore(ovs, link)


def measure_one(ovs: Any, plan: FabricPlan, found: Heddle | Ryu, losses: int, patience_s: float) -> dict[str, Any]:
    result = find(ovs, plan, found)
    time.sleep(_STEADY_S)
    before = cpu_seconds(found.pid)
    time.sleep(_STEADY_S)
    spent = _spent(before, cpu_seconds(found.pid))
    result["cpu_share"] = {name: used / _STEADY_S for name, used in spent.items()}
    result["lost_besides"] = 0
    step = max(1, len(plan.links) // (losses * len(LOSSES) + 1))
    links = iter(plan.links[::step])
    for name, lose in LOSSES.items():
        result[name] = []
        for _ in range(losses):
            after_s, others = noticed(ovs, plan, next(links), lose, found, patience_s)
            result[name].append(after_s)
            result["lost_besides"] = max(result["lost_besides"], others)
            if after_s is None:
                break
    return result


def measure(size: str, losses: int, patience_s: float, ways: list[str]) -> dict[str, Any]:
    leaves, spines, parallel = (int(part) for part in size.split("x"))
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as name:
        folder = Path(name)
        shape = f"{{leaves: {leaves}, spines: {spines}, hosts_per_leaf: 1, links_per_pair: {parallel}}}"
        (folder / "fabric.yaml").write_text(f"name: discovery\nrate: 100G\nleaf_spine: {shape}\n")
        plan = load(folder / "fabric.yaml")
        result: dict[str, Any] = {"switches": len(plan.switches), "links": len(plan.links)}
        with patch_switches(plan, folder / "ovs") as ovs:
            for way in ways:
                start = {"heddle": heddle, "ryu": ryu}[way]
                result[f"load_before_{way}"] = os.getloadavg()[0]
                with start(folder) as found:
                    result[way] = measure_one(ovs, plan, found, losses, patience_s)
                disconnect(ovs, plan)
    return result


def show(result: dict[str, Any]) -> None:
    table = Table(title="seconds; worst of the losses, median in brackets")
    for column in ("switches", "links", "way", "all links", "its processor time", *LOSSES, "processor at rest"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for size in result["sizes"]:
        for way in (way for way in ("heddle", "ryu") if way in size):
            row = size[way]
            cpu = ", ".join(f"{name} {100 * share:.0f} %" for name, share in row["cpu_share"].items())
            known = "not found" if row["known_s"] is None else f"{row['known_s']:.2f}"
            spent = " + ".join(f"{used:.1f}" for used in row["known_cpu_s"].values())
            noticed = [_text(row[name], result["patience_s"]) for name in LOSSES]
            table.add_row(str(size["switches"]), str(size["links"]), way, known, spent, *noticed, cpu)
        table.add_section()
    Console(width=140).print(table)


def _text(times: list[float | None], patience_s: float) -> str:
    seen = [time_s for time_s in times if time_s is not None]
    if len(seen) < len(times):
        return f"> {patience_s:g}"
    return f"{max(seen):.2f} ({statistics.median(seen):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--losses", type=int, default=5, help="of each kind")
    parser.add_argument("--patience", type=float, default=90.0, help="seconds until a loss counts as not noticed")
    parser.add_argument("--sizes", default=SIZES, help="leaves x spines x parallel links")
    parser.add_argument("--ways", default="heddle,ryu")
    options = parser.parse_args()
    sizes = []
    for size in options.sizes.split(","):
        Console(stderr=True).print(f"{size} ...", highlight=False)
        sizes.append(measure(size, options.losses, options.patience, options.ways.split(",")))
    result = {"patience_s": options.patience, "sizes": sizes}
    if options.json:
        print(json.dumps(result))
        return
    show(result)


if __name__ == "__main__":
    sys.exit(main())
