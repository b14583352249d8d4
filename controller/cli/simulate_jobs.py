"""The jobs of a simulation file on a fabric, or what the fabric does not have of them.

Decides which host becomes which rank. What is random in a job follows from the generator that it is given.
"""

import random
from collections import defaultdict
from collections.abc import Sequence

from controller.cli.simulate_faults import Faults
from controller.cli.simulate_file import CollectiveEntry, JobEntry, Order, PatternEntry, PatternKind
from controller.formats.workload import Workload
from controller.formats.yaml_lines import Location
from controller.jobs import announcement
from controller.jobs.collective import Algorithm, Collective
from controller.simulation.flows import patterns
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.jobs import Job, Phase, Transfers, collective_transfers, pattern_transfers
from controller.simulation.flows.layout import USUAL, Layout, Scale


class JobBuilder:
    """Makes jobs on one fabric and notes in `faults` what cannot be made."""

    def __init__(self, fabric: FlowFabric, faults: Faults) -> None:
        self._fabric, self._faults = fabric, faults

    def job(self, i: int, entry: JobEntry, workload: Workload | None, rng: random.Random) -> Job | None:
        """Job `i` of the file, or None when something is wrong with it. `workload` is what its file holds."""
        fabric = self._fabric
        hosts = self._hosts(i, entry, rng)
        if hosts is None:
            return None
        if entry.collective:
            transfers = self._collective(i, entry, entry.collective, hosts)
            phases: tuple[Phase, ...] | None = (Phase(entry.compute_s, transfers),) if transfers is not None else None
        elif entry.pattern:
            ends = self._pattern(i, entry.pattern, [fabric.host_number[h] for h in hosts], rng)
            transfers = pattern_transfers(ends, entry.pattern.bytes, entry.name)
            phases = (Phase(entry.compute_s, transfers),)
        else:
            phases = self._phases(i, entry, workload, hosts)
        if phases is None:
            return None
        numbers = tuple(fabric.host_number[h] for h in hosts)
        return Job(entry.name, phases, numbers, entry.iterations, entry.start_s)

    def _hosts(self, i: int, entry: JobEntry, rng: random.Random) -> list[str] | None:
        """Host names in rank order."""
        fabric = self._fabric
        unknown = [host for host in entry.hosts if host not in fabric.host_number]
        if unknown:
            what = f"no host {', '.join(unknown[:8])} on this fabric"
            self._faults.add(("jobs", i, "hosts"), what, f"hosts are {fabric.hosts[0]} to {fabric.hosts[-1]}")
            return None
        hosts = list(entry.hosts or fabric.hosts)
        together = entry.ranks_per_host
        servers = [hosts[n : n + together] for n in range(0, len(hosts), together)]
        if entry.order == Order.INTERLEAVED:
            servers = _interleaved(servers, fabric)
        elif entry.order == Order.SHUFFLED:
            rng.shuffle(servers)
        ordered = [host for server in servers for host in server]
        wanted = entry.take or len(ordered) - entry.skip
        chosen = ordered[entry.skip : entry.skip + wanted]
        if len(chosen) < max(wanted, 2):
            what = f"{wanted} hosts after the first {entry.skip} are wanted and {len(chosen)} are there"
            self._faults.add(("jobs", i), what, f"the fabric has {len(fabric.hosts)} hosts; take fewer, or enlarge it")
            return None
        return chosen

    def _collective(self, i: int, entry: JobEntry, wanted: CollectiveEntry, hosts: Sequence[str]) -> Transfers | None:
        location: Location = ("jobs", i, "collective")
        if len(hosts) % wanted.groups:
            what = f"{len(hosts)} hosts cannot be divided into {wanted.groups} equal groups"
            self._faults.add((*location, "groups"), what, "change groups, or take another number of hosts")
            return None
        size = len(hosts) // wanted.groups
        algorithm = wanted.algorithm or USUAL.get(wanted.operation, Algorithm.RING)
        groups = [
            Collective(
                entry.name,
                wanted.operation,
                algorithm,
                tuple(hosts[n : n + size]),
                wanted.bytes,
                ranks_per_host=entry.ranks_per_host,
            )
            for n in range(0, len(hosts), size)
        ]
        for problem in announcement.problems(groups[0]):
            self._faults.add(location, problem, "change the collective or its hosts")
            return None
        return collective_transfers(self._fabric, groups, entry.name, entry.pace)

    def _pattern(self, i: int, entry: PatternEntry, hosts: list[int], rng: random.Random) -> list[tuple[int, int]]:
        fabric = self._fabric
        match entry.kind:
            case PatternKind.STRIDE:
                return patterns.stride(hosts, entry.step or 1)
            case PatternKind.PERMUTATION:
                return patterns.permutation(hosts, rng)
            case PatternKind.ALL_TO_ALL:
                return patterns.all_to_all(hosts)
            case PatternKind.STAGGERED:
                shares = (entry.same_leaf or 0.0, entry.same_pod or 0.0)
                return patterns.staggered(hosts, lambda h: fabric.leaf[h], fabric.pod_of, *shares, rng)
            case PatternKind.INCAST:
                target = fabric.host_number.get(entry.target or "")
                if target is None:
                    what = f"no host {entry.target} on this fabric"
                    self._faults.add(
                        ("jobs", i, "pattern", "target"), what, f"hosts are {fabric.hosts[0]} to {fabric.hosts[-1]}"
                    )
                    return []
                return patterns.incast(hosts, target, entry.senders or 1, rng)

    def _phases(
        self, i: int, entry: JobEntry, workload: Workload | None, hosts: Sequence[str]
    ) -> tuple[Phase, ...] | None:
        options = entry.workload
        if workload is None or options is None:
            return None
        layout = Layout(self._fabric, tuple(hosts), workload, entry.ranks_per_host, entry.pace)
        if len(hosts) % layout.whole:
            what = (
                f"{len(hosts)} hosts, and the workload has {workload.tensor} tensor ranks x {workload.expert} expert "
                f"ranks x {workload.pipeline} stages"
            )
            self._faults.add(("jobs", i, "workload"), what, f"take a multiple of {layout.whole} hosts")
            return None
        return layout.phases(entry.name, Scale(options.bytes_factor, options.compute_factor, options.steps or 0))


def _interleaved(servers: list[list[str]], fabric: FlowFabric) -> list[list[str]]:
    """Servers in turn from each leaf, as far as each has any."""
    by_leaf: dict[int, list[list[str]]] = defaultdict(list)
    for server in servers:
        by_leaf[fabric.leaf[fabric.host_number[server[0]]]].append(server)
    tallest = max(len(column) for column in by_leaf.values())
    return [column[row] for row in range(tallest) for column in by_leaf.values() if row < len(column)]
