"""Rails on real switches: hosts with two interfaces on two leaves, found, shown, compared, and used rail by rail."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import invoke
from controller.formats.topology_file import explicit_yaml
from tests.mininet.end_to_end import Product, needs_root, product

pytestmark = needs_root


def asked(running: Product, capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> dict[str, Any]:
    """The JSON answer of a command."""
    capsys.readouterr()
    assert invoke([*words, "--json", "--controller", running.address]) == status
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_rails_are_shown_and_each_rank_sends_from_its_own_interface(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from demo_job import RingJob
    from roce_traffic import run_traffic

    with product("rails-4x2.yaml", tmp_path) as running:
        topology = asked(running, capsys, "topology")
        assert [s["rails"] for s in topology["switches"] if s["role"] == "leaf"] == [[1], [2], [1], [2]]
        assert topology["alarms"] == []
        cabling = asked(running, capsys, "cabling")
        assert (cabling["holds"], cabling["right"]) == (True, 16)

        # The same fabric is wrong for who meant two interfaces the other way round.
        plan = running.lab.plan
        meant = tmp_path / "meant.yaml"
        first, second, *others = plan.hosts
        turned = (replace(first, port=second.port, switch=second.switch), replace(second, port=3, switch=first.switch))
        meant.write_text(explicit_yaml(replace(plan, hosts=(*turned, *others))))
        found = asked(running, capsys, "cabling", "--plan", str(meant), status=1)
        assert [f["expected"] for f in found["findings"]] == ["h1_1:nic1 to leaf2:3", "h1_1:nic2 to leaf1:3"]

        ranks = ["h1_1:1", "h2_1:1", "h1_1:2", "h2_1:2"]
        by_rail = ["--op", "all-reduce", "--algorithm", "hierarchical", "--ranks-per-host", "2", "--bytes", "400000"]
        asked(running, capsys, "announce", "--job", "j", *by_rail, "--ranks", "h1_1,h1_1,h2_1,h2_1")
        (planned,) = asked(running, capsys, "plan", "j")["plans"]
        rails = {(f["src_host"], f["path"][0]["switch"]) for f in planned["flows"]}
        assert rails == {("h1_1:1", "leaf1"), ("h1_1:2", "leaf2"), ("h2_1:1", "leaf3"), ("h2_1:2", "leaf4")}
        job = RingJob(tuple(ranks), ((0, 1), (2, 3)), 400_000, "test")
        result = run_traffic(running.lab, job.connections(1, 0), timeout_s=120)
        assert result.complete, result.faults
