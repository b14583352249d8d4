"""`heddle simulate`: the ready files run, what is wrong is said at once, and results say what the simulator found."""

import json
from pathlib import Path

import pytest

from controller.cli.main import invoke
from controller.cli.simulate_build import Simulation
from controller.cli.simulate_view import as_plain, what_if_plain
from controller.formats.problems import FileFormatError
from controller.simulation.flows.run import simulate
from controller.simulation.flows.strategies import STRATEGIES
from controller.simulation.flows.summary import summarise
from controller.simulation.flows.what_if import failures, ranked, what_if

READY = Path(__file__).resolve().parents[2] / "topologies" / "simulations"
FILES = sorted(READY.glob("*.yaml"))

SMALL = """\
name: small
fabric: {leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 100G}
jobs:
  - name: ring
    order: interleaved
    iterations: 2
    compute_s: 0.001
    collective: {operation: all-reduce, bytes: 64MiB}
strategies: [ecmp-1, heddle, ideal]
seeds: 2
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "simulation.yaml"
    file.write_text(text)
    return file


def faults(folder: Path, text: str) -> list[str]:
    file = written(folder, text)
    with pytest.raises(FileFormatError) as refused:
        Simulation(file)
    return [str(problem).removeprefix(f"{file}:") for problem in refused.value.problems]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_ready_files_run(file: Path) -> None:
    simulation = Simulation(file)
    jobs = simulation.jobs(simulation.fabric, 1)
    strategy = STRATEGIES["heddle"]
    troubles = simulation.impairments(simulation.fabric, 1)
    result = simulate(simulation.fabric, jobs, strategy, 1, troubles, simulation.settings)
    assert not result.stranded
    assert [job.completion_s is not None for job in result.jobs] == [True] * len(jobs)


def test_the_classic_patterns_and_a_workload_are_among_the_ready_files() -> None:
    names = {file.stem for file in FILES}
    assert names >= {"stride", "permutation", "staggered", "incast", "all-to-all", "workload", "trouble"}


def test_what_is_printed_for_people_and_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, SMALL)
    assert invoke(["simulate", str(file)]) == 0
    table = capsys.readouterr().out
    assert "2 leaves x 2 spines, 4 hosts, links of 100 Gb/s" in table
    assert "Heddle, whole flows" in table
    assert invoke(["simulate", str(file), "--json", "--seeds", "1", "-s", "heddle", "-s", "ideal"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["strategies"]) == {"heddle", "ideal"}
    (run,) = found["strategies"]["heddle"]["runs"]
    # 2 x 3/4 of 64 MiB on links of its own, with headers, twice, and computing before.
    once_s = 2 * 3 / 4 * 2**26 * 8 * (4096 + 58) / 4096 / 100e9
    assert run["jobs"]["ring"]["iteration_s"] == pytest.approx([0.001 + once_s] * 2)
    assert found["strategies"]["heddle"]["jobs"]["ring"]["to_ideal"] == pytest.approx(1.0)
    assert run["link_load_s"]["max"] == pytest.approx(2 * once_s)
    assert max(run["series"]["fullest"]) == pytest.approx(1.0, rel=0.05)
    # Eight directions of four cables, each of which carries the same; the bins of one add up to all it carries.
    assert len(run["series"]["links"]) == 8
    for shares in run["series"]["links"].values():
        assert sum(shares) * run["series"]["bin_s"] == pytest.approx(2 * once_s, rel=0.01)


def test_plots_are_drawn_where_they_are_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, SMALL.replace("seeds: 2", "seeds: 1"))
    assert invoke(["simulate", str(file), "--plots", str(tmp_path / "plots")]) == 0
    drawn = sorted((tmp_path / "plots").iterdir())
    assert [f.name for f in drawn] == [f"small-{what}.png" for what in ("links", "timeline", "transfers")]
    assert all(f.read_bytes().startswith(b"\x89PNG") for f in drawn)
    assert "drawn: " in capsys.readouterr().err


def test_every_single_failure_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, SMALL)
    assert invoke(["simulate", str(file), "--what-if", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    by_name = {failure["name"]: failure for failure in found["failures"]}
    assert len(by_name) == 4 + 4
    # A leaf takes its hosts along; a spine or a cable leaves each leaf, or one, with half its uplinks.
    assert by_name["leaf1"]["jobs"]["ring"] == {"completion_s": None, "loss": None}
    assert [failure["kind"] for failure in found["failures"][:2]] == ["leaf", "leaf"]
    assert by_name["spine1"]["jobs"]["ring"]["loss"] > 0.5
    assert by_name["leaf1-spine1"]["jobs"]["ring"]["loss"] > 0.5
    assert invoke(["simulate", str(file), "--what-if"]) == 0
    shown = capsys.readouterr().out
    assert "ring does not finish without leaf1 or leaf2" in shown
    assert shown.index("spine1") < shown.index("0 of 8")
    assert "0 of 8 single failures cost no job anything" in shown


def test_a_failure_that_touches_nobody_costs_nothing(tmp_path: Path) -> None:
    # Both hosts of one leaf: no cable between switches carries anything.
    simulation = Simulation(written(tmp_path, SMALL.replace("order: interleaved", "hosts: [h1_1, h1_2]")))
    jobs = simulation.jobs(simulation.fabric, 1)
    outcomes = list(what_if(simulation.fabric, jobs, STRATEGIES["heddle"], settings=simulation.settings))
    assert {o.failure.name for o in outcomes if o.worst > 0} == {"leaf1"}
    assert ranked(outcomes)[0].failure.name == "leaf1"
    assert len(failures(simulation.fabric)) == len(outcomes)
    plain = what_if_plain(simulation, STRATEGIES["heddle"], 1, outcomes)
    json.dumps(plain, allow_nan=False)


def test_results_are_plain_values_even_when_nothing_can_be_sent(tmp_path: Path) -> None:
    text = SMALL + "impairments:\n  - {switch: spine1, failed: true}\n  - {switch: spine2, failed: true}\n"
    simulation = Simulation(written(tmp_path, text))
    fabric = simulation.fabric
    result = simulate(fabric, simulation.jobs(fabric, 1), STRATEGIES["ecmp-4"], 1, simulation.impairments(fabric, 1))
    found = as_plain(simulation, {"ecmp-4": [summarise(fabric, result, 1)]})
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["strategies"]["ecmp-4"]["jobs"]["ring"]["not_finished"] == 1
    assert found["strategies"]["ecmp-4"]["runs"][0]["stranded"]


def test_one_seed_is_one_result(tmp_path: Path) -> None:
    simulation = Simulation(written(tmp_path, SMALL.replace("order: interleaved", "order: shuffled")))

    def completions(seed: int) -> list[float | None]:
        jobs = simulation.jobs(simulation.fabric, seed)
        return [job.completion_s for job in simulate(simulation.fabric, jobs, STRATEGIES["ecmp-1"], seed).jobs]

    assert completions(3) == completions(3)
    assert len({tuple(completions(seed)) for seed in range(8)}) > 1


# --- what is wrong ---------------------------------------------------------------------------------------


def test_all_faults_of_form_are_listed_with_lines_and_cures(tmp_path: Path) -> None:
    text = (
        "name: x\nfabric: {leafs: 4, spines: 0, hosts_per_leaf: 4}\njobs:\n  - name: a\n"
        "    pattern: {kind: strid, bytes: 3 apples}\n  - name: b\n    iterations: 0\n"
        "strategies: [ecmp, heddle]\nseeds: 0\n"
    )
    found = faults(tmp_path, text)
    assert [fault.partition(":")[0] for fault in found] == ["2", "2", "5", "5", "7", "8", "9"]
    assert "unknown key fabric.leafs; did you mean leaves?" in found[1]
    assert "'3 apples' is no size" in found[2]
    assert "; change it, for example kind: permutation" in found[3]
    assert "'ecmp' is no strategy; known are ecmp-1," in found[5]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("order: interleaved", "hosts: [h1_1, h9_9]"), "5: no host h9_9 on this fabric; hosts are h1_1 to h2_2"),
        (("order: interleaved", "take: 9"), "9 hosts after the first 0 are wanted and 4 are there"),
        (("bytes: 64MiB", "bytes: 64MiB, groups: 3"), "4 hosts cannot be divided into 3 equal groups"),
        (("operation: all-reduce", "operation: all-reduce, algorithm: direct"), "is not supported with direct"),
        (("leaves: 2,", "leaves: 2, pods: 2,"), "several pods need cores"),
        (("leaves: 2, ", ""), "or leaves, spines and hosts_per_leaf"),
        (("{leaves: 2,", "{topology: x.yaml, leaves: 2,"), "both given"),
        (("{leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 100G}", "{topology: x.yaml}"), "x.yaml: cannot be read"),
        (("collective: {operation: all-reduce, bytes: 64MiB}", "workload: {file: no.txt}"), "no.txt: cannot be read"),
        (("    iterations: 2\n", "    pattern: {kind: permutation, bytes: 1MiB}\n"), "collective and pattern given"),
        (("rate: 100G", "rate: 100m"), '"100m" is not a rate'),
    ],
)
def test_what_does_not_fit_is_said(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    assert said in "\n".join(faults(tmp_path, SMALL.replace(*change)))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("{kind: stride, bytes: 1MiB}", "stride takes step"),
        ("{kind: permutation, bytes: 1MiB, step: 1}", "permutation takes only bytes"),
        ("{kind: staggered, bytes: 1MiB, same_leaf: 0.6, same_pod: 0.6}", "more than 1 together"),
        ("{kind: incast, bytes: 1MiB, target: h7_7, senders: 2}", "no host h7_7"),
    ],
)
def test_patterns_that_make_no_sense(pattern: str, said: str, tmp_path: Path) -> None:
    text = SMALL.replace("collective: {operation: all-reduce, bytes: 64MiB}", f"pattern: {pattern}")
    assert said in "\n".join(faults(tmp_path, text))


@pytest.mark.parametrize(
    ("impairment", "said"),
    [
        ("{link: leaf1-spine9, failed: true}", "no link leaf1-spine9 on this fabric; names are such as leaf1-spine1"),
        ("{switch: core1, failed: true}", "no switch core1"),
        ("{host: h9_9, compute: 2.0}", "no host h9_9"),
        ("{link: leaf1-spine1}", "say one thing that is wrong with a link"),
        ("{link: leaf1-spine1, compute: 2.0}", "say one thing that is wrong with a link"),
        ("{failed: true}", "say one place"),
        ("{link: leaf1-spine1, failed: true, at_s: 2, until_s: 1}", "until_s 1 is not after at_s 2"),
    ],
)
def test_impairments_that_make_no_sense(impairment: str, said: str, tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, f"{SMALL}impairments:\n  - {impairment}\n")
    assert fault.startswith("12: ")
    assert said in fault


def test_two_jobs_of_one_name_and_a_workload_that_does_not_divide(tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text("MICRO model_parallel_NPU_group: 3\n1\na -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1\n")
    text = SMALL + "  - name: ring\n    workload: {file: w.txt}\n"
    lines = text.splitlines(keepends=True)
    # Jobs belong together.
    text = "".join(lines[:8] + lines[10:] + lines[8:10])
    found = "\n".join(faults(tmp_path, text))
    assert 'job "ring" is there twice, first on line 4' in found
    assert "take a multiple of 3 hosts" in found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["-s", "magic"], "no strategy magic"), (["--what-if", "--plots", "x"], "leave --plots out")],
)
def test_options_that_make_no_sense(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["simulate", str(written(tmp_path, SMALL)), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_fabric_that_is_not_simulated_is_a_fault_of_the_file(tmp_path: Path) -> None:
    """Hosts below an edge switch are sound in a topology file, and nothing that the simulator knows."""
    topology = READY.parent / "dpu-two-leaves.yaml"
    (found,) = faults(
        tmp_path, SMALL.replace("leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 100G", f"topology: {topology}")
    )
    assert found == "2: hosts on switches that are no leaves: v1, v2; move them to leaves"
