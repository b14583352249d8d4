"""What the lines about one communicator add up to: places of ranks, rings, connections, trees.

It decides how a ring is put together. Rank 0 prints each ring as a list, cut after 20 ranks; the rest follows from the
connections that every rank prints. A rank connects its ring before its trees, so the first connection it makes in a
channel is the ring's (ncclTransportP2pSetup calls in src/init.cc). A ring is reported only if it visits every rank
exactly once.
"""

from dataclasses import dataclass
from itertools import pairwise

from controller.formats.nccl_lines import (
    MAX_RING_LINE,
    ConnectionLine,
    RankLine,
    RingLine,
    Side,
    Speaker,
    Statement,
    TreeNode,
    TreesLine,
)

# Ring lists are printed in columns of four characters; from four-digit ranks on they overwrite each other.
_MAX_LISTED_RANK = 999


@dataclass(slots=True)
class BuiltConnection:
    transport: str
    src_hca: int | None = None
    dst_hca: int | None = None


class CommunicatorBuilder:
    """Collects; the first statement about a thing wins. All dictionaries of places are keyed by rank."""

    def __init__(self, identity: str | None, n_ranks: int | None) -> None:
        self.identity = identity
        self.n_ranks = n_ranks
        # Ranks that printed a line of their own.
        self.speakers: set[int] = set()
        self.hosts: dict[int, str] = {}
        self.gpus: dict[int, int] = {}
        self.bus_ids: dict[int, str] = {}
        # (channel, source, destination, point-to-point) of connections over the network.
        self.connections: dict[tuple[int, int, int, bool], BuiltConnection] = {}
        self.trees: dict[tuple[int, int], TreeNode] = {}
        self._lists: dict[int, tuple[int, ...]] = {}
        self._next: dict[int, dict[int, int]] = {}
        self._previous: dict[int, dict[int, int]] = {}

    def add(self, speaker: Speaker, statement: Statement) -> None:
        match statement:
            case RankLine():
                gpu = speaker.gpu if statement.gpu is None else statement.gpu
                self._place(statement.rank, speaker.host, gpu)
                if statement.bus_id:
                    self.bus_ids.setdefault(statement.rank, statement.bus_id)
            case RingLine():
                self._lists.setdefault(statement.channel, statement.order)
            case TreesLine():
                for node in statement.nodes:
                    self._place(node.rank, speaker.host, speaker.gpu)
                    self.trees.setdefault((node.channel, node.rank), node)
            case ConnectionLine():
                self._connection(speaker, statement)

    def _place(self, rank: int, host: str | None, gpu: int | None) -> None:
        self.speakers.add(rank)
        if host is not None:
            self.hosts.setdefault(rank, host)
        if gpu is not None:
            self.gpus.setdefault(rank, gpu)

    def _device(self, rank: int, device: str | None) -> None:
        """Brackets hold the PCI bus id up to 2.17, the device's number in the first and the latest versions."""
        if device is None:
            return
        if len(device) >= 4:
            self.bus_ids.setdefault(rank, device)
        elif device.isdecimal():
            self.gpus.setdefault(rank, int(device))

    def _connection(self, speaker: Speaker, line: ConnectionLine) -> None:
        sends = line.side is Side.SEND
        self._place(line.src_rank if sends else line.dst_rank, speaker.host, speaker.gpu)
        self._device(line.src_rank, line.devices[0])
        self._device(line.dst_rank, line.devices[1])
        if not line.point_to_point:
            if sends:
                self._next.setdefault(line.channel, {}).setdefault(line.src_rank, line.dst_rank)
            else:
                self._previous.setdefault(line.channel, {}).setdefault(line.dst_rank, line.src_rank)
        if line.transport.startswith("NET/"):
            key = (line.channel, line.src_rank, line.dst_rank, line.point_to_point)
            built = self.connections.setdefault(key, BuiltConnection(line.transport))
            if sends and built.src_hca is None:
                built.src_hca = line.hca
            elif not sends and built.dst_hca is None:
                built.dst_hca = line.hca

    def known_size(self) -> int | None:
        """The number of ranks, if a line says it or an uncut ring list shows it."""
        if self.n_ranks is not None:
            return self.n_ranks
        sizes = {len(order) for order in self._lists.values()}
        size = sizes.pop() if len(sizes) == 1 else 0
        return size if 0 < size < MAX_RING_LINE else None

    def rings(self) -> tuple[dict[int, tuple[int, ...]], tuple[int, ...]]:
        """(complete rings by channel, channels whose ring is not complete)."""
        complete: dict[int, tuple[int, ...]] = {}
        incomplete: list[int] = []
        n_ranks = self.known_size()
        for channel in sorted(self._lists.keys() | self._next.keys() | self._previous.keys()):
            order = self._ring(channel, n_ranks) if n_ranks else None
            if order is None:
                incomplete.append(channel)
            else:
                complete[channel] = order
        return complete, tuple(incomplete)

    def _ring(self, channel: int, n_ranks: int) -> tuple[int, ...] | None:
        listed = self._list(channel, n_ranks)
        if len(listed) == n_ranks:
            return listed
        following = self._followers(channel)
        following.update(pairwise(listed))
        order = [0]
        seen = {0}
        while len(order) < n_ranks:
            rank = following.get(order[-1])
            if rank is None or rank in seen or rank >= n_ranks:
                return None
            order.append(rank)
            seen.add(rank)
        # The last rank must lead back to the first, unless nothing is known about it.
        return tuple(order) if following.get(order[-1], 0) == 0 else None

    def _list(self, channel: int, n_ranks: int) -> tuple[int, ...]:
        """What rank 0 listed; empty if it cannot be right, because it is torn or its columns ran over."""
        listed = self._lists.get(channel, ())
        sound = n_ranks <= _MAX_LISTED_RANK + 1 and len(listed) == min(n_ranks, MAX_RING_LINE)
        return listed if sound and len(set(listed)) == len(listed) and max(listed) < n_ranks else ()

    def _followers(self, channel: int) -> dict[int, int]:
        """Who comes after whom, as senders and receivers say; a sender's own word counts more."""
        received = {src: dst for dst, src in self._previous.get(channel, {}).items()}
        return received | self._next.get(channel, {})
