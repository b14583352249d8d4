"""How much of every link is promised to live flows: bookkeeping in whole bit/s, so that sums are exact.

Free capacity is never negative: what does not fit is refused, unless over-commitment is asked for, and then it is
counted apart. The promised always equal the sum of the live flows'. Decides only what fits; who asks, and what happens
to a flow that loses its link, is decided elsewhere.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from controller.fabric.model import Path, PortRef


class DoesNotFit(ValueError):
    """One sentence that names every link that has too little left."""


class Reservations:
    """By link direction (sending port): capacity, and what live flows have reserved of it."""

    def __init__(self, capacity_bps: Mapping[PortRef, int]) -> None:
        """ValueError for a negative capacity."""
        if wrong := [str(port) for port, capacity in capacity_bps.items() if capacity < 0]:
            raise ValueError(f"negative capacity_bps of {', '.join(sorted(wrong))}; a link has 0 or more")
        self._capacity = dict(capacity_bps)
        self._reserved: dict[PortRef, int] = defaultdict(int)
        self._flows: dict[str, tuple[Path, int]] = {}
        self._crossing: dict[PortRef, set[str]] = defaultdict(set)

    def reserve(self, flow_id: str, path: Path, rate_bps: int, overcommit: bool = False) -> None:
        """Reserves `rate_bps` on every link of `path`, in place of what the flow had before; all or nothing.

        Raises DoesNotFit, ValueError for a negative rate, and KeyError for a link that is not there (or has failed).
        """
        if rate_bps < 0:
            raise ValueError(f"{flow_id}: {rate_bps} bit/s; a reservation is 0 or more")
        if missing := [str(port) for port in path if port not in self._capacity]:
            raise KeyError(f"{flow_id}: no link {', '.join(missing)}; reserve on links that are up")
        held = self._flows.get(flow_id)
        mine = dict.fromkeys(held[0], held[1]) if held else {}
        full = [port for port in path if rate_bps - mine.get(port, 0) > self._left(port)]
        if full and not overcommit:
            words = ", ".join(f"{port} has {self._left(port) + mine.get(port, 0)}" for port in full)
            raise DoesNotFit(f"{flow_id}: {rate_bps} bit/s do not fit: {words} bit/s left")
        self.release(flow_id)
        self._flows[flow_id] = (path, rate_bps)
        for port in path:
            self._reserved[port] += rate_bps
            self._crossing[port].add(flow_id)

    def release(self, flow_id: str) -> None:
        """Gives back what the flow had; nothing where it has none, so that a withdrawal may come twice."""
        path, rate_bps = self._flows.pop(flow_id, ((), 0))
        for port in path:
            self._reserved[port] -= rate_bps
            self._crossing[port].discard(flow_id)

    def fail(self, ports: Iterable[PortRef]) -> tuple[str, ...]:
        """Link directions are gone: the flows that crossed them, which have nothing reserved any more, sorted."""
        lost: set[str] = set()
        for port in ports:
            lost |= self._crossing[port]
            self._capacity.pop(port, None)
        for flow_id in lost:
            self.release(flow_id)
        return tuple(sorted(lost))

    def restore(self, capacity_bps: Mapping[PortRef, int]) -> None:
        """Link directions are back, or have another capacity now; what is reserved on them stays."""
        self._capacity.update(capacity_bps)

    def flows(self) -> Mapping[str, tuple[Path, int]]:
        """Live flows: path and bit/s."""
        return dict(self._flows)

    def reserved_bps(self, port: PortRef) -> int:
        return self._reserved.get(port, 0)

    def free_bps(self, port: PortRef) -> int:
        """Never negative; 0 on links that are gone."""
        return max(self._left(port), 0)

    def overcommitted_bps(self, port: PortRef) -> int:
        """What is reserved beyond the link's capacity."""
        return max(-self._left(port), 0)

    def _left(self, port: PortRef) -> int:
        return self._capacity.get(port, 0) - self.reserved_bps(port)
