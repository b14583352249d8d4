"""The flow table against the plainest possible one: look at every rule."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.pipeline.flow_table import FlowTable
from controller.pipeline.rules import FIELD_BITS, Match, Output, Rule, match

FIELDS = ("in_port", "eth_type", "ipv4_dst", "udp_src", "vlan_vid")
# Few values and masks, so that rules overlap and packets hit.
VALUES = st.integers(0, 3)
MASKS = st.sampled_from([None, 1, 2, 3])


@st.composite
def matches(draw: st.DrawFn) -> Match:
    fields: dict[str, int | tuple[int, int]] = {}
    for name in draw(st.sets(st.sampled_from(FIELDS))):
        value, mask = draw(VALUES), draw(MASKS)
        fields[name] = value if mask is None else (value, mask)
    return match(**fields)


rules = st.builds(
    lambda priority, m, port: Rule(0, priority, m, 0, (Output(port),)), st.integers(0, 4), matches(), VALUES
)
steps = st.lists(st.tuples(st.sampled_from(["add", "add", "remove"]), rules), max_size=30)
packets = st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES), min_size=1, max_size=10)


def fits(rule: Rule, headers: dict[str, int]) -> bool:
    for field in rule.match:
        value = headers.get(field.name, 0 if field.name == "vlan_vid" else None)
        full = (1 << FIELD_BITS[field.name]) - 1
        if value is None or value & (full if field.mask is None else field.mask) != field.value:
            return False
    return True


@given(steps, packets)
def test_lookup_finds_what_a_search_of_all_rules_finds(
    steps: list[tuple[str, Rule]], packets: list[dict[str, int]]
) -> None:
    table = FlowTable()
    held: dict[tuple[int, Match], Rule] = {}
    for step, rule in steps:
        if step == "add":
            table.put(rule)
            held[rule.priority, rule.match] = rule
        else:
            table.remove(rule)
            held.pop((rule.priority, rule.match), None)
    assert {entry.rule for entry in table} == set(held.values())
    for headers in packets:
        fitting = [rule for rule in held.values() if fits(rule, headers)]
        entry = table.lookup(headers)
        if entry is None:
            assert not fitting
            continue
        best = [rule for rule in fitting if rule.priority == max(r.priority for r in fitting)]
        assert {entry.rule, *(rival.rule for rival in table.rivals(headers, entry))} == set(best)


def test_overwriting_keeps_the_counters_and_the_place() -> None:
    table = FlowTable()
    rule = Rule(0, 5, match(in_port=1), 7)
    table.put(rule)
    entry = table.lookup({"in_port": 1})
    assert entry is not None
    entry.packets = 12
    table.put(replace(rule, actions=(Output(3),)))
    again = table.lookup({"in_port": 1})
    assert again is entry
    assert (again.packets, again.rule.actions, len(table)) == (12, (Output(3),), 1)


def test_no_vlan_tag_is_a_value_that_rules_can_match() -> None:
    table = FlowTable()
    table.put(Rule(0, 1, match(vlan_vid=0), 0))
    assert table.lookup({}) is not None
    assert table.lookup({"vlan_vid": 0x1005}) is None
