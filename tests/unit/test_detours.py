"""What the switches do by themselves when links and switches fail: tables as they were before, no controller.

Every single failure is healed for every pair of hosts that some way up and down still joins; every pair of failures
ends within a stated number of hops, with never more than one copy of a packet.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path
from random import Random

import pytest
from core_model import KEY, all_to_all, ask, started
from fabrics import plan

from controller.core import survey
from controller.core.events import CollectiveAnnounced
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.model import FabricView, PortRef, Role
from controller.fabric.plan import FabricPlan
from controller.formats.topology_file import load
from controller.pipeline.compile import compile_base
from controller.pipeline.detour import has_detours
from controller.pipeline.marks import LAST_HOP, MOST_BOUNCES
from controller.pipeline.packet import ARP_REPLY, ARP_REQUEST, Packet, arp, mac_value, udp
from controller.pipeline.rules import SwitchTables
from controller.qos.classes import QosSettings
from controller.simulation.cables import Cable
from controller.simulation.hosts import ModelHost
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import Reachability, roce_probes, walk
from controller.simulation.watch import DeliveryWatch

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
_PODS = load(TOPOLOGIES / "threetier-2x2x2.yaml")
THREE_TIERS = replace(_PODS, hosts=tuple(host for host in _PODS.hosts if host.name.endswith("_1")))
# Leaf, spine, leaf; each bounce adds the leaf below and another spine.
WITHIN_TWO_TIERS = 3 + 2 * MOST_BOUNCES
# On the way up and on the way down: after each bounce at most a spine, a leaf, another spine and a core.
WITHIN_THREE_TIERS = 5 + 2 * 4 * MOST_BOUNCES


def missing_some() -> FabricPlan:
    """Four leaves and four spines of which every leaf lacks another one's cable."""
    of = plan(4, 4, 1)
    lacking = {(f"leaf{i}", f"spine{i}") for i in range(1, 5)}
    return replace(of, links=tuple(k for k in of.links if (k.a, k.b) not in lacking))


TWO_TIERS = {
    "2x3": plan(2, 3, 2),
    "4x4": plan(4, 4, 1),
    "4x4 in pairs": plan(4, 4, 1, parallel=2),
    "unequal": load(TOPOLOGIES / "parallel-unequal.yaml"),
    "missing cables": missing_some(),
    "rails": load(TOPOLOGIES / "rails-4x2.yaml"),
}


def fabric_cables(network: ModelNetwork) -> list[Cable]:
    ends = {PortRef(network.switch(k.a).dpid, k.a_port) for k in network.plan.links}
    found = [network.wiring.cable_at(end) for end in sorted(ends)]
    return [cable for cable in found if cable is not None]


def switches(network: ModelNetwork, *roles: Role) -> list[str]:
    return [s.name for s in network.plan.switches if s.role in roles]


@contextmanager
def failed(network: ModelNetwork, cables: Iterable[Cable] = (), off: Iterable[str] = ()) -> Iterator[None]:
    """Carriers go, switches are dark, and nobody tells the controller."""
    cut = [*cables, *(cable for name in off for cable in network.wiring.cables_of(name))]
    ends = [end for cable in cut for end in (cable.a, cable.b) if isinstance(end, PortRef)]
    for up in (False, True):
        for cable in cut:
            cable.cut = not up
        for end in ends:
            network.wiring.by_dpid[end.dpid].set_port_up(end.port_no, up)
        network.dataplane.off ^= set(off)
        if not up:
            yield


def fabric_probes(source: ModelHost, destination: ModelHost) -> list[Packet]:
    """RoCE over several paths, and what else the fabric routes."""
    ends = (source.ipv4_text, destination.ipv4_text, source.mac_text, destination.mac_text)
    known = arp(ARP_REPLY, source.mac, source.ipv4, destination.mac, destination.ipv4)
    asked = arp(ARP_REQUEST, source.mac, source.ipv4, 0, destination.ipv4)
    return [*roce_probes(source, destination), udp(*ends, 5000, 53), known, asked]


def most_hops(network: ModelNetwork, longest_path: int | None = None) -> int:
    """The most switches that any packet visits, all its copies together. Each arrives once or is lost, which it may
    not be where a way of at most `longest_path` switches is left."""
    reach, hosts = Reachability(network), network.hosts
    most = 0
    for a, b in permutations(hosts, 2):
        must_arrive = longest_path is not None and reach.connected(a, b, longest_path)
        for packet in fabric_probes(hosts[a], hosts[b]):
            result = walk(network, packet, a)
            assert result.delivered in ((b,), () if not must_arrive else (b,)), result.explain()
            assert not result.looped
            most = max(most, len(result.hops))
    return most


@pytest.mark.parametrize("name", TWO_TIERS)
def test_any_single_failure_heals_without_a_controller(name: str) -> None:
    _, network = started(TWO_TIERS[name])
    for cable in fabric_cables(network):
        with failed(network, [cable]):
            assert most_hops(network, 3) <= 5
    for spine in switches(network, Role.SPINE):
        with failed(network, off=[spine]):
            assert most_hops(network, 3) == 3


@pytest.mark.parametrize("name", ["2x3", "4x4", "missing cables"])
def test_any_two_failures_end_within_a_few_hops(name: str) -> None:
    _, network = started(TWO_TIERS[name])
    longest = 0
    for pair in combinations(fabric_cables(network), 2):
        with failed(network, pair):
            longest = max(longest, most_hops(network))
    assert 5 < longest <= WITHIN_TWO_TIERS


def test_a_leaf_that_lost_every_link_is_no_storm() -> None:
    """Every packet for it is sent to every switch on its way a few times at most, and then ends."""
    _, network = started(plan(4, 4, 1))
    with failed(network, network.wiring.cables_of("leaf4")):
        # The last one drops it instead of sending it down.
        assert most_hops(network) == WITHIN_TWO_TIERS - 1


def test_planned_flows_are_healed_too_and_with_parallel_links_by_the_other_ones_first() -> None:
    of = plan(3, 2, 2, parallel=2)
    _, network = started(of)
    ask(network, CollectiveAnnounced(1, all_to_all(of)))
    for cable in fabric_cables(network):
        with failed(network, [cable]):
            assert most_hops(network, 3) == 3
    pairs = [[network.cable("leaf3", spine, n) for n in (0, 1)] for spine in ("spine1", "spine2")]
    for pair in pairs:
        with failed(network, pair):
            assert most_hops(network, 3) == 5


def test_a_fabric_that_was_repaired_once_heals_once_more() -> None:
    _, network = started(plan(4, 4, 1))
    network.cut(network.cable("leaf4", "spine1"))
    network.run_until_quiet(60)
    for cable in fabric_cables(network):
        with failed(network, [] if cable.cut else [cable]):
            assert most_hops(network, 3) <= 5


def test_three_tiers_heal_any_single_failure_below_the_first_choice() -> None:
    _, network = started(THREE_TIERS)
    for cable in fabric_cables(network):
        with failed(network, [cable]):
            # Up to the core, down, turned there, over another leaf and another spine.
            assert most_hops(network, 5) <= 9
    longest = 0
    for name in switches(network, Role.SPINE, Role.CORE):
        with failed(network, off=[name]):
            longest = max(longest, most_hops(network, 5))
    # A dark spine is where all cores of one plane end: two of them are tried before the leaf tries another plane.
    assert longest == 11


def test_three_tiers_heal_with_one_core_for_each_plane_too() -> None:
    """A spine that loses its only way up sends back down."""
    gone = {"core2", "core4"}
    links = tuple(link for link in THREE_TIERS.links if gone.isdisjoint((link.a, link.b)))
    _, network = started(replace(THREE_TIERS, links=links))
    for cable in fabric_cables(network):
        with failed(network, [cable]):
            assert most_hops(network, 5) <= 9
    for core in ("core1", "core3"):
        with failed(network, off=[core]):
            assert most_hops(network, 5) <= 9


def test_three_tiers_end_after_any_two_failures() -> None:
    _, network = started(THREE_TIERS)
    pairs = list(combinations(fabric_cables(network), 2))
    longest = 0
    for pair in Random(1).sample(pairs, 30):
        with failed(network, pair):
            longest = max(longest, most_hops(network))
    assert 9 < longest <= WITHIN_THREE_TIERS


def test_laying_detours_on_a_running_fabric_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a controller that knows detours takes over from one that did not."""
    of = plan(3, 2, 1, parallel=2)

    def without(view: FabricView, qos: QosSettings, rate: int, *_: object) -> dict[int, SwitchTables]:
        return compile_base(view, qos, rate, without_detours=view.switches.keys())

    with monkeypatch.context() as earlier:
        earlier.setattr(survey, "compile_base", without)
        _, network = started(of)
    switches_ = network.wiring.switches.values()
    assert not any(has_detours(switch.tables()) for switch in switches_)
    watch = DeliveryWatch(network, probes=fabric_probes)
    network.restart_controller(Core(CoreSettings(beacon_key=KEY, plan=of)))
    network.run_until_quiet(60)
    assert all(has_detours(switch.tables()) for switch in switches_)
    assert [str(violation) for _, violation in watch.violations] == []


def test_a_packet_on_a_detour_differs_in_its_source_mac_alone() -> None:
    _, network = started(plan(2, 2, 1))
    source, destination = network.hosts["h11"], network.hosts["h21"]
    found = set()
    with failed(network, [network.cable("leaf2", "spine1")]):
        for packet in fabric_probes(source, destination):
            result = walk(network, packet, "h11")
            (arrived,) = result.arrivals
            dscp = arrived.get("ip_dscp")
            expected = packet if dscp is None else packet.with_fields(ip_dscp=dscp)
            if len(result.hops) == 5:
                expected = expected.with_fields(eth_src=LAST_HOP)
            assert arrived == expected
            found.add(len(result.hops))
    assert found == {3, 5}


def test_a_host_that_sends_marks_itself_harms_nobody() -> None:
    """A mark is believed of switches only where it is bounded: a forged one is delivered or dropped."""
    _, network = started(plan(3, 3, 1))
    source, destination = network.hosts["h11"], network.hosts["h21"]
    for low in (0x0, 0x800000, 0x900102, 0x900103, 0xA00102, 0xB00101, 0xD00102, 0xFFFFFF):
        for packet in roce_probes(source, destination):
            forged = packet.with_fields(eth_src=mac_value("06:48:44:00:00:00") | low)
            result = walk(network, forged, "h11")
            assert set(result.delivered) <= {"h21"}
            assert len(result.hops) <= WITHIN_TWO_TIERS
