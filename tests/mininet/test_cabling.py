"""`heddle cabling` and `heddle export` on a running Mininet fabric that was not cabled as meant."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from controller.cli.main import invoke
from controller.fabric.cabling import of_fabric_plan, outline
from controller.fabric.plan import FabricPlan
from controller.formats.plan_files import load_text
from controller.formats.topology_file import explicit_yaml, load
from tests.mininet.end_to_end import ROOT, needs_root

pytestmark = needs_root

MEANT = """name: meant
rate: 8M
leaf_spine: {leaves: 3, spines: 2, hosts_per_leaf: 1}
"""


def _as_cabled(meant: FabricPlan) -> FabricPlan:
    """Two cables swapped at the spines, one left out, one at half its rate."""
    swapped, other, missing, slow, right = (meant.links[index] for index in (0, 3, 2, 4, 5))
    links = (
        replace(swapped, b=other.b, b_port=other.b_port),
        replace(other, b=swapped.b, b_port=swapped.b_port),
        replace(slow, rate_bps=slow.rate_bps // 2),
        meant.links[1],
        right,
    )
    assert missing not in links
    return replace(meant, name="as-cabled", links=links)


def _is_the_picture_in_the_docs(drawn: Path) -> None:
    """docs/images/cabling.png is this very fabric, as it is drawn today; HEDDLE_WRITE_IMAGES=1 puts it there."""
    shown = ROOT / "docs" / "images" / "cabling.png"
    if os.environ.get("HEDDLE_WRITE_IMAGES"):
        shown.write_bytes(drawn.read_bytes())
    one, other = imread(drawn), imread(shown)
    assert one.shape == other.shape
    # Letters may differ by a pixel where fonts are rendered otherwise.
    assert float(np.abs(one - other).mean()) < 0.005


def test_swapped_missing_and_slow_cables_are_all_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from demo_controllers import OPENFLOW, heddle
    from demo_northbound import Controller
    from lab_fabric import FabricLab

    meant, topology = tmp_path / "meant.yaml", tmp_path / "built.yaml"
    meant.write_text(MEANT)
    built = _as_cabled(load(meant))
    topology.write_text(explicit_yaml(built))
    with (
        FabricLab(built, controllers=[OPENFLOW], name=f"test-cabling-{os.getpid()}") as lab,
        heddle(lab, topology, tmp_path) as address,
    ):
        lab.announce_hosts()
        with Controller(address) as controller:
            controller.wait_for(len(built.links), len(built.hosts), timeout_s=60)
        at = ["--controller", address]
        # The controller was told what is there, so against its own file all is right.
        assert invoke(["cabling", *at]) == 0
        capsys.readouterr()
        picture = tmp_path / "cabling.png"
        assert invoke(["cabling", "--plan", str(meant), "--json", "--png", str(picture), *at]) == 1
        verdict = json.loads(capsys.readouterr().out)
        assert invoke(["cabling", "--plan", str(tmp_path / "absent"), *at]) == 2
        capsys.readouterr()
        assert invoke(["export", "slurm-conf", *at]) == 0
        written = capsys.readouterr().out
        lab.cut_link("leaf3", "spine2")
        with Controller(address) as controller:
            controller.wait_for(len(built.links) - 1, len(built.hosts), timeout_s=60)
        assert invoke(["cabling", "--json", *at]) == 1
        after_cut = json.loads(capsys.readouterr().out)
    found = [(finding["kind"], finding["expected"], finding["found"]) for finding in verdict["findings"]]
    assert found == [
        ("missing", "leaf2:1 to spine1:2", "no link"),
        ("miswired", "leaf1:1 to spine1:1", "leaf1:1 to spine2:2 and spine1:1 to leaf2:2"),
        ("miswired", "leaf2:2 to spine2:2", "leaf2:2 to spine1:1 and spine2:2 to leaf1:1"),
        ("wrong rate", "leaf3:1 to spine1:3 at 8 Mb/s", "4 Mb/s (reckons the controller)"),
    ]
    assert verdict["right"] == verdict["planned"] - 4
    _is_the_picture_in_the_docs(picture)
    assert outline(load_text(written)) == outline(of_fabric_plan(built))
    assert [(f["kind"], f["expected"]) for f in after_cut["findings"]] == [("missing", "leaf3:2 to spine2:3")]


def test_the_live_4x4_fabric_comes_back_from_slurms_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.mininet.end_to_end import product

    with product("leafspine-4x4.yaml", tmp_path) as running:
        texts = {}
        for target in ("slurm-conf", "slurm-yaml", "topograph"):
            assert invoke(["export", target, "--controller", running.address]) == 0
            texts[target] = capsys.readouterr().out
        meant = of_fabric_plan(running.lab.plan)
    assert outline(load_text(texts["slurm-conf"])) == outline(meant)
    assert outline(load_text(texts["slurm-yaml"])) == outline(meant)
    assert set(load_text(texts["topograph"]).hosts) == set(meant.hosts)
