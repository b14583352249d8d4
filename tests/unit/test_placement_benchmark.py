"""The benchmark's own arithmetic: what its cases are, and that its rows can be trusted. It times nothing."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from controller.placement.place import place

# Benchmarks are scripts, not a package: they find one another beside themselves.
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
cases, quality, storing = map(import_module, ("_placement_cases", "_placement_quality", "_placement_store"))


def _mixed_setting() -> Any:
    return quality.Setting("4 x 4 x 4", "mixed", 0.1, 2, lambda seed: cases.mixed(4, 4, 4, 0.1, seed))


def test_every_method_is_measured_on_the_same_problems() -> None:
    store = storing.Store()
    for seed in range(2):
        quality.measure(_mixed_setting(), seed, store)
    rows = quality.rows_of(_mixed_setting(), store)
    by_name = {(row.method, row.queue_pairs): row for row in rows}
    assert len(by_name) == len(rows) == 12
    assert {row.seeds for row in rows} == {2}
    whole = by_name[quality.WHOLE, 1]
    for row in rows:
        assert row.to_ideal_p99 >= row.to_ideal_median > 0
        if row.queue_pairs == 1 and "twice" not in row.method:
            assert row.to_ideal_median >= whole.to_ideal_median * (1 - 1e-9)
        if "twice" not in row.method:
            assert row.to_ideal_median >= 1 - 1e-9
    for count, name in quality.SPLIT.items():
        assert by_name[name, count].to_ideal_median <= whole.to_ideal_median * (1 + 1e-9)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "seeds.jsonl"
    setting, whole = _mixed_setting(), storing.Store()
    for seed in range(2):
        quality.measure(setting, seed, whole)
    first = storing.Store(file)
    quality.measure(setting, 0, first)
    with file.open("a") as lines:
        lines.write('{"code": "cut o')
    second = storing.Store(file)
    assert second.has((setting.fabric, setting.traffic, setting.failed, 0))
    quality.measure(setting, 1, second)
    assert quality.rows_of(setting, storing.Store(file)) == quality.rows_of(setting, whole)


def test_seeds_of_other_code_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "seeds.jsonl"
    quality.measure(_mixed_setting(), 0, storing.Store(file))
    file.write_text(file.read_text().replace('{"code": "', '{"code": "x'))
    with pytest.raises(ValueError, match=r"seeds.jsonl:1: measured by other code .* name another file"):
        storing.Store(file)


def test_healthy_cases_are_what_their_names_say() -> None:
    for pattern in (cases.permutation, cases.ring):
        case = cases.equal(4, 4, 4, pattern, 3)
        names = [flow.split("/")[1].split("-") for flow in case.destination]
        assert len({a for a, _ in names}) == len({b for _, b in names}) == len(names)
        assert place(case.problem).certificate.proven_optimal
        assert place(case.problem).certificate.gap == 0.0


def test_ideal_spraying_is_bytes_over_live_links() -> None:
    case = cases.mixed(4, 4, 4, 0.1, 1)
    slowest = max(
        8
        * sum(d.size_bytes for d in case.problem.demands if d.src_leaf == leaf)
        / sum(400e9 for link in case.problem.paths.up[row].tolist() if link >= 0)
        for row, leaf in enumerate(case.problem.paths.leaves)
    )
    assert cases.fluid_s(case.problem) >= slowest * (1 - 1e-12)


@pytest.mark.parametrize("flows", [10, 300])
def test_three_tier_cases_have_as_many_flows_as_asked(flows: int) -> None:
    problem = cases.three_tier(2, 4, 4, 4, 4, flows)
    assert len(problem.demands) == flows
    assert place(problem).certificate.proven_optimal
