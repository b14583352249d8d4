"""A small good file of each format of cabling plans: what fuzzing damages."""

from controller.formats.plan_files import Format

SAMPLES = {
    Format.SLURM_CONF: """SwitchName=leaf1 Nodes=n[1-2]
SwitchName=spine Switches=leaf1 LinkSpeed=1
BlockName=b Nodes=n1
""",
    Format.SLURM_YAML: """- topology: t
  cluster_default: true
  tree:
    switches:
    - switch: s1
      nodes: n1
""",
    Format.PTM: """graph G {
B1="x=1"
"a":"swp1" -- "b":"swp1" [BFD="bfdtmpl=B1"]
/* x */ c:1 -- d:2 // y
}
""",
    Format.CONTAINERLAB: """topology:
  nodes:
    a: {kind: x}
    b: {kind: linux}
  links:
  - endpoints: ["a:e1", "b:e1"]
""",
    Format.SONIC_LINKS: """StartDevice,StartPort,EndDevice,EndPort,BandWidth
a,1,b,1,40000
c,1,d,1,
""",
    Format.SONIC_TESTBED: """topology:
  host_interfaces: [0, 0.1@3]
  VMs:
    V: {vlans: [4]}
""",
    Format.MINIGRAPH: """<DeviceMiniGraph><PngDec><DeviceInterfaceLinks><DeviceLinkBase>
<StartDevice>a</StartDevice><EndDevice>b</EndDevice>
</DeviceLinkBase></DeviceInterfaceLinks></PngDec></DeviceMiniGraph>
""",
    Format.TOPOGRAPH: """switches:
  core: {switches: [a, b]}
blocks:
- {switch: a, nodes: [n1]}
""",
    Format.NETQ: """[{"nodes": [{"id": "n0", "tier": 1}],
"links": [{"interfaces": [{"node": "n0", "interface": "s"}, {"node": "n1"}]}]}]
""",
    Format.HEDDLE: """name: f
rate: 8M
leaf_spine: {leaves: 2, spines: 2, hosts_per_leaf: 1}
""",
}
