"""Tiers, and what is one place to a scheduler that knows only trees."""

from controller.fabric.cabling import Cable, CabledSwitch, CableEnd, CablingPlan
from controller.fabric.cabling_levels import groups, levels


def plan(cables: list[tuple[str, str]], hosts: tuple[str, ...], state: str = "up") -> CablingPlan:
    ends = dict.fromkeys(name for pair in cables for name in pair if name not in hosts)
    made = tuple(Cable(CableEnd(a), CableEnd(b), state=state) for a, b in cables)
    return CablingPlan("p", "test", tuple(CabledSwitch(name) for name in ends), hosts, made)


TWO_PODS = [
    *((f"h{n}", f"leaf{n}") for n in (1, 2, 3, 4)),
    *((f"leaf{n}", f"spine{s}") for n in (1, 2) for s in (1, 2)),
    *((f"leaf{n}", f"spine{s}") for n in (3, 4) for s in (3, 4)),
    *((f"spine{s}", f"core{(s - 1) % 2 + 1}") for s in (1, 2, 3, 4)),
]


def test_levels_are_told_from_the_hosts_when_nobody_says() -> None:
    found = levels(plan(TWO_PODS, ("h1", "h2", "h3", "h4")))
    assert {found[f"leaf{n}"] for n in (1, 2, 3, 4)} == {0}
    assert {found[f"spine{n}"] for n in (1, 2, 3, 4)} == {1}
    assert {found["core1"], found["core2"]} == {2}


def test_spines_over_the_same_leaves_are_one_place() -> None:
    found = {group.name: group for group in groups(plan(TWO_PODS, ("h1", "h2", "h3", "h4")))}
    assert found["leaf1"].parent == found["leaf2"].parent == "spine1..spine2"
    assert found["leaf3"].parent == "spine3..spine4"
    assert found["spine1..spine2"].parent == found["spine3..spine4"].parent == "core1..core2"
    assert found["leaf4"].hosts == ("h4",)


def test_rails_are_one_place() -> None:
    rails = [("gpu1", "rail0"), ("gpu1", "rail1"), ("gpu2", "rail0"), ("gpu2", "rail1"), ("gpu3", "leaf")]
    found = {group.switches: group for group in groups(plan(rails, ("gpu1", "gpu2", "gpu3")))}
    assert found["rail0", "rail1"].hosts == ("gpu1", "gpu2")
    assert found["leaf",].hosts == ("gpu3",)


def test_cables_that_cannot_be_used_join_nothing() -> None:
    found = groups(plan(TWO_PODS, ("h1", "h2", "h3", "h4"), "down"))
    assert all(not group.parent and not group.hosts for group in found)
