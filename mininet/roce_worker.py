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
from roce_connection import Incoming, IncomingQueuePair, Outgoing
from roce_headers import (
    ACK_FIELDS,
    ACK_REQUEST,
    ACKNOWLEDGE,
    CONGESTION_NOTIFICATION,
    DATA_FIELDS,
    PSN_MASK,
    UDP_PORT,
    unwrap,
)

_DRAIN_PACKETS = 256
_SO_RCVBUFFORCE = 33
_RECEIVE_BUFFER_BYTES = 4 << 20
_GAP_BUCKET_S = 0.1
_LOOK_AROUND_S = 0.5
_PR_SET_PDEATHSIG = 1


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
