"""Searches run beside the loop: what they find arrives as an event, the latest question counts, errors are not lost."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from fabrics import leaf, plan, view
from test_placement_place import problem_on

from controller.core.commands import SearchPlan
from controller.core.events import Event, PlanFound
from controller.placement.moves import Replan
from controller.placement.problem import Demand, Problem
from controller.runtime import searching
from controller.runtime.searching import PlanSearcher


def crowded() -> Problem:
    """Two flows on one of two spines."""
    problem = problem_on(view(plan(leaves=2, spines=2)), [])
    path = problem.paths[leaf(1), leaf(2)][0]
    demands = tuple(Demand(name, leaf(1), leaf(2), 1_000_000, path) for name in "ab")
    return Problem(demands, problem.paths, problem.capacity_bps)


async def found_by(ask: Callable[[PlanSearcher], None], wanted: int) -> tuple[list[PlanFound], list[BaseException]]:
    """What was told until `wanted` answers or errors have come."""
    told: list[Event] = []
    failed: list[BaseException] = []
    done = asyncio.Event()

    def note(into: list[Event] | list[BaseException], what: Event | BaseException) -> None:
        into.append(what)  # type: ignore[arg-type]
        if len(told) + len(failed) >= wanted:
            done.set()

    ask(PlanSearcher(lambda event: note(told, event), lambda error: note(failed, error)))
    await asyncio.wait_for(done.wait(), 60)
    return [event for event in told if isinstance(event, PlanFound)], failed


def test_what_is_found_arrives_as_an_event() -> None:
    (found,), failed = asyncio.run(found_by(lambda s: s.perform(SearchPlan(7, crowded(), {})) and None, 1))
    assert not failed
    assert found.search_id == 7
    assert found.found.gain == pytest.approx(0.5)
    assert len(found.found.moves) == 1


def test_of_questions_that_come_meanwhile_the_latest_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    answer = searching.replan

    def held(problem: Problem, **more: object) -> Replan:
        assert go.wait(60)
        return answer(problem, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(searching, "replan", held)

    def ask(searcher: PlanSearcher) -> None:
        for number in (1, 2, 3):
            searcher.perform(SearchPlan(number, crowded(), {}))
        go.set()

    found, failed = asyncio.run(found_by(ask, 2))
    assert not failed
    assert [each.search_id for each in found] == [1, 3]


def test_an_error_in_a_search_reaches_whoever_must_know() -> None:
    twice = crowded()
    broken = Problem((*twice.demands, *twice.demands), twice.paths, twice.capacity_bps)
    found, (error,) = asyncio.run(found_by(lambda s: s.perform(SearchPlan(1, broken, {})) and None, 1))
    assert not found
    assert "flow ids used more than once" in str(error)
