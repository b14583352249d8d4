"""How long things take in a model network. Seconds; a pair is a range from which every instance is drawn."""

from dataclasses import dataclass

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Timing:
    # One way between a switch and the core. Never reordered within a session, freely between switches.
    control_latency_s: Range = (0.0002, 0.005)
    # What a switch needs for one modification, and for reading out all its tables.
    modification_s: float = 0.00002
    table_read_s: float = 0.001
    cable_latency_s: Range = (0.000001, 0.00001)
    # From a port's loss of carrier (or its return) to the switch's acting on it.
    carrier_s: Range = (0.001, 0.01)
    # From start, or from losing its session, to a switch's new session.
    connect_s: Range = (0.05, 1.0)
    boot_s: Range = (1.0, 3.0)
