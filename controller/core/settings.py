"""What the core is told once, at its start."""

from dataclasses import dataclass, field

from controller.fabric.plan import FabricPlan
from controller.qos.classes import QosSettings


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """`beacon_key` authenticates discovery frames and must be random for each run (32 bytes).

    `default_rate_bps` is the capacity of a link about which neither the plan nor the switch says anything true.
    """

    beacon_key: bytes
    plan: FabricPlan | None = None
    qos: QosSettings = field(default_factory=QosSettings)
    default_rate_bps: int = 10_000_000_000
    beacon_period_s: float = 1.0
    statistics_period_s: float = 1.0
    batch_timeout_s: float = 5.0
    # How often the tables of a switch that seems right are read again, to find what others changed.
    audit_period_s: float = 10.0
    # Packets a switch may punt per second for ARP and neighbour discovery.
    punt_packets_per_second: int = 500
