"""Topology files: the shipped ones, what is filled in, and one case for every fault that must be named."""

from pathlib import Path
from textwrap import dedent

import pytest

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan
from controller.formats.topology_file import SCHEMA_COMMENT, TopologyFileError, explicit_yaml, load, load_text
from controller.formats.topology_remarks import remarks
from controller.formats.topology_schema import json_schema
from controller.formats.yaml_lines import MAX_BYTES

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
SHIPPED = sorted(TOPOLOGIES.glob("*.yaml"))

# A sound file for the cases below to spoil; the first switch is on line 4.
SOUND = """\
name: small
rate: 8M
switches:
  - {name: leaf1, role: leaf}
  - {name: leaf2, role: leaf}
  - {name: spine1, role: spine}
links:
  - {a: leaf1:1, b: spine1:1}
  - {a: leaf2:1, b: spine1:2}
hosts:
  - {name: h1_1, at: leaf1:2}
  - {name: h2_1, at: leaf2:2}
"""


def problems_of(text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(TopologyFileError) as caught:
        load_text(text, "bad.yaml")
    assert all(problem.file == "bad.yaml" for problem in caught.value.problems)
    return [(problem.line, problem.what, problem.cure) for problem in caught.value.problems]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_files_are_sound_and_unremarkable(path: Path) -> None:
    plan = load(path)
    assert plan.name == path.stem
    assert remarks(plan) == ()
    assert path.read_text().startswith(SCHEMA_COMMENT + "\n")


def test_the_needed_files_are_shipped() -> None:
    sizes = {}
    for path in SHIPPED:
        plan = load(path)
        leaves = sum(switch.role == Role.LEAF for switch in plan.switches)
        sizes[path.stem] = (leaves, len(plan.switches) - leaves, len(plan.links), len(plan.hosts))
    assert sizes == {
        "dpu-two-leaves": (3, 3, 8, 4),
        "leafspine-1x": (2, 1, 2, 4),
        "leafspine-2x2": (2, 2, 4, 4),
        "leafspine-2x4": (2, 4, 8, 8),
        "leafspine-4x4": (4, 4, 16, 16),
        "parallel-unequal": (3, 2, 8, 6),
        "rails-4x2": (4, 2, 8, 8),
        "threetier-2x2x2": (4, 8, 16, 8),
    }


def test_the_shipped_schema_is_current() -> None:
    written = (TOPOLOGIES / "topology.schema.json").read_text()
    assert written == json_schema(), "python -m controller.formats.topology_schema > topologies/topology.schema.json"


def test_parallel_unequal_has_parallel_cables_and_two_speeds() -> None:
    plan = load(TOPOLOGIES / "parallel-unequal.yaml")
    pairs = [(link.a, link.b) for link in plan.links]
    assert pairs.count(("leaf1", "spine1")) == 2
    assert {link.rate_bps for link in plan.links} == {8_000_000, 4_000_000}


def test_numbers_of_a_regular_fabric_follow_the_convention() -> None:
    plan = load_text(
        "name: x\nrate: 1G\nleaf_spine: {leaves: 2, spines: 3, hosts_per_leaf: 2, links_per_pair: 2, uplink_rate: 4G}"
    )
    assert [(switch.name, switch.dpid) for switch in plan.switches] == [
        ("leaf1", 0x101),
        ("leaf2", 0x102),
        ("spine1", 0x201),
        ("spine2", 0x202),
        ("spine3", 0x203),
    ]
    uplinks = [(link.a_port, link.b, link.b_port) for link in plan.links if link.a == "leaf2"]
    assert uplinks == [
        (1, "spine1", 3),
        (2, "spine1", 4),
        (3, "spine2", 3),
        (4, "spine2", 4),
        (5, "spine3", 3),
        (6, "spine3", 4),
    ]
    assert {link.rate_bps for link in plan.links} == {4_000_000_000}
    last = plan.hosts[-1]
    assert (last.name, last.switch, last.port) == ("h2_2", "leaf2", 8)
    assert (last.ipv4, last.prefix_length, last.mac) == ("10.0.2.2", 8, "02:00:0a:00:02:02")
    assert last.rate_bps == 1_000_000_000


def test_leaf_spine_and_its_explicit_form_are_the_same_plan() -> None:
    plan = load(TOPOLOGIES / "leafspine-4x4.yaml")
    assert load_text(explicit_yaml(plan)) == plan


def test_what_is_written_is_reserved_before_anything_is_assigned() -> None:
    plan = load_text(
        dedent("""\
        name: mixed
        rate: 10M
        switches:
          - {name: a, role: leaf}
          - {name: b, role: leaf, dpid: 0x101}
          - {name: s, role: spine}
        links:
          - {a: a, b: s}
          - {a: a, b: s}
        hosts:
          - {name: x, at: a}
          - {name: y, at: "a:1", ipv4: 10.0.1.1/8, mac: "02:00:0a:00:01:02"}
        """)
    )
    assert [switch.dpid for switch in plan.switches] == [0x102, 0x101, 0x201]
    assert [(link.a_port, link.b_port) for link in plan.links] == [(2, 1), (3, 2)]
    x, y = plan.hosts
    assert (x.port, x.ipv4, x.mac) == (4, "10.0.1.2", "02:01:0a:00:01:02")
    assert (y.port, y.ipv4, y.mac) == (1, "10.0.1.1", "02:00:0a:00:01:02")


def test_more_hosts_than_a_leafs_block_of_addresses_still_get_distinct_ones() -> None:
    hosts = "".join(f"  - {{name: h{number}, at: leaf1}}\n" for number in range(300))
    plan = load_text(f"name: wide\nrate: 1G\nswitches:\n  - {{name: leaf1, role: leaf}}\nhosts:\n{hosts}")
    assert len({host.ipv4 for host in plan.hosts}) == len({host.mac for host in plan.hosts}) == 300


@pytest.mark.parametrize(
    ("written", "rate_bps"),
    [("8000000", 8_000_000), ("8M", 8_000_000), ('"2.5G"', 2_500_000_000), ("100k", 100_000), ("0x10", 16)],
)
def test_rates_are_whole_bits_per_second(written: str, rate_bps: int) -> None:
    assert load_text(SOUND.replace("8M", written)).links[0].rate_bps == rate_bps


@pytest.mark.parametrize(
    "written", ["0", "-5", "8m", "8MB", "8Mi", "10 M", "1.5", "0.0001k", "200T", "true", "[8]", "08"]
)
def test_other_rates_are_refused_with_their_line(written: str) -> None:
    [(line, what, cure)] = problems_of(SOUND.replace("8M", written))
    assert line == 2
    assert what.startswith("rate")
    assert "bit/s" in cure


# YAML 1.1 readers turn these into other values: base 60, octal, yes/no.
def test_values_that_yaml_1_1_would_bend_are_taken_as_written() -> None:
    text = SOUND.replace("at: leaf1:2", "at: leaf1:2, mac: 12:34:56:01:02:03").replace("name: h2_1", "name: no")
    plan = load_text(text)
    assert plan.hosts[0].mac == "12:34:56:01:02:03"
    assert plan.hosts[1].name == "no"
    [(line, what, _)] = problems_of(SOUND.replace("{name: leaf1, role: leaf}", "{name: leaf1, role: leaf, dpid: 0101}"))
    assert (line, what) == (4, 'switches[0].dpid is text ("0101")')


FAULTS = {
    # name: (old text, new text, line, part of what, part of cure)
    "unknown key": ("role: leaf}", "role: leaf, dpi: 7}", 4, 'unknown key "dpi"', 'did you mean "dpid"'),
    "unknown section": ("rate: 8M", "rate: 8M\ncolour: 1", 3, 'unknown key "colour"', "switches, links, hosts"),
    "missing key": ("{name: leaf1, role: leaf}", "{name: leaf1}", 4, 'missing key "role"', "role: leaf"),
    "missing name": ("name: small\n", "", 1, 'missing key "name"', "name: leafspine-4x4"),
    "missing rate": ("rate: 8M\n", "", 7, "has no rate", "at the top of the file"),
    "wrong type": ("at: leaf1:2", "at: 7", 11, "hosts[0].at is a number (7)", "leaf1:5"),
    "wrong type of list": ("hosts:\n", "hosts: 3\nx:\n", 10, "hosts is a number", "hosts: ["),
    "duplicate key": (
        "rate: 8M\n",
        "rate: 8M\nrate: 9M\n",
        3,
        'key "rate" is given twice, first on line 2',
        "keep one",
    ),
    "duplicate switch": (
        "leaf2, role",
        "leaf1, role",
        5,
        'switch name "leaf1" is that of another switch (line 4)',
        "rename",
    ),
    "host like switch": ("h1_1", "spine1", 11, 'host name "spine1" is that of another switch (line 6)', "rename"),
    "duplicate host": ("h2_1", "h1_1", 12, 'host name "h1_1" is that of another host (line 11)', "rename"),
    "dpid zero": ("role: spine", "role: spine, dpid: 0", 6, "dpid is 0, it must be at least 1", "1 to 64 bits"),
    "dpid too wide": (
        "role: spine",
        "role: spine, dpid: 0x10000000000000000",
        6,
        "at most 18446744073709551615",
        "64 bits",
    ),
    "port twice": (
        "b: spine1:2",
        "b: spine1:1",
        9,
        "spine1:1 is used by the cable to leaf1:1 (line 8) and by the cable to leaf2:1",
        "another port",
    ),
    "port twice by a host": (
        "at: leaf1:2",
        "at: leaf1:1",
        11,
        "used by the cable to spine1:1 (line 8) and by host h1_1",
        "another port",
    ),
    "port too high": ("a: leaf1:1", "a: leaf1:65280", 8, "above 65279", "leaf1:1"),
    "port zero": ("a: leaf1:1", "a: leaf1:0", 8, 'links[0].a is "leaf1:0"', "switch:port"),
    "unknown switch in a cable": (
        "b: spine1:2",
        "b: spine2:2",
        9,
        'unknown switch "spine2"',
        "known: leaf1, leaf2, spine1",
    ),
    "unknown switch of a host": ("at: leaf2:2", "at: leaf3:2", 12, 'at unknown switch "leaf3"', "known: leaf1"),
    "self-loop": ("a: leaf2:1, b: spine1:2", "a: leaf2:1, b: leaf2:3", 9, "both on leaf2", "two different switches"),
    "host on a spine": ("at: leaf2:2", "at: spine1:9", 12, "host h2_1 is at spine1, which is a spine", "a leaf"),
    "address without prefix": (
        "at: leaf1:2",
        "at: leaf1:2, ipv4: 10.0.0.1",
        11,
        'ipv4 is "10.0.0.1"',
        "address/prefix",
    ),
    "network address": ("at: leaf1:2", "at: leaf1:2, ipv4: 10.0.0.0/8", 11, "network's own", "10.0.1.1/8"),
    "group MAC": ("at: leaf1:2", "at: leaf1:2, mac: 01:00:5e:00:00:01", 11, "group address", "six hexadecimal pairs"),
    "long host name": ("h1_1", "h1_1_of_rack", 11, '"h1_1_of_rack-eth0" has 17 characters', "by 2 characters"),
    "long by one": ("h1_1", "h1_1_of_rac", 11, '"h1_1_of_rac-eth0" has 16 characters', "by 1 character"),
    "no switches": ("switches:", "switches: []\nx:", 3, "no switches", "leaf_spine"),
    "both forms": (
        "rate: 8M",
        "rate: 8M\nleaf_spine: {leaves: 1, spines: 1, hosts_per_leaf: 1}",
        4,
        'both "leaf_spine"',
        "alone",
    ),
    "anchor": ("- {name: leaf1", "- &x {name: leaf1", 4, 'anchor "x"', "write the value out"),
    "alias": ("- {name: leaf1, role: leaf}", "- *x", 4, 'alias "x"', "write the value out"),
    "tag": ("name: small", "name: !!python/object:os.system small", 1, "tag ", "plain value"),
    "second document": ("hosts:", "---\nhosts:", 10, "second document", "keep one"),
    "syntax": ("links:\n", "links\n", 8, "not valid YAML", "colons"),
    "control character": ("hosts:", "\x01hosts:", 10, "does not allow", "UTF-8"),
    "lone surrogate": ("hosts:", "\ud800hosts:", 10, "not valid Unicode", "remove"),
    "keys": ("rate: 8M", "".join(f"k{n}: 1\n" for n in range(64)) + "rate: 8M", 65, "more than 64 keys", "lists"),
    "depth": ("rate: 8M", "rate: " + "[" * 100 + "]" * 100, 2, "nested deeper", "flatter"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_each_fault_is_named_with_its_line_and_a_cure(case: str) -> None:
    old, new, line, what, cure = FAULTS[case]
    assert old in SOUND
    found = problems_of(SOUND.replace(old, new, 1))
    assert any(what in w and cure in c and at == line for at, w, c in found), found


def test_duplicate_dpids_addresses_and_macs_name_both_users() -> None:
    found = problems_of(
        SOUND.replace("{name: leaf1, role: leaf}", "{name: leaf1, role: leaf, dpid: 9}")
        .replace("{name: spine1, role: spine}", "{name: spine1, role: spine, dpid: 9}")
        .replace("at: leaf1:2", "at: leaf1:2, ipv4: 10.9.0.1/8, mac: 02:00:00:00:00:0A")
        .replace("at: leaf2:2", "at: leaf2:2, ipv4: 10.9.0.1/16, mac: 02:00:00:00:00:0a")
    )
    assert [(line, what) for line, what, _ in found] == [
        (6, "dpid 0x9 of spine1 is that of leaf1 (line 4)"),
        (12, "MAC 02:00:00:00:00:0a of h2_1 is that of h1_1 (line 11)"),
        (12, "address 10.9.0.1 of h2_1 is that of h1_1 (line 11)"),
    ]


def test_a_switch_name_too_long_for_its_highest_port_is_named_with_the_excess() -> None:
    """mininet/mininet#1133: the name fits with one digit of port and not with two."""
    text = SOUND.replace("leaf1", "rackA-leaf").replace("a: rackA-leaf:1,", "a: rackA-leaf:10,")
    [(line, what, cure)] = problems_of(text)
    assert line == 4
    assert what == 'interface name "rackA-leaf-eth10" has 16 characters, Linux allows 15'
    assert cure == 'shorten switch name "rackA-leaf" by 1 character'
    assert load_text(SOUND.replace("leaf1", "rackA-leaf")).switches[0].name == "rackA-leaf"


def test_a_switch_named_like_an_interface_is_refused() -> None:
    [(_, what, _)] = problems_of(SOUND.replace("{name: spine1", "{name: leaf1-eth1").replace("spine1:", "leaf1-eth1:"))
    assert what == 'interface name "leaf1-eth1" is also the name of a switch (line 6)'


def test_every_fault_is_reported_at_once_in_the_order_of_the_file() -> None:
    text = (
        SOUND.replace("8M", "8m")
        .replace("name: leaf2, role: leaf", "name: leaf2, rol: leaf")
        .replace("b: spine1:1", "b: spine9:1")
        .replace("h2_1", "a-very-long-name")
    )
    found = problems_of(text)
    assert [line for line, _, _ in found] == [2, 5, 5, 8, 12]
    # leaf2 is faulty itself, but it is there: its cables and hosts are not reported as leading nowhere.
    assert not any('"leaf2"' in what for _, what, _ in found)


def test_the_error_prints_one_line_for_each_problem_with_file_line_and_cure() -> None:
    with pytest.raises(TopologyFileError) as caught:
        load_text(SOUND.replace("8M", "8m").replace("h2_1", "h1_1"), "rack.yaml")
    first, second = str(caught.value).splitlines()
    assert first.startswith('rack.yaml:2: rate: "8m" is not a rate; write bit/s')
    assert second.startswith('rack.yaml:12: host name "h1_1" is that of another host (line 11); rename')


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "null", "{}"])
def test_an_empty_file_says_what_to_start_with(text: str) -> None:
    [(_, what, cure)] = problems_of(text)
    assert what == "the file is empty"
    assert "leaf_spine:" in cure


@pytest.mark.parametrize("text", ["just text", "- a\n- b", "5"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    [(_, what, _)] = problems_of(text)
    assert what == "the file is not a mapping of keys to values"


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(TopologyFileError, match="cannot be read"):
            load(path)


def test_a_huge_or_binary_file_is_refused_unread(tmp_path: Path) -> None:
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(TopologyFileError, match="larger than 16 MiB"):
        load(huge)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"name: x\n\xff\xfe\x00")
    with pytest.raises(TopologyFileError, match=r"binary\.yaml:2: is not UTF-8"):
        load(binary)


def test_a_billion_laughs_is_refused_at_its_first_anchor() -> None:
    lines = ['a: &a ["lol"]'] + [f"{b}: &{b} [*{a}, *{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    [(line, what, _)] = problems_of("\n".join(lines))
    assert (line, what) == (1, 'anchor "a" is not supported')


@pytest.mark.parametrize(
    ("shape", "what"),
    [
        ("{leaves: 0, spines: 1, hosts_per_leaf: 1}", "leaf_spine.leaves is 0, it must be at least 1"),
        ("{leaves: 2, spines: 1}", 'missing key "hosts_per_leaf" in leaf_spine'),
        ("{leaves: 255, spines: 255, hosts_per_leaf: 0, links_per_pair: 16}", "more than the limit of 65536"),
    ],
)
def test_faults_of_a_regular_fabric_are_named(shape: str, what: str) -> None:
    [(line, found, _)] = problems_of(f"name: x\nrate: 1\nleaf_spine: {shape}")
    assert line == 3
    assert what in found


def test_an_empty_shape_is_no_fabric() -> None:
    [(_, what, cure)] = problems_of("name: x\nleaf_spine:\n")
    assert what == "the fabric has no switches"
    assert "leaf_spine: {leaves: 2" in cure


def test_the_largest_regular_fabrics_have_interface_names_that_fit() -> None:
    """Three digits of spine with three of port, and two with four, are 15 characters."""
    for shape in ("leaves: 255, spines: 255", "leaves: 255, spines: 64, links_per_pair: 4"):
        plan = load_text(f"name: x\nrate: 1G\nleaf_spine: {{{shape}, hosts_per_leaf: 1}}")
        assert max(len(f"{link.b}-eth{link.b_port}") for link in plan.links) == 15


def test_odd_but_workable_fabrics_are_remarked_on() -> None:
    text = SOUND + "  - {name: h2_2, at: leaf2, ipv4: 192.168.1.1/24}\n"
    text = text.replace("links:\n", "  - {name: leaf9, role: leaf}\nlinks:\n  - {a: leaf1:7, b: leaf2:7}\n")
    assert remarks(load_text(text)) == (
        "the cable between leaf1:7 and leaf2:7 joins two leaves; "
        "planned paths use cables between neighbouring tiers only",
        "nothing connects leaf9 to the rest of the fabric",
        "hosts are in 2 subnets (10.0.0.0/8, 192.168.1.0/24); there is no router between them",
    )


def test_a_plan_is_a_value_that_loading_twice_gives_twice() -> None:
    first: FabricPlan = load_text(SOUND)
    assert first == load_text(SOUND)
    assert hash(first) == hash(load_text(SOUND))
