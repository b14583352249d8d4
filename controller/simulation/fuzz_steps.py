"""What happens to a fuzzed fabric: steps as plain data, made from a seed.

Every step names what it does in words of its own, not by what came before, so that any part of a list of steps is a
list of steps: that is what makes shrinking a failing list possible. How a step is carried out is decided in `fuzz_run`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from controller.jobs.announcement import problems
from controller.jobs.collective import Algorithm, Collective, Operation, QueuePairPorts
from controller.jobs.edges import edges
from controller.simulation.fuzz_fabric import FuzzFabric
from controller.simulation.fuzz_gray import SHARES

_JOBS = ("a", "b", "c", "d")


class What(StrEnum):
    """What `where` and `number` of a step mean is said for each."""

    ANNOUNCE = "announce"  # job, the seed of its collective
    WITHDRAW = "withdraw"  # job
    CUT = "cut"  # -, cable number
    RESTORE = "restore"  # -, cable number
    FAIL_SILENTLY = "fail-silently"  # "a", "b" or "both" (which end's frames get lost), cable number
    # "a", "b" or "both" (which end's frames), cable number plus the share that gets lost, where links are watched by
    # counters and are used
    LOSSY = "lossy"
    SWAP = "swap"  # the number of another cable, cable number: their spine ends are exchanged
    REBOOT = "reboot"  # switch, seconds without power
    POWER_OFF = "power-off"  # switch
    POWER_ON = "power-on"  # switch
    LOSE_SESSION = "lose-session"  # switch, seconds until it reconnects
    FREEZE = "freeze"  # switch, seconds
    SLOW_DOWN = "slow-down"  # switch, factor
    AGENT_CRASH = "agent-crash"  # "all", "leaves" or "spines" (whose sessions it held), seconds until they reconnect
    CONTROLLER_CRASH = "controller-crash"  # -, seconds until the next one runs
    WIPE = "wipe"  # switch: somebody else deletes everything
    ALTER = "alter"  # switch, the seed of what somebody else changes
    ADD_FOREIGN = "add-foreign"  # switch, the seed of a rule that is not ours
    FAIL_BUNDLES = "fail-bundles"  # switch, how many of its next bundles cannot be committed
    FILL_DISK = "fill-disk"  # -, seconds for which nothing can be written down
    HOSTS_SPEAK = "hosts-speak"  # every host sends a gratuitous ARP
    DRAIN = "drain"  # switch, or "" and a cable number: an operator takes it out of use
    UNDRAIN = "undrain"  # the same: and gives it back
    CHECK = "check"  # waits for quiet, then looks at every invariant


@dataclass(frozen=True, slots=True)
class Step:
    """Happens `wait_s` seconds after the step before it."""

    what: What
    where: str = ""
    number: float = 0
    wait_s: float = 0.0

    def describe(self, fabric: FuzzFabric) -> str:
        """One line for people."""
        after = f"+{self.wait_s:g} s "
        if self.what is What.ANNOUNCE:
            return f"{after}announce {collective_of(fabric, self.where, int(self.number))}"
        if self.what in (What.DRAIN, What.UNDRAIN):
            return f"{after}{self.what} {self.where or cable_names(fabric)[int(self.number)]}"
        if self.what in (What.CUT, What.RESTORE, What.FAIL_SILENTLY, What.LOSSY):
            cable = cable_names(fabric)[int(self.number)]
            share = f"{100 * (self.number % 1):g} % of " if self.what is What.LOSSY else ""
            return f"{after}{self.what} {cable}" + (f" ({share}frames from end {self.where})" if self.where else "")
        if self.what is What.SWAP:
            one, other = (cable_names(fabric)[int(n)] for n in (self.number, self.where))
            return f"{after}exchange the second ends of {one} and {other}"
        return " ".join([f"{after}{self.what}", *filter(None, (self.where, f"{self.number:g}" if self.number else ""))])


def cable_names(fabric: FuzzFabric) -> tuple[str, ...]:
    """Every cable in the plan's order: those between switches first, then the hosts'."""
    plan = fabric.plan()
    between = [f"{link.a}:{link.a_port} - {link.b}:{link.b_port}" for link in plan.links]
    return (*between, *(f"{host.switch}:{host.port} - {host.name}" for host in plan.hosts))


def collective_of(fabric: FuzzFabric, job: str, seed: int) -> Collective:
    """A collective over some of the fabric's hosts; now and then one that must be refused."""
    random = Random(seed)
    names = list(fabric.host_names)
    random.shuffle(names)
    ranks = names[: random.randint(2, len(names))]
    operation, algorithm = random.choice(
        [
            (Operation.ALL_REDUCE, Algorithm.RING),
            (Operation.ALL_TO_ALL, Algorithm.DIRECT),
            (Operation.SEND_RECV, Algorithm.DIRECT),
            (Operation.BROADCAST, Algorithm.RING),
        ]
    )
    if operation is Operation.SEND_RECV:
        ranks = ranks[:2]
    size = random.choice((1, 1000, 1_000_000, 16_000_000, 2**40))
    bad = random.random()
    if bad < 0.03:
        ranks = ranks[:1]
    elif bad < 0.06:
        size = 0
    elif bad < 0.09:
        ranks = [*ranks, "nobody"]
    made = Collective(job, operation, algorithm, tuple(ranks), size, queue_pairs=random.choice((1, 1, 4)))
    if random.random() < 0.4 and not problems(made):
        ports = tuple(
            QueuePairPorts(a, b, tuple(random.sample(range(49152, 49160), random.randint(1, 3))))
            for a, b in sorted({(e.src_rank, e.dst_rank) for e in edges(made)})
            if random.random() < 0.7
        )
        made = Collective(job, operation, algorithm, tuple(ranks), size, queue_pairs=made.queue_pairs, ports=ports)
    return made


_WEIGHTS = {
    What.ANNOUNCE: 24,
    What.WITHDRAW: 12,
    What.CUT: 9,
    What.RESTORE: 14,
    What.FAIL_SILENTLY: 5,
    What.LOSSY: 4,
    What.SWAP: 2,
    What.REBOOT: 4,
    What.POWER_OFF: 2,
    What.POWER_ON: 4,
    What.LOSE_SESSION: 5,
    What.FREEZE: 3,
    What.SLOW_DOWN: 3,
    What.AGENT_CRASH: 2,
    What.CONTROLLER_CRASH: 2,
    What.WIPE: 2,
    What.ALTER: 4,
    What.ADD_FOREIGN: 2,
    What.FAIL_BUNDLES: 3,
    What.FILL_DISK: 2,
    What.HOSTS_SPEAK: 3,
    What.DRAIN: 5,
    What.UNDRAIN: 7,
}
_RESTLESS = _WEIGHTS | {
    What.CONTROLLER_CRASH: 12,
    What.FREEZE: 9,
    What.LOSE_SESSION: 9,
    What.SWAP: 5,
    What.FILL_DISK: 4,
    What.FAIL_BUNDLES: 5,
}
_CALM = frozenset(
    {
        *(What.ANNOUNCE, What.WITHDRAW, What.LOSE_SESSION, What.FREEZE, What.SLOW_DOWN),
        *(What.AGENT_CRASH, What.CONTROLLER_CRASH, What.ADD_FOREIGN, What.FAIL_BUNDLES),
        *(What.FILL_DISK, What.HOSTS_SPEAK, What.DRAIN, What.UNDRAIN, What.LOSSY),
    }
)
# Of what is drained; most switches are leaves, whose drain is refused.
_SWITCH_SHARE = 0.4
# Waiting for quiet costs far more than a step does; troubles that meet one another are what is looked for.
_STEPS_PER_CHECK = 20


def random_steps(fabric: FuzzFabric, random: Random, count: int) -> tuple[Step, ...]:
    """`count` steps besides the checks between them."""
    maker = _Maker(fabric, random)
    steps: list[Step] = []
    until_check = 0
    for _ in range(count):
        if not until_check:
            steps.append(Step(What.CHECK))
            until_check = random.randint(1, 2 * _STEPS_PER_CHECK)
        steps.append(maker.step())
        until_check -= 1
    return (*steps, Step(What.CHECK))


class _Maker:
    """Remembers what is broken only to mend about as often as it breaks."""

    def __init__(self, fabric: FuzzFabric, random: Random) -> None:
        self._fabric = fabric
        self._random = random
        self._cables = len(cable_names(fabric))
        self._hosts = len(fabric.host_names)
        self._broken: list[int] = []
        self._off: list[str] = []
        self._drained: list[tuple[str, float]] = []
        # A limited switch may have no room for what others add.
        possible = [
            w
            for w in _WEIGHTS
            if (w in _CALM or not fabric.calm)
            and not (fabric.limited and w is What.ADD_FOREIGN)
            and (fabric.heartbeats or w is not What.LOSSY)
        ]
        self._possible: Sequence[What] = possible
        weights = _RESTLESS if fabric.restless else _WEIGHTS
        self._weights = [weights[w] for w in possible]

    def step(self) -> Step:
        what = self._random.choices(self._possible, self._weights)[0]
        where, number = self._about(what)
        wait = self._random.choices((0.0, 0.003, 0.05, 0.7, 6.0), (4, 4, 3, 3, 1))[0]
        return Step(what, where, number, round(wait * self._random.uniform(0.5, 1.5), 4))

    def _about(self, what: What) -> tuple[str, float]:
        random = self._random
        switch = random.choice(self._fabric.switches)
        match what:
            case What.ANNOUNCE | What.WITHDRAW:
                # Few collectives per job, so that the same one is announced again now and then.
                job = random.choice(_JOBS)
                return job, float(_JOBS.index(job) * 4 + random.randrange(4)) if what is What.ANNOUNCE else 0
            case What.CUT | What.FAIL_SILENTLY:
                number = self._a_cable()
                self._broken.append(number)
                return (random.choice(("a", "b", "both")) if what is What.FAIL_SILENTLY else ""), number
            case What.LOSSY:
                number = random.randrange(max(1, self._cables - self._hosts))
                self._broken.append(number)
                return random.choice(("a", "b", "both")), number + random.choice(SHARES)
            case What.RESTORE:
                number = random.choice(self._broken) if self._broken else self._a_cable()
                self._broken = [n for n in self._broken if n != number]
                return "", number
            case What.SWAP:
                return str(self._a_cable()), self._a_cable()
            case What.POWER_OFF:
                self._off.append(switch)
                return switch, 0
            case What.POWER_ON:
                return (self._off.pop() if self._off else switch), 0
            case What.AGENT_CRASH:
                return random.choice(("all", "leaves", "spines")), round(random.uniform(0.1, 8), 3)
            case What.CONTROLLER_CRASH:
                return "", round(random.uniform(0.0, 6), 3)
            case What.ALTER | What.ADD_FOREIGN:
                return switch, random.randrange(1 << 16)
            case What.FAIL_BUNDLES:
                return switch, random.randint(1, 3)
            case What.FILL_DISK:
                return "", round(random.choice((0.1, 3.0, 12.0)) * random.uniform(0.5, 1.5), 3)
            case What.SLOW_DOWN:
                return switch, random.choice((1, 10, 100))
            case What.DRAIN:
                drained = (switch, 0.0) if random.random() < _SWITCH_SHARE else ("", float(self._a_cable()))
                self._drained.append(drained)
                return drained
            case What.UNDRAIN:
                return self._drained.pop(random.randrange(len(self._drained))) if self._drained else (switch, 0)
            case What.HOSTS_SPEAK | What.CHECK:
                return "", 0
            case What.WIPE:
                return switch, 0
            case What.REBOOT | What.LOSE_SESSION | What.FREEZE:
                return switch, round(random.choice((0.1, 1.0, 12.0)) * random.uniform(0.5, 1.5), 3)

    def _a_cable(self) -> int:
        """Mostly one between switches: a host with a single port is just gone."""
        between = self._cables - self._hosts
        if between and self._random.random() < 0.9:
            return self._random.randrange(between)
        return self._random.randrange(self._cables)
