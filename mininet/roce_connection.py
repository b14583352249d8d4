"""A host's side of a connection: queue pairs with their sockets, striped bytes, and the ring's rule for passing on.

It turns what the pure queue pairs decide into packets on sockets. When it is asked to is `roce_worker`'s loop.
"""

from __future__ import annotations

import socket
from typing import Any

from roce_headers import (
    ACK_REQUEST,
    PSN_AND_SERIAL,
    PSN_MASK,
    PSN_OFFSET,
    SEND_FIRST,
    SEND_LAST,
    SEND_MIDDLE,
    SEND_ONLY,
    UDP_PORT,
    data_template,
    encode_ack,
    type_of_service,
    unwrap,
)
from roce_receiver import ReceiverQueuePair
from roce_sender import SenderQueuePair
from roce_striping import Striping
from roce_window import DelayWindow


class OutgoingQueuePair:
    """A sender with its socket and its packet template."""

    def __init__(self, order: dict[str, Any], packets: int, peer: str, common: dict[str, Any]) -> None:
        self.sender = SenderQueuePair(packets, DelayWindow(common["target_s"], common["window_packets"]))
        self.start_psn = order["start_psn"]
        self.finished_s = 0.0
        self._socket = _sending_socket(order["port"], peer, common["dscp"])
        self._packet = data_template(order["number"], common["payload_bytes"])

    def pump(self, now_s: float) -> None:
        """Sends all that the window lets go."""
        next_packet, packet, send = self.sender.next_packet, self._packet, self._socket.send
        last = self.sender.packets - 1
        while chosen := next_packet(now_s):
            number, serial, ask = chosen
            if number and number != last:
                packet[0] = SEND_MIDDLE
            else:
                packet[0] = SEND_ONLY if last == 0 else SEND_FIRST if number == 0 else SEND_LAST
            psn = (self.start_psn + number) & PSN_MASK
            PSN_AND_SERIAL.pack_into(packet, PSN_OFFSET, psn | ACK_REQUEST if ask else psn, serial)
            try:
                send(packet)
            except OSError:
                # A full buffer, or an ICMP error of an earlier packet: to the queue pair this one is lost.
                continue

    def on_ack(self, fields: tuple[int, ...], now_s: float) -> None:
        psn, serial, bitmap = fields[2] & PSN_MASK, fields[4], fields[5]
        acknowledged = unwrap((psn + 1 - self.start_psn) & PSN_MASK, self.sender.first_unacked)
        self.sender.on_ack(acknowledged, bitmap, serial, now_s)
        if self.sender.done and not self.finished_s:
            self.finished_s = now_s


class IncomingQueuePair:
    """A receiver with the socket its acknowledgements leave from."""

    def __init__(self, order: dict[str, Any], packets: int, peer: str, common: dict[str, Any]) -> None:
        self.receiver = ReceiverQueuePair(packets, common["ack_every"])
        self.start_psn = order["start_psn"]
        self._number = order["number"]
        self._socket = _sending_socket(order["port"], peer, common["dscp"])

    def send_ack(self) -> None:
        receiver = self.receiver
        receiver.on_ack_sent()
        psn = (self.start_psn + receiver.in_order - 1) & PSN_MASK
        try:
            self._socket.send(encode_ack(self._number, psn, receiver.in_order, receiver.newest, receiver.bitmap))
        except OSError:
            # As good as lost on the way; a later one says the same.
            return


class Outgoing:
    """One connection's sending side; `gate` is the incoming connection whose bytes it passes on, if any."""

    def __init__(self, order: dict[str, Any], common: dict[str, Any], gate: Incoming | None) -> None:
        self.order = order
        self.gate = gate
        self.striping = Striping(order["packets"], len(order["queue_pairs"]), common["stripe_packets"])
        self.queue_pairs = [
            OutgoingQueuePair(qp, self.striping.share(q, order["packets"]), order["peer"], common)
            for q, qp in enumerate(order["queue_pairs"])
        ]
        self._released = -1

    def release(self) -> None:
        """Makes sendable what the ring's rule allows: the own chunk, and as much as came from the predecessor."""
        allowed = self.order["packets"] if self.gate is None else self.order["head_start_packets"] + self.gate.in_order
        if allowed != self._released:
            self._released = allowed
            for q, queue_pair in enumerate(self.queue_pairs):
                queue_pair.sender.release(self.striping.share(q, allowed))

    @property
    def done(self) -> bool:
        return all(qp.sender.done for qp in self.queue_pairs)

    def results(self) -> dict[str, Any]:
        senders = [qp.sender for qp in self.queue_pairs]
        return {
            "id": self.order["id"],
            "complete": self.done,
            "finished_s": max(qp.finished_s for qp in self.queue_pairs) if self.done else None,
            "transmissions": sum(s.transmissions for s in senders),
            "retransmissions": sum(s.retransmissions for s in senders),
            "timeouts": sum(s.timeouts for s in senders),
            "round_trip_s": max(s.window.smoothed_s for s in senders),
            "queue_pair_finished_s": [qp.finished_s or None for qp in self.queue_pairs],
        }


class Incoming:
    """One connection's receiving side; `in_order` counts the connection's packets that are there without a hole."""

    def __init__(self, order: dict[str, Any], common: dict[str, Any]) -> None:
        self.order = order
        self.striping = Striping(order["packets"], len(order["queue_pairs"]), common["stripe_packets"])
        self.queue_pairs = [
            IncomingQueuePair(qp, self.striping.share(q, order["packets"]), order["peer"], common)
            for q, qp in enumerate(order["queue_pairs"])
        ]
        self.in_order = 0
        self.finished_s = 0.0

    def advance(self, now_s: float) -> None:
        self.in_order = self.striping.in_order([qp.receiver.in_order for qp in self.queue_pairs])
        if self.in_order >= self.striping.packets and not self.finished_s:
            self.finished_s = now_s

    def results(self) -> dict[str, Any]:
        receivers = [qp.receiver for qp in self.queue_pairs]
        return {
            "id": self.order["id"],
            "complete": bool(self.finished_s),
            "finished_s": self.finished_s or None,
            "in_order_packets": self.in_order,
            "duplicates": sum(r.duplicates for r in receivers),
            "out_of_order": sum(r.out_of_order for r in receivers),
        }


def _sending_socket(port: int, peer: str, dscp: int) -> socket.socket:
    """Only ever sends: what comes back goes to UDP/4791. So several may share one port number."""
    sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sending.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sending.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, type_of_service(dscp))
    sending.bind(("", port))
    sending.connect((peer, UDP_PORT))
    sending.setblocking(False)
    return sending
