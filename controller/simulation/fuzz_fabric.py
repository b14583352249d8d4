"""The fabrics that fuzzing runs on: small, two tiers, and irregular in every way that a real one may be.

A `FuzzFabric` is plain data, so that a failing run can be written down and replayed; what happens on it is decided in
`fuzz_steps`.
"""

from dataclasses import dataclass
from random import Random

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink, PlannedSwitch

_MBIT = 1_000_000
_LEAF_DPID, _SPINE_DPID, _EDGE_DPID = 0x100, 0x200, 0x400


@dataclass(frozen=True, slots=True)
class FuzzFabric:
    """`cables_mbps[leaf][spine]` holds the rate of each parallel cable, in Mbit/s; `hosts[leaf]` counts hosts.

    `seed` is the model network's own: latencies and choices. `spare_rules` and `spare_groups` are how many entries a
    switch has room for beyond what the whole fabric needs without any job; None: without limit. On a `calm` fabric
    only what must not lose a packet ever happens: jobs, sessions, slow switches and controllers come and go.
    """

    seed: int
    cables_mbps: tuple[tuple[tuple[int, ...], ...], ...]
    hosts: tuple[int, ...]
    with_plan: bool = True
    qos: bool = True
    # By switch, leaves first: whether it takes Open vSwitch's extensions.
    nicira: tuple[bool, ...] = ()
    reorders_between_barriers: bool = True
    spare_rules: int | None = None
    spare_groups: int | None = None
    calm: bool = False
    # Rules that others lay are removed by policy.
    removes_foreign: bool = False
    # Links are watched by counters besides beacons.
    heartbeats: bool = False
    # Controllers and sessions come and go far more often.
    restless: bool = False
    # Of each edge switch, the leaves that it hangs on, counted from 1; each has a host.
    edges: tuple[tuple[int, ...], ...] = ()

    @property
    def limited(self) -> bool:
        return self.spare_rules is not None or self.spare_groups is not None

    @property
    def leaves(self) -> tuple[str, ...]:
        return tuple(f"leaf{i}" for i in range(1, len(self.hosts) + 1))

    @property
    def spines(self) -> tuple[str, ...]:
        return tuple(f"spine{j}" for j in range(1, len(self.cables_mbps[0]) + 1))

    @property
    def edge_switches(self) -> tuple[str, ...]:
        return tuple(f"dpu{k}" for k in range(1, len(self.edges) + 1))

    @property
    def switches(self) -> tuple[str, ...]:
        return self.leaves + self.spines + self.edge_switches

    @property
    def host_names(self) -> tuple[str, ...]:
        at_leaves = tuple(f"h{i}{n}" for i, count in enumerate(self.hosts, 1) for n in range(1, count + 1))
        return at_leaves + tuple(f"v{k}" for k in range(1, len(self.edges) + 1))

    def plan(self) -> FabricPlan:
        """The fabric as it is cabled. Raises IndexError when the shapes of `hosts` and `cables_mbps` differ."""
        switches = [PlannedSwitch(n, _LEAF_DPID + i, Role.LEAF) for i, n in enumerate(self.leaves, 1)]
        switches += [PlannedSwitch(n, _SPINE_DPID + j, Role.SPINE) for j, n in enumerate(self.spines, 1)]
        switches += [PlannedSwitch(n, _EDGE_DPID + k, Role.EDGE) for k, n in enumerate(self.edge_switches, 1)]
        used = dict.fromkeys(self.switches, 0)

        def next_port(switch: str) -> int:
            used[switch] += 1
            return used[switch]

        links = [
            PlannedLink(leaf, next_port(leaf), spine, next_port(spine), rate * _MBIT)
            for i, leaf in enumerate(self.leaves)
            for j, spine in enumerate(self.spines)
            for rate in self.cables_mbps[i][j]
        ]
        hosts = [
            PlannedHost(f"h{i}{n}", leaf, next_port(leaf), f"02:00:00:00:{i:02x}:{n:02x}", f"10.0.{i}.{n}", 8, 10**7)
            for i, leaf in enumerate(self.leaves, 1)
            for n in range(1, self.hosts[i - 1] + 1)
        ]
        for k, edge in enumerate(self.edge_switches, 1):
            above = [f"leaf{leaf}" for leaf in self.edges[k - 1]]
            links += [PlannedLink(edge, next_port(edge), leaf, next_port(leaf), 10**7) for leaf in above]
            host = PlannedHost(f"v{k}", edge, next_port(edge), f"02:00:00:01:{k:02x}:01", f"10.1.{k}.1", 8, 10**7)
            hosts.append(host)
        return FabricPlan("fuzz", tuple(switches), tuple(links), tuple(hosts))


def random_fabric(random: Random) -> FuzzFabric:
    """1 to 4 spines, 2 to 5 leaves; most are small, because a fault that needs many switches is rare and costly."""
    leaves = random.choices((2, 3, 4, 5), (8, 6, 2, 1))[0]
    spines = random.choices((1, 2, 3, 4), (3, 8, 4, 1))[0]
    even = random.random() < 0.6
    limited = random.random() < 0.2
    extensions = random.choice(("all", "none", "some"))
    seed = random.randrange(1 << 32)
    return FuzzFabric(
        seed=seed,
        cables_mbps=tuple(tuple(_cables(random, even) for _ in range(spines)) for _ in range(leaves)),
        hosts=tuple(random.choices((1, 2, 3), (6, 4, 1))[0] for _ in range(leaves)),
        with_plan=random.random() < 0.6,
        qos=random.random() < 0.5,
        nicira=tuple(
            extensions == "all" or (extensions == "some" and random.random() < 0.5) for _ in range(leaves + spines)
        ),
        reorders_between_barriers=random.random() < 0.7,
        spare_rules=random.randrange(12) if limited and random.random() < 0.7 else None,
        spare_groups=random.randrange(6) if limited and random.random() < 0.6 else None,
        calm=random.random() < 0.25,
        removes_foreign=random.random() < 0.3,
        heartbeats=seed % 4 == 0,
        restless=seed % 8 == 1,
    )


def _cables(random: Random, even: bool) -> tuple[int, ...]:
    """The cables between one leaf and one spine; an uneven fabric may lack them altogether."""
    if even:
        return (10,) * random.choices((1, 2), (5, 1))[0]
    return tuple(random.choice((10, 10, 20, 40)) for _ in range(random.choices((0, 1, 2, 3), (1, 8, 3, 1))[0]))
