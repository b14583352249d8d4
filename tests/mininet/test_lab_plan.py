"""What the lab decides without making anything: faults of plans, targets, filters, addresses. Needs no privilege."""

import dataclasses
import ipaddress
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mininet.net", reason="Mininet is not installed")
sys.path.append(str(Path(__file__).parents[2] / "mininet"))

import lab
import lab_management
from lab_checks import check_plan
from lab_filters import ClassMap, missing_lines, parse_port
from lab_hosts import gratuitous_arp
from lab_namespace import LabError
from lab_queues import qos_arguments

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink, PlannedSwitch
from controller.qos.classes import QosSettings

PLAN = FabricPlan(
    "pair",
    (PlannedSwitch("leaf1", 1, Role.LEAF), PlannedSwitch("spine1", 2, Role.SPINE)),
    (PlannedLink("leaf1", 1, "spine1", 1, 8_000_000),),
    (PlannedHost("h1", "leaf1", 2, "02:00:00:00:00:01", "10.0.0.1", 24, 8_000_000),),
)
QUEUES = QosSettings()
MAP = ClassMap.of(QUEUES, limit_packets=40, burst_bytes=6000)
# What iproute2 6.1 prints for a port that Open vSwitch has just configured with three queues.
FRESH_PORT = """\
class htb 1:fffe root rate 8Mbit ceil 8Mbit burst 1499b cburst 1499b
class htb 1:1 parent 1:fffe prio 2 rate 800Kbit ceil 8Mbit burst 1564b cburst 1563b
class htb 1:2 parent 1:fffe prio 1 rate 6800Kbit ceil 8Mbit burst 1564b cburst 1563b
class htb 1:3 parent 1:fffe leaf 13: prio 0 rate 400Kbit ceil 8Mbit burst 1564b cburst 1563b
"""


def test_a_sound_plan_passes() -> None:
    check_plan(PLAN)


def test_every_fault_is_named_at_once() -> None:
    bad = dataclasses.replace(
        PLAN,
        switches=(
            PlannedSwitch("rack-a-leaf-switch-01", 1, Role.LEAF),
            PlannedSwitch("leaf1", 1, Role.LEAF),
        ),
        links=(
            PlannedLink("leaf1", 2, "spine9", 1, 0),
            PlannedLink("leaf1", 7, "rack-a-leaf-switch-01", 10, 8_000_000),
        ),
    )
    with pytest.raises(LabError) as caught:
        check_plan(bad)
    said = str(caught.value)
    for part in (
        "rack-a-leaf-switch-01-eth10 has 27 characters",
        "use a name of 9 or fewer",
        "spine9: port 1 is used but there is no such switch",
        "leaf1: port 2 is used by 2 cables",
        "dpid 0x1 is used 2 times",
        "rate 0 bit/s is not above 0",
    ):
        assert part in said


@pytest.mark.parametrize(
    ("given_text", "target"),
    [
        ("tcp:127.0.0.1:6653", "tcp:{root}:6653"),
        ("127.0.0.1", "tcp:{root}:6653"),
        ("localhost:6633", "tcp:{root}:6633"),
        ("6633", "tcp:{root}:6633"),
        ("tcp:192.0.2.7:6653", "tcp:192.0.2.7:6653"),
    ],
)
def test_controller_targets(given_text: str, target: str) -> None:
    assert lab.controller_target(given_text) == target


@pytest.mark.parametrize(
    "text", ["", "tcp:", "ssl:127.0.0.1:6653", "tcp:1.2.3:6653", "127.0.0.1:0", "127.0.0.1:70000", "x"]
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(LabError, match="--controller"):
        lab.controller_target(text)


def test_a_fresh_port_gets_filters_queues_depth_and_burst() -> None:
    lines = missing_lines("p1", parse_port(FRESH_PORT, frozenset({"1:3"})), MAP, classified=True)
    assert "qdisc add dev p1 parent 1:1 handle 11: pfifo limit 40" in lines
    assert not any("handle 13:" in line for line in lines), "this one is there already"
    assert "filter add dev p1 parent 1: protocol ip pref 10 u32 match u32 0x680000 0xfc0000 at 0 flowid 1:2" in lines
    assert "filter add dev p1 parent 1: protocol 0x88cc pref 12 u32 match u32 0x0 0x0 at 0 flowid 1:3" in lines
    assert any(line.startswith("class change dev p1 parent 1:0 classid 1:fffe htb rate 8Mbit") for line in lines)
    assert sum("burst 6000" in line for line in lines) == 4


def test_a_queue_that_is_not_there_gets_no_filter() -> None:
    only_default = "\n".join(FRESH_PORT.splitlines()[:2]) + "\n"
    lines = missing_lines("p1", parse_port(only_default, frozenset()), MAP, classified=True)
    assert not any(line.startswith("filter") for line in lines)


def test_a_wrong_filter_is_replaced() -> None:
    text = (
        FRESH_PORT + "filter protocol ip pref 10 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 *flowid 1:1 \n"
        "  match 00680000/00fc0000 at 0\n"
    )
    lines = missing_lines("p1", parse_port(text, frozenset({"1:1", "1:2", "1:3"})), MAP, classified=True)
    assert lines.index("filter del dev p1 parent 1: pref 10") < next(
        i for i, line in enumerate(lines) if "0x680000" in line
    )


def test_unclassified_means_network_control_only() -> None:
    lines = missing_lines("p1", parse_port(FRESH_PORT, frozenset()), MAP, classified=False)
    assert {line.split("protocol ")[1].split()[0] for line in lines if "filter add" in line} == {"0x88cc", "arp"}


@given(st.integers(1, 400_000_000_000))
def test_rates_are_whole_numbers_and_at_least_the_smallest(rate: int) -> None:
    arguments = qos_arguments(0x101, {1: ("p1", rate)}, QUEUES)
    values = [a.partition("=")[2] for a in arguments if "-rate=" in a]
    assert len(values) == 1 + 2 * len(QUEUES.classes)
    assert all(value.isdigit() for value in values)
    smallest = [int(a.partition("=")[2]) for a in arguments if "min-rate=" in a]
    assert min(smallest) >= 12_000


@given(st.text(min_size=1, max_size=20))
def test_management_addresses_are_link_local_and_stable(name: str) -> None:
    first = lab_management._choose(name, (), ())
    assert lab_management._choose(name, (), ()) == first
    subnet = ipaddress.IPv4Network(f"{first.root_address}/30", strict=False)
    assert ipaddress.ip_address(first.lab_address) in subnet
    assert subnet.subnet_of(ipaddress.IPv4Network("169.254.0.0/16"))
    assert len(first.root_interface) <= 15
    other = lab_management._choose(name, (subnet,), ())
    assert other.root_address != first.root_address


def test_an_announcement_is_a_gratuitous_arp() -> None:
    frame = gratuitous_arp("02:00:00:00:00:01", "10.0.0.1")
    assert frame.hex() == ("ffffffffffff020000000001080600010800060400010200000000010a0000010000000000000a000001")
