"""Port names: "same" is an equivalence, and never makes one port of two that a switch has side by side."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from controller.fabric.port_names import PortMatch, compare, key

_N = st.integers(0, 300)
_LANE = st.integers(1, 8)

# How one operating system names its ports, each port once.
_SCHEMES = {
    "nx-os": [("Ethernet{}/{}", 2), ("Ethernet{}/{}/{}", 3), ("port-channel{}", 1), ("mgmt{}", 1)],
    "ios-xe": [
        ("GigabitEthernet{}/0/{}", 2),
        ("TenGigabitEthernet{}/0/{}", 2),
        ("TwentyFiveGigE{}/0/{}", 2),
        ("FortyGigabitEthernet{}/0/{}", 2),
        ("HundredGigE{}/0/{}", 2),
        ("FourHundredGigE{}/0/{}", 2),
        ("Port-channel{}", 1),
    ],
    "eos": [("Ethernet{}", 1), ("Ethernet{}/{}", 2), ("Management{}", 1), ("Port-Channel{}", 1)],
    "sonic": [("Ethernet{}", 1), ("eth{}", 1), ("PortChannel{}", 1), ("Ethernet{}.{}", 2)],
    "cumulus": [("swp{}", 1), ("swp{}s{}", 2), ("eth{}", 1), ("bond{}", 1)],
    "sr-linux": [("ethernet-{}/{}", 2), ("ethernet-{}/{}/{}", 3), ("mgmt{}", 1)],
    "junos": [("xe-0/{}/{}", 2), ("et-0/{}/{}", 2), ("ge-0/{}/{}", 2), ("xe-0/{}/{}:{}", 3), ("ae{}", 1)],
    "os10": [("ethernet1/{}/{}", 2), ("ethernet1/{}/{}:{}", 3), ("port-channel{}", 1), ("mgmt1/1/{}", 1)],
    "linux": [("eth{}", 1), ("ens{}f{}np{}", 3), ("enp{}s0f{}", 2), ("p{}p{}", 2), ("leaf1-eth{}", 1)],
}


@st.composite
def ports_of_a_switch(draw: st.DrawFn) -> list[str]:
    scheme = _SCHEMES[draw(st.sampled_from(sorted(_SCHEMES)))]
    made = st.sampled_from(scheme).flatmap(
        lambda kind: st.lists(_N, min_size=kind[1], max_size=kind[1]).map(lambda numbers: kind[0].format(*numbers))
    )
    return draw(st.lists(made, min_size=2, max_size=12, unique=True))


_ANY = st.text(max_size=12) | st.sampled_from(
    ["Eth1/1", "e1-1", "eth1", "Et1", "Ethernet1", "1", "swp1", "port 1", "Po1"]
)


@given(ports_of_a_switch())
def test_two_ports_of_one_switch_are_never_the_same(names: list[str]) -> None:
    for a, b in combinations(names, 2):
        assert compare(a, b) is not PortMatch.SAME, (a, b)
        assert compare(a, b, "leaf1") is not PortMatch.SAME, (a, b)


@given(_ANY, _ANY, _ANY)
def test_same_is_an_equivalence(a: str, b: str, c: str) -> None:
    assert compare(a, a) is PortMatch.SAME
    assert compare(a, b) is compare(b, a)
    if compare(a, b) is PortMatch.SAME and compare(b, c) is PortMatch.SAME:
        assert compare(a, c) is PortMatch.SAME


@given(_N, _N, _LANE)
def test_the_usual_abbreviations_agree(slot: int, port: int, lane: int) -> None:
    spellings = ["Eth{}/{}", "Ethernet{}/{}", "e{}-{}", "ethernet-{}/{}", "et{}/{}", "eth {}/{}"]
    keys = {key(spelling.format(slot, port)) for spelling in spellings}
    assert len(keys) == 1
    assert key(f"Eth{slot}/{port}/{lane}") not in keys
