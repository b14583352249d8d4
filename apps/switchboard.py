"""All switches of this process: which are up, what they say, and who asked them what.

It turns Ryu's events into southbound messages and hands them to `report`, and carries out the controller's requests on
the right connection. It does not know where reports go: to a controller (`fabric`) or to an application in the same
process (`ecmp`).
"""

import logging
from collections.abc import Callable
from typing import Any

from heddle.southbound.v1 import link_pb2
from ryu.ofproto import ofproto_v1_3_parser as parser

from apps.codec_decode import decode_port, decode_port_reason, is_cable
from apps.connection import Connection
from apps.registry import Registry, Verdict

LOG = logging.getLogger("heddle.agent")


class Switchboard:
    """`clock` returns seconds that only grow; `report` must not block."""

    def __init__(self, report: Callable[[link_pb2.AgentMessage], None], clock: Callable[[], float]) -> None:
        self._report = report
        self._clock = clock
        self._registry = Registry()
        # By Ryu's datapath object: every open connection, also one that is about to be refused.
        self._connections: dict[Any, Connection] = {}
        # By datapath id, for controllers that connect after the refusal.
        self._refusals: dict[int, link_pb2.AgentMessage] = {}

    # --- a connection's life ------------------------------------------------------------------------------

    def opened(self, features: Any) -> None:
        """The switch told its datapath id (OFPSwitchFeatures)."""
        datapath = features.datapath
        self._connections[datapath] = Connection(datapath, features.datapath_id, features.n_tables)

    def ports_described(self, datapath: Any, ports: list[Any]) -> None:
        if connection := self._connections.get(datapath):
            for port in ports:
                connection.add_port(decode_port(port))

    def ready(self, datapath: Any) -> None:
        """All ports are known: decides whether this connection speaks for its datapath id."""
        connection = self._connections.get(datapath)
        if connection is None:
            return  # It ended while this event waited its turn.
        claim = self._registry.claim(connection)
        if claim.other is not None and claim.verdict is not Verdict.REPLACES:
            self._refuse(connection, claim.other, claim.verdict)
            return
        if claim.other is not None:
            self._end(claim.other, "replaced by a new connection of the same switch")
            claim.other.close()
        # Before the description, so that all of it is known when the switch counts as up. One that refuses to tell its
        # limits has none that are known.
        connection.session.probe()
        connection.session.ask(parser.OFPTableFeaturesStatsRequest(datapath, 0, []))
        connection.session.ask(parser.OFPGroupFeaturesStatsRequest(datapath, 0))
        connection.session.ask(parser.OFPDescStatsRequest(datapath, 0))
        connection.start_sending(self._sender_failed)

    def tables_limited(self, datapath: Any, limits: list[link_pb2.TableLimit]) -> None:
        if connection := self._connections.get(datapath):
            connection.table_limits += limits

    def groups_limited(self, datapath: Any, max_failover_groups: int) -> None:
        if connection := self._connections.get(datapath):
            connection.max_failover_groups = max_failover_groups

    def described(self, datapath: Any, description: Any) -> None:
        """The last part of the introduction (OFPDescStats): the switch is up."""
        connection = self._connections.get(datapath)
        if connection is None or not self._registry.holds(connection) or connection.switch_up is not None:
            return
        texts = (description.mfr_desc, description.hw_desc, description.sw_desc)
        connection.describe(*(text.decode("utf-8", errors="replace") for text in texts))
        updates = "atomic updates" if connection.session.atomic else "no atomic updates"
        LOG.info("switch %016x is up, from %s, %s", connection.dpid, connection.peer_address, updates)
        self._tell(connection.reports())

    def closed(self, datapath: Any, reason: str = "the OpenFlow connection ended") -> None:
        connection = self._connections.pop(datapath, None)
        if connection is None:
            return
        connection.close()
        if self._registry.release(connection):
            self._refusals.pop(connection.dpid, None)
            self._end(connection, reason)

    def failed(self, datapath: Any) -> None:
        """Something unexpected broke while handling this switch: only its session is dropped, and it comes back."""
        LOG.exception("unexpected error while handling the switch at %s: dropping its session", datapath.address)
        self.closed(datapath, "unexpected error in the agent; its log has the details")
        Connection.end(datapath)

    # --- what switches say --------------------------------------------------------------------------------

    def port_changed(self, datapath: Any, reason: int, description: Any) -> None:
        connection = self._speaking(datapath)
        if connection is None:
            return
        port = decode_port(description)
        decoded_reason = decode_port_reason(reason)
        if decoded_reason == link_pb2.PortStatus.REASON_DELETE:
            connection.remove_port(port)
        else:
            connection.add_port(port)
        if connection.switch_up is not None and is_cable(port.port_no):
            status = link_pb2.PortStatus(
                dpid=connection.dpid, session_id=connection.session_id, reason=decoded_reason, port=port
            )
            self._tell([link_pb2.AgentMessage(port_status=status)])

    def packet_in(self, datapath: Any, packet: link_pb2.PacketIn) -> None:
        """Passed on as it is. Nothing here may depend on the data being a whole frame."""
        connection = self._speaking(datapath)
        if connection is None or connection.switch_up is None:
            return
        packet.dpid, packet.session_id = connection.dpid, connection.session_id
        self._tell([link_pb2.AgentMessage(packet_in=packet)])

    def replied(self, datapath: Any, xid: int) -> None:
        """The answer to a barrier or to a bundle's control message."""
        if connection := self._speaking(datapath):
            self._tell(connection.session.on_reply(xid))
            connection.wake()

    def refused(self, message: Any) -> None:
        """OFPErrorMsg. Its own transaction id is the request's; the request it quotes may be cut off."""
        if connection := self._speaking(message.datapath):
            # An experimenter's error (OpenFlow 1.3.5, 7.4.4) has a type of its own in the place of a code.
            code = message.exp_type if message.code is None else message.code
            experimenter = getattr(message, "experimenter", 0)
            self._tell(connection.session.on_error(message.xid, message.type, code, experimenter))
            connection.wake()

    def multipart_answered(self, datapath: Any, xid: int, entries: list[Any], more: bool) -> None:
        if connection := self._speaking(datapath):
            self._tell(connection.session.on_multipart(xid, entries, more, self._clock()))

    def expire(self) -> None:
        """To be called about once a second."""
        for connection in self._registry.all():
            self._tell(connection.session.expire(self._clock()))
            connection.wake()

    # --- what the controller asks for -----------------------------------------------------------------------

    def report_all(self) -> list[link_pb2.AgentMessage]:
        """SwitchUp for every switch that is up, SwitchRefused for every datapath id about which two disagree."""
        reports = [report for connection in self._registry.all() for report in connection.reports()]
        return reports + list(self._refusals.values())

    def controller_lost(self) -> None:
        for connection in self._registry.all():
            connection.session.abandon()

    def carry_out(self, message: link_pb2.ControllerMessage) -> bool:
        """A request that is about one switch; False when the message is something else."""
        kind = message.WhichOneof("body")
        if kind == "batch":
            self._send_batch(message.batch)
        elif kind == "packet_out":
            self._send_packet(message.packet_out)
        elif kind == "read_tables":
            self._read_tables(message.read_tables)
        elif kind == "read_port_statistics":
            self._read_ports(message.read_port_statistics)
        else:
            return False
        return True

    # --- inside ---------------------------------------------------------------------------------------------

    def _send_batch(self, batch: link_pb2.Batch) -> None:
        connection = self._registry.find(batch.dpid, batch.session_id)
        if connection is None:
            result = link_pb2.BatchResult(
                dpid=batch.dpid,
                session_id=batch.session_id,
                batch_id=batch.batch_id,
                status=link_pb2.BatchResult.STATUS_LOST,
            )
            self._tell([link_pb2.AgentMessage(batch_result=result)])
            return
        connection.session.submit(batch)
        self._push(connection)

    def _read_tables(self, request: link_pb2.ReadTables) -> None:
        connection = self._registry.find(request.dpid, request.session_id)
        if connection is None:
            failed = link_pb2.Tables(
                dpid=request.dpid, session_id=request.session_id, request_id=request.request_id, failed=True
            )
            self._tell([link_pb2.AgentMessage(tables=failed)])
            return
        connection.session.read_tables(request, self._clock())
        self._push(connection)

    def _read_ports(self, request: link_pb2.ReadPortStatistics) -> None:
        if connection := self._registry.find(request.dpid, request.session_id):
            connection.session.read_ports(request, self._clock())
            self._push(connection)

    def _send_packet(self, packet: link_pb2.PacketOut) -> None:
        """Dropped when the switch is not there, as a packet on its way would be."""
        if connection := self._registry.find(packet.dpid):
            connection.session.send_packet(packet)
            self._push(connection)

    def _speaking(self, datapath: Any) -> Connection | None:
        """The connection, if it is the one that speaks for its switch; late messages of others are dropped."""
        connection = self._connections.get(datapath)
        return connection if connection is not None and self._registry.holds(connection) else None

    def _tell(self, messages: list[link_pb2.AgentMessage]) -> None:
        for message in messages:
            self._report(message)

    def _push(self, connection: Connection) -> None:
        if connection.session.overwhelmed:
            LOG.error("switch %016x does not take what it is sent: dropping its session", connection.dpid)
            self.closed(connection.datapath, "the switch does not take what it is sent")
        connection.wake()

    def _end(self, connection: Connection, reason: str) -> None:
        """Reports the end of a session that spoke for its switch: first what it took with it, then itself."""
        self._tell(connection.session.lost())
        if connection.switch_up is None:
            return
        LOG.warning("switch %016x from %s is gone: %s", connection.dpid, connection.peer_address, reason)
        down = link_pb2.SwitchDown(dpid=connection.dpid, session_id=connection.session_id, reason=reason)
        self._tell([link_pb2.AgentMessage(switch_down=down)])

    def _refuse(self, connection: Connection, kept: Connection, verdict: Verdict) -> None:
        if verdict is Verdict.REFUSED:
            reason = (
                f"datapath id {connection.dpid:016x} is claimed by two switches, from {kept.peer_address} (kept) and "
                f"{connection.peer_address} (refused): give one of them another datapath id"
            )
            LOG.error("%s", reason)
            refused = link_pb2.SwitchRefused(
                dpid=connection.dpid,
                peer_address=connection.peer_address,
                kept_peer_address=kept.peer_address,
                reason=reason,
            )
            self._refusals[connection.dpid] = link_pb2.AgentMessage(switch_refused=refused)
            self._tell([self._refusals[connection.dpid]])
        connection.close()

    def _sender_failed(self, connection: Connection) -> None:
        self.failed(connection.datapath)
