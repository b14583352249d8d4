"""A slice of fuzzing with fixed seeds; `heddle fuzz --seeds N` runs as many more as one likes (docs/fuzzing.md)."""

from pathlib import Path
from random import Random

import pytest

from controller.core.machine import Core
from controller.simulation.fuzz import Recording, ddmin, load, recording, replay, save, shortest
from controller.simulation.fuzz_fabric import FuzzFabric, random_fabric
from controller.simulation.fuzz_run import run
from controller.simulation.fuzz_steps import Step, What, random_steps

EVENTS = 200
SEEDS = range(16)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_invariant_holds(seed: int) -> None:
    recorded = recording(seed, EVENTS)
    failure = replay(recorded)
    assert failure is None, f"{failure}\nheddle fuzz --seed {seed} finds the shortest list of events that fails"


def test_a_seed_always_means_the_same_run() -> None:
    assert recording(7, EVENTS) == recording(7, EVENTS)
    assert recording(7, EVENTS) != recording(8, EVENTS)
    assert sum(step.what is not What.CHECK for step in recording(7, EVENTS).steps) == EVENTS


def test_fabrics_are_small_and_differ() -> None:
    fabrics = [random_fabric(Random(seed)) for seed in range(200)]
    assert {len(fabric.spines) for fabric in fabrics} == {1, 2, 3, 4}
    assert {len(fabric.leaves) for fabric in fabrics} == {2, 3, 4, 5}
    assert {fabric.with_plan for fabric in fabrics} == {True, False}
    assert any(fabric.spare_rules is not None for fabric in fabrics)
    assert any(() in row for fabric in fabrics for row in fabric.cables_mbps)


SMALL = FuzzFabric(seed=1, cables_mbps=(((10,),), ((10,),)), hosts=(1, 1))


def test_what_is_broken_on_purpose_is_found_and_shrunk_to_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that never looks at a wiped switch again leaves it empty."""
    monkeypatch.setattr("controller.core.reconcile.Reconciler.take_tables", _only_the_first_look())
    noise = [Step(What.HOSTS_SPEAK), Step(What.LOSE_SESSION, "leaf2", 0.5), Step(What.CUT, "", 0, 0.1)]
    steps = (*noise, Step(What.RESTORE, "", 0, 0.1), Step(What.CHECK), Step(What.WIPE, "spine1"), *noise[:1])
    failure = run(SMALL, steps)
    assert failure is not None
    assert failure.invariant == "lost"
    assert shortest(Recording(SMALL, steps), failure).steps == (Step(What.CHECK), Step(What.WIPE, "spine1"))


def _only_the_first_look():  # type: ignore[no-untyped-def]
    from controller.core.reconcile import Reconciler

    real = Reconciler.take_tables

    def take(self, event, now_s):  # type: ignore[no-untyped-def]
        switch = self.state.switches[event.dpid]
        if switch.actual is not None:
            switch.reading = None
            return []
        return real(self, event, now_s)

    return take


def test_what_the_core_raises_is_a_failure_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Core, event: object, now_s: float) -> list[object]:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(Core, "handle", broken)
    failure = run(SMALL, ())
    assert failure is not None
    assert failure.invariant == "exception ZeroDivisionError"


def test_rest_begins_after_the_moves_that_a_returned_link_makes_worthwhile() -> None:
    """A slow switch hears of the link late, so that live flows move later than the link was held (seed 20329)."""
    fabric = FuzzFabric(
        seed=3343784151,
        cables_mbps=(((10, 10), (10,)), ((20, 20), (40,))),
        hosts=(2, 2),
        qos=False,
        nicira=(False, True, False, True),
    )
    steps = (
        Step(What.SLOW_DOWN, "leaf1", 100, 0.8206),
        Step(What.FAIL_SILENTLY, "both", 2, 0.7062),
        Step(What.CHECK),
        Step(What.FAIL_SILENTLY, "b", 0, 0.7448),
        Step(What.ANNOUNCE, "c", 9, 8.3243),
        Step(What.CUT, "", 0, 0.0678),
        Step(What.RESTORE, "", 0, 0.0044),
    )
    assert run(fabric, steps) is None


def test_shrinking_leaves_what_is_needed_alone() -> None:
    steps = [Step(What.HOSTS_SPEAK, number=n) for n in range(40)]
    needed = {steps[3], steps[17], steps[38]}
    assert set(ddmin(steps, lambda kept: needed <= set(kept))) == needed


def test_a_recording_survives_its_file(tmp_path: Path) -> None:
    recorded = recording(5, 30)
    save(recorded, tmp_path / "run.json")
    assert load(tmp_path / "run.json") == recorded


def test_a_file_that_is_no_recording_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"fabric": {"seed": "one"}}')
    with pytest.raises(ValueError, match=r"other\.json is no recording of heddle fuzz"):
        load(path)


def test_every_invariant_holds_with_edge_switches_on_two_leaves() -> None:
    """Cables stay in their ports: one that joins two leaves carries nothing. The drains' invariant knows no edges."""
    fabric = FuzzFabric(seed=1, cables_mbps=(((10,), (10,)),) * 3, hosts=(1, 1, 1), edges=((1, 2), (2, 3)))
    steps = random_steps(fabric, Random(1), 100)
    kept = tuple(step for step in steps if step.what not in (What.SWAP, What.DRAIN, What.UNDRAIN))
    assert run(fabric, kept) is None
