"""LLDP of others: read, told apart, and never believed to be a link (B1, B2, B6, B8, B12)."""

import os
from pathlib import Path

import pytest
from core_model import started
from fabrics import plan
from hypothesis import given
from hypothesis import strategies as st
from lldp_frames import ETHERNET, NIC_CHASSIS, NIC_PORT, TTL, captured, lldp, nic, switch

from controller.core import views
from controller.core.commands import Report
from controller.core.events import PacketReceived
from controller.core.machine import Core
from controller.core.odd_packets import MEANING, OddPacket
from controller.fabric.lldp import MalformedLldp, Neighbour, NeighbourKind, decode
from controller.fabric.model import PortRef
from controller.fabric.neighbours import Neighbours
from controller.simulation.network import ModelNetwork

# The shared inputs lie beside the repository or where HEDDLE_INPUTS says.
_INPUTS = Path(os.environ.get("HEDDLE_INPUTS") or Path(__file__).parents[2].parent / "shared" / "inputs")
SHARED = _INPUTS / "lldp"


def heard(frame: bytes) -> Neighbour:
    found = decode(frame)
    assert isinstance(found, Neighbour)
    return found


def test_nic_firmware_is_told_from_a_switch() -> None:
    found = heard(nic((4, b"ConnectX-4 Lx, 25G/10G/1G SFP")))
    assert (found.kind, found.name) == (NeighbourKind.NIC, "50:6b:4b:f6:1e:b3")
    assert str(found) == "NIC 50:6b:4b:f6:1e:b3, port ConnectX-4 Lx, 25G/10G/1G SFP"[: len("NIC 50:6b:4b:f6:1e:b3")] + (
        " (ConnectX-4 Lx, 25G/10G/1G SFP)"
    )
    found = heard(switch())
    assert (found.kind, found.name, found.port_name) == (NeighbourKind.SWITCH, "storage-sw", "Ethernet32")


@pytest.mark.parametrize(
    ("capabilities", "kind"),
    [
        (b"\x00\x14\x00\x04", NeighbourKind.SWITCH),
        (b"\x00\x94\x00\x80", NeighbourKind.HOST),
        (b"\x00\x9c\x00\x08", NeighbourKind.UNKNOWN),
        (b"\x00\x14\x00\x00", NeighbourKind.UNKNOWN),
    ],
)
def test_what_is_enabled_says_what_it_is(capabilities: bytes, kind: NeighbourKind) -> None:
    assert heard(nic((5, b"gpu-7"), (7, capabilities))).kind is kind


def test_without_capabilities_named_ports_are_those_of_a_switch() -> None:
    assert heard(lldp(NIC_CHASSIS, (2, b"\x05g1"), TTL)).kind is NeighbourKind.SWITCH


def test_a_tagged_frame_with_an_address_for_a_port_id_names_the_port_by_its_description() -> None:
    found = heard(nic((4, b"Ethernet32"), (5, b"leaf7"), (7, b"\x00\x14\x00\x04"), vlan=1789))
    assert (found.vlan, found.name, found.port_name) == (1789, "leaf7", "Ethernet32")
    assert heard(nic((5, b"leaf7"))).port_name == "50:6b:4b:f6:1e:b1"


def test_addresses_and_frame_sizes_are_read() -> None:
    management = (8, b"\x05\x01\xc0\xa8\x01\x01\x02\x00\x00\x00\x01\x00")
    size = (127, b"\x00\x12\x0f\x04" + (9216).to_bytes(2, "big"))
    found = heard(nic(management, management, size))
    assert (found.management_addresses, found.max_frame_bytes) == (("192.168.1.1",), 9216)
    assert heard(lldp((1, b"\x05\x01\x0a\x00\x00\x01"), NIC_PORT, TTL)).chassis_id == "10.0.0.1"


def test_nobody_writes_to_a_terminal_by_lldp() -> None:
    found = heard(nic((5, b"evil\x1b[2J\r\nname\xff\x00")))
    assert found.system_name == "evil [2J name\ufffd"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        ETHERNET[:6],
        ETHERNET + b"\x88\xcc",
        nic(end=False),
        lldp(NIC_PORT, NIC_CHASSIS, TTL),
        lldp((1, b""), NIC_PORT, TTL),
        lldp(NIC_CHASSIS, NIC_PORT, (3, b"\x78")),
        nic()[:-4],
    ],
)
def test_what_cannot_be_read_is_malformed(frame: bytes) -> None:
    assert isinstance(decode(frame), MalformedLldp)


def test_a_tlv_that_is_wrong_in_itself_does_not_hide_the_rest() -> None:
    found = heard(nic((8, b"\x06\x01\x0a"), (8, b""), (127, b"\x00"), (7, b"\x00"), (5, b"gpu-1")))
    assert (found.name, found.management_addresses) == ("gpu-1", ())


@given(st.lists(st.tuples(st.integers(0, 127), st.binary(max_size=40)), max_size=8), st.binary(max_size=30))
def test_any_tlvs_are_answered_with_what_can_be_shown(tlvs: list[tuple[int, bytes]], noise: bytes) -> None:
    for frame in (nic(*tlvs), lldp(*tlvs), nic(*tlvs) + noise, nic(*tlvs)[: -len(noise) - 1], ETHERNET + noise, noise):
        found = decode(frame)
        assert isinstance(found, MalformedLldp) or (str(found).isprintable() and found.chassis_id and found.port_id)


# --- how long they count -----------------------------------------------------------------------------------------


def test_a_neighbour_counts_as_long_as_it_said() -> None:
    table, at = Neighbours(), PortRef(1, 5)
    assert table.hear(heard(nic()), at, 10.0)
    assert not table.hear(heard(nic()), at, 20.0)
    assert [n.port for n in table.present(140.0, lambda _: True)] == [at]
    assert table.present(140.1, lambda _: True) == []
    assert table.present(30.0, lambda _: False) == []


def test_a_neighbour_that_leaves_or_loses_its_port_is_gone() -> None:
    table, at = Neighbours(), PortRef(1, 5)
    table.hear(heard(nic()), at, 0.0)
    table.hear(heard(lldp(NIC_CHASSIS, NIC_PORT, (3, b"\x00\x00"))), at, 1.0)
    assert table.present(1.0, lambda _: True) == []
    table.hear(heard(nic()), at, 2.0)
    table.forget_port(at)
    assert table.present(2.0, lambda _: True) == []


def test_a_port_full_of_made_up_neighbours_stays_small() -> None:
    table = Neighbours()
    for number in range(1000):
        chassis = (1, b"\x04\x02\x00\x00\x00" + number.to_bytes(2, "big"))
        table.hear(heard(lldp(chassis, NIC_PORT, TTL)), PortRef(1, 5), float(number))
    assert len(table.present(999.0, lambda _: True)) <= 4


# --- in the controller ----------------------------------------------------------------------------------------------

FABRIC = plan(leaves=2, spines=2, hosts=2)
HOST_PORT = PortRef(0x101, 3)


def send(core: Core, network: ModelNetwork, frame: bytes, at: PortRef = HOST_PORT) -> None:
    session = core.state.switches[at.dpid].session_id
    network.inject(PacketReceived(at.dpid, session, at.port_no, frame))  # type: ignore[arg-type]


def told(network: ModelNetwork, since_s: float) -> list[str]:
    return [report.message for report in network.record.commands_of(Report, since_s=since_s)]


def test_a_foreign_neighbour_is_shown_and_told_once_and_makes_no_link() -> None:
    core, network = started(FABRIC)
    links, since_s = core.state.view.links, network.now_s
    for _ in range(3):
        send(core, network, nic((4, b"ConnectX-4 Lx")))
        send(core, network, switch(), PortRef(0x102, 4))
    network.run_for(1)
    shown = views.topology(core, network.now_s).neighbours
    assert [(n.port.switch, n.port.port_no, n.kind) for n in shown] == [("leaf1", 3, "NIC"), ("leaf2", 4, "switch")]
    assert core.state.view.links == links
    assert len(told(network, since_s)) == 2
    assert core.packets.counts["lldp_foreign"] == 6


def test_who_was_plugged_in_is_forgotten_with_the_carrier() -> None:
    core, network = started(FABRIC)
    send(core, network, nic())
    cable = network.cable("leaf1", "h11")
    network.cut(cable)
    network.run_for(1)
    network.restore(cable)
    network.run_for(1)
    assert views.topology(core, network.now_s).neighbours == ()


def test_malformed_frames_are_counted_told_once_and_change_nothing() -> None:
    core, network = started(FABRIC)
    links, since_s = core.state.view.links, network.now_s
    for number in range(50):
        send(core, network, nic(end=False)[: -1 - number % 9])
    network.run_for(1)
    assert core.packets.counts["lldp_malformed"] == 50
    assert len(told(network, since_s)) == 1
    assert core.state.view.links == links


def test_packets_without_a_whole_header_are_counted() -> None:
    core, network = started(FABRIC)
    for data in (b"", b"\x01" * 6, b"\x01" * 13):
        send(core, network, data)
    assert core.packets.counts["packet_unexpected"] == 3


def test_a_host_that_claims_to_be_a_switch_makes_no_link_and_raises_an_alarm() -> None:
    core, network = started(FABRIC)
    links, since_s = core.state.view.links, network.now_s
    forged = lldp((1, b"\x07dpid:0000000000000201"), (2, b"\x02\x00\x00\x00\x02"), TTL)
    for _ in range(5):
        send(core, network, forged)
    network.run_for(1)
    assert core.state.view.links == links
    assert len(told(network, since_s)) == 1
    assert any("claims to be switch dpid:0000000000000201" in a for a in views.topology(core, network.now_s).alarms)
    assert core.packets.counts["beacon_without_key"] == 5


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared captures are not here")
def test_real_captures_leave_the_controller_alive_and_its_links_alone() -> None:
    core, network = started(FABRIC)
    links = core.state.view.links
    kinds: dict[str, set[str]] = {}
    for number, path in enumerate(sorted(SHARED.iterdir())):
        since_s = network.now_s
        at = PortRef(0x101, 3 + number % 2)
        for frame in captured(path):
            send(core, network, frame, at)
            if isinstance(found := decode(frame), Neighbour):
                kinds.setdefault(path.stem, set()).add(found.kind)
        network.run_for(0.5)
        # One line for each kind of neighbour and one for what cannot be read, whatever the number of frames.
        assert len(told(network, since_s)) <= 3
    assert core.state.view.links == links
    assert core.packets.counts["lldp_malformed"] >= 4
    assert core.packets.counts["lldp_foreign"] > 4
    assert kinds["lldpd-connectx"] == {"NIC"}
    assert kinds["lldpd-8023bt"] == kinds["lldpd-sg200"] == kinds["tcpdump-LLDP_and_CDP"] == {"switch"}
    assert kinds["tcpdump-lldp-app-priority"] == {"switch"}
    assert kinds["tcpdump-dcb_ets"] == {"NIC"}


def test_every_kind_of_odd_packet_has_words() -> None:
    assert MEANING.keys() == set(OddPacket)
