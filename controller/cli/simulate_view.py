"""How results of `heddle simulate` are shown: tables for people, plain values for JSON, progress on standard error."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from controller.cli import output
from controller.cli.simulate_build import Simulation
from controller.cli.units import rate_text, time_text
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.strategies import STRATEGIES, Strategy
from controller.simulation.flows.summary import RunSummary
from controller.simulation.flows.what_if import Outcome

Found = Mapping[str, Sequence[RunSummary]]

# Failures that are shown one by one; those that cost nothing are only counted.
_SHOWN = 24
_NOTHING = 0.0005


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Shows how many of `total` runs are done; call what it yields with the name of each that is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=output.stderr(), transient=True) as bar:
        task = bar.add_task("simulating", total=total)
        yield lambda name: bar.update(task, advance=1, description=name)


# --- strategies side by side -----------------------------------------------------------------------------


def show(simulation: Simulation, found: Found) -> None:
    """One row for each strategy and job."""
    console = output.stdout()
    console.print(_heading(simulation), markup=False)
    table = Table(box=None)
    for column in ("strategy", "job", "completion", "worst", "to ideal", "fullest link", "max/mean", "not finished"):
        table.add_column(column, justify="left" if column in ("strategy", "job") else "right")
    for name, runs in found.items():
        for job in simulation.file.jobs:
            table.add_row(*_cells(name, job.name, runs, found.get("ideal")))
    console.print(table)
    seeds = len(next(iter(found.values())))
    console.print(
        f"{seeds} seed{'s' if seeds > 1 else ''}: mean and worst completion of those that finished; fullest link: the "
        "mean over seeds of the seconds that it carries at full rate",
        markup=False,
    )


def _heading(simulation: Simulation) -> str:
    return f"{simulation.file.name}: {shape_text(simulation.fabric)}"


def shape_text(fabric: FlowFabric) -> str:
    """ "4 leaves x 4 spines, 16 hosts, links of 8 Mb/s"."""
    roles = [switch.role.value for switch in fabric.view.switches.values()]
    counted = [(role, roles.count(role)) for role in ("leaf", "spine", "core") if role in roles]
    plural = {"leaf": "leaves"}
    tiers = " x ".join(f"{n} {role if n == 1 else plural.get(role, role + 's')}" for role, n in counted)
    rates = sorted(set(fabric.between_bps.values()))
    links = rate_text(rates[0]) if len(rates) == 1 else f"{rate_text(rates[0])} to {rate_text(rates[-1])}"
    return f"{tiers}, {len(fabric.hosts):,} hosts, links of {links}"


def _cells(name: str, job: str, runs: Sequence[RunSummary], ideal: Sequence[RunSummary] | None) -> list[str]:
    times = _times(runs, job)
    cells = [STRATEGIES[name].title, job]
    cells += [time_text(statistics.mean(times)), time_text(max(times))] if times else ["", ""]
    best = _times(ideal or (), job)
    cells.append(f"{statistics.mean(times) / statistics.mean(best):.2f}" if times and best else "")
    paths = not STRATEGIES[name].ideal
    cells.append(time_text(statistics.mean(run.fullest_s for run in runs)) if paths else "")
    cells.append(f"{statistics.mean(run.max_over_mean for run in runs):.2f}" if paths else "")
    missing = len(runs) - len(times)
    cells.append(f"{missing} of {len(runs)}" if missing else "")
    return cells


def _times(runs: Sequence[RunSummary], job: str) -> list[float]:
    return [t for run in runs if (t := run.jobs[job].completion_s) is not None]


def as_plain(simulation: Simulation, found: Found) -> dict[str, Any]:
    """As docs/simulate.md describes it."""
    return {
        "name": simulation.file.name,
        "fabric": _fabric_plain(simulation.fabric),
        "strategies": {
            name: {
                "title": STRATEGIES[name].title,
                "queue_pairs": STRATEGIES[name].queue_pairs,
                "jobs": {job.name: _job_plain(job.name, runs, found.get("ideal")) for job in simulation.file.jobs},
                "runs": [run.plain() for run in runs],
            }
            for name, runs in found.items()
        },
    }


def _fabric_plain(fabric: FlowFabric) -> dict[str, Any]:
    return {
        "switches": len(fabric.view.switches),
        "links": len(fabric.view.links),
        "hosts": len(fabric.hosts),
        "text": shape_text(fabric),
    }


def _job_plain(job: str, runs: Sequence[RunSummary], ideal: Sequence[RunSummary] | None) -> dict[str, Any]:
    times, best = _times(runs, job), _times(ideal or (), job)
    return {
        "mean_s": statistics.mean(times) if times else None,
        "worst_s": max(times) if times else None,
        "to_ideal": statistics.mean(times) / statistics.mean(best) if times and best else None,
        "not_finished": len(runs) - len(times),
    }


# --- one failure after the other -------------------------------------------------------------------------


def show_what_if(simulation: Simulation, strategy: Strategy, seed: int, outcomes: Sequence[Outcome]) -> None:
    """What stops a job, then what slows one down, the worst first, then how many cost nothing."""
    console = output.stdout()
    console.print(f"{_heading(simulation)}; {strategy.title}, seed {seed}", markup=False)
    for job in simulation.file.jobs:
        stops = [outcome.failure.name for outcome in outcomes if outcome.loss[job.name] is None]
        if stops:
            console.print(f"{job.name} does not finish without {_listed(stops)}", markup=False)
    costly = [outcome for outcome in outcomes if _slowest(outcome) > _NOTHING]
    costly.sort(key=lambda outcome: -_slowest(outcome))
    table = Table(box=None)
    for column in ("if this fails", "kind", *(f"{job.name} takes" for job in simulation.file.jobs)):
        table.add_column(column, justify="left" if column in ("if this fails", "kind") else "right")
    for outcome in costly[:_SHOWN]:
        table.add_row(outcome.failure.name, outcome.failure.kind, *_losses(simulation, outcome))
    if costly:
        console.print(table)
    if len(costly) > _SHOWN:
        console.print(f"and {len(costly) - _SHOWN} more that cost something; --json lists all")
    free = sum(outcome.worst <= _NOTHING for outcome in outcomes)
    console.print(f"{free} of {len(outcomes)} single failures cost no job anything")


def _slowest(outcome: Outcome) -> float:
    """The greatest loss of the jobs that finish."""
    return max((loss for loss in outcome.loss.values() if loss is not None), default=0.0)


def _listed(names: Sequence[str]) -> str:
    """ "leaf1, leaf2 or leaf3"; long lists are cut and counted."""
    shown = list(names[:_SHOWN]) + ([f"{len(names) - _SHOWN} others"] if len(names) > _SHOWN else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _losses(simulation: Simulation, outcome: Outcome) -> list[str]:
    cells = []
    for job in simulation.file.jobs:
        loss, time_s = outcome.loss[job.name], outcome.completion_s[job.name]
        if loss is None or time_s is None:
            cells.append("does not finish")
        else:
            cells.append(f"{time_text(time_s)} ({loss:+.1%})" if abs(loss) > _NOTHING else "as before")
    return cells


def what_if_plain(simulation: Simulation, strategy: Strategy, seed: int, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """As docs/simulate.md describes it: failures with the worst first."""
    return {
        "name": simulation.file.name,
        "fabric": _fabric_plain(simulation.fabric),
        "strategy": strategy.name,
        "seed": seed,
        "failures": [
            {
                "name": outcome.failure.name,
                "kind": outcome.failure.kind,
                "jobs": {
                    name: {"completion_s": time_s, "loss": outcome.loss[name]}
                    for name, time_s in outcome.completion_s.items()
                },
            }
            for outcome in outcomes
        ],
    }
