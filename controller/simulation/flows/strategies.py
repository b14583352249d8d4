"""The strategies that are compared: who gives a flow its paths, and what happens when a link dies.

None is written here: they are `placement`'s and its baselines'. Decides which of them there are, over how many queue
pairs each spreads a flow, and which of them a controller carries out, so that they rest while it is away.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from controller.fabric.model import Path
from controller.placement import baselines, hedera
from controller.placement.moves import replan
from controller.placement.place import place
from controller.placement.problem import Demand, Problem
from controller.placement.splitting import place_split

# Flow -> a path for each of its equal parts.
Paths = dict[str, tuple[Path, ...]]
# (problem, seed, flow -> host it goes to) -> paths.
Placer = Callable[[Problem, int, Mapping[str, str]], Paths]


@dataclass(frozen=True, slots=True)
class Strategy:
    """`controlled`: a controller places and re-plans; without one, switches only pass over dead links. `wider`: on a
    fabric with twice the uplinks. `ideal`: no paths at all, every packet goes where there is room."""

    name: str
    title: str
    place: Placer
    queue_pairs: int = 1
    controlled: bool = True
    wider: bool = False
    ideal: bool = False
    replace: Placer | None = None


def _ecmp(queue_pairs: int) -> Placer:
    def draw(problem: Problem, seed: int, _destination: Mapping[str, str]) -> Paths:
        found = baselines.ecmp(problem, queue_pairs, seed).paths
        if queue_pairs == 1:
            return {flow: (path,) for flow, path in found.items()}
        names = (d.flow_id for d in problem.demands if f"{d.flow_id}#0" in found)
        return {flow: tuple(found[f"{flow}#{n}"] for n in range(queue_pairs)) for flow in names}

    return draw


def _whole(paths: Mapping[str, Path]) -> Paths:
    return {flow: (path,) for flow, path in paths.items()}


def _first_fit(problem: Problem, seed: int, _destination: Mapping[str, str]) -> Paths:
    return _whole(hedera.first_fit(problem, seed).paths)


def _annealing(problem: Problem, seed: int, destination: Mapping[str, str]) -> Paths:
    return _whole(hedera.annealing(problem, seed, destination=destination).paths)


def _least_loaded(problem: Problem, _seed: int, _destination: Mapping[str, str]) -> Paths:
    return _whole(baselines.least_loaded(problem).paths)


def _greedy(problem: Problem, _seed: int, _destination: Mapping[str, str]) -> Paths:
    return _whole(baselines.greedy(problem).paths)


def _heddle(problem: Problem, _seed: int, _destination: Mapping[str, str]) -> Paths:
    return _whole(place(problem).paths)


def _heddle_again(problem: Problem, _seed: int, _destination: Mapping[str, str]) -> Paths:
    """What is pinned moves only for a gain that is worth a reordering."""
    return _whole(replan(problem).placement.paths)


def _heddle_split(queue_pairs: int) -> Placer:
    def split(problem: Problem, _seed: int, _destination: Mapping[str, str]) -> Paths:
        found = place_split(problem, {d.flow_id: queue_pairs for d in problem.demands})
        return {**_whole(found.whole), **found.parts}

    return split


def _nothing(_problem: Problem, _seed: int, _destination: Mapping[str, str]) -> Paths:
    return {}


_ALL = (
    Strategy("ecmp-1", "ECMP, 1 QP", _ecmp(1), controlled=False),
    Strategy("ecmp-4", "ECMP, 4 QPs", _ecmp(4), 4, controlled=False),
    Strategy("ecmp-16", "ECMP, 16 QPs", _ecmp(16), 16, controlled=False),
    Strategy("ecmp-1-wide", "ECMP, 1 QP, twice the uplinks", _ecmp(1), controlled=False, wider=True),
    Strategy("hedera-first-fit", "Hedera first fit", _first_fit),
    Strategy("hedera-annealing", "Hedera annealing", _annealing),
    Strategy("least-loaded", "least-loaded greedy", _least_loaded),
    Strategy("greedy", "greedy of arXiv 2503.05324", _greedy),
    Strategy("heddle", "Heddle, whole flows", _heddle, replace=_heddle_again),
    Strategy("heddle-split-4", "Heddle, 4 QPs, split where needed", _heddle_split(4), 4),
    Strategy("ideal", "ideal packet spraying", _nothing, ideal=True),
)
STRATEGIES: Mapping[str, Strategy] = {each.name: each for each in _ALL}


def pinned(demands: tuple[Demand, ...], paths: Paths) -> tuple[Demand, ...]:
    """The demands with where they are now, of those that go over one path."""
    now = {flow: parts[0] for flow, parts in paths.items() if len(set(parts)) == 1}
    return tuple(replace(d, pinned=now.get(d.flow_id)) for d in demands)
