"""The receiving half of a reliable queue pair, as pure code: what is new, what is in order, when to acknowledge."""

from roce_headers import SACK_PACKETS

_BITMAP_MASK = (1 << SACK_PACKETS) - 1


class ReceiverQueuePair:
    """`in_order` packets from the first on have arrived without a hole.

    An acknowledgement is due after `ack_every` packets, and at once after a packet out of order, a duplicate,
    one that asks for it, and the last; for the rest the caller keeps a timer.
    """

    __slots__ = (
        "_ack_every",
        "_beyond",
        "_waiting",
        "ack_due",
        "duplicates",
        "in_order",
        "newest",
        "out_of_order",
        "packets",
    )

    def __init__(self, packets: int, ack_every: int) -> None:
        self.packets = packets
        self.in_order = 0
        self.duplicates = 0
        self.out_of_order = 0
        # Serial number of the newest transmission seen.
        self.newest = 0
        self.ack_due = False
        self._ack_every = ack_every
        self._waiting = 0
        # Bit i: packet in_order + i has arrived. Bit 0 is never set between calls.
        self._beyond = 0

    @property
    def done(self) -> bool:
        return self.in_order >= self.packets

    @property
    def ack_waiting(self) -> bool:
        """Whether a packet is unacknowledged (an acknowledgement need not be due yet)."""
        return self._waiting > 0

    @property
    def bitmap(self) -> int:
        """Bit i: packet in_order + 1 + i has arrived; as much as an acknowledgement holds."""
        return self._beyond >> 1 & _BITMAP_MASK

    def on_data(self, packet: int, serial: int, *, ack_request: bool = False) -> int:
        """Takes packet number `packet`; returns how many packets became in order by it (0 for a duplicate)."""
        if serial > self.newest:
            self.newest = serial
        self._waiting += 1
        offset = packet - self.in_order
        if packet >= self.packets or offset < 0 or self._beyond >> offset & 1:
            self.duplicates += 1
            self.ack_due = True
            return 0
        if offset == 0 and not self._beyond:
            # The usual case, kept short.
            self.in_order += 1
            advanced = 1
        else:
            advanced = self._insert(offset)
        if ack_request or self._beyond or self._waiting >= self._ack_every or self.in_order >= self.packets:
            self.ack_due = True
        return advanced

    def _insert(self, offset: int) -> int:
        self.out_of_order += offset > 0
        self._beyond |= 1 << offset
        # The number of ones at the low end.
        advanced = (~self._beyond & (self._beyond + 1)).bit_length() - 1
        self._beyond >>= advanced
        self.in_order += advanced
        return advanced

    def on_ack_sent(self) -> None:
        self._waiting = 0
        self.ack_due = False
