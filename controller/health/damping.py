"""How much a link's past counts against it: a penalty that grows with every flap and decays by itself.

It decides when a link is to be held and when it may come back; what being held means is `link_states`'. The scheme is
that of BGP route flap damping (RFC 2439) and of routers' interface dampening, with one difference. An outage during
which the switch at one end started a new session was a reboot: it is nobody's loose plug, everybody knows that it is
over, and holding its links back would only prolong it. So it is forgiven by half when the link works again, and only a
switch that reboots again and again is damped.
"""

from dataclasses import dataclass
from math import log2

_FLAP, _REBOOT = 1.0, 0.5


@dataclass(frozen=True, slots=True)
class DampingSettings:
    """A flap costs 1. Defaults: two flaps in half a minute hold a link for 42 s; no link is held for more than 73 s
    after its last flap."""

    half_life_s: float = 30.0
    hold_above: float = 1.5
    release_below: float = 0.75
    most: float = 4.0
    # A burst of bounces is one outage: a link that was lost for a moment is not believed before this.
    shortest_outage_s: float = 1.0


@dataclass(slots=True)
class Penalty:
    """Of one link. Times are the core's seconds."""

    value: float = 0.0
    at_s: float = 0.0
    # Since the controller started.
    flaps: int = 0

    def now(self, settings: DampingSettings, now_s: float) -> float:
        return float(self.value * 0.5 ** ((now_s - self.at_s) / settings.half_life_s))

    def charge(self, settings: DampingSettings, now_s: float) -> bool:
        """The link was lost, for whatever reason; whether it is to be held now."""
        self._set(min(settings.most, self.now(settings, now_s) + _FLAP), now_s)
        self.flaps += 1
        return self.value > settings.hold_above

    def forgive(self, settings: DampingSettings, now_s: float, flaps: int) -> bool:
        """The latest so many flaps were one reboot; whether the link need not be held any more."""
        self._set(max(0.0, self.now(settings, now_s) - flaps * _FLAP) + _REBOOT, now_s)
        self.flaps -= flaps
        return self.value <= settings.hold_above

    def _set(self, value: float, now_s: float) -> None:
        self.value, self.at_s = value, now_s

    def released_at_s(self, settings: DampingSettings) -> float:
        """When a held link comes back if nothing more happens."""
        if self.value <= settings.release_below:
            return self.at_s
        return self.at_s + settings.half_life_s * log2(self.value / settings.release_below)
