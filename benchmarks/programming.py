"""How fast a job's rules are on the switches: Heddle's whole way beside a stock Ryu application, in one run.

    ./heddle bench programming [--json] [--repeat 7] [--blocks 3] [--hosts 4]

16 leaves x 8 spines on real Open vSwitch. Heddle: a ring all-reduce is announced over gRPC, and the clock runs until
the answer, that is until every switch has answered its last barrier; planning is part of it. Stock: the same groups and
rules for the same switches, already computed, one FlowMod at a time through `send_msg` (`_stock_ryu_app.py`). Agent:
the same rules again through Heddle's Ryu agent alone. docs/benchmarks.md explains the JSON keys.
"""

import argparse
import json
import os
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc
from _patch_fabric import ROOT, connect, disconnect, patch_fabric, show_hosts
from _processes import program, ryu_manager
from _southbound import agent_seconds
from demo_northbound import Controller
from heddle.v1 import collective_pb2 as pb
from rich.console import Console
from rich.table import Table

from controller.fabric.plan import FabricPlan
from controller.formats.topology_file import load

LEAVES, SPINES = 16, 8
FLOWS = (16, 256, 4096)
_FIRST_PORT = 0xC000
_PATIENCE_S = 120.0

_RULE = re.compile(
    r"cookie=(0x[0-9a-f]+),.* table=2,.* priority=(\d+),udp,nw_src=([\d.]+),nw_dst=([\d.]+)"
    r"(?:,tp_src=(\d+))?,tp_dst=4791 actions=group:(\d+)"
)
_GROUP = re.compile(r"group_id=(\d+),type=ff,(.*)")
_BUCKET_PORT = re.compile(r"watch_port:(\d+)")


def ring(plan: FabricPlan, flows: int) -> tuple[list[str], int]:
    """Hosts of a ring in which every edge crosses the spines, and UDP ports (queue pairs) per edge."""
    per_leaf = len(plan.hosts) // LEAVES
    in_turn = [plan.hosts[leaf * per_leaf + nth].name for nth in range(per_leaf) for leaf in range(LEAVES)]
    ranks = min(flows, len(in_turn))
    return in_turn[:ranks], flows // ranks


def collective(plan: FabricPlan, flows: int) -> pb.Collective:
    hosts, ports = ring(plan, flows)
    edges = [(rank, (rank + 1) % len(hosts)) for rank in range(len(hosts))]
    return pb.Collective(
        job_id=f"ring-{flows}",
        operation=pb.OPERATION_ALL_REDUCE,
        algorithm=pb.ALGORITHM_RING,
        ranks=hosts,
        size_bytes=1 << 30,
        queue_pairs=ports,
        ports=[
            pb.QueuePairPorts(src_rank=a, dst_rank=b, udp_source_ports=range(_FIRST_PORT, _FIRST_PORT + ports))
            for a, b in edges
        ],
    )


# --- Heddle ------------------------------------------------------------------------------------------------


def heddle(ovs: Any, plan: FabricPlan, topology: Path, folder: Path, repeat: int) -> dict[str, Any]:
    """Seconds of each announcement by number of flows, and the rules that the switches then held."""
    address = f"unix:{folder}/grpc.sock"
    environment = {
        "HEDDLE_TOPOLOGY": str(topology),
        "HEDDLE_SOUTHBOUND": f"unix:{folder}/heddle.sock",
        "HEDDLE_GRPC": address,
        "HEDDLE_STATE": f"{folder}/heddle.db",
        "HEDDLE_OVSDB": ovs.database,
        "HEDDLE_QOS": "off",
    }
    result: dict[str, Any] = {"seconds": {}, "tables": {}}
    with program(ryu_manager("apps/fabric.py"), environment, folder / "heddle.log"):
        wait_for(lambda: (folder / "heddle.sock").exists(), "the controller")
        connect(ovs, plan)
        with Controller(address) as controller:
            time.sleep(3)
            show_hosts(ovs, plan)
            controller.wait_for(len(plan.links), len(plan.hosts), timeout_s=_PATIENCE_S)
            for flows in FLOWS:
                job = collective(plan, flows)
                result["seconds"][flows] = [announce(controller, plan, job) for _ in range(repeat)]
                controller._collectives.AnnounceCollective(pb.AnnounceCollectiveRequest(collective=job))
                controller.wait_for(len(plan.links), len(plan.hosts), timeout_s=_PATIENCE_S)
                result["tables"][flows] = steering(ovs, plan)
                controller.withdraw(job.job_id)
    return result


def announce(controller: Controller, plan: FabricPlan, job: pb.Collective) -> float | None:
    """Seconds until the answer; None when it is a refusal, because this machine was too busy for the controller's
    time-outs. The job is withdrawn again, and every switch rid of its rules."""
    request = pb.AnnounceCollectiveRequest(collective=job)
    started_s = time.perf_counter()
    try:
        answer = controller._collectives.AnnounceCollective(request, timeout=_PATIENCE_S)
        seconds: float | None = time.perf_counter() - started_s
    except grpc.RpcError as refusal:
        if refusal.code() != grpc.StatusCode.UNAVAILABLE:
            raise
        seconds = None
    else:
        if answer.plan.state != "placed":
            raise SystemExit(f"the plan of {job.job_id} is {answer.plan.state}, not placed")
    controller.withdraw(job.job_id)
    controller.wait_for(len(plan.links), len(plan.hosts), timeout_s=_PATIENCE_S)
    return seconds


def steering(ovs: Any, plan: FabricPlan) -> dict[str, Any]:
    """What each switch holds of the job, by datapath id, in the words of the stock application."""
    tables: dict[str, Any] = {}
    for switch in plan.switches:
        rules = [_rule(m) for m in map(_RULE.search, ovs.ofctl("dump-flows", switch.name, "table=2").splitlines()) if m]
        said = ovs.ofctl("--no-names", "dump-groups", switch.name).splitlines()
        groups = [
            {"group_id": int(m[1]), "ports": [int(port) for port in _BUCKET_PORT.findall(m[2])]}
            for m in map(_GROUP.search, said)
            if m
        ]
        if rules:
            used = {rule["group_id"] for rule in rules}
            tables[str(switch.dpid)] = {"rules": rules, "groups": [g for g in groups if g["group_id"] in used]}
    return tables


def _rule(found: re.Match[str]) -> dict[str, Any]:
    match = {"eth_type": 0x800, "ip_proto": 17, "ipv4_src": found[3], "ipv4_dst": found[4], "udp_dst": 4791}
    if found[5]:
        match["udp_src"] = int(found[5])
    common = {"cookie": int(found[1], 16), "table_id": 2, "priority": int(found[2])}
    return {**common, "match": match, "group_id": int(found[6])}


# --- stock -------------------------------------------------------------------------------------------------


def stock(ovs: Any, plan: FabricPlan, tables: dict[int, Any], folder: Path, repeat: int) -> dict[int, list[float]]:
    """Seconds of each round by number of flows."""
    work, result = folder / "work.json", folder / "result.json"
    rounds = {str(flows): tables[flows] for flows in FLOWS}
    work.write_text(json.dumps({"switches": len(plan.switches), "repeat": repeat, "rounds": rounds}))
    environment = {"STOCK_WORK": str(work), "STOCK_RESULT": str(result)}
    application = str(ROOT / "benchmarks" / "_stock_ryu_app.py")
    with program(ryu_manager(application), environment, folder / "stock.log"):
        connect(ovs, plan)
        wait_for(result.exists, f"the stock application (its log is {folder / 'stock.log'})")
    return {int(flows): seconds for flows, seconds in json.loads(result.read_text()).items()}


def wait_for(condition: Any, what: str) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise SystemExit(f"waited {_PATIENCE_S:g} s in vain for {what}")
        time.sleep(0.05)


# --- figures -----------------------------------------------------------------------------------------------


def figures(rules: int, seconds: list[float | None]) -> dict[str, float]:
    ordered = sorted(s for s in seconds if s is not None)
    p50 = statistics.median(ordered)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    refused = len(seconds) - len(ordered)
    return {"p50_ms": 1e3 * p50, "p99_ms": 1e3 * p99, "rules_per_s": rules / p50, "refused": refused}


def measure(repeat: int, blocks: int, hosts: int) -> dict[str, Any]:
    """The three ways take turns, block by block, so that a machine that is busy for a while slows all of them."""
    seconds: dict[str, dict[int, list[float | None]]] = {
        way: {flows: [] for flows in FLOWS} for way in ("heddle", "stock", "agent")
    }
    load_before = os.getloadavg()[0]
    tables: dict[int, Any] = {}
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as name:
        folder = Path(name)
        topology = folder / "fabric.yaml"
        size = f"{{leaves: {LEAVES}, spines: {SPINES}, hosts_per_leaf: {hosts}}}"
        topology.write_text(f"name: programming\nrate: 100G\nleaf_spine: {size}\n")
        plan = load(topology)
        with patch_fabric(plan, folder / "ovs") as ovs:
            for block in range(blocks):
                here = folder / str(block)
                here.mkdir()
                ours = heddle(ovs, plan, topology, here, repeat)
                tables = ours["tables"]
                disconnect(ovs, plan)
                theirs = stock(ovs, plan, tables, here, repeat)
                disconnect(ovs, plan)
                alone = agent_seconds(ovs, plan, tables, here, repeat)
                disconnect(ovs, plan)
                for way, found in (("heddle", ours["seconds"]), ("stock", theirs), ("agent", alone)):
                    for flows in FLOWS:
                        seconds[way][flows] += found[flows]
    rows = [_row(flows, tables[flows], {way: by_flows[flows] for way, by_flows in seconds.items()}) for flows in FLOWS]
    about = {"leaves": LEAVES, "spines": SPINES, "hosts": LEAVES * hosts, "rounds": blocks * repeat}
    return {**about, "load_average": [load_before, os.getloadavg()[0]], "rows": rows}


def _row(flows: int, tables: dict[str, Any], seconds: dict[str, list[float | None]]) -> dict[str, Any]:
    rules = sum(len(switch["rules"]) for switch in tables.values())
    groups = sum(len(switch["groups"]) for switch in tables.values())
    row: dict[str, Any] = {"flows": flows, "rules": rules, "groups": groups, "switches": len(tables)}
    row |= {way: figures(rules, found) for way, found in seconds.items()}
    for way in ("heddle", "agent"):
        row[f"{way}_over_stock"] = row[way]["rules_per_s"] / row["stock"]["rules_per_s"]
    return row


def show(result: dict[str, Any]) -> None:
    table = Table(title=f"{result['leaves']} leaves x {result['spines']} spines, {result['rounds']} rounds each")
    for column in ("flows", "rules", "way", "p50", "p99", "rules/s", "over stock"):
        table.add_column(column, justify="left" if column == "way" else "right")
    ways = (("announce to answer", "heddle", "heddle_over_stock"), ("agent alone", "agent", "agent_over_stock"))
    for row in result["rows"]:
        for words, key, ratio in (*ways, ("stock Ryu app", "stock", None)):
            f = row[key]
            times = (f"{f['p50_ms']:.1f} ms", f"{f['p99_ms']:.1f} ms", f"{f['rules_per_s']:,.0f}")
            table.add_row(str(row["flows"]), str(row["rules"]), words, *times, f"{row[ratio]:.2f}" if ratio else "1")
        table.add_section()
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=7, help="rounds of each way in a block")
    parser.add_argument("--blocks", type=int, default=3, help="how often the ways take turns")
    parser.add_argument("--hosts", type=int, default=4, help="hosts on each leaf")
    options = parser.parse_args()
    result = measure(options.repeat, options.blocks, options.hosts)
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
