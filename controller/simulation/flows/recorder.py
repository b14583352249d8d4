"""What links carried over time, in a fixed number of bins that widen as the run gets longer.

Decides nothing. What a link carries in an interval is spread evenly over it, so a bin never counts more than a link's
rate allows.
"""

import numpy as np

from controller.simulation.flows.maxmin import FloatArray

BINS = 240


class Recorder:
    """Bits by bin and watched link; `links` are the numbers of those watched."""

    def __init__(self, links: FloatArray | list[int] | range, bins: int = BINS, first_bin_s: float = 1e-6) -> None:
        self.links = np.asarray(links, dtype=np.int64)
        self.bin_s = first_bin_s
        self.bits = np.zeros((bins, len(self.links)))

    def add(self, start_s: float, span_s: float, carried_bits: FloatArray) -> None:
        """From `start_s` on each link carried `carried_bits[link]` within `span_s` seconds."""
        if not len(self.links) or span_s <= 0:
            return
        bins = len(self.bits)
        while start_s + span_s > self.bin_s * bins:
            folded = self.bits[0::2] + self.bits[1::2]
            self.bits = np.concatenate((folded, np.zeros_like(folded)))
            self.bin_s *= 2
        edges = np.arange(bins + 1) * self.bin_s
        first, last = int(start_s / self.bin_s), min(int((start_s + span_s) / self.bin_s), bins - 1)
        low = np.maximum(edges[first : last + 1], start_s)
        high = np.minimum(edges[first + 1 : last + 2], start_s + span_s)
        share = np.maximum(high - low, 0.0) / span_s
        self.bits[first : last + 1] += share[:, np.newaxis] * carried_bits[self.links]

    def rates_bps(self) -> FloatArray:
        """Shape (bins, watched links): the mean rate in each bin."""
        return self.bits / self.bin_s
