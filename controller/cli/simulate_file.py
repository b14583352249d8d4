"""The form of a simulation file: fabric, jobs, strategies, seeds and impairments, in YAML or JSON.

It decides which keys exist and what each may hold by itself. What it means on a fabric (hosts, links, transfers) is
decided in `simulate_build`, which also says what does not fit there. Described in docs/simulate.md.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from controller.cli.yaml_model import Entry, load_model, refuse, size_or_number
from controller.formats.topology_schema import Rate
from controller.formats.yaml_lines import Document
from controller.jobs.collective import Algorithm, Operation
from controller.simulation.flows.strategies import STRATEGIES
from controller.simulation.flows.wave import Pace


def _seeds(value: Any) -> Any:
    """A number stands for as many seeds from 1 on."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return list(range(1, min(value, _MAX_SEEDS + 1) + 1)) if whole else value


def _strategy(value: str) -> str:
    if value not in STRATEGIES:
        raise refuse("strategy", f"'{value}' is no strategy; known are {', '.join(STRATEGIES)}")
    return value


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


_MAX_SEEDS = 1_000
_MAX_SIDE = 4_096

Size = Annotated[int, BeforeValidator(size_or_number), Field(ge=1, lt=2**63)]
Seconds = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1e9)]
Share = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1)]
Side = Annotated[int, Field(ge=1, le=_MAX_SIDE)]


class FabricEntry(Entry):
    """Either a topology file, or dimensions; with `pods` and `cores` of three tiers."""

    topology: str | None = Field(default=None, examples=["../leafspine-4x4.yaml"])
    leaves: Side | None = Field(default=None, examples=["16"])
    spines: Side | None = Field(default=None, examples=["16"])
    hosts_per_leaf: Side | None = Field(default=None, examples=["16"])
    links_per_pair: int = Field(default=1, ge=1, le=16, examples=["2"])
    pods: Side = Field(default=1, examples=["4"])
    cores: int = Field(default=0, ge=0, le=_MAX_SIDE, examples=["16"])
    rate: Rate = Field(default=400_000_000_000, examples=["400G"])
    uplink_rate: Rate | None = Field(default=None, examples=["800G"])
    host_rate: Rate | None = Field(default=None, examples=["400G"])

    @model_validator(mode="after")
    def _one_way(self) -> "FabricEntry":
        sides = (self.leaves, self.spines, self.hosts_per_leaf)
        if self.topology is not None and any(side is not None for side in sides):
            raise refuse("fabric", "a topology file and dimensions are both given; keep one of them")
        if self.topology is None and any(side is None for side in sides):
            raise refuse("fabric", "give topology: FILE, or leaves, spines and hosts_per_leaf")
        if (self.pods > 1) != (self.cores > 0):
            raise refuse("fabric", "several pods need cores above each spine, and cores need several pods")
        return self


class CollectiveEntry(Entry):
    """`groups` equal parts of the ranks each run one; `channels` rings in rank order."""

    operation: Operation = Field(strict=False, examples=["all-reduce"])
    algorithm: Algorithm | None = Field(default=None, strict=False, examples=["ring"])
    bytes: Size = Field(examples=["1GiB"])
    groups: int = Field(default=1, ge=1, le=65_536, examples=["8"])


class PatternKind(StrEnum):
    STRIDE = "stride"
    PERMUTATION = "permutation"
    STAGGERED = "staggered"
    INCAST = "incast"
    ALL_TO_ALL = "all-to-all"


class PatternEntry(Entry):
    """Independent transfers, all at once. `step` is stride's, `same_leaf` and `same_pod` are staggered's
    probabilities, `target` and `senders` incast's."""

    kind: PatternKind = Field(strict=False, examples=["permutation"])
    bytes: Size = Field(examples=["64MiB"])
    step: int | None = Field(default=None, ge=1, le=65_536, examples=["4"])
    same_leaf: Share | None = Field(default=None, examples=["0.5"])
    same_pod: Share | None = Field(default=None, examples=["0.3"])
    target: str | None = Field(default=None, examples=["h1_1"])
    senders: int | None = Field(default=None, ge=1, le=65_536, examples=["8"])

    @model_validator(mode="after")
    def _own_keys(self) -> "PatternEntry":
        wanted = {
            PatternKind.STRIDE: {"step"},
            PatternKind.STAGGERED: {"same_leaf", "same_pod"},
            PatternKind.INCAST: {"target", "senders"},
        }.get(self.kind, set())
        given = {
            key for key in ("step", "same_leaf", "same_pod", "target", "senders") if getattr(self, key) is not None
        }
        if wrong := sorted(given ^ wanted):
            text = f"{self.kind} takes {' and '.join(sorted(wanted)) or 'only bytes'}: see to {', '.join(wrong)}"
            raise refuse("pattern", text)
        if (self.same_leaf or 0.0) + (self.same_pod or 0.0) > 1:
            raise refuse("pattern", "same_leaf and same_pod are more than 1 together")
        return self


class WorkloadEntry(Entry):
    """A workload file; `bytes_factor` scales every size in it, `steps` keeps only the first so many."""

    file: str = Field(examples=["gpt-175b.txt"])
    bytes_factor: float = Field(default=1.0, gt=0, le=1e6, examples=["0.5"])
    compute_factor: float = Field(default=1.0, ge=0, le=1e6, examples=["1.0"])
    steps: int | None = Field(default=None, ge=1, examples=["100"])


class Order(StrEnum):
    """In which order hosts become ranks: as the fabric has them, in turn from each leaf, or at random by seed."""

    GIVEN = "given"
    INTERLEAVED = "interleaved"
    SHUFFLED = "shuffled"


class JobEntry(Entry):
    """One of `collective`, `pattern` and `workload`."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$", examples=["train-1"])
    hosts: list[str] = Field(default=[], examples=["[h1_1, h2_1]"])
    take: int | None = Field(default=None, ge=2, le=65_536, examples=["64"])
    skip: int = Field(default=0, ge=0, le=65_536, examples=["64"])
    order: Order = Field(default=Order.GIVEN, strict=False, examples=["shuffled"])
    ranks_per_host: int = Field(default=1, ge=1, le=1_024, examples=["8"])
    start_s: Seconds = Field(default=0.0, examples=["0.5"])
    iterations: int = Field(default=1, ge=1, le=100_000, examples=["3"])
    compute_s: Seconds = Field(default=0.0, examples=["0.05"])
    pace: Pace | None = Field(default=None, strict=False, examples=["rank"])
    collective: CollectiveEntry | None = Field(
        default=None, examples=["{operation: all-reduce, algorithm: ring, bytes: 1GiB}"]
    )
    pattern: PatternEntry | None = Field(default=None, examples=["{kind: permutation, bytes: 64MiB}"])
    workload: WorkloadEntry | None = Field(default=None, examples=["{file: gpt-175b.txt}"])

    @model_validator(mode="after")
    def _one_kind(self) -> "JobEntry":
        kinds = [key for key in ("collective", "pattern", "workload") if getattr(self, key) is not None]
        if len(kinds) != 1:
            said = " and ".join(kinds) if kinds else "none of them"
            raise refuse("job", f"a job has one of collective, pattern and workload; {said} given")
        return self


class ImpairmentEntry(Entry):
    """One of `link`, `switch`, `host`, `links` and `controller`, and what is wrong with it from `at_s` to `until_s`."""

    link: str | None = Field(default=None, examples=["leaf1-spine2"])
    switch: str | None = Field(default=None, examples=["spine2"])
    host: str | None = Field(default=None, examples=["h1_1"])
    links: Share | None = Field(default=None, examples=["0.05"])
    controller: bool | None = Field(default=None, examples=["true"])
    failed: bool = Field(default=False, examples=["true"])
    rate: Share | None = Field(default=None, examples=["0.5"])
    loss: Share | None = Field(default=None, examples=["0.001"])
    compute: float | None = Field(default=None, ge=1, le=1e6, examples=["1.5"])
    at_s: Seconds = Field(default=0.0, examples=["0.5"])
    until_s: Seconds | None = Field(default=None, examples=["1.5"])
    seen: bool | None = Field(default=None, examples=["false"])

    @model_validator(mode="after")
    def _sensible(self) -> "ImpairmentEntry":
        places = [key for key in ("link", "switch", "host", "links", "controller") if getattr(self, key) is not None]
        if len(places) != 1:
            raise refuse("impairment", "say one place: link, switch, host, links (a share of all) or controller")
        what = [key for key in ("failed", "rate", "loss", "compute") if getattr(self, key) not in (None, False)]
        allowed = {"host": {"failed", "rate", "loss", "compute"}, "controller": {"failed"}}
        possible = allowed.get(places[0], {"failed", "rate", "loss"})
        if len(what) != 1 or what[0] not in possible:
            raise refuse("impairment", f"say one thing that is wrong with a {places[0]}: {', '.join(sorted(possible))}")
        if self.until_s is not None and self.until_s <= self.at_s:
            raise refuse("impairment", f"until_s {self.until_s:g} is not after at_s {self.at_s:g}")
        return self


class WireEntry(Entry):
    """Packets: payload and headers; how many are sent again after a loss (1: selective repeat)."""

    payload_bytes: int = Field(default=4096, ge=1, le=65_536, examples=["4096"])
    header_bytes: int = Field(default=58, ge=0, le=65_536, examples=["58"])
    window_packets: int = Field(default=1, ge=1, le=65_536, examples=["64"])


class ReactionEntry(Entry):
    """How long switches take to pass over a dead link, and the controller to place anew."""

    failover_s: Seconds = Field(default=0.01, examples=["0.01"])
    replan_s: Seconds = Field(default=0.1, examples=["0.1"])


class SimulationFile(Entry):
    """One simulation: every strategy with every seed."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", examples=["permutation"])
    fabric: FabricEntry = Field(examples=["{leaves: 4, spines: 4, hosts_per_leaf: 4}"])
    jobs: list[JobEntry] = Field(
        min_length=1, max_length=1_000, examples=["[{name: a, pattern: {kind: permutation, bytes: 64MiB}}]"]
    )
    strategies: list[Annotated[str, BeforeValidator(lambda v: _strategy(v) if isinstance(v, str) else v)]] = Field(
        default=["ecmp-1", "ecmp-4", "ecmp-16", "hedera-first-fit", "hedera-annealing", "heddle", "ideal"],
        min_length=1,
        examples=["[ecmp-1, heddle, ideal]"],
    )
    seeds: Annotated[list[int], BeforeValidator(_seeds), Field(min_length=1, max_length=_MAX_SEEDS)] = Field(
        default=[1], examples=["5"]
    )
    impairments: list[ImpairmentEntry] = Field(
        default=[], max_length=1_000, examples=["[{link: leaf1-spine1, failed: true, at_s: 0.5}]"]
    )
    wire: WireEntry = Field(default=WireEntry(), examples=["{payload_bytes: 4096, header_bytes: 58}"])
    reaction: ReactionEntry = Field(default=ReactionEntry(), examples=["{failover_s: 0.01, replan_s: 0.1}"])


def load_simulation(path: Path) -> tuple[SimulationFile, Document]:
    """The file's values and their lines. FileFormatError lists everything that is wrong with it."""
    return load_model(path, SimulationFile)
