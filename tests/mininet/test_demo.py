"""`heddle demo` from end to end with one seed: what it prints for machines, and that its claim holds."""

import json
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


def test_bad_input_starts_nothing(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("name: x\nleaf_spine: {leaves: 0, spines: -1}\ncolour: blue\n")
    command = [sys.executable, "mininet/demo.py", "--topology", str(wrong), "--output", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "colour" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
