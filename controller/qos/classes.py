"""Traffic classes: how a packet is recognised, which mark it bears in the fabric, which queue it waits in.

The numbers are configuration, because operators differ: CNPs are seen with DSCP 48 and with 46, and 26 for RoCE is
common but not universal. A queue id is only a name for a queue; what is served first follows `priority`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class TrafficClass(StrEnum):
    CONTROL = "control"  # CNPs and other small, urgent messages
    COLLECTIVE = "collective"  # RoCEv2 data and acknowledgements
    BEST_EFFORT = "best-effort"


@dataclass(frozen=True, slots=True)
class ClassSettings:
    """`share` is the fraction of a port's rate the class is guaranteed; a lower `priority` borrows first."""

    traffic_class: TrafficClass
    queue_id: int
    dscp: int
    share: float
    priority: int


@dataclass(frozen=True, slots=True)
class QosSettings:
    """`control_dscps` mark control traffic when it arrives on UDP 4791."""

    classes: tuple[ClassSettings, ...] = (
        ClassSettings(TrafficClass.CONTROL, queue_id=2, dscp=48, share=0.05, priority=0),
        ClassSettings(TrafficClass.COLLECTIVE, queue_id=1, dscp=26, share=0.85, priority=1),
        ClassSettings(TrafficClass.BEST_EFFORT, queue_id=0, dscp=0, share=0.10, priority=2),
    )
    control_dscps: tuple[int, ...] = (48, 46)
    enabled: bool = True

    def with_shares(self, shares: Mapping[TrafficClass, float]) -> "QosSettings":
        """The same with other guarantees; classes that are not named keep theirs."""
        classes = tuple(replace(c, share=shares.get(c.traffic_class, c.share)) for c in self.classes)
        return replace(self, classes=classes)

    def of(self, traffic_class: TrafficClass) -> ClassSettings:
        return next(c for c in self.classes if c.traffic_class == traffic_class)
