"""`heddle simulate FILE`: the same jobs under several strategies on a simulated fabric, or under every single failure.

Decides the order of runs and where results go. What a file means is `simulate_build`'s, what a run does is
`controller.simulation.flows`', what is shown is `simulate_view`'s.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import output
from controller.cli.errors import bad_input
from controller.cli.options import JsonOption

if TYPE_CHECKING:
    from controller.cli.simulate_build import Simulation
    from controller.simulation.flows.strategies import Strategy
    from controller.simulation.flows.summary import RunSummary
    from controller.simulation.flows.what_if import Outcome

# Called with what is being done.
_Tell = Callable[[str], None]

# What is asked when a failure is tried, unless the command line says otherwise: the product itself.
_WHAT_IF_STRATEGY = "heddle"


def simulate(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Simulation file; ready ones: topologies/simulations/*.yaml.")
    ],
    what_if: Annotated[bool, typer.Option("--what-if", help="Every single link and switch failure in turn.")] = False,
    strategy: Annotated[
        list[str] | None,
        typer.Option("--strategy", "-s", help="Instead of the file's; may be repeated.", show_default=False),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Seeds 1 to this, instead of the file's.", show_default=False)
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw link loads, completion times and the course of time.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate jobs on a fabric, flow by flow: ECMP, Hedera, Heddle and ideal spraying with the same seeds.

    The file says fabric, jobs, strategies and impairments (docs/simulate.md). Nothing is sent to any controller.
    """
    from controller.cli.simulate_build import Simulation

    chosen = _strategies(strategy)
    if what_if and plots is not None:
        raise bad_input("--what-if draws nothing; leave --plots out")
    simulation = Simulation(file)
    for remark in simulation.remarks:
        output.say(remark)
    if what_if:
        _what_if(simulation, chosen[0] if chosen else _strategies([_WHAT_IF_STRATEGY])[0], as_json)
    else:
        _compare(simulation, chosen, list(range(1, seeds + 1)) if seeds else simulation.file.seeds, plots, as_json)


def _strategies(names: Sequence[str] | None) -> list["Strategy"]:
    from controller.simulation.flows.strategies import STRATEGIES

    unknown = [name for name in names or () if name not in STRATEGIES]
    if unknown:
        raise bad_input(f"no strategy {', '.join(unknown)}; known are {', '.join(STRATEGIES)}")
    return [STRATEGIES[name] for name in names or ()]


def _compare(
    simulation: "Simulation",
    strategies: list["Strategy"],
    seeds: Sequence[int],
    plots: Path | None,
    as_json: bool,
) -> None:
    from controller.cli import simulate_view

    wanted = strategies or _strategies(simulation.file.strategies)
    found: dict[str, list[RunSummary]] = {}
    with output.libraries_aside(), simulate_view.progress(len(wanted) * len(seeds)) as advance:
        for each in wanted:
            found[each.name] = [_run(simulation, each, seed, advance) for seed in seeds]
    if as_json:
        output.print_json(simulate_view.as_plain(simulation, found))
    else:
        simulate_view.show(simulation, found)
    if plots is not None:
        from controller.cli.simulate_plots import draw

        for drawn in draw(plots, simulation.file.name, found):
            output.say(f"drawn: {drawn}")


def _run(simulation: "Simulation", strategy: "Strategy", seed: int, advance: _Tell) -> "RunSummary":
    from controller.simulation.flows.run import simulate as run
    from controller.simulation.flows.summary import summarise

    fabric = simulation.fabric_for(wider=strategy.wider)
    jobs, troubles = simulation.jobs(fabric, seed), simulation.impairments(fabric, seed)
    summary = summarise(fabric, run(fabric, jobs, strategy, seed, troubles, simulation.settings), seed)
    advance(f"{strategy.title}, seed {seed}")
    return summary


def _what_if(simulation: "Simulation", strategy: "Strategy", as_json: bool) -> None:
    from controller.cli import simulate_view
    from controller.simulation.flows.what_if import failures, ranked, what_if

    seed = simulation.file.seeds[0]
    fabric = simulation.fabric_for(wider=strategy.wider)
    jobs, troubles = simulation.jobs(fabric, seed), simulation.impairments(fabric, seed)
    outcomes: list[Outcome] = []
    with output.libraries_aside(), simulate_view.progress(len(failures(fabric))) as advance:
        for outcome in what_if(fabric, jobs, strategy, seed, troubles, simulation.settings):
            outcomes.append(outcome)
            advance(outcome.failure.name)
    if as_json:
        output.print_json(simulate_view.what_if_plain(simulation, strategy, seed, ranked(outcomes)))
    else:
        simulate_view.show_what_if(simulation, strategy, seed, ranked(outcomes))
