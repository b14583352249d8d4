"""`heddle fuzz`: runs many seeds of the simulated control plane, shows how far it is, and shrinks the first failure.

What a seed does and what must hold is decided in `controller.simulation.fuzz`.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import (
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from controller.cli import output
from controller.cli.errors import ExitCode, bad_input
from controller.cli.options import JsonOption

if TYPE_CHECKING:
    from controller.simulation.fuzz import Recording
    from controller.simulation.fuzz_run import Failure

_FEWEST_EVENTS = 1


@dataclass(frozen=True, slots=True)
class _Failed:
    seed: int
    invariant: str
    details: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one process has done: `seeds` runs with `events` events, and the failures among them."""

    seeds: int
    events: int
    failed: tuple[_Failed, ...]


def fuzz(
    seeds: Annotated[int, typer.Option("--seeds", "-n", min=1, help="How many seeds to run.")] = 100,
    first: Annotated[int, typer.Option("--first", min=0, help="The first seed.")] = 0,
    events: Annotated[int, typer.Option("--events", min=_FEWEST_EVENTS, help="Events in each run.")] = 200,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Run this one seed only, and shrink it.")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Processes (default: one per core).")] = None,
    replay: Annotated[Path | None, typer.Option("--replay", help="Run a recording instead of seeds.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Where the shortest failing recording goes.")] = None,
    shrink: Annotated[bool, typer.Option(help="Look for the shortest list of events that fails.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Fuzz the control plane in simulation: cuts, reboots, crashes, lost sessions, full tables, jobs that come and go.

    After every quiet point all invariants are looked at. A failing seed is shrunk to the shortest list of events that
    still fails, and written to a file that --replay takes.
    """
    if replay is not None:
        _replay(replay, as_json)
        return
    chosen = range(seed, seed + 1) if seed is not None else range(first, first + seeds)
    start_s = time.monotonic()
    with output.libraries_aside():
        done = _run_all(chosen, events, jobs or os.cpu_count() or 1)
    elapsed_s = time.monotonic() - start_s
    failed = sorted(done.failed, key=lambda f: f.seed)
    if as_json:
        summary = {"seeds": done.seeds, "events": done.events, "seconds": round(elapsed_s, 1)}
        output.print_json(summary | {"failed": [asdict(failure) for failure in failed]})
    else:
        output.say(
            f"{done.seeds:,} seeds, {done.events:,} events, {elapsed_s:.0f} s "
            f"({done.seeds / max(elapsed_s, 0.001):.1f} seeds/s): {len(failed)} failed"
        )
        for failure in failed:
            output.say(f"seed {failure.seed}: {failure.invariant}: {failure.details[0]}")
    if failed:
        _shrink(failed[0].seed, events, save or Path(f"fuzz-{failed[0].seed}.json"), shrink)
        raise typer.Exit(ExitCode.FAILED)


def _run_all(seeds: range, events: int, jobs: int) -> _Batch:
    """All seeds, spread over processes; seeds are handed out one by one, because they differ much in length."""
    counted = 0
    failed: list[_Failed] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=output.stderr(), transient=True) as progress:
        task = progress.add_task("seeds", total=len(seeds))
        for batch in _batches(seeds, events, jobs):
            counted += batch.events
            failed += batch.failed
            progress.update(task, advance=1, description=f"seeds ({len(failed)} failed)")
    return _Batch(len(seeds), counted, tuple(failed))


def _batches(seeds: range, events: int, jobs: int) -> Iterator[_Batch]:
    if jobs == 1 or len(seeds) == 1:
        yield from (run_seed(seed, events) for seed in seeds)
        return
    # A fork of a process that has threads may hang; the progress bar has one.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        remaining = iter(seeds)
        running: set[Future[_Batch]] = set()
        while True:
            for seed in remaining:
                running.add(pool.submit(run_seed, seed, events))
                if len(running) >= 2 * jobs:
                    break
            if not running:
                return
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in finished)


def run_seed(seed: int, events: int) -> _Batch:
    """One seed, in whichever process."""
    from controller.simulation.fuzz import recording, replay

    recorded = recording(seed, events)
    failure = replay(recorded)
    failed = () if failure is None else (_Failed(seed, failure.invariant, failure.details),)
    return _Batch(1, events, failed)


def _shrink(seed: int, events: int, path: Path, shrink: bool) -> None:
    from controller.simulation.fuzz import recording, replay, save, shortest

    recorded = recording(seed, events)
    failure = replay(recorded)
    if failure is None:
        output.say(f"seed {seed} passes when it is run again: its run depends on something besides the seed")
        return
    if shrink:
        with output.stderr().status(f"seed {seed}: shrinking") as status:
            runs = 0

            def tried() -> None:
                nonlocal runs
                runs += 1
                status.update(f"seed {seed}: shrinking, {runs} runs")

            recorded = shortest(recorded, failure, tried=tried)
        failure = replay(recorded) or failure
    save(recorded, path)
    _show(recorded, failure)
    output.say(f"written to {path}; run it again with: heddle fuzz --replay {path}")


def _replay(path: Path, as_json: bool) -> None:
    from controller.simulation.fuzz import load, replay

    try:
        recorded = load(path)
    except (OSError, ValueError) as error:
        raise bad_input(str(error)) from error
    with output.libraries_aside():
        failure = replay(recorded)
    if as_json:
        output.print_json({"failure": None if failure is None else asdict(failure)})
    elif failure is None:
        output.say(f"{path}: every invariant holds")
    else:
        _show(recorded, failure)
    if failure is not None:
        raise typer.Exit(ExitCode.FAILED)


def _show(recorded: "Recording", failure: "Failure") -> None:
    output.say(str(recorded.fabric))
    for step in recorded.steps[: failure.steps]:
        output.say(f"  {step.describe(recorded.fabric)}")
    output.say(f"broken: {failure.invariant}")
    for detail in failure.details:
        output.say(f"  {detail}")
