"""From a simulation file to a fabric with jobs and impairments, or everything in it that does not fit together.

Decides the order of building; jobs are `simulate_jobs`', impairments `simulate_trouble`'s.
"""

import random
from pathlib import Path

from controller.cli.simulate_faults import Faults
from controller.cli.simulate_file import FabricEntry, load_simulation
from controller.cli.simulate_jobs import JobBuilder
from controller.cli.simulate_trouble import impairments_on
from controller.fabric.model import FabricView
from controller.formats import topology_file, workload_files
from controller.formats.problems import FileFormatError
from controller.formats.workload import Workload
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.impairments import Impairments
from controller.simulation.flows.jobs import Job
from controller.simulation.flows.run import Settings
from controller.simulation.flows.shapes import Shape, planned_view, shaped_view, widened


class Simulation:
    """A simulation file on its fabric. Jobs and impairments are made by seed, which chooses what is random in them."""

    def __init__(self, path: Path) -> None:
        """FileFormatError: everything that is wrong with the file, or with the files that it names."""
        self.file, document = load_simulation(path)
        self._path, self._faults = path, Faults(path, document)
        self.fabric = self._flow_fabric()
        self._widened: FlowFabric | None = None
        self._workloads = {
            i: self._workload(entry.workload.file) for i, entry in enumerate(self.file.jobs) if entry.workload
        }
        # Building once finds whatever is wrong for any seed.
        self._check_names()
        self.jobs(self.fabric, seed=0)
        self.impairments(self.fabric, seed=0)
        if self._faults.found:
            raise FileFormatError(self._faults.found)

    def _flow_fabric(self) -> FlowFabric:
        try:
            return FlowFabric(self._view(self.file.fabric))
        except ValueError as error:
            # A sound topology file may describe more than is simulated.
            what, _, cure = str(error).partition("; ")
            self._faults.add(("fabric", "topology"), what, cure)
            raise FileFormatError(self._faults.found) from error

    @property
    def settings(self) -> Settings:
        wire, reaction = self.file.wire, self.file.reaction
        return Settings(
            payload_bytes=wire.payload_bytes,
            header_bytes=wire.header_bytes,
            failover_s=reaction.failover_s,
            replan_s=reaction.replan_s,
            window_packets=wire.window_packets,
        )

    @property
    def remarks(self) -> list[str]:
        """What the reader of the results should know about the files that were read."""
        return [f"{w.source}: {remark}" for w in self._workloads.values() if w for remark in w.remarks]

    def fabric_for(self, *, wider: bool) -> FlowFabric:
        """The fabric, or the one with twice the uplinks."""
        if not wider:
            return self.fabric
        if self._widened is None:
            self._widened = FlowFabric(widened(self.fabric.view))
        return self._widened

    def jobs(self, fabric: FlowFabric, seed: int) -> list[Job]:
        """All jobs, on this fabric's host numbers."""
        builder = JobBuilder(fabric, self._faults)
        made = (
            builder.job(i, entry, self._workloads.get(i), random.Random(f"{seed}/{entry.name}"))
            for i, entry in enumerate(self.file.jobs)
        )
        return [job for job in made if job is not None]

    def impairments(self, fabric: FlowFabric, seed: int) -> Impairments:
        """On this fabric's link numbers."""
        return impairments_on(fabric, self.file.impairments, seed, self._faults)

    def _view(self, entry: FabricEntry) -> FabricView:
        if entry.topology is not None:
            return planned_view(topology_file.load(self._beside(entry.topology)))
        uplink = entry.uplink_rate or entry.rate
        return shaped_view(
            Shape(
                leaves=entry.leaves or 0,
                spines=entry.spines or 0,
                hosts_per_leaf=entry.hosts_per_leaf or 0,
                uplink_bps=uplink,
                host_bps=entry.host_rate or entry.rate,
                links_per_pair=entry.links_per_pair,
                pods=entry.pods,
                cores=entry.cores,
                core_bps=uplink,
            )
        )

    def _beside(self, name: str) -> Path:
        """A file named in the simulation file, relative to it."""
        return self._path.parent / name

    def _workload(self, name: str) -> Workload | None:
        try:
            return workload_files.load(self._beside(name))
        except FileFormatError as error:
            self._faults.found += error.problems
            return None

    def _check_names(self) -> None:
        first: dict[str, int] = {}
        for i, entry in enumerate(self.file.jobs):
            if entry.name in first:
                line = self._faults.line("jobs", first[entry.name], "name")
                what = f'job "{entry.name}" is there twice, first on line {line}'
                self._faults.add(("jobs", i, "name"), what, "give each job a name of its own")
            first.setdefault(entry.name, i)
