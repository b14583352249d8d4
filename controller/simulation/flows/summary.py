"""What one run says in figures: completion times, how full links were, how long transfers took.

Decides what is counted: only links between switches, since a host's own link is no strategy's to choose. A link's load
is the seconds that it would take to carry all its bits at its full rate.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.maxmin import FloatArray
from controller.simulation.flows.run import JobResult, RunResult

# Links whose course is told one by one.
_BUSIEST = 8
_PERCENTILES = {"p50": 50, "p90": 90, "p99": 99, "max": 100}


@dataclass(frozen=True, slots=True)
class Series:
    """The course of the links between switches, in bins of `bin_s`: the fullest one in each bin, the mean of all, and
    by name those links that carry most in all; as shares of nominal rates. Empty where there are too many links to
    watch."""

    bin_s: float
    fullest: tuple[float, ...]
    mean: tuple[float, ...]
    links: Mapping[str, tuple[float, ...]]

    def plain(self) -> dict[str, object]:
        def rounded(shares: tuple[float, ...]) -> list[float]:
            return [round(share, 4) for share in shares]

        return {
            "bin_s": self.bin_s,
            "fullest": rounded(self.fullest),
            "mean": rounded(self.mean),
            "links": {name: rounded(shares) for name, shares in self.links.items()},
        }


@dataclass(frozen=True, slots=True)
class RunSummary:
    """`load_s` and `transfer_s` are sorted. `max_over_mean` compares the fullest link between switches with the mean of
    all of them. `stranded` are flows that no path served at the end."""

    seed: int
    duration_s: float
    jobs: Mapping[str, JobResult]
    fullest_link: str
    load_s: FloatArray
    transfer_s: FloatArray
    max_over_mean: float
    series: Series
    stranded: tuple[str, ...]
    events: int

    @property
    def fullest_s(self) -> float:
        return float(self.load_s[-1]) if len(self.load_s) else 0.0

    def plain(self) -> dict[str, object]:
        """As JSON has it, without the long arrays."""
        return {
            "seed": self.seed,
            "duration_s": self.duration_s,
            "jobs": {name: job_plain(job) for name, job in self.jobs.items()},
            "fullest_link": self.fullest_link,
            "link_load_s": percentiles(self.load_s),
            "max_over_mean": self.max_over_mean,
            "transfer_s": percentiles(self.transfer_s),
            "series": self.series.plain(),
            "stranded": list(self.stranded),
            "events": self.events,
        }


def job_plain(job: JobResult) -> dict[str, object]:
    return {
        "completion_s": job.completion_s,
        "iteration_s": job.iteration_s,
        "sending_s": job.sending_s,
        "computing_s": job.computing_s,
    }


def percentiles(values: FloatArray) -> dict[str, float]:
    return {name: float(np.percentile(values, share)) if len(values) else 0.0 for name, share in _PERCENTILES.items()}


def summarise(fabric: FlowFabric, result: RunResult, seed: int) -> RunSummary:
    """The figures of a run on `fabric`."""
    between = slice(0, fabric.ports)
    load_s = result.link_bits[between] / fabric.capacity_bps()[between]
    mean = float(load_s.mean()) if len(load_s) else 0.0
    finished = result.transfer_s[np.isfinite(result.transfer_s)]
    return RunSummary(
        seed=seed,
        duration_s=result.duration_s,
        jobs={job.name: job for job in result.jobs},
        fullest_link=fabric.link_name(int(np.argmax(load_s))) if len(load_s) else "",
        load_s=np.sort(load_s),
        transfer_s=np.sort(finished),
        max_over_mean=float(load_s.max()) / mean if mean else 1.0,
        series=_series(fabric, result),
        stranded=result.stranded,
        events=result.events,
    )


def _series(fabric: FlowFabric, result: RunResult) -> Series:
    if not len(result.watched) or not fabric.ports:
        return Series(result.bin_s, (), (), {})
    used = max(int(np.ceil(result.duration_s / result.bin_s)), 1)
    share = result.bins_bps[:used, : fabric.ports] / fabric.capacity_bps()[: fabric.ports]
    busiest = np.argsort(-share.sum(axis=0), kind="stable")[:_BUSIEST].tolist()
    links = {fabric.link_name(link): tuple(share[:, link].tolist()) for link in busiest}
    return Series(result.bin_s, tuple(share.max(axis=1).tolist()), tuple(share.mean(axis=1).tolist()), links)
