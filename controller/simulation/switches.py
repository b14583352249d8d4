"""A model switch: ports, tables, groups and meters that change by modifications and forward packets.

It decides how modifications change its tables. What a packet does in them is decided in `pipeline.forwarding`, which
modifications are refused in `admission`, and when anything happens in `network`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.core.events import PortCounters, Refusal
from controller.fabric.model import Port
from controller.pipeline.flow_table import Entry, FlowTable
from controller.pipeline.forwarding import forward, send_out
from controller.pipeline.outcome import Outcome
from controller.pipeline.packet import Packet
from controller.pipeline.rules import (
    AddGroup,
    AddMeter,
    AddRule,
    Barrier,
    DeleteGroup,
    DeleteMeter,
    DeleteRule,
    Group,
    Meter,
    Modification,
    ModifyGroup,
    ModifyMeter,
    Output,
    Rule,
    SwitchTables,
    ToGroup,
)
from controller.simulation import admission
from controller.simulation.admission import Limits
from controller.simulation.meters import TokenBucket


@dataclass(slots=True)
class PortTraffic:
    """What a port has carried since the switch booted."""

    rx_packets: int = 0
    rx_bytes: int = 0
    tx_packets: int = 0
    tx_bytes: int = 0
    rx_errors: int = 0


class ModelSwitch:
    """An OpenFlow 1.3 switch with Open vSwitch's extensions. It has no clock: `now_s` is set by whoever owns it."""

    def __init__(
        self, dpid: int, name: str, ports: Iterable[Port], *, limits: Limits | None = None, nicira: bool = True
    ) -> None:
        self.dpid = dpid
        self.name = name
        self.ports: dict[int, Port] = {port.ref.port_no: port for port in ports}
        self.limits = limits or Limits()
        self.nicira = nicira
        # It carries out ONF bundles.
        self.atomic = nicira
        # So many of its next bundles cannot be committed, for reasons of its own.
        self.failing_bundles = 0
        self.hash_salt = 0
        # False: the switch answers statistics with all-ones, "unknown".
        self.knows_counters = True
        self.now_s = 0.0
        self.reboot()

    def reboot(self) -> None:
        """Forgets everything it was told and every count."""
        self._tables: dict[int, FlowTable] = {}
        self._groups: dict[int, Group] = {}
        self._meters: dict[int, TokenBucket] = {}
        self.traffic: dict[int, PortTraffic] = {port_no: PortTraffic() for port_no in self.ports}
        self.booted_s = self.now_s

    # --- ports --------------------------------------------------------------------------------------------

    def set_port(self, port: Port) -> None:
        """Adds the port, or changes it."""
        self.ports[port.ref.port_no] = port
        self.traffic.setdefault(port.ref.port_no, PortTraffic())

    def set_port_up(self, port_no: int, up: bool) -> Port:
        port = replace(self.ports[port_no], up=up)
        self.ports[port_no] = port
        return port

    def remove_port(self, port_no: int) -> Port:
        self.traffic.pop(port_no)
        return self.ports.pop(port_no)

    def counters(self) -> dict[int, PortCounters]:
        duration_s = int(self.now_s - self.booted_s)
        if not self.knows_counters:
            return {port_no: PortCounters(None, None, duration_s=duration_s) for port_no in self.traffic}
        return {
            port_no: PortCounters(t.rx_bytes, t.tx_bytes, t.rx_packets, t.tx_packets, 0, t.rx_errors, 0, duration_s)
            for port_no, t in self.traffic.items()
        }

    # --- reading ------------------------------------------------------------------------------------------

    def tables(self) -> SwitchTables:
        """Everything the switch holds."""
        return SwitchTables(
            frozenset(entry.rule for entry in self.entries()),
            frozenset(self._groups.values()),
            frozenset(bucket.meter for bucket in self._meters.values()),
        )

    def entries(self) -> list[Entry]:
        """All rules with their counters, table by table."""
        return [entry for _, table in sorted(self._tables.items()) for entry in table]

    def hit(self, table_id: int, headers: Mapping[str, int]) -> Entry | None:
        table = self._tables.get(table_id)
        return None if table is None else table.lookup(headers)

    def rivals(self, table_id: int, headers: Mapping[str, int], winner: Entry) -> Sequence[Entry]:
        return self._tables[table_id].rivals(headers, winner)

    def group(self, group_id: int) -> Group | None:
        return self._groups.get(group_id)

    def port_numbers(self) -> Sequence[int]:
        return tuple(self.ports)

    def is_live(self, port_no: int) -> bool:
        port = self.ports.get(port_no)
        return port is not None and port.up

    # --- packets ------------------------------------------------------------------------------------------

    def count(self, entry: Entry, size_bytes: int) -> None:
        entry.packets += 1
        entry.size_bytes += size_bytes

    def conforms(self, meter_id: int) -> bool:
        return self._meters[meter_id].conforms(self.now_s)

    def forward(self, packet: Packet, in_port: int, *, dry_run: bool = False) -> Outcome:
        """What becomes of a packet that arrives on a port. A dry run changes no counter and no meter."""
        return forward(self, packet, in_port, dry_run=dry_run)

    def send_out(self, packet: Packet, in_port: int, out_ports: Sequence[int]) -> Outcome:
        """What becomes of a packet-out."""
        return send_out(self, packet, in_port, tuple(Output(port_no) for port_no in out_ports))

    # --- modifications ------------------------------------------------------------------------------------

    def execute(self, modifications: Sequence[Modification]) -> tuple[Refusal, ...]:
        """Carries out a batch in order; a refused modification changes nothing and the others stand."""
        answers = ((index, self.apply(modification)) for index, modification in enumerate(modifications))
        return tuple(Refusal(index, error) for index, error in answers if error is not None)

    def execute_atomically(self, modifications: Sequence[Modification]) -> tuple[Refusal, ...]:
        """Carries out a batch as an ONF bundle: at the first refusal everything is as it was."""
        if self.failing_bundles:
            self.failing_bundles -= 1
            return (Refusal(0, admission.BUNDLE_FAILED),)
        tables = {table_id: table.snapshot() for table_id, table in self._tables.items()}
        groups, meters = dict(self._groups), dict(self._meters)
        for index, modification in enumerate(modifications):
            error = self.apply(modification)
            if error is not None:
                self._groups, self._meters = groups, meters
                for table_id, table in self._tables.items():
                    table.restore(tables.get(table_id, []))
                return (Refusal(index, error),)
        return ()

    def apply(self, modification: Modification) -> str | None:
        """Carries out one modification; the name of the OpenFlow error if it is refused."""
        match modification:
            case AddRule(rule):
                return self._add_rule(rule)
            case DeleteRule(rule):
                if rule.table_id in self._tables:
                    self._tables[rule.table_id].remove(rule)
            case AddGroup(group):
                return self._add_group(group)
            case ModifyGroup(group):
                return self._modify_group(group)
            case DeleteGroup(group_id):
                if self._groups.pop(group_id, None) is not None:
                    self._delete_rules_with_group(group_id)
            case AddMeter(meter):
                return self._add_meter(meter)
            case ModifyMeter(meter):
                if meter.meter_id not in self._meters:
                    return admission.UNKNOWN_METER
                self._meters[meter.meter_id] = TokenBucket(meter)
            case DeleteMeter(meter_id):
                if self._meters.pop(meter_id, None) is not None:
                    self._delete_rules([e.rule for e in self.entries() if e.rule.meter_id == meter_id])
            case Barrier():
                pass
        return None

    def _add_rule(self, rule: Rule) -> str | None:
        error = admission.rule_error(rule, self.limits, self._groups, self._meters)
        if error is not None:
            return error
        table = self._tables.setdefault(rule.table_id, FlowTable())
        if rule not in table and self._is_full(table):
            return admission.TABLE_FULL
        table.put(rule)
        return None

    def _is_full(self, table: FlowTable) -> bool:
        whole, each = self.limits.rules, self.limits.rules_per_table
        return (whole is not None and sum(map(len, self._tables.values())) >= whole) or (
            each is not None and len(table) >= each
        )

    def _add_group(self, group: Group) -> str | None:
        error = admission.group_error(group)
        if error is not None:
            return error
        if group.group_id in self._groups:
            return admission.GROUP_EXISTS
        if self.limits.groups is not None and len(self._groups) >= self.limits.groups:
            return admission.OUT_OF_GROUPS
        self._groups[group.group_id] = group
        return None

    def _modify_group(self, group: Group) -> str | None:
        error = admission.group_error(group)
        if error is not None:
            return error
        if group.group_id not in self._groups:
            return admission.UNKNOWN_GROUP
        self._groups[group.group_id] = group
        return None

    def _add_meter(self, meter: Meter) -> str | None:
        if meter.meter_id in self._meters:
            return admission.METER_EXISTS
        if self.limits.meters is not None and len(self._meters) >= self.limits.meters:
            return admission.OUT_OF_METERS
        self._meters[meter.meter_id] = TokenBucket(meter)
        return None

    def _delete_rules_with_group(self, group_id: int) -> None:
        users = (entry.rule for entry in self.entries())
        self._delete_rules([rule for rule in users if ToGroup(group_id) in rule.actions])

    def _delete_rules(self, rules: Iterable[Rule]) -> None:
        for rule in rules:
            self._tables[rule.table_id].remove(rule)
