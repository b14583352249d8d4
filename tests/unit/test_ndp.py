"""IPv6 neighbour discovery beside scapy's, and what the core makes of it: hosts are learnt, and questions answered."""

import pytest
from fabrics import leaf, plan
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet

from controller.core import views
from controller.core.commands import Command, SendPacket
from controller.core.events import PacketReceived
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric import ndp
from controller.fabric.arp import PROBE_MAC
from controller.pipeline.packet import udp
from controller.simulation.frame import decode
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import walk

MAC, OTHER = "02:00:00:00:01:01", "02:00:00:00:02:01"
HERE, THERE = "fd00::1:1", "fd00::2:1"


def solicitation(source: str, target: str, mac: str = MAC, **ip: int) -> Packet:
    group = ndp.encode_question(target)[:6].hex(":")
    question = IPv6(src=source, dst=f"ff02::1:ff{target[-2:]}", hlim=255, **ip) / ICMPv6ND_NS(tgt=target)
    option = ICMPv6NDOptSrcLLAddr(lladdr=mac) if source != "::" else b""
    return Ether(src=mac, dst=group) / question / option


def advertisement(address: str, mac: str, to: str = "33:33:00:00:00:01") -> Packet:
    said = IPv6(src=address, dst="ff02::1", hlim=255) / ICMPv6ND_NA(tgt=address, S=0, O=1)
    return Ether(src=mac, dst=to) / said / ICMPv6NDOptDstLLAddr(lladdr=mac)


def test_messages_are_read_as_scapy_writes_them() -> None:
    asked = ndp.decode(bytes(solicitation(HERE, THERE)))
    assert asked is not None
    assert (asked.kind, asked.source, asked.target, asked.link_address) == (ndp.SOLICITATION, HERE, THERE, MAC)
    said = ndp.decode(bytes(advertisement(THERE, OTHER)))
    assert said is not None
    assert (said.kind, said.target, said.link_address) == (ndp.ADVERTISEMENT, THERE, OTHER)
    tagged = advertisement(THERE, OTHER)
    tagged = Ether(src=OTHER, dst=tagged.dst) / Dot1Q(vlan=7) / tagged[IPv6]
    assert ndp.decode(bytes(tagged)) == said


@pytest.mark.parametrize("source", [HERE, "::"])
def test_messages_are_written_as_scapy_reads_them(source: str) -> None:
    asked = ndp.decode(bytes(solicitation(source, THERE)))
    assert asked is not None
    answer = Ether(ndp.encode_answer(asked, OTHER))
    assert (answer.src, answer[ICMPv6ND_NA].tgt, answer[ICMPv6NDOptDstLLAddr].lladdr) == (OTHER, THERE, OTHER)
    expected = ("ff02::1", "33:33:00:00:00:01", 0) if source == "::" else (HERE, MAC, 1)
    assert (answer[IPv6].dst, answer.dst, answer[ICMPv6ND_NA].S) == expected
    question = Ether(ndp.encode_question(THERE))
    assert (question.dst, question[IPv6].dst) == ("33:33:ff:02:00:01", "ff02::1:ff02:1")
    assert (question[ICMPv6ND_NS].tgt, question[ICMPv6NDOptSrcLLAddr].lladdr) == (THERE, PROBE_MAC)
    for frame in (answer, question):
        given_sum = frame[IPv6].payload.cksum
        del frame[IPv6].payload.cksum
        assert Ether(bytes(frame))[IPv6].payload.cksum == given_sum
        assert frame[IPv6].hlim == 255


def test_what_crossed_a_router_or_is_damaged_is_not_believed() -> None:
    routed = solicitation(HERE, THERE)
    routed[IPv6].hlim = 254
    assert ndp.decode(bytes(routed)) is None
    sound = bytes(solicitation(HERE, THERE))
    assert all(
        ndp.decode(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :]) is None for at in range(22, len(sound))
    )
    assert all(ndp.decode(sound[:length]) is None for length in range(len(sound)))


@given(st.binary(max_size=120))
def test_any_bytes_are_answered(noise: bytes) -> None:
    ndp.decode(noise)
    ndp.decode(bytes(solicitation(HERE, THERE))[:62] + noise)


# --- the core ---------------------------------------------------------------------------------------------


def started(with_plan: bool) -> tuple[Core, ModelNetwork]:
    of = plan()
    core = Core(CoreSettings(b"k" * 32, of if with_plan else None))
    network = ModelNetwork(of, core, seed=1)
    network.run_until_quiet(30)
    network.announce_hosts()
    network.run_until_quiet(30)
    return core, network


def punt(network: ModelNetwork, switch: str, port: int, frame: Packet) -> list[Command]:
    session = network.session(switch)
    assert session is not None
    dpid = network.switch(switch).dpid
    return list(network.inject(PacketReceived(dpid, session.session_id, port, bytes(frame))))


@pytest.mark.parametrize("with_plan", [True, False])
def test_a_neighbour_is_answered_for_and_reached(with_plan: bool) -> None:
    core, network = started(with_plan)
    punt(network, "leaf2", 3, advertisement(THERE, OTHER))
    commands = punt(network, "leaf1", 3, solicitation(HERE, THERE))
    (sent,) = [c for c in commands if isinstance(c, SendPacket)]
    assert (sent.dpid, sent.out_ports) == (leaf(1), (3,))
    assert Ether(sent.data)[ICMPv6NDOptDstLLAddr].lladdr == OTHER
    network.run_for(0.5)
    shown = {host.name: host.addresses for host in views.topology(core, network.now_s).hosts}
    name = "h11" if with_plan else "10.0.1.1"
    assert shown[name] == ("10.0.1.1", HERE)
    assert len(shown) == 4
    packet = udp(HERE, THERE, MAC, OTHER, 50_000)
    assert walk(network, packet, "h11").delivered == ("h21",)


def test_an_unknown_neighbour_is_asked_once_where_no_such_address_is_known_and_never_flooded() -> None:
    _, network = started(with_plan=True)
    commands = punt(network, "leaf1", 3, solicitation(HERE, THERE))
    asked = [c for c in commands if isinstance(c, SendPacket)]
    assert {(c.dpid, c.out_ports) for c in asked} == {(leaf(1), (4,)), (leaf(2), (3, 4))}
    assert all(Ether(c.data)[ICMPv6ND_NS].tgt == THERE for c in asked)
    assert [c for c in punt(network, "leaf1", 3, solicitation(HERE, THERE)) if isinstance(c, SendPacket)] == []
    (answer,) = [
        c for c in punt(network, "leaf2", 3, advertisement(THERE, OTHER, to=PROBE_MAC)) if isinstance(c, SendPacket)
    ]
    assert (answer.dpid, answer.out_ports) == (leaf(1), (3,))
    frame = solicitation(HERE, THERE)
    assert walk(network, decode(bytes(frame)), "h11").delivered == ()


def test_hosts_find_one_another_while_no_controller_answers() -> None:
    """The one who is asked gets the question too, and nobody else; its answer finds the way back."""
    _, network = started(with_plan=True)
    punt(network, "leaf1", 3, advertisement(HERE, MAC))
    punt(network, "leaf2", 3, advertisement(THERE, OTHER))
    network.run_for(0.5)
    network.stop_controller()
    question = decode(bytes(solicitation(HERE, THERE)))
    assert walk(network, question, "h11").delivered == ("h21",)
    answer = IPv6(src=THERE, dst=HERE, hlim=255) / ICMPv6ND_NA(tgt=THERE, S=1) / ICMPv6NDOptDstLLAddr(lladdr=OTHER)
    assert walk(network, decode(bytes(Ether(src=OTHER, dst=MAC) / answer)), "h21").delivered == ("h11",)
    # Whether an address is free is asked of who has it as well.
    assert walk(network, decode(bytes(solicitation("::", THERE))), "h11").delivered == ("h21",)
    # Another address of the same group is nobody's.
    assert walk(network, decode(bytes(solicitation(HERE, "fd00::9:1"))), "h11").delivered == ()


def test_a_nic_that_answers_for_anothers_address_is_a_conflict() -> None:
    core, network = started(with_plan=True)
    punt(network, "leaf2", 3, advertisement(THERE, OTHER))
    for _ in range(3):
        commands = punt(network, "leaf1", 3, advertisement(THERE, MAC))
        punt(network, "leaf2", 3, advertisement(THERE, OTHER, to=PROBE_MAC))
        network.run_for(1.5)
    assert core.hosts.seen[THERE].port.dpid == leaf(2)
    assert any(f"claims {THERE}" in alarm for alarm in views.topology(core, network.now_s).alarms)
    assert not any(isinstance(c, SendPacket) and Ether(c.data).haslayer(ICMPv6ND_NA) for c in commands)


def test_who_only_asks_whether_an_address_is_free_is_answered_and_not_learnt() -> None:
    core, network = started(with_plan=True)
    punt(network, "leaf2", 3, advertisement(THERE, OTHER))
    commands = punt(network, "leaf1", 3, solicitation("::", THERE))
    assert [Ether(c.data).dst for c in commands if isinstance(c, SendPacket)] == ["33:33:00:00:00:01"]
    assert core.hosts.seen[THERE].mac == OTHER
    assert "::" not in core.hosts.seen


def test_rails_of_one_server_hang_on_several_leaves() -> None:
    core, network = started(with_plan=False)
    ports = {host.addresses[0]: host.port.switch for host in views.topology(core, network.now_s).hosts}
    assert ports["10.0.1.1"] != ports["10.0.2.1"]
    punt(network, "leaf1", 3, advertisement("fe80::1", MAC))
    punt(network, "leaf2", 3, advertisement("fe80::2", OTHER))
    network.run_for(0.5)
    shown = views.topology(core, network.now_s).hosts
    assert {h.addresses for h in shown} >= {("10.0.1.1", "fe80::1"), ("10.0.2.1", "fe80::2")}
