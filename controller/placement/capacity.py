"""How much of a link is left for announced flows.

Decides only what background counts; the background itself is measured in `health`.
"""

import numpy as np
import numpy.typing as npt

# Discovery, ARP and monitoring never rest. Below this share of a link they are noise: counting them would make equal
# links look different, and would move flows (which reorders RDMA) for nothing.
NEGLIGIBLE_SHARE = 0.01

# A link that others fill is still usable: fair queueing and congestion control make room. Never less than this share.
LEAST_SHARE = 0.05


def effective_bps(capacity_bps: npt.ArrayLike, background_bps: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """bit/s that placement counts on, link by link: capacity less background, with both limits above; at least 1."""
    capacity, background = np.asarray(capacity_bps, dtype=np.float64), np.asarray(background_bps, dtype=np.float64)
    left = np.maximum(capacity - background, LEAST_SHARE * capacity)
    return np.maximum(np.where(background < NEGLIGIBLE_SHARE * capacity, capacity, left), 1.0)
