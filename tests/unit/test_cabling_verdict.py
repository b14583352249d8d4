"""What the verdict says of each way in which a cabling can be wrong."""

from dataclasses import replace

from controller.fabric.cabling import (
    Cable,
    CabledSwitch,
    CableEnd,
    CablingPlan,
    SeenCable,
    SeenEnd,
    SeenFabric,
    SeenNeighbour,
    SeenSwitch,
    of_fabric_plan,
)
from controller.fabric.cabling_verdict import CablingVerdict, Kind, verdict
from controller.formats.topology_file import load_text

PLAN = of_fabric_plan(load_text("name: t\nrate: 100G\nleaf_spine: {leaves: 2, spines: 3, hosts_per_leaf: 1}"))


def as_built(plan: CablingPlan) -> SeenFabric:
    """Everything as it was meant."""
    switches = tuple(SeenSwitch(s.name, s.role) for s in plan.switches)
    cables = tuple(SeenCable(_seen(c.a), _seen(c.b), "up", c.rate_bps, "say the ports") for c in plan.cables)
    return SeenFabric(switches, dict.fromkeys(plan.hosts, ()), cables)


def _seen(end: CableEnd) -> SeenEnd:
    return SeenEnd(end.node, int(end.port), f"{end.node}-eth{end.port}") if end.port else SeenEnd(end.node)


SEEN = as_built(PLAN)


def with_cables(change: dict[int, SeenCable | None], *more: SeenCable) -> SeenFabric:
    """`SEEN` with some of its cables replaced, or taken out."""
    cables = [change.get(index, cable) for index, cable in enumerate(SEEN.cables)]
    return replace(SEEN, cables=(*(cable for cable in cables if cable is not None), *more))


def kinds(found: CablingVerdict) -> list[str]:
    return [finding.kind.value for finding in found.findings]


def test_a_fabric_as_it_was_meant_is_right() -> None:
    found = verdict(PLAN, SEEN)
    assert found.holds
    assert len(found.right) == found.planned == 8
    assert found.findings == ()


def test_two_swapped_cables_are_two_findings_with_one_cure() -> None:
    one, other = SEEN.cables[0], SEEN.cables[4]  # leaf1 to spine1, leaf2 to spine2
    found = verdict(PLAN, with_cables({0: replace(one, b=other.b), 4: replace(other, b=one.b)}))
    assert kinds(found) == ["miswired", "miswired"]
    first, second = found.findings
    assert (first.expected, first.found) == ("leaf1:1 to spine1:1", "leaf1:1 to spine2:2 and spine1:1 to leaf2:2")
    assert first.cure == "swap the plugs in spine1:1 and spine2:2"
    assert second.cure == "swap the plugs in spine2:2 and spine1:1"
    assert len(found.right) == 6


def test_a_far_end_that_moved_is_expected_there_and_found_here() -> None:
    """B3: leaf1:3 expected spine3:1, found at a port nobody uses."""
    moved = replace(SEEN.cables[2], b=SeenEnd("spine2", 4, "spine2-eth4"))
    found = verdict(PLAN, with_cables({2: moved}))
    assert kinds(found) == ["miswired"]
    finding = found.findings[0]
    assert (finding.expected, finding.found) == ("leaf1:3 to spine3:1", "leaf1:3 to spine2:4")
    assert finding.cure == "move the plug in spine2:4 to spine3:1"


def test_missing_one_way_and_wrong_rate_are_told_apart() -> None:
    change = {0: None, 1: replace(SEEN.cables[1], state="one-way"), 2: replace(SEEN.cables[2], rate_bps=40 * 10**9)}
    found = verdict(PLAN, with_cables(change))
    assert kinds(found) == ["missing", "wrong rate", "one-way"]
    rate = found.findings[1]
    assert (rate.expected, rate.found) == ("leaf1:3 to spine3:1 at 100 Gb/s", "40 Gb/s (say the ports)")
    assert len(found.right) == 5


def test_a_link_that_is_down_is_missing_and_never_unplanned() -> None:
    down = replace(SEEN.cables[0], state="down")
    assert kinds(verdict(PLAN, with_cables({0: down}))) == ["missing"]
    strange = SeenCable(SeenEnd("leaf1", 9), SeenEnd("spine1", 9), "down")
    assert verdict(PLAN, with_cables({}, strange)).holds


def test_what_nobody_planned_is_said_once() -> None:
    extra = SeenCable(SeenEnd("leaf1", 9, "leaf1-eth9"), SeenEnd("leaf2", 9, "leaf2-eth9"))
    found = verdict(PLAN, with_cables({}, extra))
    assert kinds(found) == ["unplanned"]
    assert found.findings[0].found == "leaf1:9 to leaf2:9"
    assert len(found.right) == 8


def test_a_rate_that_one_side_does_not_know_is_no_fault() -> None:
    assert verdict(PLAN, with_cables({0: replace(SEEN.cables[0], rate_bps=None)})).holds
    unrated = replace(PLAN, cables=tuple(replace(cable, rate_bps=None) for cable in PLAN.cables))
    assert verdict(unrated, SEEN).holds


def test_a_switch_that_is_away_is_named_at_each_of_its_cables() -> None:
    gone = replace(
        SEEN,
        switches=tuple(replace(s, connected=s.name != "spine2") for s in SEEN.switches),
        cables=tuple(c for c in SEEN.cables if c.b.node != "spine2"),
    )
    found = verdict(PLAN, gone)
    assert [finding.found for finding in found.findings] == ["spine2 not connected to the controller"] * 2


def test_a_host_that_is_silent_is_no_fault_but_one_elsewhere_is() -> None:
    at = next(index for index, cable in enumerate(SEEN.cables) if cable.a.node == "h1_1")
    silent = replace(with_cables({at: None}), hosts={"h2_1": ()})
    found = verdict(PLAN, silent)
    assert kinds(found) == ["host not seen"]
    assert found.holds
    moved = with_cables({at: SeenCable(SeenEnd("h1_1"), SeenEnd("leaf2", 7, "leaf2-eth7"))})
    found = verdict(PLAN, moved)
    assert kinds(found) == ["miswired"]
    assert found.findings[0].found == "h1_1 to leaf2:7"


def plan_of(*cables: Cable, counted: bool = True, hosts: tuple[str, ...] = ()) -> CablingPlan:
    names = dict.fromkeys(end.node for cable in cables for end in (cable.a, cable.b) if end.node not in hosts)
    return CablingPlan("p", "test", tuple(CabledSwitch(n) for n in names), hosts, cables, counted)


def seen_of(*cables: SeenCable, hosts: tuple[str, ...] = ()) -> SeenFabric:
    names = dict.fromkeys(end.node for cable in cables for end in (cable.a, cable.b) if end.node not in hosts)
    return SeenFabric(tuple(SeenSwitch(name) for name in names), dict.fromkeys(hosts, ()), cables)


def test_abbreviated_ports_are_right_and_other_names_a_question() -> None:
    """B7: `Eth1/47` is what `Ethernet1/47` was meant to be; `swp47` may be."""
    plan = plan_of(Cable(CableEnd("leaf2", "Ethernet1/47"), CableEnd("spine1", "Ethernet1/2")))
    short = seen_of(SeenCable(SeenEnd("leaf2", 7, "Eth1/47"), SeenEnd("spine1", 2, "Eth1/2")))
    assert verdict(plan, short).findings == ()
    other = seen_of(SeenCable(SeenEnd("leaf2", 7, "swp47"), SeenEnd("spine1", 2, "Eth1/2")))
    found = verdict(plan, other)
    assert kinds(found) == ["two names"]
    assert found.holds
    wrong = seen_of(SeenCable(SeenEnd("leaf2", 7, "Eth1/48"), SeenEnd("spine1", 2, "Eth1/2")))
    assert kinds(verdict(plan, wrong)) == ["miswired"]


def test_a_sure_name_takes_the_cable_before_a_doubtful_one() -> None:
    plan = plan_of(
        Cable(CableEnd("leaf1", "swp1"), CableEnd("spine1", "swp1")),
        Cable(CableEnd("leaf1", "Ethernet1"), CableEnd("spine1", "Ethernet9")),
    )
    seen = seen_of(SeenCable(SeenEnd("leaf1", 1, "Ethernet1"), SeenEnd("spine1", 1, "Ethernet9")))
    found = verdict(plan, seen)
    assert [cable.a.port for cable in found.right] == ["Ethernet1"]
    assert kinds(found) == ["missing"]


def test_a_tree_asks_only_whether_two_switches_are_joined() -> None:
    plan = plan_of(Cable(CableEnd("leaf1"), CableEnd("spine1")), counted=False)
    pair = (SeenEnd("leaf1", 1, "x"), SeenEnd("spine1", 1, "x"))
    assert verdict(plan, seen_of(SeenCable(*pair), SeenCable(SeenEnd("leaf1", 2), SeenEnd("spine1", 2)))).holds
    assert kinds(verdict(plan, seen_of(SeenCable(*pair, state="down")))) == ["missing"]


def test_parallel_cables_are_counted_where_the_plan_counts() -> None:
    cable = Cable(CableEnd("leaf1"), CableEnd("spine1"))
    one = SeenCable(SeenEnd("leaf1", 1), SeenEnd("spine1", 1))
    other = SeenCable(SeenEnd("leaf1", 2), SeenEnd("spine1", 2))
    assert verdict(plan_of(cable, cable), seen_of(one, other)).holds
    assert kinds(verdict(plan_of(cable, cable), seen_of(one))) == ["missing"]
    assert kinds(verdict(plan_of(cable), seen_of(one, other))) == ["unplanned"]


def test_switches_are_known_by_full_name_and_alias() -> None:
    plan = plan_of(Cable(CableEnd("leaf1.dc1.example", "1"), CableEnd("switch.2.1", "1")))
    plan = replace(plan, switches=(CabledSwitch("leaf1.dc1.example"), CabledSwitch("switch.2.1", alias="spine-1")))
    assert verdict(plan, seen_of(SeenCable(SeenEnd("leaf1", 1), SeenEnd("spine-1", 1)))).holds


def test_rails_are_cables_of_one_host_to_several_leaves() -> None:
    """B50f."""
    rails = [Cable(CableEnd("gpu1", f"eth{n}"), CableEnd(f"rail{n}", "1")) for n in (0, 1)]
    plan = plan_of(*rails, hosts=("gpu1",))
    both = [SeenCable(SeenEnd("gpu1"), SeenEnd(f"rail{n}", 1, "")) for n in (0, 1)]
    assert verdict(plan, seen_of(*both, hosts=("gpu1",))).holds
    assert kinds(verdict(plan, seen_of(both[0], hosts=("gpu1",)))) == [Kind.SILENT_HOST.value]
    at_one = SeenCable(SeenEnd("gpu1"), SeenEnd("rail0", 2, ""))
    assert kinds(verdict(plan, seen_of(both[0], at_one, hosts=("gpu1",)))) == ["miswired"]


# --- neighbours that are none of ours ---------------------------------------------------------------------------------


def neighbour(name: str, port: str, at: str, kind: str = "switch") -> SeenNeighbour:
    node, _, number = at.partition(":")
    cable = SeenCable(SeenEnd(name, None, port), SeenEnd(node, int(number), f"{node}-eth{number}"))
    return SeenNeighbour(cable, kind, f"{kind} {name}")


STORAGE = replace(
    PLAN,
    switches=(*PLAN.switches, CabledSwitch("storage-sw.example.net")),
    cables=(*PLAN.cables, Cable(CableEnd("leaf1", "9"), CableEnd("storage-sw.example.net", "Ethernet1/32"))),
)


def test_a_plan_may_name_a_switch_that_is_not_ours() -> None:
    """It is known by its LLDP alone, under a short name and an abbreviated port (B6, B7)."""
    there = replace(SEEN, neighbours=(neighbour("storage-sw", "Eth1/32", "leaf1:9"),))
    assert verdict(STORAGE, there).holds
    assert len(verdict(STORAGE, there).right) == 9
    elsewhere = replace(SEEN, neighbours=(neighbour("storage-sw", "Eth1/31", "leaf1:9"),))
    (finding,) = verdict(STORAGE, elsewhere).findings
    assert finding.kind is Kind.MISWIRED
    assert "leaf1:9 to storage-sw:Eth1/31" in finding.found
    assert kinds(verdict(STORAGE, SEEN)) == ["missing"]


def test_a_foreign_switch_that_nobody_planned_is_reported() -> None:
    found = verdict(PLAN, replace(SEEN, neighbours=(neighbour("storage-sw", "Ethernet32", "leaf1:9"),)))
    assert kinds(found) == ["unplanned"]


def test_a_nic_in_a_silent_hosts_port_is_no_fault_and_is_named() -> None:
    silent = PLAN.to_hosts()[0][0]
    index = next(i for i, c in enumerate(SEEN.cables) if c.a.node == silent)
    at = SEEN.cables[index].b
    hosts = {name: addresses for name, addresses in SEEN.hosts.items() if name != silent}
    nic = neighbour("50:6b:4b:f6:1e:b3", "ConnectX-4 Lx", f"{at.node}:{at.number}", "NIC")
    found = verdict(PLAN, replace(with_cables({index: None}), hosts=hosts, neighbours=(nic,)))
    assert found.holds
    (finding,) = found.findings
    assert finding.kind is Kind.SILENT_HOST
    assert finding.found == f"{silent} is not seen at all, but NIC 50:6b:4b:f6:1e:b3 is plugged in"


def test_a_hosts_own_name_counts_only_where_the_plan_knows_it() -> None:
    unknown = neighbour("localhost", "eth0", "leaf1:9", "host")
    assert verdict(PLAN, replace(SEEN, neighbours=(unknown,))).holds


RAILED = of_fabric_plan(
    load_text("name: r\nrate: 100G\nleaf_spine: {leaves: 2, spines: 1, hosts_per_leaf: 2, rails: 2}")
)


def railed(*changed: tuple[int, str]) -> SeenFabric:
    """As built, but for the names of some hosts' ports by the number of their cable."""
    ports = dict(changed)
    hosts = frozenset(RAILED.hosts)
    switches = tuple(SeenSwitch(s.name, s.role) for s in RAILED.switches)
    cables = []
    for number, cable in enumerate(RAILED.cables):
        near = SeenEnd(cable.a.node, None, cable.a.port) if cable.a.node in hosts else _seen(cable.a)
        near = replace(near, name=ports.get(number, near.name))
        cables.append(SeenCable(near, _seen(cable.b)))
    return SeenFabric(switches, dict.fromkeys(RAILED.hosts, ()), tuple(cables))


def test_interfaces_of_one_host_in_each_others_ports_are_two_findings_with_one_cure() -> None:
    assert verdict(RAILED, railed()).holds
    numbers = [i for i, cable in enumerate(RAILED.cables) if cable.a.node == "h1_1"]
    found = verdict(RAILED, railed((numbers[0], "nic2"), (numbers[1], "nic1")))
    assert [(f.expected, f.found) for f in found.faults] == [
        ("h1_1:nic1 to leaf1:2", "h1_1:nic1 to leaf2:2 and leaf1:2 to h1_1:nic2"),
        ("h1_1:nic2 to leaf2:2", "h1_1:nic2 to leaf1:2 and leaf2:2 to h1_1:nic1"),
    ]
    assert {f.cure.removeprefix("swap the plugs in ") for f in found.faults} == {
        "leaf1:2 and leaf2:2",
        "leaf2:2 and leaf1:2",
    }


def test_counted_interfaces_do_not_contradict_named_ones() -> None:
    """A containerlab file calls a host's ports eth1 and eth2; what is seen of them is their number by our own plan."""
    named = replace(
        RAILED,
        cables=tuple(
            replace(c, a=replace(c.a, port="eth7")) if c.a.port.startswith("nic") else c for c in RAILED.cables
        ),
    )
    assert verdict(named, railed()).holds


def test_a_plans_leaves_know_their_rails() -> None:
    assert {s.name: s.rails for s in RAILED.switches if s.rails} == {"leaf1": (1,), "leaf2": (2,)}
