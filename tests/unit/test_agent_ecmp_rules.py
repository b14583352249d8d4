"""The ECMP baseline spreads by capacity, never by one hash for all, and follows links that go and come."""

from collections import Counter

import pytest
from heddle.southbound.v1 import link_pb2 as pb

from apps.ecmp_baseline import EcmpBaseline
from apps.ecmp_paths import ShortestPaths
from apps.ecmp_rules import EcmpRoutes, Select, Tables, basis, weighted_ports
from controller.fabric import arp
from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink, PlannedSwitch

RATE = 8_000_000


def _host(name: str, leaf: int, port: int) -> PlannedHost:
    return PlannedHost(name, f"leaf{leaf}", port, f"02:00:00:00:{leaf:02x}:{port:02x}", f"10.0.{leaf}.{port}", 16, RATE)


def _link(leaf: int, leaf_port: int, spine: int, spine_port: int, rate: int = RATE) -> PlannedLink:
    return PlannedLink(f"leaf{leaf}", leaf_port, f"spine{spine}", spine_port, rate)


# leaf1 and leaf2: two cables to spine1, a slow one to spine2. Hosts on ports 10 and 11.
PLAN = FabricPlan(
    "test",
    tuple(PlannedSwitch(f"leaf{i}", i, Role.LEAF) for i in (1, 2))
    + tuple(PlannedSwitch(f"spine{i}", 0x10 + i, Role.SPINE) for i in (1, 2)),
    (
        *(_link(leaf, p, 1, 2 * leaf + p - 2) for leaf in (1, 2) for p in (1, 2)),
        *(_link(leaf, 3, 2, leaf, RATE // 2) for leaf in (1, 2)),
    ),
    tuple(_host(f"h{leaf}{port}", leaf, port) for leaf in (1, 2) for port in (10, 11)),
)
LEAF1, LEAF2, SPINE1, SPINE2 = 1, 2, 0x11, 0x12


def _routes(tables: Tables) -> dict[str, pb.Action]:
    """Destination address -> action."""
    rules = [pb.Rule.FromString(text) for text in tables.rules.values()]
    return {
        ".".join(map(str, field.value)): rule.actions[0]
        for rule in rules
        for field in rule.match
        if field.name == "ipv4_dst"
    }


def test_uplinks_are_weighted_by_rate_and_hosts_are_local() -> None:
    routes = _routes(EcmpRoutes(PLAN, 0, Select.BUNDLE).desired(LEAF1, frozenset()))
    assert routes["10.0.1.10"].output.port_no == 10
    bundle = routes["10.0.2.11"].bundle
    assert Counter(bundle.ports) == {1: 2, 2: 2, 3: 1}
    assert bundle.fields == 3
    assert len(routes) == 4


def test_parallel_downlinks_are_hashed_and_single_ones_are_not() -> None:
    routes = EcmpRoutes(PLAN, 0, Select.BUNDLE)
    assert list(_routes(routes.desired(SPINE1, frozenset()))["10.0.2.10"].bundle.ports) == [3, 4]
    assert _routes(routes.desired(SPINE2, frozenset()))["10.0.2.10"].output.port_no == 2


def test_every_switch_hashes_in_its_own_way_and_the_same_in_every_run() -> None:
    bases = {basis(1, dpid) for dpid in range(200)}
    assert len(bases) > 190
    assert max(bases) < 1 << 16
    assert basis(1, 7) == basis(1, 7)
    assert basis(1, 7) != basis(2, 7)


def test_groups_take_the_place_of_bundles() -> None:
    tables = EcmpRoutes(PLAN, 0, Select.GROUP).desired(LEAF1, frozenset())
    group_id = _routes(tables)["10.0.2.10"].group_id
    group = pb.Group.FromString(tables.groups[group_id])
    assert group.kind == pb.Group.KIND_SELECT
    assert [(b.weight, b.actions[0].output.port_no) for b in group.buckets] == [(2, 1), (2, 2), (1, 3)]


@pytest.mark.parametrize(
    ("links", "ports"),
    [
        ([(1, 10)], [1]),
        ([(2, 10), (1, 10)], [1, 2]),
        ([(1, 100_000_000_000), (2, 400_000_000_000)], [1, 2, 2, 2, 2]),
    ],
)
def test_weights_are_exact_where_they_can_be(links: list[tuple[int, int]], ports: list[int]) -> None:
    assert weighted_ports(links) == ports


def test_odd_rates_are_weighted_about_right_and_nobody_is_left_out() -> None:
    counts = Counter(weighted_ports([(1, 99_999_989), (2, 50_000_017), (3, 1)]))
    assert sum(counts.values()) <= 66
    assert counts[3] == 1
    assert counts[1] / counts[2] == pytest.approx(2, rel=0.05)


def test_paths_avoid_dead_links_and_say_when_there_are_none() -> None:
    paths = ShortestPaths(PLAN, frozenset({("spine1", 3), ("spine1", 4)}))
    assert paths.next_hops("leaf1", "leaf2") == [(3, RATE // 2)]
    dead = frozenset({("leaf2", 1), ("leaf2", 2), ("leaf2", 3)})
    assert ShortestPaths(PLAN, dead).next_hops("leaf1", "leaf2") == []


def _up(dpid: int, ports: range = range(1, 12)) -> pb.AgentMessage:
    known = [pb.Port(port_no=number, link_up=True) for number in ports]
    return pb.AgentMessage(switch_up=pb.SwitchUp(dpid=dpid, session_id=f"s{dpid}", ports=known))


def _empty(dpid: int) -> pb.AgentMessage:
    return pb.AgentMessage(tables=pb.Tables(dpid=dpid, session_id=f"s{dpid}", request_id=dpid))


def _baseline() -> EcmpBaseline:
    return EcmpBaseline(PLAN, EcmpRoutes(PLAN, 0, Select.BUNDLE))


def test_a_switch_is_read_first_and_only_what_differs_is_changed() -> None:
    baseline = _baseline()
    (read,) = baseline.handle(_up(LEAF1))
    assert read.read_tables.session_id == "s1"
    (batch,) = baseline.handle(_empty(LEAF1))
    rules = [m.add_rule for m in batch.batch.modifications if m.HasField("add_rule")]
    assert len(rules) == 5
    stranger = pb.Rule(table_id=3, priority=9, cookie=1)
    kept = pb.Tables(dpid=LEAF1, session_id="s1", rules=[*rules[1:], stranger])
    (again,) = baseline.handle(pb.AgentMessage(tables=kept))
    kinds = [m.WhichOneof("kind") for m in again.batch.modifications]
    assert kinds == ["barrier", "add_rule", "delete_rule", "barrier"]
    complete = pb.Tables(dpid=LEAF1, session_id="s1", rules=rules)
    assert baseline.handle(pb.AgentMessage(tables=complete)) == []


def test_a_port_that_goes_down_changes_the_routes_of_the_others() -> None:
    baseline = _baseline()
    for dpid in (LEAF1, LEAF2):
        baseline.handle(_up(dpid))
        baseline.handle(_empty(dpid))
    down = pb.PortStatus(dpid=LEAF2, reason=pb.PortStatus.REASON_MODIFY, port=pb.Port(port_no=3, link_up=False))
    requests = baseline.handle(pb.AgentMessage(port_status=down))
    assert sorted(request.batch.dpid for request in requests) == [LEAF1, LEAF2]
    bundles = [m.add_rule.actions[0].bundle.ports for m in requests[0].batch.modifications if m.HasField("add_rule")]
    assert [list(ports) for ports in bundles] == [[1, 2]] * 2
    assert baseline.handle(pb.AgentMessage(port_status=down)) == []
    down.port.link_up = True
    assert len(baseline.handle(pb.AgentMessage(port_status=down))) == 2
    down.port.port_no = 10  # A host's port is no link.
    assert baseline.handle(pb.AgentMessage(port_status=down)) == []


def test_a_switch_that_is_not_planned_gets_nothing() -> None:
    assert _baseline().handle(_up(99)) == []


def test_arp_is_answered_for_planned_hosts_only() -> None:
    baseline = _baseline()

    def ask(target: str) -> list[pb.ControllerMessage]:
        request = arp.encode(
            arp.Arp(arp.REQUEST, "02:00:00:00:01:0a", "10.0.1.10", "00:00:00:00:00:00", target), arp.BROADCAST
        )
        return baseline.handle(pb.AgentMessage(packet_in=pb.PacketIn(dpid=1, in_port=10, data=request)))

    (answer,) = ask("10.0.2.11")
    assert list(answer.packet_out.out_ports) == [10]
    reply = arp.decode(answer.packet_out.data)
    assert reply == arp.Arp(arp.REPLY, "02:00:00:00:02:0b", "10.0.2.11", "02:00:00:00:01:0a", "10.0.1.10")
    assert ask("10.9.9.9") == []
    for size in (0, 6, 14, 41):
        packet = pb.PacketIn(dpid=1, in_port=10, data=bytes(size))
        assert baseline.handle(pb.AgentMessage(packet_in=packet)) == []
