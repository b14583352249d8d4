"""What placement promises about its own answer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Certificate:
    """Loads are seconds: bits placed on a link divided by the bit/s it has left for us.

    `lower_bound_s` is true for every placement of the same flows on the same fabric, if the background that was
    measured keeps its rate; `gap` is max_load_s / lower_bound_s - 1 (0 when nothing is to be placed).
    `completion_bound_s` needs no such condition: at full link rates, the hosts' own links counted too, no run of the
    collectives can finish sooner (`completion`; where only placement has spoken it is the lower bound). `bound` names
    what the lower bound rests on: "leaf uplinks", "leaf pair", "packing", "linear program", ...; empty where that is
    not told.
    """

    max_load_s: float
    lower_bound_s: float
    gap: float
    method: str
    proven_optimal: bool
    completion_bound_s: float
    bound: str = ""
