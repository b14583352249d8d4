"""RoCE frames as NICs send them: v2 over IPv4 and IPv6 is classified, v1 is counted and reported (B46)."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from core_model import started
from fabrics import plan
from lldp_frames import captured

from controller.core import views
from controller.pipeline.packet import Packet
from controller.pipeline.tables import CLASSIFY, GUARD
from controller.qos.classes import QosSettings, TrafficClass
from controller.simulation.frame import decode
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import Walk, walk

# The shared inputs lie beside the repository or where HEDDLE_INPUTS says.
_INPUTS = Path(os.environ.get("HEDDLE_INPUTS") or Path(__file__).parents[2].parent / "shared" / "inputs")
SHARED = _INPUTS / "roce"
FABRIC = plan(leaves=2, spines=2, hosts=2)
V1 = Packet({"eth_dst": 0x0200_0000_0201, "eth_src": 0x0200_0000_0101, "eth_type": 0x8915}, b"\x60" + bytes(59))


def queue_of(walked: Walk, leaf_name: str = "leaf1") -> int:
    """The queue that the classes' table chose at the leaf."""
    rules = next(hop.rules for hop in walked.hops if hop.switch == leaf_name)
    (rule,) = [rule for rule in rules if rule.table_id == CLASSIFY.table_id]
    return next(action.queue_id for action in rule.actions if hasattr(action, "queue_id"))


def test_v1_is_neither_forwarded_nor_silent() -> None:
    core, network = started(FABRIC)
    walked = walk(network, V1, "h11")
    assert walked.delivered == ()
    assert [(name, punt.in_port) for name, punt in walked.punts] == [("leaf1", 3)]
    for _ in range(1000):
        network.send("h11", V1)
    network.run_for(2)
    # However much there is, a few packets are enough to tell.
    assert 1 <= core.packets.counts["roce_v1"] <= 10
    (said,) = [alarm for alarm in views.topology(core, network.now_s).alarms if alarm.startswith("RoCEv1")]
    assert "at leaf1:3" in said
    (counted,) = views.topology(core, network.now_s).packet_counts
    assert (counted.kind, counted.port.switch, counted.port.port_no) == ("roce_v1", "leaf1", 3)
    assert counted.packets == core.packets.counts["roce_v1"]
    assert counted.meaning.startswith("RoCEv1")
    assert "02:00:00:00:01:01" in said


def test_v1_does_not_use_up_what_questions_may_punt() -> None:
    _core, network = started(FABRIC)
    guard = [
        rule for rule in network.switch("leaf1").tables().rules if rule.table_id == GUARD.table_id and rule.meter_id
    ]
    by_type = {field.value: rule.meter_id for rule in guard for field in rule.match if field.name == "eth_type"}
    assert by_type[0x8915] != by_type[0x0806]


def frames(name: str) -> list[Packet]:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"the shared input {name} is not at {SHARED} (set HEDDLE_INPUTS)")
    return [decode(frame) for frame in captured(path)]


def entered(network: ModelNetwork, packet: Packet) -> Walk:
    return walk(network, packet, "h11")


@pytest.mark.parametrize("name", ["rocev2-uc-send-ipv4-scapy.pcap", "rocev2-uc-send-ipv6-scapy.pcap"])
def test_real_v2_frames_are_collective_traffic(name: str) -> None:
    _core, network = started(FABRIC)
    classes = QosSettings()
    for packet in frames(name):
        assert queue_of(entered(network, packet)) == classes.of(TrafficClass.COLLECTIVE).queue_id


def test_a_real_congestion_notification_is_control_traffic() -> None:
    """Its UDP source port is 0, and its DSCP 48."""
    _core, network = started(FABRIC)
    classes = QosSettings()
    for packet in frames("rocev2-cnp-connectx4lx-captured.pcap"):
        assert queue_of(entered(network, packet)) == classes.of(TrafficClass.CONTROL).queue_id


def test_real_v1_frames_are_reported() -> None:
    core, network = started(FABRIC)
    (first, *_) = frames("rocev1-rc-write-ack-captured.pcap")
    network.send("h11", replace(first))
    network.run_for(1)
    assert core.packets.counts["roce_v1"] == 1
