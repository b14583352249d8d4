"""The model network, driven by a core small enough to see through."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from fabrics import leaf, plan, spine

from controller.core.commands import Command, ReadPortStatistics, ReadTables, SendBatch, SendPacket
from controller.core.events import (
    BatchAnswered,
    BatchStatus,
    Event,
    PacketReceived,
    PortChanged,
    PortStatisticsRead,
    SwitchConnected,
    SwitchDisconnected,
    TablesRead,
    Tick,
)
from controller.fabric.model import PortRef
from controller.fabric.plan import FabricPlan
from controller.pipeline.packet import (
    ARP_REQUEST,
    ETH_ARP,
    ETH_IPV4,
    ETH_LLDP,
    Packet,
    arp,
    ip_value,
)
from controller.pipeline.rules import (
    OFPP_CONTROLLER,
    WHOLE_PACKET,
    AddGroup,
    AddRule,
    Barrier,
    Bucket,
    DeleteRule,
    Group,
    GroupKind,
    Modification,
    Output,
    Rule,
    ToGroup,
    match,
)
from controller.simulation.driver import NotQuietError, StuckClockError
from controller.simulation.frame import decode, encode
from controller.simulation.network import ModelNetwork
from controller.simulation.timing import Timing
from controller.simulation.walk import check_delivery, roce_probes

T = TypeVar("T")
PUNT = Output(OFPP_CONTROLLER, WHOLE_PACKET)
BEACON = encode(Packet({"eth_dst": 0x0180C200000E, "eth_src": 2, "eth_type": ETH_LLDP}, b"beacon"))


def routes(fabric: FabricPlan) -> dict[int, list[Modification]]:
    """Static routes for a plan of `fabrics.plan`: to remote hosts by a failover group over the spines."""
    spines = [s for s in fabric.switches if s.dpid >= spine(0)]
    result: dict[int, list[Modification]] = {}
    for switch in fabric.switches:
        is_leaf = switch not in spines
        uplinks = tuple(Bucket((Output(n),), watch_port=n) for n in range(1, len(spines) + 1))
        batch: list[Modification] = [AddGroup(Group(1, GroupKind.FAST_FAILOVER, uplinks)), Barrier()] if is_leaf else []
        batch += [AddRule(Rule(0, 9, match(eth_type=kind), 1, (PUNT,))) for kind in (ETH_LLDP, ETH_ARP)]
        for host in fabric.hosts:
            down = next((k.b_port for k in fabric.links if (k.a, k.b) == (host.switch, switch.name)), None)
            local = host.port if host.switch == switch.name else down
            action = ToGroup(1) if local is None else Output(local)
            batch.append(AddRule(Rule(0, 5, match(eth_type=ETH_IPV4, ipv4_dst=ip_value(host.ipv4)), 1, (action,))))
        result[switch.dpid] = batch
    return result


@dataclass
class TinyCore:
    """Reads a switch's tables when it connects, fills empty ones, sends beacons every second."""

    batches: dict[int, list[Modification]]
    events: list[tuple[float, Event]] = field(default_factory=list)
    sessions: dict[int, str] = field(default_factory=dict)
    beacon_s: float = 0.0

    def handle(self, event: Event, now_s: float) -> list[Command]:
        self.events.append((now_s, event))
        match event:
            case SwitchConnected(dpid, session_id):
                self.sessions[dpid] = session_id
                return [ReadTables(dpid, session_id, 7)]
            case SwitchDisconnected(dpid):
                self.sessions.pop(dpid, None)
            case TablesRead(dpid, session_id, _, tables) if tables is not None and not tables.rules:
                return [SendBatch(dpid, session_id, 1, tuple(self.batches[dpid]))]
            case Tick():
                self.beacon_s = now_s + 1.0
                beacons: list[Command] = [SendPacket(dpid, (1, 2), BEACON) for dpid in self.sessions]
                return beacons + [ReadPortStatistics(dpid, session) for dpid, session in self.sessions.items()]
        return []

    def next_deadline_s(self) -> float | None:
        return self.beacon_s

    def seen(self, kind: type[T], since_s: float = 0.0) -> list[T]:
        return [event for time_s, event in self.events if time_s >= since_s and isinstance(event, kind)]


def network(fabric: FabricPlan | None = None, **options: object) -> tuple[ModelNetwork, TinyCore]:
    fabric = fabric or plan()
    core = TinyCore(routes(fabric))
    return ModelNetwork(fabric, core, **options), core  # type: ignore[arg-type]


def settled(fabric: FabricPlan | None = None, **options: object) -> tuple[ModelNetwork, TinyCore]:
    net, core = network(fabric, **options)
    net.run_until_quiet(30)
    return net, core


# --- connecting, time, determinism ------------------------------------------------------------------------


def test_switches_connect_and_packets_get_through() -> None:
    net, core = settled()
    connected = core.seen(SwitchConnected)
    assert {event.dpid for event in connected} == {leaf(1), leaf(2), spine(1), spine(2)}
    (one,) = [event for event in connected if event.dpid == leaf(1)]
    assert [(port.ref.port_no, port.name, port.up) for port in one.ports] == [
        (n, f"leaf1-eth{n}", True) for n in (1, 2, 3, 4)
    ]
    assert {event.status for event in core.seen(BatchAnswered)} == {BatchStatus.DONE}
    assert check_delivery(net) == []


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> list[tuple[float, Event]]:
        net, core = network(seed=seed)
        net.run_until(3)
        net.reboot("spine1")
        net.cut(net.cable("leaf1", "spine2"))
        net.run_until(10)
        return core.events

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_messages_keep_their_order_within_a_session_only() -> None:
    orders = set()
    for seed in range(8):
        net, core = settled(seed=seed)
        since = net.now_s
        for n in range(20):
            for session in net.sessions.values():
                net.dataplane.losses.clear()
                request = arp(ARP_REQUEST, 2, 1, 0, n)
                session.report(PacketReceived(session.switch.dpid, session.session_id, 1, encode(request)))
        net.run_for(0.1)
        heard = [(e.dpid, decode(e.data).headers) for e in core.seen(PacketReceived, since) if e.in_port == 1]
        arps = [(dpid, headers["arp_tpa"]) for dpid, headers in heard if "arp_tpa" in headers]
        for dpid in net.sessions:
            assert [n for d, n in arps if d == dpid] == list(range(20))
        orders.add(tuple(dpid for dpid, _ in arps))
    assert len(orders) > 1


def test_a_core_whose_deadline_never_moves_is_found_out() -> None:
    class Stuck(TinyCore):
        def next_deadline_s(self) -> float | None:
            return 2.0

    net = ModelNetwork(plan(), Stuck(routes(plan())))
    with pytest.raises(StuckClockError, match=r"2\.0 s"):
        net.run_until(5)


def test_quiet_takes_the_settling_time_and_says_why_it_is_not() -> None:
    net, _ = settled()
    since = net.now_s
    net.cut(net.cable("leaf1", "spine1"))
    assert 3.0 < net.run_until_quiet(20) - since < 3.2
    net.reboot("leaf1", off_s=9)
    with pytest.raises(NotQuietError, match="planned changes"):
        net.run_until_quiet(5)


def test_beacons_cross_cables_and_statistics_are_read() -> None:
    net, core = settled()
    net.run_for(1.5)
    beacons = {(e.dpid, e.in_port) for e in core.seen(PacketReceived) if e.data == BEACON}
    assert beacons == {(dpid, n) for dpid in (leaf(1), leaf(2), spine(1), spine(2)) for n in (1, 2)}
    last = core.seen(PortStatisticsRead)[-1]
    sent = last.counters[1]
    assert sent.tx_packets
    assert sent.tx_bytes == len(BEACON) * sent.tx_packets
    net.switch("leaf1").knows_counters = False
    net.run_for(1.5)
    unknown = [e for e in core.seen(PortStatisticsRead) if e.dpid == leaf(1)][-1]
    assert {counters.rx_bytes for counters in unknown.counters.values()} == {None}


# --- hosts ------------------------------------------------------------------------------------------------


def test_hosts_answer_arp_for_their_own_address_only() -> None:
    net, core = settled()
    for target in ("10.0.1.1", "10.0.1.2"):
        frame = encode(arp(ARP_REQUEST, 0x0A, ip_value("10.0.9.9"), 0, ip_value(target)))
        net._carry_out(SendPacket(leaf(1), (3,), frame))
    net.run_for(0.1)
    (reply,) = [decode(e.data) for e in core.seen(PacketReceived) if e.in_port == 3]
    assert (reply.get("arp_spa"), reply.get("arp_tpa")) == (ip_value("10.0.1.1"), ip_value("10.0.9.9"))
    assert reply.get("arp_sha") == net.hosts["h11"].mac
    assert net.hosts["h11"].neighbours == {ip_value("10.0.9.9"): 0x0A}
    assert net.hosts["h12"].received_packets == 0


def test_hosts_announce_themselves() -> None:
    net, core = settled()
    net.announce_hosts()
    net.run_until_quiet(10)
    seen = {(e.dpid, e.in_port): decode(e.data) for e in core.seen(PacketReceived) if e.data != BEACON}
    for host in net.hosts.values():
        announced = seen[host.port.dpid, host.port.port_no]
        assert announced.get("arp_spa") == announced.get("arp_tpa") == host.ipv4


def test_a_packet_really_sent_arrives_and_is_counted() -> None:
    net, _ = settled()
    source, destination = net.hosts["h11"], net.hosts["h21"]
    (first, *_) = roce_probes(source, destination)
    net.send("h11", first)
    net.send("h11", first.with_fields(eth_dst=net.hosts["h22"].mac))
    net.run_for(0.1)
    assert (destination.received_packets, destination.foreign_packets) == (1, 1)
    assert destination.received[0][1] == first
    counts = {entry.rule.match: entry.packets for entry in net.switch("leaf2").entries()}
    assert counts[match(eth_type=ETH_IPV4, ipv4_dst=destination.ipv4)] == 2


# --- cables -----------------------------------------------------------------------------------------------


def test_both_ends_notice_a_cut_and_its_repair() -> None:
    net, core = settled()
    for up in (False, True):
        since = net.now_s
        cable = net.cable("leaf1", "spine2")
        (net.restore if up else net.cut)(cable)
        net.run_for(0.1)
        changed = {(e.port.ref, e.port.up) for e in core.seen(PortChanged, since)}
        assert changed == {(PortRef(leaf(1), 2), up), (PortRef(spine(2), 1), up)}


def test_the_data_plane_heals_by_itself() -> None:
    net, _ = settled()
    net.cut(net.cable("leaf1", "spine1"))
    net.run_for(0.02)
    lost = {(v.source, v.destination) for v in check_delivery(net)}
    # Leaf 1 fails over; leaf 2's traffic towards it still takes spine 1, for the tiny core repairs nothing.
    assert lost == {(a, b) for a in ("h21", "h22") for b in ("h11", "h12")}


def test_a_one_way_failure_is_silent() -> None:
    net, core = settled()
    since = net.now_s
    net.fail_silently(net.cable("leaf1", "spine1"), sender="leaf1")
    net.run_for(2.5)
    assert core.seen(PortChanged, since) == []
    arrived = {(e.dpid, e.in_port) for e in core.seen(PacketReceived, since + 1) if e.data == BEACON}
    assert (spine(1), 1) not in arrived
    assert (leaf(1), 1) in arrived
    with pytest.raises(LookupError, match="spine2"):
        net.fail_silently(net.cable("leaf1", "spine1"), sender="spine2")


def test_a_cable_can_be_moved() -> None:
    net, core = settled()
    net.unplug(net.cable("leaf1", "spine1"))
    net.run_for(0.1)
    since = net.now_s
    net.plug(PortRef(leaf(1), 1), PortRef(spine(2), 9), 10**9)
    net.run_for(2.5)
    changed = {(e.port.ref, e.port.up, e.port.speed_bps) for e in core.seen(PortChanged, since)}
    assert {ref for ref, up, _ in changed if up} == {PortRef(leaf(1), 1), PortRef(spine(2), 9)}
    assert {(e.dpid, e.in_port) for e in core.seen(PacketReceived, since)} >= {(spine(2), 9)}
    with pytest.raises(ValueError, match="already has a cable"):
        net.plug(PortRef(leaf(1), 1), PortRef(spine(1), 9), 10**9)


def test_a_missing_cable_is_named() -> None:
    net, _ = network()
    with pytest.raises(LookupError, match="1 cables between leaf1 and spine1"):
        net.cable("leaf1", "spine1", 1)


# --- sessions ---------------------------------------------------------------------------------------------


def test_a_rebooted_switch_comes_back_empty_with_a_new_session() -> None:
    net, core = settled()
    since = net.now_s
    net.reboot("spine1")
    net.run_for(0.1)
    assert {e.port.ref for e in core.seen(PortChanged, since)} == {PortRef(leaf(1), 1), PortRef(leaf(2), 1)}
    assert [e.dpid for e in core.seen(SwitchDisconnected, since)] == [spine(1)]
    net.run_until_quiet(30)
    (tables,) = core.seen(TablesRead, since)
    assert tables.tables is not None
    assert tables.tables.rules == frozenset()
    sessions = {e.session_id for e in core.seen(SwitchConnected) if e.dpid == spine(1)}
    assert len(sessions) == 2
    assert check_delivery(net) == []


def test_a_lost_session_keeps_the_tables_and_loses_the_answers() -> None:
    net, core = settled()
    before = net.switch("leaf1").tables()
    extra = Rule(1, 1, (), 5)
    net._carry_out(SendBatch(leaf(1), core.sessions[leaf(1)], 44, (AddRule(extra),)))
    net.lose_session("leaf1", reconnect_after_s=1)
    net.run_for(0.5)
    (answer,) = [e for e in core.seen(BatchAnswered) if e.batch_id == 44]
    assert answer.status is BatchStatus.LOST
    assert leaf(1) not in core.sessions
    assert check_delivery(net) == []
    net.run_until_quiet(10)
    assert net.switch("leaf1").tables().rules - before.rules <= {extra}
    assert leaf(1) in core.sessions


def test_messages_for_a_session_that_is_over_are_answered_as_lost() -> None:
    net, core = settled()
    net._carry_out(SendBatch(leaf(1), "old", 44, ()))
    net._carry_out(ReadTables(leaf(1), "old", 45))
    net.run_for(0.1)
    assert core.seen(BatchAnswered)[-1] == BatchAnswered(leaf(1), "old", 44, BatchStatus.LOST)
    assert core.seen(TablesRead)[-1] == TablesRead(leaf(1), "old", 45, None)


def test_a_frozen_switch_forwards_but_does_not_answer_until_it_thaws() -> None:
    net, core = settled()
    net.freeze("leaf1")
    rule = Rule(1, 1, (), 5)
    net._carry_out(SendBatch(leaf(1), core.sessions[leaf(1)], 44, (AddRule(rule),)))
    net.run_until_quiet(10)
    assert rule not in net.switch("leaf1").tables().rules
    assert check_delivery(net) == []
    net.thaw("leaf1")
    net.run_for(0.1)
    assert rule in net.switch("leaf1").tables().rules
    assert [e.status for e in core.seen(BatchAnswered) if e.batch_id == 44] == [BatchStatus.DONE]


def test_a_slow_switch_takes_longer() -> None:
    def took(factor: float) -> float:
        net, core = settled(timing=Timing(control_latency_s=(0.01, 0.01), modification_s=0.001))
        net.slow_down("leaf1", factor)
        since = net.now_s
        rules = tuple(AddRule(Rule(1, n, (), 5)) for n in range(10))
        net._carry_out(SendBatch(leaf(1), core.sessions[leaf(1)], 44, rules))
        net.run_for(10)
        return next(t for t, e in core.events if isinstance(e, BatchAnswered) and e.batch_id == 44) - since

    assert took(1) == pytest.approx(0.03)
    assert took(50) == pytest.approx(1.5)


def test_a_new_controller_finds_the_old_tables() -> None:
    net, old = settled()
    since = net.now_s
    before = {name: switch.tables() for name, switch in net.wiring.switches.items()}
    new = TinyCore(routes(net.plan))
    net.restart_controller(new, down_s=5)
    assert [t for t, _ in old.events if t > since] == []
    net.run_until_quiet(20)
    assert {e.dpid: e.tables for e in new.seen(TablesRead)} == {
        net.switch(name).dpid: tables for name, tables in before.items()
    }
    assert net.record.modifications(since_s=since) == []


# --- batches ----------------------------------------------------------------------------------------------


def in_order(net: ModelNetwork) -> list[int]:
    """Sends one batch with a barrier in its middle; the cookies in the order of execution."""
    done: list[int] = []
    net.watchers.append(lambda switch, m: done.append(m.rule.cookie) if isinstance(m, AddRule) else None)
    adds = [AddRule(Rule(1, n, (), n)) for n in range(10)]
    net.inject(Tick())
    session = net.session("leaf1")
    assert session is not None
    net._carry_out(SendBatch(leaf(1), session.session_id, 44, (*adds[:5], Barrier(), *adds[5:])))
    net.run_for(0.1)
    return done


def test_modifications_run_in_order_and_barriers_hold_when_they_do_not() -> None:
    net, _ = settled()
    assert in_order(net) == list(range(10))
    orders = set()
    for seed in range(5):
        net, _ = network(seed=seed)
        net.reorders_between_barriers = True
        net.run_until_quiet(20)
        order = in_order(net)
        assert (sorted(order[:5]), sorted(order[5:])) == ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9])
        orders.add(tuple(order))
    assert len(orders) > 1


def test_refusals_name_the_modification() -> None:
    net, core = settled()
    bad = AddRule(Rule(0, 1, (), 0, (ToGroup(99),)))
    net._carry_out(SendBatch(leaf(1), core.sessions[leaf(1)], 44, (Barrier(), bad)))
    net.run_for(0.1)
    answer = core.seen(BatchAnswered)[-1]
    assert (answer.status, [(r.index, r.name) for r in answer.refusals]) == (
        BatchStatus.REFUSED,
        [(1, "OFPET_BAD_ACTION/OFPBAC_BAD_OUT_GROUP")],
    )


# --- the record -------------------------------------------------------------------------------------------


def batch_of(*modifications: Modification) -> Callable[[ModelNetwork], None]:
    return lambda net: net.record.commands.append((0.0, SendBatch(1, "s", 1, modifications)))


GROUP = Group(1, GroupKind.INDIRECT, (Bucket((Output(1),)),))
NESTED = Group(2, GroupKind.INDIRECT, (Bucket((ToGroup(1),)),))
USER = AddRule(Rule(0, 1, (), 0, (ToGroup(1),)))


@pytest.mark.parametrize(
    ("modifications", "problems"),
    [
        ((AddGroup(GROUP), Barrier(), USER), 0),
        ((AddGroup(GROUP), USER), 1),
        ((AddGroup(GROUP), AddGroup(NESTED)), 1),
        ((AddGroup(GROUP), Barrier(), AddGroup(NESTED), USER), 0),
        ((DeleteRule(USER.rule), USER), 0),
    ],
)
def test_missing_barriers_are_found(modifications: tuple[Modification, ...], problems: int) -> None:
    net, _ = network()
    batch_of(*modifications)(net)
    assert len(net.record.ordering_problems()) == problems
