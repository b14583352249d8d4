"""The process that stands for one host's RoCE NIC: sockets, clock and timers around the pure queue pairs.

One process and one thread per host. It reads its orders as one JSON line on standard input (see `roce_traffic`), says
`ready`, waits for `start <monotonic time>`, moves the bytes, prints one JSON line of results, and goes on
acknowledging until its input ends. Data and acknowledgements arrive on UDP/4791 and leave from the queue pair's own
UDP source port, in both directions the same number, as real NICs do it.

The processors also stand for the switches, so every microsecond counts: templates, one receive buffer, and above all
few wake-ups. While there is work the loop looks at its socket every `tick_s`, like a polling driver, instead of waking
for every packet: a wake-up costs twenty times what a packet does (measured: 30 us against 1.5 us).
"""

from __future__ import annotations

import ctypes
import gc
import json
import select
import signal
import socket
import sys
import time
from typing import Any

from lab_priority import NIC_NICENESS, favour_self
from roce_headers import (
    ACK_FIELDS,
    ACK_REQUEST,
    ACKNOWLEDGE,
    CONGESTION_NOTIFICATION,
    DATA_FIELDS,
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

_DRAIN_PACKETS = 256
_SO_RCVBUFFORCE = 33
_RECEIVE_BUFFER_BYTES = 4 << 20
_GAP_BUCKET_S = 0.1
_LOOK_AROUND_S = 0.5
_PR_SET_PDEATHSIG = 1


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


class Worker:
    """All connections of one host, one loop."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self._ack_delay_s: float = orders["ack_delay_s"]
        self._tick_s: float = orders["tick_s"]
        self._timeout_s: float = orders["timeout_s"]
        self._incoming = {order["id"]: Incoming(order, orders) for order in orders["incoming"]}
        self._outgoing = [Outgoing(o, orders, self._incoming.get(o["gate"])) for o in orders["outgoing"]]
        self._to_receiver = {
            order["number"]: (qp, connection)
            for connection in self._incoming.values()
            for order, qp in zip(connection.order["queue_pairs"], connection.queue_pairs, strict=True)
        }
        self._to_sender = {
            order["number"]: qp
            for connection in self._outgoing
            for order, qp in zip(connection.order["queue_pairs"], connection.queue_pairs, strict=True)
        }
        self._senders = [qp for connection in self._outgoing for qp in connection.queue_pairs]
        self._touched: dict[IncomingQueuePair, Incoming] = {}
        self._ack_deadline_s = float("inf")
        self._buffer = bytearray(65536)
        self._notifications = 0
        self._start_s = self._last_arrival_s = 0.0
        self._gaps_s: list[float] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
        self._socket.bind((orders["address"], UDP_PORT))
        self._socket.setblocking(False)
        self._poller = select.epoll()
        self._poller.register(self._socket, select.EPOLLIN)
        self._poller.register(sys.stdin, select.EPOLLIN)

    def run(self, start_s: float) -> None:
        """Moves everything, prints the results, then serves late retransmissions until standard input ends."""
        self._start_s = self._last_arrival_s = start_s
        deadline = start_s + self._timeout_s
        time.sleep(max(0.0, start_s - time.monotonic()))
        cpu_s = time.process_time()
        look_around_s = start_s
        now = time.monotonic()
        while not self._finished() and now < deadline:
            self._pump(now)
            time.sleep(self._tick_s)
            now = time.monotonic()
            self._drain(now)
            self._acknowledge(now)
            if now >= look_around_s:
                look_around_s = now + _LOOK_AROUND_S
                if self._wait(0.0):
                    return
        print(json.dumps(self._results(now, time.process_time() - cpu_s)), flush=True)
        while not self._wait(_LOOK_AROUND_S):
            now = time.monotonic()
            self._drain(now)
            self._acknowledge(now)

    def _pump(self, now: float) -> None:
        for connection in self._outgoing:
            connection.release()
        for queue_pair in self._senders:
            if now >= queue_pair.sender.next_deadline():
                queue_pair.sender.on_timer(now)
            queue_pair.pump(now)

    def _wait(self, timeout_s: float) -> bool:
        """Waits for a packet; True when standard input ended: the results are wanted no more."""
        return any(fd != self._socket.fileno() for fd, _ in self._poller.poll(timeout_s))

    def _drain(self, now: float) -> int:
        """Takes in what has arrived; returns how many packets that were."""
        receive, buffer = self._socket.recv_into, self._buffer
        data_fields, ack_fields = DATA_FIELDS.unpack_from, ACK_FIELDS.unpack_from
        count = data = 0
        while count < _DRAIN_PACKETS:
            try:
                receive(buffer)
            except BlockingIOError:
                break
            count += 1
            opcode = buffer[0]
            if opcode == ACKNOWLEDGE:
                fields = ack_fields(buffer)
                sender = self._to_sender.get(fields[1] & PSN_MASK)
                if sender is not None:
                    sender.on_ack(fields, now)
            elif opcode == CONGESTION_NOTIFICATION:
                self._notifications += 1
            else:
                _, number, last, serial = data_fields(buffer)
                found = self._to_receiver.get(number & PSN_MASK)
                if found is not None:
                    queue_pair, connection = found
                    receiver = queue_pair.receiver
                    packet = unwrap((last - queue_pair.start_psn) & PSN_MASK, receiver.in_order)
                    receiver.on_data(packet, serial, ack_request=last >= ACK_REQUEST)
                    self._touched[queue_pair] = connection
                    data += 1
        if data:
            self._note_arrival(now)
        return count

    def _note_arrival(self, now: float) -> None:
        bucket = max(0, int((now - self._start_s) / _GAP_BUCKET_S))
        if bucket >= len(self._gaps_s):
            self._gaps_s.extend([0.0] * (bucket + 1 - len(self._gaps_s)))
        self._gaps_s[bucket] = max(self._gaps_s[bucket], now - self._last_arrival_s)
        self._last_arrival_s = now

    def _acknowledge(self, now: float) -> None:
        if not self._touched:
            return
        late = now >= self._ack_deadline_s
        waiting = {}
        for queue_pair, connection in self._touched.items():
            connection.advance(now)
            if queue_pair.receiver.ack_due or (late and queue_pair.receiver.ack_waiting):
                queue_pair.send_ack()
            elif queue_pair.receiver.ack_waiting:
                waiting[queue_pair] = connection
        self._touched = waiting
        if not waiting:
            self._ack_deadline_s = float("inf")
        elif late or self._ack_deadline_s == float("inf"):
            self._ack_deadline_s = now + self._ack_delay_s

    def _finished(self) -> bool:
        return all(o.done for o in self._outgoing) and all(i.finished_s for i in self._incoming.values())

    def _results(self, now: float, cpu_s: float) -> dict[str, Any]:
        return {
            "start_s": self._start_s,
            "end_s": now,
            "outgoing": [o.results() for o in self._outgoing],
            "incoming": [i.results() for i in self._incoming.values()],
            "longest_gaps_s": [round(gap, 4) for gap in self._gaps_s],
            "notifications": self._notifications,
            "cpu_s": cpu_s,
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


def main() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    favour_self(NIC_NICENESS)
    worker = Worker(json.loads(sys.stdin.readline()))
    # Nothing cyclic is made in the loop, and a collection would be a pause.
    gc.freeze()
    gc.disable()
    print("ready", flush=True)
    order = sys.stdin.readline().split()
    if order[:1] == ["start"]:
        worker.run(float(order[1]))


if __name__ == "__main__":
    main()
