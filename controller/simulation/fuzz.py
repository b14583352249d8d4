"""Fuzzing of the whole control plane: a seed makes a fabric and a list of steps, and every invariant is looked at.

It decides what a seed means and finds the shortest list of steps that still fails. It starts no processes and prints
nothing; `controller.cli.fuzz` does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from pydantic import TypeAdapter, ValidationError

from controller.simulation.fuzz_fabric import FuzzFabric, random_fabric
from controller.simulation.fuzz_run import Failure, run
from controller.simulation.fuzz_steps import Step, random_steps


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything that a run depends on."""

    fabric: FuzzFabric
    steps: tuple[Step, ...]


_FILE = TypeAdapter(Recording)


def recording(seed: int, steps: int) -> Recording:
    """The run that a seed stands for; `steps` leaves the checks between them out of account."""
    random = Random(seed)
    fabric = random_fabric(random)
    return Recording(fabric, random_steps(fabric, random, steps))


def replay(recorded: Recording) -> Failure | None:
    return run(recorded.fabric, recorded.steps)


def save(recorded: Recording, path: Path) -> None:
    path.write_bytes(_FILE.dump_json(recorded, indent=1, exclude_defaults=True))


def load(path: Path) -> Recording:
    """Raises OSError, and ValueError with everything that is wrong in the file."""
    try:
        return _FILE.validate_json(path.read_bytes())
    except ValidationError as error:
        raise ValueError(f"{path} is no recording of heddle fuzz: {error}") from error


def shortest(recorded: Recording, failure: Failure, *, tried: Callable[[], None] = lambda: None) -> Recording:
    """The same failure with as few steps as delta debugging finds; `tried` is called for every run on the way."""

    def fails(steps: Sequence[Step]) -> bool:
        tried()
        found = run(recorded.fabric, steps)
        return found is not None and found.invariant == failure.invariant

    steps = recorded.steps[: failure.steps]
    return Recording(recorded.fabric, ddmin(steps, fails) if fails(steps) else recorded.steps)


def ddmin(steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool]) -> tuple[Step, ...]:
    """A part of `steps` that fails and would not with any single step left out (Zeller and Hildebrandt, "Simplifying
    and Isolating Failure-Inducing Input", IEEE TSE 2002), looking at complements only."""
    kept = tuple(steps)
    parts = 2
    while kept:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            shorter = kept[:start] + kept[start + size :]
            if fails(shorter):
                kept, parts = shorter, max(parts - 1, 2)
                break
        else:
            if size == 1:
                return kept
            parts = min(2 * parts, len(kept))
    return kept
