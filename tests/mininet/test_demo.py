"""`heddle demo` from end to end with one seed: what it prints for machines, and that its claim holds."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mininet.end_to_end import ROOT, needs_root


@needs_root
@pytest.mark.slow
def test_the_demo_prints_its_result_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "mininet/demo.py", "--json", "--seeds", "1", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result) >= {"fabric", "bound_s", "cpu_share", "strategies", "failover", "qos"}
    strategies = result["strategies"]
    assert set(strategies) == {"ecmp-1qp", "ecmp-4qp", "ecmp-16qp", "heddle"}
    for strategy in strategies.values():
        # Nothing beats the bound, or the bound is none.
        assert min(strategy["completion_s"]) > result["bound_s"]
        assert len(strategy["completion_s"]) == len(strategy["max_over_mean"]) == 1
    # Loads are counted in bytes, so they do not depend on how busy the machine is.
    assert max(strategies["heddle"]["max_over_mean"]) <= 1.05
    assert min(strategies["ecmp-1qp"]["max_over_mean"]) > 1.2
    assert result["failover"]["flows_moved"] >= 1
    assert result["qos"]["with_queues_s"] > result["qos"]["bound_s"]
    written = {file.name for file in tmp_path.iterdir()}
    assert written >= {"result.json", "links-heddle.png", "links-ecmp-1qp.png"}
    assert json.loads((tmp_path / "result.json").read_text()) == result


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topology", "topologies/leafspine-2x2.yaml"], "and 4 hosts are given"),
        (["--topology", "topologies/parallel-unequal.yaml"], "one rate"),
        (["--nccl-log", "README.md"], "NCCL"),
        (["--topology", "{tmp}/two-leaves.yaml"], "4 leaves with 4 hosts"),
    ],
)
def test_what_does_not_suit_is_said_in_a_sentence(arguments: list[str], said: str, tmp_path: Path) -> None:
    two_leaves = "name: x\nrate: 8M\nleaf_spine: {leaves: 2, spines: 4, hosts_per_leaf: 8}\n"
    (tmp_path / "two-leaves.yaml").write_text(two_leaves)
    command = [sys.executable, "mininet/demo.py", *(a.replace("{tmp}", str(tmp_path)) for a in arguments)]
    command += ["--output", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    # One line, whatever the width of the terminal, so that it can be searched for.
    (line,) = done.stderr.splitlines()
    assert line.startswith("heddle demo: ")
    assert said in line
    assert not (tmp_path / "out").exists()


@needs_root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "mininet/demo.py", "--seeds", "1", "--output", str(tmp_path)]
    command += ["--topology", str(tmp_path / "other-name.yaml")]
    name = f"int{os.getpid()}-{number}"
    (tmp_path / "other-name.yaml").write_text(
        f"name: {name}\nrate: 8M\nleaf_spine: {{leaves: 4, spines: 4, hosts_per_leaf: 4}}\n"
    )
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    lab = Path("/run/heddle") / f"demo-{name}"
    try:
        # The first run of traffic has begun, or is about to, when the controllers' switches are connected.
        while "static ECMP" not in (said := running.stdout.readline()):
            assert said, running.communicate()[1]
        assert lab.is_dir()
        running.send_signal(number)
        _, errors = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 128 + number
    assert "Traceback" not in errors
    assert not lab.exists()


def test_bad_input_starts_nothing(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("name: x\nleaf_spine: {leaves: 0, spines: -1}\ncolour: blue\n")
    command = [sys.executable, "mininet/demo.py", "--topology", str(wrong), "--output", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "colour" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
