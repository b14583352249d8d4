"""Cables: what is plugged into what, and which way it carries.

A cut cable takes the carrier away at both ends, so switches notice. A silent failure keeps the carrier and loses what
is sent in one direction or both: the kind that only missing beacons show. A lossy cable loses some of it, and only
counters show that.
"""

from dataclasses import dataclass, field

from controller.fabric.model import PortRef

# A switch port, or a host's interface by the host's name.
End = PortRef | str


@dataclass(slots=True, eq=False)
class Cable:
    """`dead_from` holds the ends whose frames get lost silently, `lossy_from` what share of an end's frames does:
    swallowed, or with `breaks_frames` broken, which the receiving port counts as errors."""

    a: End
    b: End
    rate_bps: int
    cut: bool = False
    dead_from: set[End] = field(default_factory=set)
    lossy_from: dict[End, float] = field(default_factory=dict)
    breaks_frames: bool = False

    def other(self, end: End) -> End:
        return self.b if end == self.a else self.a

    def carries(self, sender: End) -> bool:
        """Whether a frame that `sender` sends comes out at the other end."""
        return not self.cut and sender not in self.dead_from

    @property
    def works(self) -> bool:
        """In both directions."""
        return not self.cut and not self.dead_from

    def __str__(self) -> str:
        return f"{self.a} - {self.b}"
