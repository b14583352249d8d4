"""One Open vSwitch bridge per planned switch: datapath ids, exact port numbers, controllers, rates and queues."""

import json
from collections.abc import Sequence

from lab_checks import interface_name
from lab_ovs import PrivateOvs
from lab_queues import qos_arguments

from controller.fabric.plan import FabricPlan, PlannedSwitch
from controller.qos.classes import QosSettings

# Open vSwitch's own back-off grows to 8 s; a lab's controller is restarted often.
_MAX_BACKOFF_MS = 1000
_INACTIVITY_PROBE_MS = 10_000


def switch_ports(plan: FabricPlan) -> dict[str, dict[int, int]]:
    """Switch name -> port number -> rate in bit/s; a host's port has the host's rate."""
    ports: dict[str, dict[int, int]] = {s.name: {} for s in plan.switches}
    for link in plan.links:
        ports[link.a][link.a_port] = link.rate_bps
        ports[link.b][link.b_port] = link.rate_bps
    for host in plan.hosts:
        ports[host.switch][host.port] = host.rate_bps
    return ports


def add_bridges(ovs: PrivateOvs, plan: FabricPlan) -> None:
    """Makes all bridges with their ports; they fail secure: without a controller nothing is forwarded or flooded."""
    ports = switch_ports(plan)
    for switch in plan.switches:
        ovs.vsctl(*_bridge_arguments(switch, sorted(ports[switch.name])))


def set_controllers(ovs: PrivateOvs, plan: FabricPlan, targets: Sequence[str]) -> None:
    """Points every bridge to all `targets` (OpenFlow roles decide who leads). Flows laid before are flushed."""
    for switch in plan.switches:
        arguments = ["--", "set", "Bridge", switch.name]
        arguments += [f"controller=[{','.join(f'@controller{number}' for number in range(len(targets)))}]"]
        for number, target in enumerate(targets):
            arguments += ["--", f"--id=@controller{number}", "create", "Controller", f'target="{target}"']
            arguments += [f"max_backoff={_MAX_BACKOFF_MS}", f"inactivity_probe={_INACTIVITY_PROBE_MS}"]
        ovs.vsctl(*arguments[1:])


def send_one_frame(ovs: PrivateOvs, plan: FabricPlan) -> None:
    """Makes the switch daemon send a frame that means nothing (IEEE's local experimental type), out of some port."""
    name, ports = next((name, ports) for name, ports in switch_ports(plan).items() if ports)
    frame = "ff" * 6 + "020000000001" + "88b5" + "00" * 46
    ovs.ofctl("packet-out", name, f"in_port=LOCAL packet={frame} actions=output:{min(ports)}")


def lay_rates(ovs: PrivateOvs, plan: FabricPlan, settings: QosSettings) -> None:
    """Gives every switch port its rate and, when `settings` are enabled, one queue per traffic class."""
    ports = switch_ports(plan)
    for switch in plan.switches:
        rates = {port: (interface_name(switch.name, port), rate) for port, rate in ports[switch.name].items()}
        if rates:
            ovs.vsctl(*qos_arguments(switch.dpid, rates, settings))


def connected_switches(ovs: PrivateOvs) -> frozenset[str]:
    """Names of the bridges that have at least one controller connection."""
    connected = {
        uuid for uuid, state in _rows(ovs, "Controller", "_uuid,is_connected") if state is True for uuid in _uuids(uuid)
    }
    return frozenset(
        str(name)
        for name, controllers in _rows(ovs, "Bridge", "name,controller")
        if connected & set(_uuids(controllers))
    )


def _bridge_arguments(switch: PlannedSwitch, ports: Sequence[int]) -> list[str]:
    name = switch.name
    arguments = ["add-br", name, "--", "set", "Bridge", name, "datapath_type=netdev", "fail_mode=secure"]
    arguments += ["protocols=OpenFlow13", f"other-config:datapath-id={switch.dpid:016x}"]
    arguments += ["other-config:disable-in-band=true"]
    for port in ports:
        interface = interface_name(name, port)
        arguments += ["--", "add-port", name, interface]
        arguments += ["--", "set", "Interface", interface, f"ofport_request={port}"]
    return arguments


def _rows(ovs: PrivateOvs, table: str, columns: str) -> list[list[object]]:
    rows: list[list[object]] = json.loads(ovs.vsctl("-f", "json", f"--columns={columns}", "list", table))["data"]
    return rows


def _uuids(cell: object) -> list[str]:
    """OVSDB's JSON (RFC 7047, 5.1) spells one value plainly and several as ["set", [...]]."""
    match cell:
        case ["uuid", str(uuid)]:
            return [uuid]
        case ["set", list(members)]:
            return [uuid for member in members for uuid in _uuids(member)]
    return []
