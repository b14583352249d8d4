"""Every single failure in turn, before it happens: which job loses how much when this link or that switch is gone.

Decides what is tried: each cable between switches, then each switch, dead from the start, with everything placed around
it. What happens in the moment of a failure is another question, which a run with an impairment answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.fabric.model import Role
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.impairments import Impairments, LinkTrouble
from controller.simulation.flows.jobs import Job
from controller.simulation.flows.run import Settings, simulate
from controller.simulation.flows.strategies import Strategy


@dataclass(frozen=True, slots=True)
class Failure:
    """A cable or a switch: its name, its kind ("link", "leaf", "spine" or "core") and the links it takes along."""

    name: str
    kind: str
    links: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`completion_s[job]` with the failure, None where the job cannot finish; `loss[job]` is how much longer it takes
    than without (0.5: half as long again), None likewise."""

    failure: Failure
    completion_s: Mapping[str, float | None]
    loss: Mapping[str, float | None]

    @property
    def worst(self) -> float:
        """The greatest loss of any job; infinite where one cannot finish."""
        return max((float("inf") if each is None else each for each in self.loss.values()), default=0.0)


def failures(fabric: FlowFabric) -> list[Failure]:
    """Every cable, and every switch that has any, by name."""
    found = [Failure(name, "link", links) for name, links in fabric.cables()]
    for dpid, switch in sorted(fabric.view.switches.items()):
        links = tuple(fabric.links_of(dpid))
        if links and switch.role != Role.UNKNOWN:
            found.append(Failure(switch.name, switch.role.value, links))
    return found


def what_if(
    fabric: FlowFabric,
    jobs: Sequence[Job],
    strategy: Strategy,
    seed: int = 0,
    impairments: Impairments | None = None,
    settings: Settings | None = None,
) -> Iterator[Outcome]:
    """One outcome for each failure, in the order of `failures`; `impairments` are there in any case."""
    usual = impairments or Impairments()

    def completions(also: tuple[LinkTrouble, ...]) -> dict[str, float | None]:
        troubled = replace(usual, links=usual.links + also)
        return {j.name: j.completion_s for j in simulate(fabric, jobs, strategy, seed, troubled, settings).jobs}

    healthy = completions(())
    for failure in failures(fabric):
        found = completions((LinkTrouble(failure.links, rate=0.0),))
        loss = {name: _loss(healthy[name], after) for name, after in found.items()}
        yield Outcome(failure, found, loss)


def _loss(before_s: float | None, after_s: float | None) -> float | None:
    if after_s is None or before_s is None:
        return None
    return after_s / before_s - 1 if before_s else 0.0


def ranked(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The worst first; equal ones keep their order."""
    return sorted(outcomes, key=lambda outcome: -outcome.worst)
