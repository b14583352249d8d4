"""Files for schedulers: what each says of a fabric, and what it refuses to say."""

import pytest
import yaml

from controller.fabric.cabling import Cable, CabledSwitch, CableEnd, CablingPlan
from controller.fabric.model import Role
from controller.formats.export import ExportError, Target, export


def end(text: str) -> CableEnd:
    return CableEnd(*text.partition(":")[::2])


PLAN = CablingPlan(
    "pod1",
    "live",
    (
        *(CabledSwitch(f"leaf{n}", Role.LEAF) for n in (1, 2, 3)),
        *(CabledSwitch(f"spine{n}", Role.SPINE) for n in (1, 2)),
    ),
    ("gpu-1", "gpu-2", "gpu-3"),
    (
        Cable(end("leaf1:swp1"), end("spine1:swp1")),
        Cable(end("leaf1:swp2"), end("spine2:swp1")),
        Cable(end("leaf2:swp1"), end("spine1:swp2")),
        Cable(end("leaf2:swp2"), end("spine2:swp2"), state="one-way"),
        Cable(end("leaf3:swp1"), end("spine1:swp3"), state="down"),
        Cable(end("gpu-1:eth0"), end("leaf1:swp9")),
        Cable(end("gpu-2"), end("leaf1:swp10")),
        Cable(end("gpu-3"), end("leaf2:swp9")),
    ),
)


def test_slurm_conf() -> None:
    assert export(PLAN, Target.SLURM_CONF).splitlines()[1:] == [
        "SwitchName=leaf1 Nodes=gpu-[1-2]",
        "SwitchName=leaf2 Nodes=gpu-3",
        "# left out, nothing below it: leaf3",
        "SwitchName=spine1 Switches=leaf[1-2]",
        "SwitchName=spine2 Switches=leaf1",
        "# left out, one-way: leaf2:swp2 to spine2:swp2",
        "# left out, down: leaf3:swp1 to spine1:swp3",
    ]


def test_slurm_yaml() -> None:
    (topology,) = yaml.safe_load(export(PLAN, Target.SLURM_YAML))
    assert topology["cluster_default"] is True
    assert topology["tree"]["switches"] == [
        {"switch": "leaf1", "nodes": "gpu-[1-2]"},
        {"switch": "leaf2", "nodes": "gpu-3"},
        {"switch": "spine1", "children": "leaf[1-2]"},
        {"switch": "spine2", "children": "leaf1"},
    ]


def test_topograph_gets_one_parent_for_leaves_under_several_spines() -> None:
    text = export(PLAN, Target.TOPOGRAPH)
    model = yaml.safe_load(text)
    assert "# spine1..spine2 stands for spine[1-2]" in text
    assert model["switches"] == {"spine1..spine2": {"switches": ["leaf1", "leaf2"]}}
    assert model["blocks"] == [
        {"switch": "leaf1", "nodes": ["gpu-[1-2]"]},
        {"switch": "leaf2", "nodes": ["gpu-3"]},
    ]


def test_kueue_levels_go_from_wide_to_near_and_nodes_bear_them() -> None:
    topology, *nodes = yaml.safe_load_all(export(PLAN, Target.KUEUE))
    assert [level["nodeLabel"] for level in topology["spec"]["levels"]] == [
        "fabric.topograph.run/tier-1",
        "fabric.topograph.run/tier-0",
        "kubernetes.io/hostname",
    ]
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}
    assert labels["gpu-3"] == {"fabric.topograph.run/tier-0": "leaf2", "fabric.topograph.run/tier-1": "spine1..spine2"}
    assert set(labels) == set(PLAN.hosts)


def test_ptm_keeps_what_was_cabled_and_marks_what_does_not_work() -> None:
    lines = export(PLAN, Target.PTM).splitlines()
    assert '    "leaf1":"swp1" -- "spine1":"swp1"' in lines
    assert '    "leaf3":"swp1" -- "spine1":"swp3"  // down when this was written' in lines
    assert '    "gpu-1" [function="host"]' in lines
    assert "# left out, a port is not known: gpu-2 to leaf1:swp10" in lines


@pytest.mark.parametrize("target", [Target.SLURM_CONF, Target.SLURM_YAML, Target.TOPOGRAPH, Target.KUEUE])
def test_names_that_would_mean_something_else_are_all_refused(target: Target) -> None:
    odd = CablingPlan("p", "x", (CabledSwitch("leaf 1"), CabledSwitch("a[1-2]")), ("n,1",), ())
    with pytest.raises(ExportError) as refused:
        export(odd, target)
    assert [problem.split(" cannot")[0] for problem in refused.value.problems] == [
        "switch name 'leaf 1'",
        "switch name 'a[1-2]'",
        "host name 'n,1'",
    ]


@pytest.mark.parametrize("target", list(Target))
def test_a_fabric_without_anything_is_refused(target: Target) -> None:
    with pytest.raises(ExportError, match="nothing to write"):
        export(CablingPlan("p", "x", (), (), ()), target)


RAILED = CablingPlan(
    "pod1",
    "live",
    (
        CabledSwitch("leaf1", Role.LEAF, rails=(1,)),
        CabledSwitch("leaf2", Role.LEAF, rails=(2,)),
        CabledSwitch("spine1", Role.SPINE),
    ),
    ("gpu-1", "gpu-2"),
    (
        Cable(end("leaf1:swp1"), end("spine1:swp1")),
        Cable(end("leaf2:swp1"), end("spine1:swp2")),
        Cable(end("gpu-1:nic1"), end("leaf1:swp9")),
        Cable(end("gpu-1:nic2"), end("leaf2:swp9")),
        Cable(end("gpu-2:nic1"), end("leaf1:swp10")),
        Cable(end("gpu-2:nic2"), end("leaf2:swp10"), state="down"),
    ),
)


def test_node_labels_name_the_leaf_of_each_rail_that_works() -> None:
    _, *nodes = yaml.safe_load_all(export(RAILED, Target.KUEUE))
    rails = [{k: v for k, v in n["metadata"]["labels"].items() if k.startswith("heddle/")} for n in nodes]
    assert rails == [{"heddle/rail-1": "leaf1", "heddle/rail-2": "leaf2"}, {"heddle/rail-1": "leaf1"}]


@pytest.mark.parametrize("target", [Target.SLURM_CONF, Target.SLURM_YAML, Target.TOPOGRAPH])
def test_formats_without_a_word_for_rails_get_remarks(target: Target) -> None:
    assert export(RAILED, target).splitlines()[1:3] == ["# rail 1: leaf1", "# rail 2: leaf2"]


def test_ptm_wants_names_of_ports_and_leaves_counted_interfaces_out() -> None:
    text = export(RAILED, Target.PTM)
    assert '"gpu-1":"nic1"' not in text
    assert "# left out, a port is not known: gpu-1:nic1 to leaf1:swp9" in text


EDGED = CablingPlan(
    "pod1",
    "live",
    (
        *(CabledSwitch(f"leaf{n}", Role.LEAF) for n in (1, 2, 3)),
        CabledSwitch("spine1", Role.SPINE),
        CabledSwitch("dpu1", Role.EDGE),
    ),
    ("v1", "v2", "h1"),
    (
        *(Cable(end(f"leaf{n}:1"), end(f"spine1:{n}")) for n in (1, 2, 3)),
        Cable(end("dpu1:1"), end("leaf1:2")),
        Cable(end("leaf2:2"), end("dpu1:2")),
        Cable(end("dpu1:3"), end("leaf3:2"), state="down"),
        Cable(end("v1"), end("dpu1:4")),
        Cable(end("dpu1:5"), end("v2")),
        Cable(end("h1"), end("leaf3:3")),
    ),
)


def test_hosts_below_an_edge_switch_hang_on_its_leaves() -> None:
    assert [line for line in export(EDGED, Target.SLURM_CONF).splitlines() if not line.startswith("#")] == [
        "SwitchName=leaf1 Nodes=v[1-2]",
        "SwitchName=leaf2 Nodes=v[1-2]",
        "SwitchName=leaf3 Nodes=h1",
        "SwitchName=spine1 Switches=leaf[1-3]",
    ]
    labels = [n["metadata"]["labels"] for n in list(yaml.safe_load_all(export(EDGED, Target.KUEUE)))[1:]]
    assert [tuple(each.values()) for each in labels] == [("leaf1..leaf2", "spine1")] * 2 + [("leaf3", "spine1")]
    assert '"dpu1":"1" -- "leaf1":"2"' in export(EDGED, Target.PTM)
