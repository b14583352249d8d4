"""The sending half of a reliable queue pair, as pure code: which packet goes next, what is lost, when to look again.

It sends nothing itself. Packets are numbered 0 to `packets` - 1 (the PSN is that number plus a start, modulo 2**24).
Every *transmission* has a serial number of its own, which the receiver echoes; a packet is lost when one sent three
transmissions later has arrived (RFC 9002, 6.1.1), so retransmissions are judged like first ones, and only a lost tail
needs the timer. Selective repeat, as in newer NICs and IRN (Mittal et al., SIGCOMM 2018), not go-back-N.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roce_window import DelayWindow

_PACKET_THRESHOLD = 3
_SERIAL_RING = 1024  # more than can be under way, so that an echoed serial number still finds its time
_SHORTEST_TIMEOUT_S = 0.2
_LONGEST_TIMEOUT_S = 1.0


class SenderQueuePair:
    """`available` is how many packets the application has released; raise it with `release`."""

    __slots__ = (
        "_backoff",
        "_deadline_s",
        "_largest_echo",
        "_lost",
        "_next",
        "_sacked",
        "_sent_at",
        "_serial",
        "_under_way",
        "available",
        "first_unacked",
        "packets",
        "retransmissions",
        "timeouts",
        "window",
    )

    def __init__(self, packets: int, window: DelayWindow) -> None:
        self.packets = packets
        self.window = window
        self.available = 0
        self.first_unacked = 0
        self.retransmissions = 0
        self.timeouts = 0
        self._next = 0
        self._serial = 0
        self._largest_echo = -1
        self._backoff = 1
        # Packet -> serial number of its latest transmission, in the order of sending.
        self._under_way: dict[int, int] = {}
        self._sacked: set[int] = set()
        self._lost: deque[int] = deque()
        self._sent_at = [0.0] * _SERIAL_RING
        self._deadline_s = float("inf")

    @property
    def done(self) -> bool:
        return self.first_unacked >= self.packets

    @property
    def transmissions(self) -> int:
        return self._serial

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def release(self, packets: int) -> None:
        """The application has data for the first `packets` packets now."""
        self.available = min(self.packets, max(self.available, packets))

    def next_packet(self, now_s: float) -> tuple[int, int, bool] | None:
        """(packet, serial number, ask for an acknowledgement), to be sent at once; None when nothing may be sent."""
        room = self.window.packets - len(self._under_way)
        if room < 1 and self._under_way:
            return None
        packet = self._pop_lost()
        if packet is None:
            if self._next >= self.available:
                return None
            packet = self._next
            self._next += 1
        serial = self._serial
        self._serial += 1
        self._under_way[packet] = serial
        self._sent_at[serial % _SERIAL_RING] = now_s
        if len(self._under_way) == 1:
            self._deadline_s = now_s + self._timeout_s()
        # Whoever has to wait for the answer asks for it.
        return packet, serial, room < 2 or (not self._lost and self._next >= self.available)

    def _pop_lost(self) -> int | None:
        while self._lost:
            packet = self._lost.popleft()
            # It may have been acknowledged since.
            if packet >= self.first_unacked and packet not in self._sacked:
                self.retransmissions += 1
                return packet
        return None

    def on_ack(self, cumulative: int, bitmap: int, serial: int, now_s: float) -> None:
        """Everything below `cumulative` has arrived, and cumulative + 1 + i for each bit i; `serial` was the newest.

        `serial` may be the low 32 bits. What contradicts what was sent is ignored.
        """
        if cumulative > self._next or serial >= self._serial:
            return
        acked = self._take_cumulative(cumulative) + self._take_bitmap(cumulative, bitmap)
        if serial > self._largest_echo:
            self._largest_echo = serial
            age = self._serial - serial
            if acked and age < _SERIAL_RING:
                self.window.on_ack(acked, now_s - self._sent_at[serial % _SERIAL_RING], now_s)
            self._find_losses(now_s)
        if acked:
            self._backoff = 1
            self._deadline_s = now_s + self._timeout_s() if self._under_way or self._lost else float("inf")

    def _take_cumulative(self, cumulative: int) -> int:
        acked = 0
        for packet in range(self.first_unacked, cumulative):
            if packet in self._sacked:
                self._sacked.discard(packet)
            else:
                self._under_way.pop(packet, None)
                acked += 1
        self.first_unacked = max(self.first_unacked, cumulative)
        return acked

    def _take_bitmap(self, cumulative: int, bitmap: int) -> int:
        acked = 0
        packet = cumulative + 1
        while bitmap:
            if bitmap & 1 and packet >= self.first_unacked and packet < self._next and packet not in self._sacked:
                self._sacked.add(packet)
                self._under_way.pop(packet, None)
                acked += 1
            bitmap >>= 1
            packet += 1
        return acked

    def _find_losses(self, now_s: float) -> None:
        overtaken = self._largest_echo - _PACKET_THRESHOLD
        found = []
        for packet, serial in self._under_way.items():
            if serial > overtaken:
                # In the order of sending: all later ones are younger.
                break
            found.append(packet)
        if found:
            for packet in found:
                del self._under_way[packet]
            self._lost.extend(found)
            self.window.on_loss(now_s)

    def next_deadline(self) -> float:
        """When `on_timer` wants to be called; infinity when nothing is under way."""
        return self._deadline_s

    def on_timer(self, now_s: float) -> None:
        """Takes everything under way as lost when its time is over. Call at or after `next_deadline`."""
        if now_s < self._deadline_s:
            return
        self.timeouts += 1
        self._lost.extend(self._under_way)
        self._under_way.clear()
        self.window.on_timeout(now_s)
        self._backoff = min(self._backoff * 2, 64)
        self._deadline_s = now_s + self._timeout_s()

    def _timeout_s(self) -> float:
        usual = max(_SHORTEST_TIMEOUT_S, 4 * self.window.smoothed_s)
        return min(_LONGEST_TIMEOUT_S, usual * self._backoff)
