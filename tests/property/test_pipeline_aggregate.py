"""Rules that are put together still send every announced flow its way, and leave alone what was left to ECMP."""

import ipaddress
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from controller.fabric.model import FabricView, Host, Link, PortRef, Role, Switch
from controller.pipeline.aggregate import by_pair, by_prefix
from controller.pipeline.neighbourhood import Neighbourhood
from controller.pipeline.prefixes import blocks
from controller.pipeline.steering import SteeredFlow, Steering, Unit, steer_match, steerings

_LEAVES, _SPINES, _UPLINKS = 3, 2, 2
_FULL = (1 << 128) - 1


def fabric(addresses: Sequence[Sequence[str]]) -> FabricView:
    """Leaf i has hosts with `addresses[i]`; two links between each leaf and each spine."""
    leaves, spines = range(1, len(addresses) + 1), range(101, 101 + _SPINES)
    links = [
        Link(PortRef(leaf, (spine - 101) * _UPLINKS + n + 1), PortRef(spine, leaf * _UPLINKS + n), 10)
        for leaf in leaves
        for spine in spines
        for n in range(_UPLINKS)
    ]
    hosts = [
        Host(f"h{leaf}-{i}", "02:00:00:00:00:01", (text,), PortRef(leaf, 50 + i), 10)
        for leaf in leaves
        for i, text in enumerate(addresses[leaf - 1])
    ]
    roles = dict.fromkeys(leaves, Role.LEAF) | dict.fromkeys(spines, Role.SPINE)
    switches = {dpid: Switch(dpid, f"s{dpid}", role, True) for dpid, role in roles.items()}
    return FabricView(switches, tuple(links), tuple(hosts))


@st.composite
def steered(draw: st.DrawFn) -> tuple[FabricView, list[SteeredFlow], set[Unit]]:
    """A fabric with addresses that lie close together, flows with paths, and some that are left to ECMP."""
    numbers = draw(st.lists(st.integers(0, 63), min_size=6, max_size=24, unique=True))
    if draw(st.booleans()):
        numbers.sort()
    base = draw(st.sampled_from(["10.0.0.0", "fd00::"]))
    texts = [str(ipaddress.ip_address(base) + n) for n in numbers]
    third = len(texts) // _LEAVES
    addresses = [texts[i * third : (i + 1) * third] for i in range(_LEAVES)]
    view = fabric(addresses)
    leaf_of = {text: leaf + 1 for leaf, here in enumerate(addresses) for text in here}
    pairs = [(a, b) for a in leaf_of for b in leaf_of if leaf_of[a] != leaf_of[b]]
    # Few ways, so that there is something to put together.
    ways = draw(
        st.lists(st.tuples(st.integers(0, _SPINES - 1), *[st.integers(0, _UPLINKS - 1)] * 2), min_size=1, max_size=3)
    )
    flows, left_out = [], set()
    for a, b in draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=30, unique=True)):
        for port in draw(st.sampled_from([(0,), (50_000,), (50_000, 50_001, 50_002)])):
            spine, up, down = draw(st.sampled_from(ways))
            path = (PortRef(leaf_of[a], spine * _UPLINKS + up + 1), PortRef(101 + spine, leaf_of[b] * _UPLINKS + down))
            if draw(st.integers(0, 9)) == 0:
                left_out.add((a, b, port))
            else:
                flows.append(SteeredFlow(a, b, port, path, "job"))
    return view, flows, left_out


def way_of(rules: Sequence[Steering], unit: Unit) -> tuple[int, int] | None:
    """Where the switch sends the unit's packets; None is ECMP. Rules of equal priority must agree."""
    packet = {f.name: f.value for f in steer_match((unit[0], unit[1], unit[2] or 49_999))}
    hits = [
        rule
        for rule in rules
        if all(
            f.name in packet and packet[f.name] & (_FULL if f.mask is None else f.mask) == f.value for f in rule.match
        )
    ]
    best = {rule.way for rule in hits if rule.priority == max(r.priority for r in hits)}
    assert len(best) <= 1
    return best.pop() if best else None


@given(steered())
def test_every_flow_keeps_its_way_and_what_was_left_to_ecmp_stays_there(
    case: tuple[FabricView, list[SteeredFlow], set[Unit]],
) -> None:
    view, flows, left_out = case
    near = Neighbourhood.of(view)
    leaf_of = {text: host.port.dpid for host in view.hosts for text in host.addresses}
    for dpid, finest in steerings(near, flows).items():
        paired = by_pair(finest, left_out)
        widest = by_prefix(near, dpid, paired, left_out)
        assert len(widest) <= len(paired) <= len(finest)
        assert sorted(u for rule in widest for u in rule.units) == sorted(u for rule in finest for u in rule.units)
        for rules in (paired, widest):
            for rule in finest:
                assert way_of(rules, rule.units[0]) == rule.way
            for unit in left_out:
                if leaf_of[unit[0]] == dpid or view.switches[dpid].role == Role.SPINE:
                    assert way_of(rules, unit) is None


@given(steered())
def test_a_leaf_never_steers_what_comes_from_elsewhere(case: tuple[FabricView, list[SteeredFlow], set[Unit]]) -> None:
    """A packet that a spine sends to the wrong leaf must not go up again."""
    view, flows, left_out = case
    near = Neighbourhood.of(view)
    for dpid, finest in steerings(near, flows).items():
        if view.switches[dpid].role == Role.SPINE:
            continue
        widest = by_prefix(near, dpid, by_pair(finest, left_out), left_out)
        elsewhere = [text for host in view.hosts if host.port.dpid != dpid for text in host.addresses]
        everyone = [text for host in view.hosts for text in host.addresses]
        assert all(way_of(widest, (a, b, 0)) is None for a in elsewhere for b in everyone)


@given(st.dictionaries(st.integers(0, 255), st.sampled_from(["a", "b", None]), max_size=60))
def test_prefixes_cover_what_they_stand_for_and_no_other_known_address(meaning: dict[int, str | None]) -> None:
    found = blocks(meaning, 8)
    for address, wanted in meaning.items():
        assert [block.meaning for block in found if address & block.mask == block.value] == ([wanted] if wanted else [])
    for block in found:
        assert block.members == tuple(sorted(a for a in meaning if a & block.mask == block.value))
        # As long as its members allow: half of it would leave one of them out.
        assert block.members[0] ^ block.members[-1] > (block.mask ^ 0xFF) >> 1 or len(block.members) == 1
