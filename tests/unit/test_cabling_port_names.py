"""Port names: what is one port, what may be, and what is not (B6, B7)."""

import pytest

from controller.fabric.port_names import PortMatch, compare


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Eth1/47", "Ethernet1/47"),
        ("e1-47", "Ethernet1/47"),
        ("e1-1", "ethernet-1/1"),
        ("e1-1-2", "ethernet-1/1/2"),
        ("Et1", "Ethernet1"),
        ("ethernet 1/1/3", "Ethernet1/1/3"),
        ("Gi1/0/1", "GigabitEthernet1/0/1"),
        ("Te0/1", "TenGigabitEthernet0/1"),
        ("Ten-GigabitEthernet1/0/1", "Te1/0/1"),
        ("Hu0/0/0/1", "HundredGigE0/0/0/1"),
        ("Po12", "port-channel12"),
        ("PortChannel12", "Port-Channel12"),
        ("Eth1/1(Port1)", "Ethernet1/1"),
        ("Eth1/1:2", "ethernet1/1:2"),
        (" swp1", "swp1 "),
    ],
)
def test_well_known_spellings_are_one_port(a: str, b: str) -> None:
    assert compare(a, b) is PortMatch.SAME
    assert compare(b, a) is PortMatch.SAME


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("eth1", "Ethernet1"),
        ("swp47", "Ethernet47"),
        ("Ethernet32", "fortyGigE0/32"),
        ("Eth1/47", "swp47"),
        ("5", "port 5"),
        ("5", "Ethernet5"),
    ],
)
def test_a_likely_port_under_another_name_is_a_question(a: str, b: str) -> None:
    assert compare(a, b) is PortMatch.MAYBE
    assert compare(b, a) is PortMatch.MAYBE


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Ethernet1/47", "Ethernet1/48"),
        ("Eth1/1", "Eth1/1/1"),
        ("Eth1/1:1", "Eth1/1:2"),
        ("Ethernet1", "Ethernet1.100"),
        ("Gi1/0/1", "Te1/0/1"),
        ("Te1/0/1", "Hu1/0/1"),
        ("xe-0/0/1", "et-0/0/1"),
        ("swp1", "swp1s0"),
        ("swp1", "SWP1"),
        ("eth0", "Ethernet1"),
        ("00:1c:73:aa:bb:01", "Ethernet1"),
        ("mgmt0", "Ethernet0"),
        ("Management1", "Ethernet1/1"),
    ],
)
def test_other_ports_stay_other_ports(a: str, b: str) -> None:
    assert compare(a, b) is PortMatch.DIFFERENT


def test_the_switch_in_front_of_its_port_is_no_part_of_the_name() -> None:
    assert compare("leaf1-eth3", "eth3", "leaf1") is PortMatch.SAME
    assert compare("leaf1-eth3", "eth3", "leaf2") is PortMatch.DIFFERENT
