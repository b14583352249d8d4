"""What waits to be sent to the controller, and what is thrown away when it does not read fast enough.

Packet-ins and port counters come again by themselves, so they are dropped first, oldest first. Everything else
(sessions, port changes, results) is never dropped: when even that piles up, the controller is not reading, and the
link says so by `overflowing` and starts afresh with a full report.
"""

from collections import deque

from heddle.southbound.v1 import link_pb2

_DROPPABLE = frozenset({"packet_in", "port_statistics"})


class Outgoing:
    """A queue of southbound messages in two lanes; certain messages go first and keep their order.

    When a large fabric connects, a beacon comes in at each of its thousands of ports at once.
    """

    def __init__(self, max_droppable: int = 8192, max_certain: int = 65536) -> None:
        self._certain: deque[link_pb2.AgentMessage] = deque()
        self._droppable: deque[link_pb2.AgentMessage] = deque()
        self._max_droppable = max_droppable
        self._max_certain = max_certain
        self.dropped = 0

    def put(self, message: link_pb2.AgentMessage) -> None:
        if message.WhichOneof("body") not in _DROPPABLE:
            self._certain.append(message)
            return
        if len(self._droppable) >= self._max_droppable:
            self._droppable.popleft()
            self.dropped += 1
        self._droppable.append(message)

    def get(self) -> link_pb2.AgentMessage | None:
        """The next message to send, or None."""
        if self._certain:
            return self._certain.popleft()
        return self._droppable.popleft() if self._droppable else None

    def clear(self) -> None:
        self._certain.clear()
        self._droppable.clear()

    @property
    def overflowing(self) -> bool:
        return len(self._certain) > self._max_certain

    def __len__(self) -> int:
        return len(self._certain) + len(self._droppable)
