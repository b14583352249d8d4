"""Readers of cabling plans: what each format says, what is wrong with a file, and the real files of others."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from controller.fabric.cabling import CableEnd, CablingPlan
from controller.fabric.cabling_levels import levels
from controller.fabric.model import Role
from controller.formats.plan_builder import PlanFileError
from controller.formats.plan_files import Format, detect, load, load_text
from controller.formats.problems import FileFormatError

INPUTS = Path(os.environ.get("HEDDLE_INPUTS") or Path(__file__).parents[2].parent / "shared" / "inputs")


def shared(name: str) -> CablingPlan:
    if not (INPUTS / name).is_file():
        pytest.skip(f"the shared input {name} is not at {INPUTS} (set HEDDLE_INPUTS)")
    return load(INPUTS / name)


def ends(plan: CablingPlan) -> set[tuple[str, str]]:
    return {(str(cable.a), str(cable.b)) for cable in plan.cables}


def counts(plan: CablingPlan) -> tuple[int, int, int, int]:
    """Switches, hosts, cables between switches, cables to hosts."""
    return len(plan.switches), len(plan.hosts), len(plan.between_switches()), len(plan.to_hosts())


def problems(text: str, form: Format | None = None) -> list[str]:
    with pytest.raises(FileFormatError) as refused:
        load_text(text, "plan", form)
    assert all(problem.cure for problem in refused.value.problems)
    return [str(problem) for problem in refused.value.problems]


# --- Slurm -----------------------------------------------------------------------------------------------


def test_slurm_conf_says_who_is_below_whom() -> None:
    text = """# a remark
switchname=leaf1 Nodes = "n[1-2]"   LinkSpeed=900
# leaf2=rack-7
SwitchName=leaf2 \\
    Nodes=n3
SwitchName=spine Switches=leaf[1-2]  # another
"""
    plan = load_text(text)
    assert plan.source == "slurm-conf"
    assert ends(plan) == {("n1", "leaf1"), ("n2", "leaf1"), ("n3", "leaf2"), ("leaf1", "spine"), ("leaf2", "spine")}
    assert plan.hosts == ("n1", "n2", "n3")
    assert {switch.name: switch.alias for switch in plan.switches} == {"leaf1": "", "leaf2": "rack-7", "spine": ""}
    assert levels(plan) == {"leaf1": 0, "leaf2": 0, "spine": 1}
    assert not plan.cables_counted
    assert all(cable.rate_bps is None for cable in plan.cables)


def test_a_child_that_no_line_describes_costs_only_itself() -> None:
    """B50d, B50e: the rest is taken, and what was left out is named."""
    plan = load_text("SwitchName=leaf1 Nodes=n1\nSwitchName=spine Switches=leaf[1-2]\n", "t.conf")
    assert counts(plan) == (2, 1, 1, 1)
    assert plan.remarks == ("t.conf:2: below switch spine, no line describes leaf2; left out",)


def test_a_node_may_be_below_several_leaves() -> None:
    """B50f: rails."""
    plan = load_text("SwitchName=rail0 Nodes=n[1-2]\nSwitchName=rail1 Nodes=n[1-2]\n")
    assert counts(plan) == (2, 2, 0, 4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SwitchName=a Nodes=(null)\n", "plan:1: .*no host at all"),
        ("SwitchName=a Nodes=n[1-1000000000]\n", "plan:1: .*limit"),
        ("SwitchName=a Nodes=n1\n\nSwitchName=a Nodes=n2\n", "plan:3: switch a is described already on line 1"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "in a circle: a > b > a"),
        ("SwitchName=a Nodez=n1\n", "unknown key Nodez"),
        ("SwitchName=a Nodes=n1 Nodes=n2\n", "Nodes is given twice"),
        ("SwitchName=a Nodes n1\n", r"no KEY=value"),
        ("SwitchName=a[1-2] Nodes=n1\n", "one switch"),
        ("SwitchName=a Nodes=n1\nNodes=n2\n", "plan:2: a line without SwitchName"),
        ("SwitchName=a Nodes=n1\nInclude more.conf\n", "another file is included"),
        ("SwitchName=a Nodes=b\nSwitchName=b Nodes=n1\n", "is a host here and a switch on line"),
    ],
)
def test_slurm_conf_faults_have_line_and_cure(text: str, said: str) -> None:
    found = problems(text)
    assert re.search(said, found[0]), found


def test_all_faults_come_at_once() -> None:
    found = problems("SwitchName=a Nodes=(null)\nSwitchName=b Nodes=n[3-1]\nSwitchNam=c\n")
    assert [line.split(":")[1] for line in found] == ["1", "2", "3"]


def test_slurm_yaml_takes_the_default_tree_and_remarks_on_the_rest() -> None:
    text = """- topology: blocks
  block: {blocks: [{block: b1, nodes: "n[1-2]"}]}
- topology: other
  tree: {switches: [{switch: x, nodes: n9}]}
- topology: main
  cluster_default: true
  tree:
    switches:
    - {switch: root, children: "s[1-2]"}
    - {switch: s1, nodes: "n[01-02]"}
    - {switch: s2, nodes: 1e5}
"""
    plan = load_text(text, "t.yaml")
    assert (plan.name, plan.source) == ("main", "slurm-yaml")
    assert plan.hosts == ("n01", "n02", "1e5")
    assert [remark.partition(" is ")[0] for remark in plan.remarks] == [
        "t.yaml:1: topology blocks (block)",
        "t.yaml:3: topology other (tree)",
    ]


def test_blocks_alone_are_groups_of_hosts_without_cables() -> None:
    conf = "BlockName=b1 Nodes=n[1-2]\nBlockSizes=2\n"
    as_yaml = "- topology: t\n  block:\n    blocks:\n    - {block: b1, nodes: 'n[1-2]'}\n"
    for text in (conf, as_yaml):
        plan = load_text(text)
        assert plan.blocks == {"b1": ("n1", "n2")}
        assert counts(plan) == (0, 2, 0, 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("slurm-guide-multiroot.conf", (8, 16, 16, 16)),
        ("slurm-test_133_1-case1.conf", (529, 10_000, 528, 10_000)),
        ("slurm-test_133_1-case3.conf", (23, 400, 22, 400)),
        ("slurm-test_133_1-case6.conf", (7, 40, 4, 40)),
        ("slurm-man-topology.yaml", (3, 4, 2, 4)),
        ("topograph-oci-sim-tree.conf", (19, 96, 18, 96)),
        ("topograph-dra-block.conf", (0, 96, 0, 0)),
    ],
)
def test_real_slurm_files(name: str, expected: tuple[int, int, int, int]) -> None:
    assert counts(shared(f"slurm/{name}")) == expected


def test_real_slurm_details() -> None:
    multiroot = shared("slurm/slurm-guide-multiroot.conf")
    assert Counter(levels(multiroot).values()) == {0: 4, 1: 4}
    three_trees = shared("slurm/slurm-test_133_1-case6.conf")
    roots = {s.name for s in three_trees.switches} - {cable.a.node for cable in three_trees.cables}
    assert roots == {"spineA", "spineB", "leafC"}
    alias = {switch.name: switch.alias for switch in shared("slurm/topograph-oci-sim-tree.conf").switches}
    assert alias["switch.1.10"] == "leaf-5-2"
    assert len(shared("slurm/topograph-dra-block.conf").blocks) == 12


# --- PTM -------------------------------------------------------------------------------------------------

DOT = """/* a plan
   of two cables */
graph "pod 1" {
    LLDP="" B1="upMinTx=250"
    node [shape=box]
    gpu1 [function=host];
    "leaf1":"swp1" -- "spine1":"swp1" [BFD="bfdtmpl=B1"]   // with a template
    leaf1:swp2 -- "spine2:swp1"
    "leaf1":"swp3" -- gpu1:eth0
}
"""


def test_ptm_graph() -> None:
    plan = load_text(DOT, "t.dot")
    assert (plan.name, plan.source, plan.hosts) == ("pod 1", "ptm", ("gpu1",))
    assert ends(plan) == {("leaf1:swp1", "spine1:swp1"), ("leaf1:swp2", "spine2:swp1"), ("leaf1:swp3", "gpu1:eth0")}
    assert plan.cables[0].place == "t.dot:7"


def test_a_port_with_two_cables_is_named_with_both_lines() -> None:
    text = 'graph G {\n"a":"swp1" -- "b":"swp1"\n"a":"swp1" -- "c":"swp1"\n}\n'
    (problem,) = problems(text)
    assert problem.startswith("plan:3: port a:swp1 is used by the cable to b:swp1 (line 2) and by the cable to c:swp1;")


def test_two_spellings_of_a_port_are_one_port() -> None:
    text = 'graph G {\n"a":"e1-1" -- "b":"swp1"\n"a":"ethernet-1/1" -- "c":"swp1"\n}\n'
    assert "port a:ethernet-1/1 is used by the cable to b:swp1 (line 2)" in problems(text)[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('digraph G {\n"a":"1" -> "b":"1"\n}', "plan:1: a digraph"),
        ('graph G {\n"a":"1" -> "b":"1"\n}', "plan:2: an arrow"),
        ('graph G {\nsubgraph x { "a":"1" -- "b":"1" }\n}', "plan:2: a group of nodes"),
        ('graph G {\n"a":"1" -- "b":"1" [LLDP="lldptmpl=L1"]\n}', 'plan:2: LLDP refers to template "L1"'),
        ('graph G {\n"a":"1" -- "b":"1" [LLDP="match_type=mac"]\n}', 'plan:2: match_type is "mac"'),
        ('graph G {\n"a":"1" -- "b\n', "a quote that is never closed"),
        ("graph G {\na -- b /* x", "a remark that is never closed"),
        ("graph G {\na -- \n}", "plan:3: .* where the other end of the cable belongs"),
        ("graph G {\na:1 -- a:1\n}", "a cable from a:1 to itself"),
        ("graph G {\na:1 -- b:1\n", "the end of the file"),
    ],
)
def test_ptm_faults_have_line_and_cure(text: str, said: str) -> None:
    assert re.search(said, problems(text, Format.PTM)[0]), problems(text, Format.PTM)


def test_real_ptm_file() -> None:
    plan = shared("cabling/ptm-sample.dot")
    assert counts(plan) == (2, 0, 4, 0)
    assert ends(plan) == {(f"switch1:swp{n}", f"switch2:swp4{n}") for n in (1, 2, 3, 4)}


# --- containerlab ----------------------------------------------------------------------------------------

CLAB = """name: lab
topology:
  defaults: {kind: linux}
  groups: {edge: {kind: nokia_srlinux}}
  nodes:
    leaf1: {group: edge}
    spine1: {kind: nokia_srlinux}
    client1: {}
    frr1: {}
    pc1: {}
    pc2: {labels: {graph-icon: server}}
  links:
  - endpoints: ["leaf1:e1-1", "spine1:e1-1"]
  - endpoints: ["client1:eth1", "leaf1:e1-2"]
  - type: veth
    endpoints: [{node: frr1, interface: eth1}, {node: pc1, interface: eth1}]
  - endpoints: ["frr1:eth2", "pc2:eth1"]
  - endpoints: ["leaf1:e1-9", "host:uplink"]
  - {type: mgmt-net, endpoint: {node: leaf1, interface: e1-8}}
"""


def test_containerlab() -> None:
    plan = load_text(CLAB, "t.clab.yml")
    assert (plan.name, plan.source) == ("lab", "containerlab")
    assert plan.hosts == ("client1", "pc1", "pc2")
    assert counts(plan) == (3, 3, 1, 3)
    assert len(plan.remarks) == 2


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ('["a:e1-1"]', "has 1 endpoints"),
        ('["a:e1-1", "b"]', "a node and its interface"),
        ('["a:e1-1", "c:e1-1"]', 'a link to "c", which is no node'),
        ("x", "has 0 endpoints"),
    ],
)
def test_containerlab_faults(links: str, said: str) -> None:
    text = f"topology:\n  nodes: {{a: {{kind: x}}, b: {{kind: x}}}}\n  links:\n  - endpoints: {links}\n"
    found = problems(text, Format.CONTAINERLAB)
    assert said in found[0]
    assert found[0].startswith("plan:4: ")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("clos01", (3, 2, 2, 2)),
        ("clos02", (10, 4, 12, 4)),
        ("cvx02", (1, 1, 0, 1)),
        ("srl03", (4, 4, 14, 4)),
    ],
)
def test_real_containerlab_files(name: str, expected: tuple[int, int, int, int]) -> None:
    assert counts(shared(f"containerlab/{name}.clab.yml")) == expected


# --- SONiC -----------------------------------------------------------------------------------------------


def test_sonic_links() -> None:
    text = "StartDevice,StartPort,EndDevice,EndPort,BandWidth\nleaf,Ethernet0,spine,Ethernet4,100000\na,p1,b,p2,\n"
    plan = load_text(text)
    assert ends(plan) == {("leaf:Ethernet0", "spine:Ethernet4"), ("a:p1", "b:p2")}
    assert [cable.rate_bps for cable in plan.cables] == [100 * 10**9, None]


def test_sonic_links_faults() -> None:
    head = "StartDevice,StartPort,EndDevice,EndPort,BandWidth\n"
    assert "plan:1: the first line does not name EndPort" in problems("StartDevice,StartPort,EndDevice\na,1,b\n")[0]
    found = problems(f"{head}a,1,,2,100\nb,1,c,1,fast\nd,1,e,1,100\nd,1,f,1,100\n")
    assert [line.split(":")[1] for line in found] == ["2", "3", "5"]
    assert "no EndDevice" in found[0]
    assert 'bandwidth "fast"' in found[1]
    assert "port d:1 is used" in found[2]


MINIGRAPH = """<DeviceMiniGraph xmlns="x" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
  <PngDec><DeviceInterfaceLinks>
    <DeviceLinkBase i:type="DeviceInterfaceLink"><Bandwidth>40000</Bandwidth>
      <StartDevice>tor1</StartDevice><StartPort>fortyGigE0/8</StartPort>
      <EndDevice>t1</EndDevice><EndPort>Ethernet1</EndPort></DeviceLinkBase>
    <DeviceLinkBase i:type="DeviceInterfaceLink">
      <StartDevice>tor1</StartDevice><StartPort>fortyGigE0/0</StartPort>
      <EndDevice>srv1</EndDevice><EndPort>NIC0</EndPort></DeviceLinkBase>
    <DeviceLinkBase i:type="DeviceMgmtLink"><StartDevice>tor1</StartDevice><EndDevice>m0</EndDevice></DeviceLinkBase>
  </DeviceInterfaceLinks><Devices>
    <Device i:type="ToRRouter"><Hostname>tor1</Hostname></Device>
    <Device i:type="LeafRouter"><Hostname>t1</Hostname></Device>
    <Device i:type="Server"><Hostname>srv1</Hostname></Device>
  </Devices></PngDec>
  <Hostname>tor1</Hostname>
</DeviceMiniGraph>
"""


def test_minigraph() -> None:
    plan = load_text(MINIGRAPH)
    assert (plan.name, plan.hosts) == ("tor1", ("srv1",))
    assert {s.name: s.role for s in plan.switches} == {"tor1": Role.LEAF, "t1": Role.SPINE}
    assert plan.cables[0].rate_bps == 40 * 10**9
    assert counts(plan) == (2, 1, 1, 1)
    assert "management" in plan.remarks[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('<!DOCTYPE x [<!ENTITY a "b">]>\n<DeviceMiniGraph>&a;</DeviceMiniGraph>', "plan:1: a document type"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><DeviceMiniGraph/>', "a document type"),
        ("<DeviceMiniGraph>\n<a></DeviceMiniGraph>", "plan:2: not well-formed"),
        ("<other/>", "<other> where <DeviceMiniGraph> belongs"),
        ("<a>" * 100, "too deep"),
    ],
)
def test_dangerous_or_broken_xml_is_refused(text: str, said: str) -> None:
    assert said in problems(text)[0]


def test_sonic_testbed() -> None:
    text = """topology:
  host_interfaces: [0, 1, 2]
  disabled_host_interfaces: [1]
  VMs:
    ARISTA01T1: {vlans: [28, 29], vm_offset: 0}
configuration:
  ARISTA01T1: {interfaces: {Loopback0: {}, Ethernet1: {}, Ethernet2: {}, Port-Channel1: {}}}
"""
    plan = load_text(text)
    assert ends(plan) == {
        ("ptf:eth0", "DUT:0"),
        ("ptf:eth2", "DUT:2"),
        ("DUT:28", "ARISTA01T1:Ethernet1"),
        ("DUT:29", "ARISTA01T1:Ethernet2"),
    }
    assert "no port index" in problems(text.replace("[0, 1, 2]", "[x]"))[0]


def test_real_sonic_files() -> None:
    links = shared("sonic/sonic_lab_links.csv")
    assert len(links.cables) == 77
    assert links.cables[0].rate_bps == 40 * 10**9
    assert sum(cable.a.node == cable.b.node for cable in links.cables) == len(links.remarks) == 17
    minigraph = shared("sonic/minigraph-simple-sample-graph.xml")
    assert ends(minigraph) == {("switch-t0:fortyGigE0/8", "ARISTA01T1:et1")}
    assert minigraph.cables[0].rate_bps == 10**9
    assert counts(shared("sonic/topo_t0-16.yml")) == (7, 1, 6, 16)


# --- topograph and NetQ ----------------------------------------------------------------------------------


def test_topograph_models_may_have_empty_racks_and_gaps() -> None:
    text = """switches:
  core: {switches: [sw1, sw2]}
  sw1: {switches: [rack1, rack2]}
blocks:
- {switch: rack1, nodes: ["n[1-2]", n4], annotations: {x.test/domain: d1}}
- {switch: lonely, nodes: [n9]}
"""
    plan = load_text(text)
    assert {s.name for s in plan.switches} == {"core", "sw1", "sw2", "rack1", "rack2", "lonely"}
    assert plan.hosts == ("n1", "n2", "n4", "n9")
    assert plan.blocks == {"d1": ("n1", "n2", "n4")}
    assert levels(plan)["rack2"] == 0
    assert levels(plan)["core"] == 2


@pytest.mark.parametrize(
    ("name", "expected", "blocks"),
    [("small-tree", (3, 6, 2, 6), 2), ("medium", (7, 8, 6, 8), 4), ("dual-xclr-irregular", (34, 255, 33, 255), 2)],
)
def test_real_topograph_models(name: str, expected: tuple[int, int, int, int], blocks: int) -> None:
    plan = shared(f"topograph/{name}.yaml")
    assert counts(plan) == expected
    assert len(plan.blocks) == blocks


NETQ = """[{"nodes": [{"node_type": "tier", "tier": 1, "compounded_nodes": [
  {"id": "node0", "name": "leaf", "device_type": "switch", "tier": 1}]},
 {"node_type": "tier", "tier": -1, "compounded_nodes": [
  {"id": "node1", "name": "gpu", "device_type": "discovered_via_lldp", "tier": -1},
  {"id": "node2", "name": "gpu", "device_type": "host", "tier": 0}]}],
 "links": [{"compounded_links": [
  {"interfaces": [{"node": "node0", "interface": "swp1"}, {"node": "node1", "interface": "ens1"}]},
  {"interfaces": [{"node": "node0", "interface": "swp2"}, {"node": "node1", "interface": "ens2"}]}]}]}]
"""


def test_netq_bundles_are_several_cables() -> None:
    plan = load_text(NETQ)
    assert ends(plan) == {("leaf:swp1", "node1:ens1"), ("leaf:swp2", "node1:ens2")}
    assert plan.hosts == ("node1", "node2")
    assert "2 nodes are called gpu" in plan.remarks[0]


def test_real_netq_graph() -> None:
    plan = shared("topograph/netq-topologyGraph.json")
    assert counts(plan) == (3, 8, 47, 32)
    pairs = Counter(frozenset((cable.a.node, cable.b.node)) for cable in plan.cables)
    assert pairs[frozenset(("net-unit-l2", "dgx-05"))] == 4
    assert pairs[frozenset(("net-unit-l1", "net-unit-s1"))] == 28
    assert levels(plan) == {"net-unit-l1": 0, "net-unit-l2": 0, "net-unit-s1": 1}


# --- all of them -----------------------------------------------------------------------------------------


def test_our_own_topology_files_are_plans_too(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text("name: f\nrate: 8M\nleaf_spine: {leaves: 2, spines: 2, hosts_per_leaf: 1}\n")
    plan = load(path)
    assert counts(plan) == (4, 2, 4, 2)
    assert plan.cables[0].a == CableEnd("leaf1", "1")
    assert plan.cables[0].rate_bps == 8_000_000


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("\n# x\nSwitchName=a Nodes=b\n", Format.SLURM_CONF),
        ("# x\n" * 2000 + "graph G {\n}", Format.PTM),
        ("/* x */ strict graph {\n}", Format.PTM),
        ("- topology: t\n  tree: {}\n", Format.SLURM_YAML),
        (CLAB, Format.CONTAINERLAB),
        (MINIGRAPH, Format.MINIGRAPH),
        (NETQ, Format.NETQ),
        ("blocks: []\n", Format.TOPOGRAPH),
        ("switches: {}\n", Format.TOPOGRAPH),
        ("name: graph\nswitches: []\n", Format.HEDDLE),
        ("topology: {VMs: {}}\n", Format.SONIC_TESTBED),
        ("\ufeffStartDevice,StartPort,EndDevice,EndPort\n", Format.SONIC_LINKS),
    ],
)
def test_formats_are_told_apart_by_content(text: str, form: Format) -> None:
    assert detect(text) is form


@pytest.mark.parametrize("text", ["", "hello", "a: 1\n", "[1, 2]", "{}"])
def test_what_is_no_plan_is_said_with_what_would_be(text: str) -> None:
    with pytest.raises(PlanFileError, match="none of the formats"):
        detect(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PlanFileError, match="cannot be read"):
        load(tmp_path / "absent")
    (tmp_path / "binary").write_bytes(b"SwitchName=\xff\n")
    with pytest.raises(PlanFileError, match="binary:1: is not UTF-8"):
        load(tmp_path / "binary")
