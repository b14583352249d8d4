"""What `heddle explain flow` and `heddle diff` say of a live fabric, against what Open vSwitch itself says of it.

Each bridge is asked with `ofproto/trace` for every packet that our trace says it meets: the same rules must be hit,
table by table, and the packet must leave by the same port, or by one of those of which we say that a hash picks one.
"""

import re
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from controller.cli.client import Controller, connect
from controller.pipeline.packet import udp
from tests.mininet.end_to_end import Product, needs_root, product
from tests.openvswitch.model_pair import split_actions
from tests.openvswitch.ofctl_text import flow_text

pytestmark = needs_root

_RULE = re.compile(r"^ ?(\d+)\. (?:.*, )?priority (\d+), cookie (0x[0-9a-f]+)", re.MULTILINE)
_PORT = re.compile(r"^\s+(\S+) (\d+)/(\d+): ", re.MULTILINE)


class Bridges:
    """What the lab's Open vSwitch would do with a packet."""

    def __init__(self, running: Product) -> None:
        self._running = running
        self._hosts = {host.name: host for host in running.lab.plan.hosts}
        names = {switch.name for switch in running.lab.plan.switches}
        ports: dict[str, dict[int, int]] = {name: {} for name in names}
        bridge = ""
        for line in running.lab.ovs.appctl("dpif/show").splitlines():
            word = line.strip().removesuffix(":")
            if word in names:
                bridge = word
            elif found := _PORT.match(line):
                ports[bridge][int(found[3])] = int(found[2])
        self._openflow_port = ports

    def trace(self, switch: str, in_port: int, shown: Any, dscp: int) -> tuple[list[tuple[int, int, int]], list[int]]:
        """The rules met as (table, priority, cookie), and the OpenFlow ports by which the packet leaves."""
        a, b = self._hosts[shown.src_host], self._hosts[shown.dst_host]
        packet = udp(a.ipv4, b.ipv4, a.mac, b.mac, shown.udp_source_port, dscp=dscp)
        said = self._running.lab.ovs.appctl("ofproto/trace", switch, flow_text(packet, in_port))
        rules = [(int(table), int(priority), int(cookie, 16)) for table, priority, cookie in _RULE.findall(said)]
        (actions,) = re.findall(r"^Datapath actions: (.*)$", said, re.MULTILINE)
        out = [self._openflow_port[switch][int(action)] for action in split_actions(actions) if action.isdigit()]
        return rules, out


def arrivals(shown: Any) -> Iterator[tuple[Any, int]]:
    """Every switch of a trace with the DSCP that the packet bears when it comes there."""
    marks = {shown.src_host: shown.dscp}
    for switch in shown.switches:
        yield switch, marks[switch.sender]
        marks[switch.switch] = switch.outputs[0].dscp if switch.outputs else 0


def disagreements(bridges: Bridges, shown: Any) -> list[str]:
    found = []
    for switch, dscp in arrivals(shown):
        theirs, ports = bridges.trace(switch.switch, switch.in_port, shown, dscp)
        ours = [(t.table_id, t.rule.priority, t.rule.cookie) for t in switch.tables if t.HasField("rule")]
        where = f"{shown.packet} at {switch.switch}, port {switch.in_port}"
        if theirs != ours:
            found.append(f"{where}: rules {ours}, Open vSwitch {theirs}")
        possible = sorted(output.port_no for output in switch.outputs)
        chosen = any(output.by_hash for output in switch.outputs)
        if (sorted(ports) != possible) if not chosen else (len(ports) != 1 or ports[0] not in possible):
            found.append(f"{where}: out by {possible}, Open vSwitch {ports}")
    return found


def check_all(running: Product, controller: Controller) -> set[bool]:
    """All pairs of hosts, ports and marks; whether some and whether no hash was met."""
    bridges = Bridges(running)
    hashed = set()
    found: list[str] = []
    for a, b in permutations([host.name for host in running.lab.plan.hosts], 2):
        for port, dscp in ((0, 0), (50_001, 48), (61_003, 26)):
            shown = controller.explain_flow(a, b, port, dscp).trace
            assert {(end.kind, end.host) for end in shown.ends} == {("host", b)}
            found += disagreements(bridges, shown)
            hashed.add(any(switch.by_hash for switch in shown.switches))
    assert found == []
    return hashed


@pytest.mark.parametrize("topology", ["leafspine-2x4.yaml", "parallel-unequal.yaml"])
def test_traces_agree_with_ofproto_trace(topology: str, tmp_path: Path) -> None:
    from demo_job import RingJob, crossing_order

    with product(topology, tmp_path) as running, connect(running.address) as controller:
        assert check_all(running, controller) == {True, False}
        hosts = crossing_order(running.lab.plan)
        running.controller.announce("ring", RingJob(hosts, (tuple(range(len(hosts))),), 1_000_000, "test"))
        check_all(running, controller)
        steered = controller.explain_flow(hosts[0], hosts[1]).trace.switches[0].tables[-1]
        assert (steered.table, steered.rule.job_id) == ("steer", "ring")
        link = running.lab.plan.links[0]
        running.lab.cut_link(link.a, link.b)
        wait_until_equal(controller)
        check_all(running, controller)


def wait_until_equal(controller: Controller) -> None:
    """Until the switches hold what follows from what has just happened to the fabric."""
    for _ in range(100):
        time.sleep(0.3)
        if controller.diff(read=True).equal:
            return
    raise AssertionError(str(controller.diff()))


def test_a_diff_that_reads_anew_shows_what_others_did_and_what_came_of_it(tmp_path: Path) -> None:
    with product("leafspine-2x2.yaml", tmp_path) as running, connect(running.address) as controller:
        wait_until_equal(controller)
        ovs = running.lab.ovs
        ovs.ofctl("add-flow", "leaf1", "table=3,priority=77,cookie=0xbeef,ipv6,actions=drop")
        ovs.ofctl("--strict", "del-flows", "leaf1", "table=0,priority=1000,dl_type=0x88cc")
        assert controller.diff("leaf1").equal
        read = controller.diff("leaf1", read=True)
        assert not read.equal
        (leaf,) = read.switches
        assert [(d.kind, d.table) for d in leaf.differences] == [("missing", "guard"), ("foreign", "route")]
        assert "LLDP" in leaf.differences[0].desired
        assert "0xbeef" in leaf.differences[1].actual
        wait_until_equal(controller)
        (repaired,) = controller.diff("leaf1").switches
        assert [d.kind for d in repaired.differences] == ["foreign"]
        assert "dl_type=0x88cc" in ovs.ofctl("dump-flows", "leaf1")
