"""How a connection's bytes are laid over its queue pairs: in turns of `stripe` packets, fixed beforehand.

Libraries do the same (NCCL sends one message per queue pair in turn), and it has the effect known from practice: the
receiver can use a byte only when all before it are there, so the slowest queue pair holds the whole connection back.
Pure arithmetic on packet numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Striping:
    """`packets` packets over `queue_pairs` queue pairs; packet g goes to queue pair (g // stripe) % queue_pairs."""

    packets: int
    queue_pairs: int
    stripe: int = 4

    def share(self, queue_pair: int, first: int) -> int:
        """How many of the connection's first `first` packets are on `queue_pair`."""
        rounds, rest = divmod(min(first, self.packets), self.stripe * self.queue_pairs)
        return rounds * self.stripe + min(max(rest - queue_pair * self.stripe, 0), self.stripe)

    def position(self, queue_pair: int, packet: int) -> int:
        """The connection's number of the `packet`-th packet of `queue_pair`."""
        turn, within = divmod(packet, self.stripe)
        return (turn * self.queue_pairs + queue_pair) * self.stripe + within

    def in_order(self, received: Sequence[int]) -> int:
        """How many of the connection's packets are in order, when `received[q]` are in order on queue pair q."""
        first_missing = (self.position(q, count) for q, count in enumerate(received))
        return min(self.packets, *first_missing) if self.queue_pairs > 1 else min(self.packets, received[0])
