"""What the core is told once, at its start."""

from dataclasses import dataclass, field

from controller.fabric.plan import FabricPlan
from controller.health.bfd import BfdSettings
from controller.health.damping import DampingSettings
from controller.pipeline.foreign import ForeignPolicy
from controller.placement.effort import MANY_FLOWS
from controller.qos.classes import QosSettings


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """`beacon_key` authenticates discovery frames and must be random for each run (32 bytes).

    `default_rate_bps` is the capacity of a link about which neither the plan nor the switch says anything true.
    """

    beacon_key: bytes
    plan: FabricPlan | None = None
    qos: QosSettings = field(default_factory=QosSettings)
    foreign: ForeignPolicy = field(default_factory=ForeignPolicy)
    default_rate_bps: int = 10_000_000_000
    beacon_period_s: float = 1.0
    damping: DampingSettings = field(default_factory=DampingSettings)
    bfd: BfdSettings = field(default_factory=BfdSettings)
    statistics_period_s: float = 1.0
    # Links are watched by counters so often (`health.heartbeats`), as far as `counters_per_s` port counters in all
    # allow; 0: by beacons alone.
    heartbeat_period_s: float = 0.0
    counters_per_s: float = 10_000.0
    # A switch that has not answered a batch of n changes after `batch_timeout_s` + n * `change_timeout_s` is suspect:
    # flows go round it. Open vSwitch answers in milliseconds; hardware takes some 200 changes a second at worst.
    batch_timeout_s: float = 2.0
    change_timeout_s: float = 0.005
    # How long old rules stay after traffic was switched over, for packets that are still on the old path: queues of
    # 1,000 packets of 4 KiB at 1 Gbit/s drain in 33 ms.
    drain_s: float = 0.1
    # How long fabric and jobs must have been still before live flows are moved for a better plan. Moving reorders RDMA:
    # a link that flaps, or a job that is announced in pieces, must not do it again and again.
    calm_s: float = 1.0
    # With more flows than this a better plan is looked for aside, since that takes longer than others should wait.
    aside_above_flows: int = MANY_FLOWS
    # How often the tables of a switch that seems right are read again, to find what others changed.
    audit_period_s: float = 10.0
    # Packets a switch may punt per second for ARP and neighbour discovery.
    punt_packets_per_second: int = 500
