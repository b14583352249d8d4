"""What goes wrong in a run: links that fail, are slow or lose packets, slow hosts, a controller that is away.

Decides what is left of each link at a time, what of that the controller knows, and how long everything computes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.maxmin import FloatArray

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class LinkTrouble:
    """From `start_s` to `end_s` of every link in `links` (both directions' numbers) the share `rate` is left, and each
    packet gets over it with probability 1 - `loss`. `seen`: switches and controller learn of it."""

    links: tuple[int, ...]
    start_s: float = 0.0
    end_s: float = NEVER
    rate: float = 1.0
    loss: float = 0.0
    seen: bool = True


@dataclass(frozen=True, slots=True)
class HostTrouble:
    """The host computes `slowdown` times as long."""

    host: int
    slowdown: float
    start_s: float = 0.0
    end_s: float = NEVER


@dataclass(frozen=True, slots=True)
class Outage:
    """Meanwhile no controller places anything."""

    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Impairments:
    links: tuple[LinkTrouble, ...] = ()
    hosts: tuple[HostTrouble, ...] = ()
    outages: tuple[Outage, ...] = ()

    def changes_s(self) -> list[float]:
        """When links change, after the start."""
        times = {t for trouble in self.links for t in (trouble.start_s, trouble.end_s)}
        return sorted(t for t in times if 0 < t < NEVER)

    def controller_back_s(self, now_s: float) -> float:
        """`now_s`, or the end of the outage that it falls into."""
        for outage in sorted(self.outages, key=lambda o: o.start_s):
            if outage.start_s <= now_s < outage.end_s:
                now_s = outage.end_s
        return now_s

    def slowdown(self, hosts: Iterable[int], now_s: float) -> float:
        """How many times as long the slowest of the hosts computes."""
        wanted = set(hosts)
        return max((h.slowdown for h in self.hosts if h.host in wanted and h.start_s <= now_s < h.end_s), default=1.0)


@dataclass(frozen=True, slots=True)
class LinkState:
    """By number of the links that exist by themselves: what is left, what the controller knows of that, and which part
    of what is sent arrives."""

    factor: FloatArray
    known: FloatArray
    arriving: FloatArray


def links_at(fabric: FlowFabric, troubles: Sequence[LinkTrouble], now_s: float, window_packets: int) -> LinkState:
    """The state of all links at `now_s`."""
    factor, known, arriving = (np.ones(fabric.own_links) for _ in range(3))
    for trouble in troubles:
        if trouble.start_s <= now_s < trouble.end_s:
            links = list(trouble.links)
            factor[links] *= trouble.rate
            arriving[links] *= efficiency(trouble.loss, window_packets)
            if trouble.seen:
                # What is known to lose packets is treated as it is by the controller: not used while others live.
                known[links] *= 0.0 if trouble.loss else trouble.rate
    return LinkState(factor, known, arriving)


def efficiency(loss: float, window_packets: int) -> float:
    """Which part of the packets sent is of use when each is lost with probability `loss`.

    Go-back-N sends up to `window_packets` again after every loss, selective repeat (window 1) the lost one alone:
    (1 - p) / (1 - p + p N), the textbook result for a window of N (Bertsekas and Gallager, 2.4).
    """
    return (1 - loss) / (1 - loss + loss * window_packets) if loss < 1 else 0.0
