"""Ports that are too small for RoCE packets are named before anything vanishes in them (B47)."""

from dataclasses import replace

from core_model import started
from fabrics import leaf, plan, spine

from controller.core import views
from controller.core.events import MtusRead
from controller.fabric.model import PortRef
from controller.formats.topology_file import explicit_yaml, load_text
from controller.health.mtu import ROCE_HEADERS_BYTES, mtu_problems

A, B, C = PortRef(1, 1), PortRef(2, 1), PortRef(2, 2)


def problems(mtu: dict[PortRef, int], roce: int | None = 4096) -> tuple[str, ...]:
    return mtu_problems([(A, B), (PortRef(1, 2), C)], mtu, roce, str)


def test_a_port_must_take_the_largest_packet_with_all_its_headers() -> None:
    enough = 4096 + ROCE_HEADERS_BYTES
    assert problems({A: enough, B: enough}) == ()
    (said,) = problems({A: enough - 1, B: enough})
    assert said.startswith(f"1:1 has an MTU of {enough - 1} bytes: RoCE packets of 4096 need {enough}")
    assert len(problems({A: 1500, B: 1500})) == 2


def test_without_a_wanted_size_the_ends_of_a_cable_must_agree() -> None:
    assert problems({A: 1500, B: 1500, C: 9000}, roce=None) == ()
    (said,) = problems({A: 1500, B: 9000}, roce=None)
    assert "1:1 of 1500 and 2:1 of 9000" in said


def test_large_enough_but_unequal_ends_are_said_too() -> None:
    assert len(problems({A: 4200, B: 9000})) == 1


def test_one_small_port_in_a_fabric_of_4200_is_an_alarm_until_it_is_read_larger() -> None:
    fabric = replace(plan(), roce_mtu_bytes=4096)
    core, network = started(fabric)
    quiet = views.topology(core, network.now_s).alarms
    ports = {switch.dpid: [e for k in core.state.view.links for e in (k.a, k.b)] for switch in fabric.switches}
    for dpid, ends in ports.items():
        network.inject(MtusRead(dpid, {end.port_no: 4200 for end in ends if end.dpid == dpid}))
    assert views.topology(core, network.now_s).alarms == quiet
    before = core.revision
    network.inject(MtusRead(spine(1), {1: 1500, 2: 4200}))
    (said,) = set(views.topology(core, network.now_s).alarms) - set(quiet)
    assert said.startswith("spine1:1 has an MTU of 1500 bytes: RoCE packets of 4096 need ")
    assert core.revision > before
    network.inject(MtusRead(spine(1), {1: 4200, 2: 4200}))
    assert views.topology(core, network.now_s).alarms == quiet
    # Ports to hosts are the hosts' own matter.
    network.inject(MtusRead(leaf(1), {1: 4200, 2: 4200, 3: 1500}))
    assert views.topology(core, network.now_s).alarms == quiet


def test_the_topology_file_says_how_large_packets_are() -> None:
    text = "name: x\nrate: 1G\nroce_mtu: 4096\nleaf_spine: {leaves: 1, spines: 1, hosts_per_leaf: 1}\n"
    fabric = load_text(text)
    assert fabric.roce_mtu_bytes == 4096
    assert load_text(explicit_yaml(fabric)) == fabric
