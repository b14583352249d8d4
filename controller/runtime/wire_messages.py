"""Agent messages to core events, core commands to controller messages (link.proto). Pure.

It decides what a well-formed message is. Ports above OFPP_MAX (the bridge's own LOCAL port) are dropped here: no cable
ends on them, so nothing in the core should ever hear of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from heddle.southbound.v1 import link_pb2 as pb

from controller.core import commands, events
from controller.fabric.model import Port, PortRef
from controller.runtime.wire_rules import read_tables, write_modification

PROTOCOL_VERSION = 1
_OFPP_MAX = 0xFFFFFF00
_UNKNOWN = (1 << 64) - 1  # all-ones: the switch does not count this (OpenFlow 1.3.5, 7.3.5)

_STATUS = {
    pb.BatchResult.STATUS_DONE: events.BatchStatus.DONE,
    pb.BatchResult.STATUS_REFUSED: events.BatchStatus.REFUSED,
    pb.BatchResult.STATUS_LOST: events.BatchStatus.LOST,
    pb.BatchResult.STATUS_ROLLED_BACK: events.BatchStatus.ROLLED_BACK,
}


class WireError(Exception):
    """The agent's message is well framed but says something impossible; the text says what."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """`event` is None when the message has nothing for the core; `left_out` counts rules that cannot be named."""

    event: events.Event | None
    left_out: int = 0


def read_message(payload: bytes) -> pb.AgentMessage:
    """The message in a frame. Raises WireError when the bytes are no message."""
    message = pb.AgentMessage()
    try:
        message.ParseFromString(payload)
    except Exception as error:  # protobuf's DecodeError has a different class in each of its implementations
        raise WireError(f"{len(payload)} bytes are no AgentMessage: {error}") from error
    return message


def read_event(message: pb.AgentMessage) -> Decoded:
    """The core's event. Raises WireError. Hello, Pong and bodies of a newer protocol have no event."""
    body = message.WhichOneof("body")
    reader = _READERS.get(body) if body is not None else None
    if reader is None:
        return Decoded(None)
    return reader(getattr(message, body))


def _read_port(dpid: int, message: pb.Port) -> Port:
    mac = bytes(message.hardware_address)
    if len(mac) != 6:
        raise WireError(f"port {message.port_no} of switch {dpid:x} has a hardware address of {len(mac)} bytes, not 6")
    return Port(
        ref=PortRef(dpid, message.port_no),
        name=message.name,
        mac=mac.hex(":"),
        up=message.link_up and not message.administratively_down,
        speed_bps=message.current_speed_bps,
    )


def _read_switch_up(message: pb.SwitchUp) -> Decoded:
    if not message.session_id:
        raise WireError(f"switch {message.dpid:x} is reported without a session id")
    ports = tuple(_read_port(message.dpid, p) for p in message.ports if 0 < p.port_no <= _OFPP_MAX)
    event = events.SwitchConnected(
        dpid=message.dpid,
        session_id=message.session_id,
        peer_address=message.peer_address,
        ports=ports,
        nicira=message.nicira,
        software=" ".join(filter(None, (message.manufacturer, message.hardware, message.software))),
        table_limits={table.table_id: table.max_rules for table in message.tables},
        max_groups=message.max_failover_groups or None,
    )
    return Decoded(event)


def _read_switch_down(message: pb.SwitchDown) -> Decoded:
    return Decoded(events.SwitchDisconnected(message.dpid, message.session_id, message.reason))


def _read_refused(message: pb.SwitchRefused) -> Decoded:
    event = events.SwitchRefused(message.dpid, message.peer_address, message.kept_peer_address, message.reason)
    return Decoded(event)


def _read_port_status(message: pb.PortStatus) -> Decoded:
    if not 0 < message.port.port_no <= _OFPP_MAX:
        return Decoded(None)
    removed = message.reason == pb.PortStatus.REASON_DELETE
    port = _read_port(message.dpid, message.port)
    return Decoded(events.PortChanged(message.dpid, message.session_id, port, removed))


def _read_packet(message: pb.PacketIn) -> Decoded:
    return Decoded(events.PacketReceived(message.dpid, message.session_id, message.in_port, message.data))


def _read_batch_result(message: pb.BatchResult) -> Decoded:
    status = _STATUS.get(message.status)
    if status is None:
        raise WireError(f"batch {message.batch_id} of switch {message.dpid:x} is answered with status {message.status}")
    refusals = tuple(events.Refusal(e.index, e.name or f"{e.type}/{e.code}") for e in message.errors)
    return Decoded(events.BatchAnswered(message.dpid, message.session_id, message.batch_id, status, refusals))


def _read_tables(message: pb.Tables) -> Decoded:
    read = None if message.failed else read_tables(message)
    tables = read.tables if read is not None else None
    event = events.TablesRead(message.dpid, message.session_id, message.request_id, tables)
    return Decoded(event, read.left_out if read is not None else 0)


def _read_statistics(message: pb.PortStatistics) -> Decoded:
    counters = {p.port_no: _read_counters(p) for p in message.ports if 0 < p.port_no <= _OFPP_MAX}
    return Decoded(events.PortStatisticsRead(message.dpid, message.session_id, counters))


def _read_counters(message: pb.PortCounters) -> events.PortCounters:
    return events.PortCounters(
        rx_bytes=_known(message.rx_bytes),
        tx_bytes=_known(message.tx_bytes),
        rx_packets=_known(message.rx_packets),
        tx_packets=_known(message.tx_packets),
        tx_dropped=_known(message.tx_dropped),
        rx_errors=_damaged(message.rx_errors, message.rx_over_errors),
        tx_errors=_known(message.tx_errors),
        duration_s=message.duration_s,
    )


def _damaged(errors: int, overruns: int) -> int | None:
    """Received errors that are no overruns. Neither of both need be known."""
    return None if errors == _UNKNOWN else max(0, errors - (_known(overruns) or 0))


def _known(counter: int) -> int | None:
    return None if counter == _UNKNOWN else counter


_READERS: dict[str, Callable[[Any], Decoded]] = {
    "switch_up": _read_switch_up,
    "switch_down": _read_switch_down,
    "switch_refused": _read_refused,
    "port_status": _read_port_status,
    "packet_in": _read_packet,
    "batch_result": _read_batch_result,
    "tables": _read_tables,
    "port_statistics": _read_statistics,
}


# --- to the agent --------------------------------------------------------------------------------------

SouthboundCommand = commands.SendPacket | commands.SendBatch | commands.ReadTables | commands.ReadPortStatistics


def write_command(command: SouthboundCommand) -> bytes:
    """The payload of one frame."""
    return _WRITERS[type(command)](command).SerializeToString()


def write_welcome(controller_id: str) -> bytes:
    welcome = pb.Welcome(controller_id=controller_id, protocol_version=PROTOCOL_VERSION)
    return pb.ControllerMessage(welcome=welcome).SerializeToString()


def write_ping(nonce: int) -> bytes:
    return pb.ControllerMessage(ping=pb.Ping(nonce=nonce)).SerializeToString()


def _write_packet(c: commands.SendPacket) -> pb.ControllerMessage:
    return pb.ControllerMessage(packet_out=pb.PacketOut(dpid=c.dpid, out_ports=c.out_ports, data=c.data))


def _write_batch(c: commands.SendBatch) -> pb.ControllerMessage:
    batch = pb.Batch(dpid=c.dpid, session_id=c.session_id, batch_id=c.batch_id, atomic=c.atomic)
    for modification in c.modifications:
        write_modification(modification, batch.modifications.add())
    return pb.ControllerMessage(batch=batch)


def _write_read_tables(c: commands.ReadTables) -> pb.ControllerMessage:
    return pb.ControllerMessage(
        read_tables=pb.ReadTables(dpid=c.dpid, session_id=c.session_id, request_id=c.request_id)
    )


def _write_read_statistics(c: commands.ReadPortStatistics) -> pb.ControllerMessage:
    return pb.ControllerMessage(read_port_statistics=pb.ReadPortStatistics(dpid=c.dpid, session_id=c.session_id))


_WRITERS: dict[type, Callable[[Any], pb.ControllerMessage]] = {
    commands.SendPacket: _write_packet,
    commands.SendBatch: _write_batch,
    commands.ReadTables: _write_read_tables,
    commands.ReadPortStatistics: _write_read_statistics,
}
