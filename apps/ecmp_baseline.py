"""The ECMP baseline's reactions: news of a switch in, requests to a switch out. Sans-I/O.

Like a routing daemon it takes a link out of the routes when one of its ports goes down, and puts it back when the port
returns. It knows no flows, no jobs and no load: that is the point of it.
"""

import logging
from collections.abc import Iterable

from heddle.southbound.v1 import link_pb2

from apps.ecmp_paths import End
from apps.ecmp_rules import EcmpRoutes, Tables, tables
from controller.fabric import arp
from controller.fabric.plan import FabricPlan

LOG = logging.getLogger("heddle.ecmp")

Requests = list[link_pb2.ControllerMessage]


class EcmpBaseline:
    """`handle` takes what a switch says and returns what is to be carried out."""

    def __init__(self, plan: FabricPlan, routes: EcmpRoutes) -> None:
        self._routes = routes
        self._names = {switch.dpid: switch.name for switch in plan.switches}
        self._macs = {host.ipv4: host.mac for host in plan.hosts}
        self._planned = {switch.name: _planned_ports(plan, switch.name) for switch in plan.switches}
        self._down: frozenset[End] = frozenset()
        self._sessions: dict[int, str] = {}
        # What each switch holds; absent until its tables were read.
        self._held: dict[int, Tables] = {}
        self._batches = 0

    def handle(self, message: link_pb2.AgentMessage) -> Requests:
        kind = message.WhichOneof("body")
        if kind == "switch_up":
            return self._switch_up(message.switch_up)
        if kind == "tables":
            return self._tables_read(message.tables)
        if kind == "packet_in":
            return self._packet_in(message.packet_in)
        if kind == "port_status":
            return self._port_status(message.port_status)
        if kind == "batch_result":
            return self._batch_answered(message.batch_result)
        if kind == "switch_down":
            self._sessions.pop(message.switch_down.dpid, None)
            self._held.pop(message.switch_down.dpid, None)
        return []

    def _switch_up(self, up: link_pb2.SwitchUp) -> Requests:
        name = self._names.get(up.dpid)
        if name is None:
            LOG.error("switch %016x from %s is not in the topology file: it gets no rules", up.dpid, up.peer_address)
            return []
        self._sessions[up.dpid] = up.session_id
        working = {port.port_no for port in up.ports if port.link_up}
        dead = {(name, port) for port in self._planned[name] - working}
        changed = self._links_changed({end for end in self._down if end[0] != name} | dead)
        return [*changed, self._read(up.dpid)]

    def _tables_read(self, read: link_pb2.Tables) -> Requests:
        if read.failed or self._sessions.get(read.dpid) != read.session_id:
            return []
        self._held[read.dpid] = tables(read.rules, read.groups)
        return self._bring_up_to_date(read.dpid)

    def _port_status(self, status: link_pb2.PortStatus) -> Requests:
        name = self._names.get(status.dpid)
        if name is None or status.port.port_no not in self._planned[name]:
            return []
        up = status.port.link_up and status.reason != link_pb2.PortStatus.REASON_DELETE
        end = {(name, int(status.port.port_no))}
        return self._links_changed(self._down - end if up else self._down | end)

    def _links_changed(self, down: Iterable[End]) -> Requests:
        before, self._down = self._down, frozenset(down)
        if before == self._down:
            return []
        return [request for dpid in list(self._held) for request in self._bring_up_to_date(dpid)]

    def _bring_up_to_date(self, dpid: int) -> Requests:
        desired = self._routes.desired(dpid, self._down)
        held, self._held[dpid] = self._held[dpid], desired
        if held == desired:
            return []
        self._batches += 1
        batch = link_pb2.Batch(
            dpid=dpid, session_id=self._sessions[dpid], batch_id=self._batches, modifications=_difference(held, desired)
        )
        return [link_pb2.ControllerMessage(batch=batch)]

    def _batch_answered(self, result: link_pb2.BatchResult) -> Requests:
        if result.status != link_pb2.BatchResult.STATUS_REFUSED:
            return []
        name = self._names[result.dpid]
        LOG.error("%s refused %d changes, the first one with %s", name, len(result.errors), result.errors[0].name)
        if "BAD_ACTION" in result.errors[0].name:
            LOG.error("if %s lacks the Nicira extensions, set HEDDLE_ECMP_SELECT=group", name)
        return []

    def _packet_in(self, packet: link_pb2.PacketIn) -> Requests:
        """Answers ARP from the topology file. Nothing is ever flooded; who asks for an unknown address gets nothing."""
        request = arp.decode(packet.data)
        if request is None or request.operation != arp.REQUEST or request.target_ip not in self._macs:
            return []
        mac = self._macs[request.target_ip]
        reply = arp.Arp(arp.REPLY, mac, request.target_ip, request.sender_mac, request.sender_ip)
        frame = arp.encode(reply, request.sender_mac)
        answer = link_pb2.PacketOut(dpid=packet.dpid, out_ports=[packet.in_port], data=frame)
        return [link_pb2.ControllerMessage(packet_out=answer)]

    def _read(self, dpid: int) -> link_pb2.ControllerMessage:
        return link_pb2.ControllerMessage(
            read_tables=link_pb2.ReadTables(dpid=dpid, session_id=self._sessions[dpid], request_id=dpid)
        )


def _planned_ports(plan: FabricPlan, name: str) -> set[int]:
    return {link.a_port for link in plan.links if link.a == name} | {
        link.b_port for link in plan.links if link.b == name
    }


def _difference(held: Tables, desired: Tables) -> Iterable[link_pb2.Modification]:
    """Groups, barrier, rules, barrier, then what is no longer wanted: at no time does a route lead nowhere."""
    for number, text in desired.groups.items():
        if number not in held.groups:
            yield link_pb2.Modification(add_group=link_pb2.Group.FromString(text))
        elif held.groups[number] != text:
            yield link_pb2.Modification(modify_group=link_pb2.Group.FromString(text))
    yield link_pb2.Modification(barrier=True)
    for key, text in desired.rules.items():
        if held.rules.get(key) != text:
            yield link_pb2.Modification(add_rule=link_pb2.Rule.FromString(text))
    for key, text in held.rules.items():
        if key not in desired.rules:
            yield link_pb2.Modification(delete_rule=link_pb2.Rule.FromString(text))
    yield link_pb2.Modification(barrier=True)
    for number in held.groups:
        if number not in desired.groups:
            yield link_pb2.Modification(delete_group_id=number)
