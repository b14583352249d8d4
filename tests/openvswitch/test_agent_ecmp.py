"""The ECMP baseline on a real Open vSwitch: it must spread RoCE, or beating it would prove nothing."""

import re
import socket
from collections import Counter
from pathlib import Path

import pytest

from controller.fabric.plan import FabricPlan
from controller.formats import topology_file
from tests.openvswitch.agent_harness import ROOT, RyuApp, wait_until
from tests.openvswitch.private_ovs import PrivateOvs, in_namespace

_TCP = "tcp:127.0.0.1:6653"


def _build(ovs: PrivateOvs, plan: FabricPlan) -> None:
    """Every switch of the plan as a bridge, cables as patch ports, hosts as veth pairs."""
    names = {switch.name: switch.dpid for switch in plan.switches}
    for name, dpid in names.items():
        ovs.add_bridge(name, dpid)
    for link in plan.links:
        ovs.add_patch(link.a, link.a_port, link.b, link.b_port)
    for number, host in enumerate(plan.hosts):
        ovs.add_veth(host.switch, f"v{number}", host.port, f"host{number}")
    for name in names:
        ovs.set_controller(name, _TCP)


def _wait_for_rules(ovs: PrivateOvs, plan: FabricPlan) -> None:
    wanted = len(plan.hosts) + 1

    def all_there() -> bool:
        return all(
            len(re.findall("cookie=0x45434d50", ovs.ofctl("dump-flows", s.name))) == wanted for s in plan.switches
        )

    wait_until(all_there, "all rules")


def _spines_taken(ovs: PrivateOvs, plan: FabricPlan, source: int, target: int, flows: int) -> Counter[str]:
    """How many flows of a host pair cross each spine, as ofproto/trace sees it."""
    sender, receiver = plan.hosts[source], plan.hosts[target]
    taken: Counter[str] = Counter()
    for port in range(49152, 49152 + flows):
        flow = (
            f"in_port={sender.port},eth_src={sender.mac},eth_dst={receiver.mac},udp,nw_src={sender.ipv4},"
            f"nw_dst={receiver.ipv4},nw_ttl=64,udp_src={port},udp_dst=4791"
        )
        trace = ovs.appctl("ofproto/trace", sender.switch, flow)
        hops = re.findall(r"bridge\(\"(\S+)\"\)", trace)
        assert hops[0] == sender.switch
        assert hops[-1] == receiver.switch, f"flow {port} does not arrive:\n{trace}"
        taken[hops[1]] += 1
    return taken


@in_namespace
def test_roce_flows_of_one_host_pair_use_all_uplinks(tmp_path: Path) -> None:
    path = ROOT / "topologies" / "leafspine-2x4.yaml"
    plan = topology_file.load(path)
    with PrivateOvs() as ovs, RyuApp("ecmp", tmp_path, HEDDLE_TOPOLOGY=str(path)) as app:
        _build(ovs, plan)
        _wait_for_rules(ovs, plan)
        far = next(i for i, host in enumerate(plan.hosts) if host.switch != plan.hosts[0].switch)
        few = _spines_taken(ovs, plan, 0, far, 16)
        many = _spines_taken(ovs, plan, 0, far, 256)
        print(f"16 flows: {dict(few)}, 256 flows: {dict(many)}")
        assert len(few) == 4
        assert len(many) == 4
        assert max(many.values()) <= 1.35 * 256 / 4
        assert "Traceback" not in app.log


@in_namespace
def test_unequal_capacity_is_weighted(tmp_path: Path) -> None:
    path = ROOT / "topologies" / "parallel-unequal.yaml"
    plan = topology_file.load(path)
    with PrivateOvs() as ovs, RyuApp("ecmp", tmp_path, HEDDLE_TOPOLOGY=str(path)):
        _build(ovs, plan)
        _wait_for_rules(ovs, plan)
        names = [host.switch for host in plan.hosts]
        spread = _spines_taken(ovs, plan, names.index("leaf1"), names.index("leaf2"), 256)
        # Two cables of 8 Mbit/s to spine1, one of 4 to spine2: four fifths belong on spine1.
        assert 0.7 < spread["spine1"] / 256 < 0.9, spread


@in_namespace
def test_select_groups_where_nicira_is_missing_and_a_restart_changes_nothing(tmp_path: Path) -> None:
    path = ROOT / "topologies" / "leafspine-2x2.yaml"
    plan = topology_file.load(path)
    settings = {"HEDDLE_TOPOLOGY": str(path), "HEDDLE_ECMP_SELECT": "group"}
    with PrivateOvs() as ovs:
        with RyuApp("ecmp", tmp_path, **settings):
            _build(ovs, plan)
            _wait_for_rules(ovs, plan)
            leaf = plan.hosts[0].switch
            assert "type=select" in ovs.ofctl("dump-groups", leaf)
            assert "bundle(" not in ovs.ofctl("dump-flows", leaf)
            before = re.findall(r"duration=([\d.]+)s", ovs.ofctl("dump-flows", leaf))
        with RyuApp("ecmp", tmp_path, **settings) as app:
            app.wait_for_log(f"switch {plan.switches[-1].dpid:016x} is up")
            wait_until(lambda: "is_connected: true" in ovs.vsctl("show"), "connected")
            after = re.findall(r"duration=([\d.]+)s", ovs.ofctl("dump-flows", leaf))
            assert all(float(new) > float(old) for new, old in zip(after, before, strict=True)), "rules were laid anew"
            # The other way of spreading replaces the rules and takes the groups away.
        with RyuApp("ecmp", tmp_path, HEDDLE_TOPOLOGY=str(path)):
            wait_until(lambda: "type=select" not in ovs.ofctl("dump-groups", leaf), "groups are removed")
            _wait_for_rules(ovs, plan)
            assert "bundle(" in ovs.ofctl("dump-flows", leaf)


@in_namespace
def test_arp_is_answered_and_never_flooded(tmp_path: Path) -> None:
    path = ROOT / "topologies" / "leafspine-2x2.yaml"
    plan = topology_file.load(path)
    with PrivateOvs() as ovs, RyuApp("ecmp", tmp_path, HEDDLE_TOPOLOGY=str(path)):
        _build(ovs, plan)
        _wait_for_rules(ovs, plan)
        asker, target = plan.hosts[0], plan.hosts[-1]
        last = len(plan.hosts) - 1
        with _raw("host0") as asking, _raw(f"host{last}") as listening:
            for address in (target.ipv4, "10.255.255.1"):
                asking.send(_arp_request(asker.mac, asker.ipv4, address))
            answer = _next_arp(asking)
            assert answer[6:12] == bytes.fromhex(target.mac.replace(":", ""))
            assert answer[28:32] == socket.inet_aton(target.ipv4)
            listening.settimeout(1.0)
            with pytest.raises(TimeoutError):
                _next_arp(listening)


@in_namespace
def test_a_dead_link_leaves_the_routes_and_comes_back(tmp_path: Path) -> None:
    path = ROOT / "topologies" / "leafspine-2x2.yaml"
    plan = topology_file.load(path)
    with PrivateOvs() as ovs, RyuApp("ecmp", tmp_path, HEDDLE_TOPOLOGY=str(path)):
        _build(ovs, plan)
        _wait_for_rules(ovs, plan)
        leaf, other = plan.hosts[0].switch, plan.hosts[-1].switch
        assert "bundle(" in ovs.ofctl("dump-flows", leaf)
        dead = next(link for link in plan.links if other in (link.a, link.b))
        port = dead.a_port if dead.a == other else dead.b_port
        ovs.vsctl("del-port", f"{other}-{port}")
        # The far leaf's routes avoid the spine that has lost its link, although their own ports are fine.
        wait_until(lambda: "bundle(" not in ovs.ofctl("dump-flows", leaf), "the dead path is left out")


def _raw(interface: str) -> socket.socket:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
    raw.bind((interface, 0x0806))
    raw.settimeout(20)
    return raw


def _arp_request(mac: str, sender: str, target: str) -> bytes:
    source = bytes.fromhex(mac.replace(":", ""))
    body = bytes.fromhex("0001080006040001") + source + socket.inet_aton(sender) + bytes(6) + socket.inet_aton(target)
    return b"\xff" * 6 + source + b"\x08\x06" + body


def _next_arp(interface: socket.socket) -> bytes:
    while True:
        frame = interface.recv(2000)
        if frame[12:14] == b"\x08\x06":
            return frame
