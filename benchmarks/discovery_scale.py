"""A large fabric for a long time: no link may be lost by mistake, and what the controller's core costs.

    ./heddle bench discovery_scale [--json] [--leaves 128] [--spines 32] [--minutes 10]

The real core against model switches that do what discovery needs and no more: they carry out batches, answer reads,
forward beacons and heartbeats to the other end and count them. Simulated time; latencies of 1 to 20 ms by chance, and a
beacon in a thousand is lost. Beside each phase stands the processor time that the core took for a simulated second; the
wire, the agent and the switches come on top (`./heddle bench discovery` has them all).
"""

import argparse
import json
import random
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from controller.core.commands import Command, ReadPortStatistics, ReadTables, SendBatch, SendPacket
from controller.core.events import (
    BatchAnswered,
    BatchStatus,
    Event,
    PacketReceived,
    PortCounters,
    PortStatisticsRead,
    SwitchConnected,
    TablesRead,
)
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.beacon import ETHERTYPE_LLDP
from controller.fabric.model import Port, PortRef
from controller.pipeline.compile import BEACON_PUNT
from controller.pipeline.diff import ActualTables
from controller.pipeline.rules import Barrier, SwitchTables
from controller.simulation.driver import CoreDriver

_LATENCY_S = (0.001, 0.020)
_LOSS = 0.001
_CONNECT_WITHIN_S = 2.0
_RATE_BPS = 100_000_000_000
_LLDP = ETHERTYPE_LLDP.to_bytes(2, "big")


class Switch:
    """Ports in order; messages to and from it keep their order."""

    def __init__(self, dpid: int, ports: list[PortRef]) -> None:
        self.dpid, self.session_id = dpid, f"{dpid:x}"
        self.ports = {ref.port_no: Port(ref, f"p{ref.port_no}", _mac(ref), True, _RATE_BPS) for ref in ports}
        self.tables = ActualTables()
        self.received = dict.fromkeys(self.ports, 0)
        self.sent = dict.fromkeys(self.ports, 0)
        self.free_s = {"to switch": 0.0, "to core": 0.0}


def _mac(ref: PortRef) -> str:
    return (0x02 << 40 | (ref.dpid & 0xFFFFFF) << 16 | ref.port_no).to_bytes(6, "big").hex(":")


class BeaconFabric(CoreDriver):
    """Every leaf has one cable to every spine; ports of hosts are up and silent."""

    def __init__(self, core: Core, leaves: int, spines: int, hosts_per_leaf: int = 0, seed: int = 1) -> None:
        super().__init__(core)
        self.busy_s = 0.0
        self.beacons = 0
        self._random = random.Random(seed)
        of_leaf = range(1, spines + hosts_per_leaf + 1)
        ports = {dpid: [PortRef(dpid, n) for n in of_leaf] for dpid in range(0x1000, 0x1000 + leaves)}
        ports |= {0x2000 + spine: [PortRef(0x2000 + spine, n + 1) for n in range(leaves)] for spine in range(spines)}
        self.switches = {dpid: Switch(dpid, refs) for dpid, refs in ports.items()}
        self._far: dict[PortRef, PortRef] = {}
        for leaf in range(leaves):
            for spine in range(spines):
                a, b = PortRef(0x1000 + leaf, spine + 1), PortRef(0x2000 + spine, leaf + 1)
                self._far |= {a: b, b: a}
        for switch in self.switches.values():
            self.agenda.at(self._random.uniform(0, _CONNECT_WITHIN_S), lambda s=switch: self._connect(s))

    def inject(self, event: Event) -> Any:
        """As the driver does, on the clock, and without a record: there would be millions of entries."""
        started_s = time.process_time()
        commands = self.core.handle(event, self.now_s) if self.core is not None else ()
        self._asked = (self.core, self.core.next_deadline_s() if self.core is not None else None)
        self.busy_s += time.process_time() - started_s
        for command in commands:
            self._carry_out(command)
        return commands

    def _connect(self, switch: Switch) -> None:
        ports = tuple(switch.ports.values())
        self._tell(switch, SwitchConnected(switch.dpid, switch.session_id, "model", ports, True, "model"))

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, SendPacket | SendBatch | ReadTables | ReadPortStatistics):
            switch = self.switches[command.dpid]
            self._later(switch, "to switch", lambda: self._work(switch, command))

    def _later(self, switch: Switch, way: str, action: Any) -> None:
        due_s = max(switch.free_s[way], self.now_s + self._random.uniform(*_LATENCY_S))
        switch.free_s[way] = due_s
        self.agenda.at(due_s, action)

    def _tell(self, switch: Switch, event: Event) -> None:
        self._later(switch, "to core", lambda: self.inject(event))

    def _work(self, switch: Switch, command: Command) -> None:
        match command:
            case SendPacket(dpid, out_ports, data):
                for port_no in out_ports:
                    self._cross(PortRef(dpid, port_no), data)
            case SendBatch():
                for modification in command.modifications:
                    if not isinstance(modification, Barrier):
                        switch.tables.apply(modification)
                answer = BatchAnswered(switch.dpid, switch.session_id, command.batch_id, BatchStatus.DONE)
                self._tell(switch, answer)
            case ReadTables():
                held = switch.tables
                tables = SwitchTables(*(frozenset(part.values()) for part in (held.rules, held.groups, held.meters)))
                self._tell(switch, TablesRead(switch.dpid, switch.session_id, command.request_id, tables))
            case ReadPortStatistics():
                counted = {
                    n: PortCounters(64 * switch.received[n], 64 * switch.sent[n], switch.received[n], switch.sent[n])
                    for n in switch.ports
                }
                self._tell(switch, PortStatisticsRead(switch.dpid, switch.session_id, counted))

    def _cross(self, sender: PortRef, data: bytes) -> None:
        at = self._far.get(sender)
        self.switches[sender.dpid].sent[sender.port_no] += 1
        if at is None or self._random.random() < _LOSS:
            return
        switch = self.switches[at.dpid]
        switch.received[at.port_no] += 1
        if data[12:14] == _LLDP and BEACON_PUNT.key in switch.tables.rules:
            self.beacons += 1
            self._tell(switch, PacketReceived(switch.dpid, switch.session_id, at.port_no, data))

    def _answers_owed(self) -> str:
        return ""


def measure(
    leaves: int, spines: int, phases: int, phase_s: int = 60, hosts_per_leaf: int = 0, heartbeat_s: float = 0.25
) -> dict[str, Any]:
    core = Core(CoreSettings(bytes(range(32)), heartbeat_period_s=heartbeat_s))
    fabric = BeaconFabric(core, leaves, spines, hosts_per_leaf)
    links = leaves * spines
    while len(core.links.up) < links and fabric.now_s < 60:
        fabric.run_for(0.05)
    result: dict[str, Any] = {"leaves": leaves, "spines": spines, "links": links, "found": len(core.links.up)}
    result["known_s"] = fabric.now_s - _CONNECT_WITHIN_S
    result["known_core_s"], result["known_beacons"] = fabric.busy_s, fabric.beacons
    fabric.run_for(10.0)
    found, lost = [], 0
    for number in range(phases):
        before_s, before = fabric.busy_s, fabric.beacons
        for _ in range(phase_s):
            fabric.run_for(1.0)
            lost = max(lost, links - len(core.links.up))
        share, beacons = (fabric.busy_s - before_s) / phase_s, (fabric.beacons - before) / phase_s
        found.append({"core_share": share, "beacons_per_s": beacons})
        Console(stderr=True).print(f"{(number + 1) * phase_s} s: {100 * share:.1f} %", highlight=False)
    changes = sum(record.penalty.flaps + record.losses for record in core.links.of.values())
    shares = sorted(phase["core_share"] for phase in found)
    result |= {"seconds": phases * phase_s, "lost_links": lost, "losses": changes, "phases": found}
    result |= {"beacon_period_s": core.discovery.period_s, "heartbeat_s": core.heartbeats.interval_s}
    return result | {"core_share_median": shares[len(shares) // 2], "core_share_worst": shares[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--leaves", type=int, default=128)
    parser.add_argument("--spines", type=int, default=32)
    parser.add_argument("--minutes", type=int, default=10)
    options = parser.parse_args()
    result = measure(options.leaves, options.spines, options.minutes)
    if options.json:
        print(json.dumps(result))
        return
    table = Table(title=f"{result['leaves']} leaves x {result['spines']} spines, {result['links']:,} links")
    for column in (
        "known after",
        "core busy for it",
        "simulated",
        "false losses",
        "beacons/s",
        "core, median",
        "worst",
    ):
        table.add_column(column, justify="right")
    beacons = sum(phase["beacons_per_s"] for phase in result["phases"]) / len(result["phases"])
    shares = (f"{100 * result[key]:.1f} %" for key in ("core_share_median", "core_share_worst"))
    known = (f"{result['known_s']:.2f} s", f"{result['known_core_s']:.1f} s")
    table.add_row(*known, f"{result['seconds']} s", str(result["losses"]), f"{beacons:,.0f}", *shares)
    Console().print(table)


if __name__ == "__main__":
    main()
