"""The trace of a packet through the tables that the core knows, against the model network that really holds them."""

from itertools import permutations

import pytest
from fabrics import leaf, plan, spine
from heddle.v1 import collective_pb2
from test_core import ask, core_for, ring, settled

from controller.core import views
from controller.core.events import CollectiveAnnounced, PortChanged
from controller.core.machine import Core
from controller.core.tracing import EndKind, HeldTables, trace
from controller.core.views.common import known_hosts
from controller.core.views.trace import PacketTraceView, TracedSwitchView, roce_packet
from controller.fabric.model import PortRef
from controller.jobs.collective import Algorithm, Collective, Operation, QueuePairPorts
from controller.pipeline.diff import ActualTables
from controller.pipeline.flow_table import Entry
from controller.pipeline.rules import AddRule, Output, Rule, match
from controller.runtime.grpc_messages import to_message
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import walk


def traced(core: Core, src: str, dst: str, port: int = 0, dscp: int = 0) -> PacketTraceView:
    return views.explain_flow(core, src, dst, port, dscp).trace


def path(shown: PacketTraceView) -> list[str]:
    return [switch.switch for switch in shown.switches]


def rule_of(switch: TracedSwitchView, table: str):  # type: ignore[no-untyped-def]
    return next(t.rule for t in switch.tables if t.table == table)


@pytest.mark.parametrize("nicira", [True, False])
@pytest.mark.parametrize("with_job", [True, False])
def test_what_the_fabric_does_is_among_what_the_trace_says(with_job: bool, nicira: bool) -> None:
    of = plan(leaves=3, spines=3, hosts=2, parallel=2)
    core = core_for(of)
    network = ModelNetwork(of, core, seed=5)
    for switch in network.wiring.switches.values():
        switch.nicira = nicira
    network.run_until_quiet(30)
    if with_job:
        ask(network, CollectiveAnnounced(1, ring(of)))
    for a, b in permutations((h.name for h in of.hosts), 2):
        for port in (49152, 50001):
            source, destination = known_hosts(core, a, b)
            packet = roce_packet(source, destination, port, 0)
            found = trace(core.state.switches, core.discovery, core.state.view, packet, source)
            ways = {(network.wiring.by_dpid[v.at.dpid].name, s.port_no) for v in found.visits for s in v.outcome.sent}
            went = walk(network, packet, a)
            assert set(went.ports) <= ways
            assert {end.host for end in found.ends} == set(went.delivered) == {b}
            # Without a hash there is one way, and it is exactly the one taken.
            if not any(sent.by_hash for visit in found.visits for sent in visit.outcome.sent):
                assert set(went.ports) == ways


def test_a_planned_flow_meets_its_steering_rule_its_group_and_its_queue() -> None:
    of = plan(leaves=4, spines=4, hosts=4)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    shown = traced(core, "h11", "h21")
    first, *_ = shown.switches
    (flow,) = views.explain_flow(core, "h11", "h21", 0).flows
    assert path(shown) == ["leaf1", flow.flow.path[1].switch, "leaf2"]
    assert [table.table for table in first.tables] == ["guard", "classify", "steer"]
    steer = rule_of(first, "steer")
    assert (steer.kind, steer.job_id, steer.priority) == ("steer", "job", 100)
    assert steer.match == "RoCEv2 over IPv4 from 10.0.1.1 to 10.0.2.1"
    assert rule_of(first, "classify").actions == ("DSCP 26", "queue 1")
    (choice,) = first.tables[-1].choices
    assert choice.kind == "fast_failover"
    assert [member.live for member in choice.members] == [True] * 4
    assert [member.taken for member in choice.members] == [True, False, False, False]
    (output,) = first.outputs
    assert (output.port_no, output.to, output.queue_id, output.dscp) == (
        flow.flow.path[0].port_no,
        flow.flow.path[0].to,
        1,
        26,
    )
    assert not any(switch.by_hash for switch in shown.switches)
    assert [(end.kind, end.host) for end in shown.ends] == [("host", "h21")]


def test_every_view_fits_its_message() -> None:
    of = plan(leaves=2, spines=2)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    view = views.explain_flow(core, "h11", "h21", 0)
    message = to_message(view, collective_pb2.ExplainFlowResponse)
    assert [s.switch for s in message.trace.switches] == path(view.trace)
    steer = message.trace.switches[0].tables[-1]
    assert steer.rule.job_id == "job"
    assert [m.taken for m in steer.choices[0].members] == [True, False]
    assert message.trace.ends[0].host == "h21"


def test_an_unannounced_pair_is_answered_with_every_live_way() -> None:
    of = plan(leaves=2, spines=3, hosts=2)
    core, _ = settled(of)
    explained = views.explain_flow(core, "h11", "h21", 0)
    assert explained.flows == ()
    first, *spines_and_leaves = explained.trace.switches
    (bundle,) = first.tables[-1].choices
    assert (bundle.kind, bundle.by_hash) == ("bundle", True)
    assert [member.taken for member in bundle.members] == [True] * 3
    assert [output.to for output in first.outputs] == ["spine1", "spine2", "spine3"]
    assert all(output.by_hash for output in first.outputs)
    assert [s.switch for s in spines_and_leaves] == ["spine1", "spine2", "spine3", "leaf2", "leaf2", "leaf2"]
    assert all(switch.by_hash for switch in spines_and_leaves)
    assert {(end.kind, end.host) for end in explained.trace.ends} == {("host", "h21")}


def test_hosts_of_one_leaf_meet_one_switch() -> None:
    core, _ = settled(plan())
    shown = traced(core, "h11", "h12")
    assert path(shown) == ["leaf1"]
    assert [(end.kind, end.host) for end in shown.ends] == [("host", "h12")]


def test_marks_and_ports_asked_for_are_those_of_the_packet() -> None:
    core, _ = settled(plan())
    shown = traced(core, "h11", "h21", 50_000, 48)
    assert (shown.udp_source_port, shown.dscp) == (50_000, 48)
    assert rule_of(shown.switches[0], "classify").match == "RoCEv2 over IPv4, DSCP 48"
    assert shown.switches[0].outputs[0].queue_id == 2


def test_without_a_port_the_first_announced_flow_is_traced() -> None:
    of = plan(leaves=2, spines=4, hosts=1)
    core, network = settled(of)
    ports = QueuePairPorts(0, 1, (50_001, 50_002))
    job = Collective("job", Operation.SEND_RECV, Algorithm.DIRECT, ("h11", "h21"), 40, queue_pairs=2, ports=(ports,))
    ask(network, CollectiveAnnounced(1, job))
    assert traced(core, "h11", "h21").udp_source_port == 50_001
    both = [traced(core, "h11", "h21", port) for port in (50_001, 50_002)]
    assert len({shown.switches[0].outputs[0].to for shown in both}) == 2
    assert rule_of(both[0].switches[0], "steer").match.endswith("UDP source port 50001")
    # A port of which nobody spoke is steered by nothing.
    other = views.explain_flow(core, "h11", "h21", 60_000)
    assert other.flows == ()
    assert rule_of(other.trace.switches[0], "steer").kind == "route"


def test_a_port_that_matters_to_no_rule_belongs_to_the_flow_without_one() -> None:
    of = plan(leaves=2, spines=2, hosts=1)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    assert [f.job_id for f in views.explain_flow(core, "h11", "h21", 61_000).flows] == ["job"]


def test_a_dead_uplink_is_avoided_by_the_group_before_the_controller_has_put_it_right() -> None:
    of = plan(leaves=4, spines=4, hosts=4)
    core, network = settled(of)
    ask(network, CollectiveAnnounced(1, ring(of)))
    before = traced(core, "h11", "h21").switches[0]
    port_no = before.outputs[0].port_no
    dead = network.switch("leaf1").set_port_up(port_no, False)
    session = core.state.switches[leaf(1)].session_id or ""
    # Only the core hears of it: its answer is a batch that no switch has carried out yet.
    core.handle(PortChanged(leaf(1), session, dead), network.now_s)
    after = traced(core, "h11", "h21").switches[0]
    (choice,) = after.tables[-1].choices
    assert [member.live for member in choice.members] == [False, True, True, True]
    assert [member.taken for member in choice.members] == [False, True, False, False]
    assert after.outputs[0].port_no != port_no
    assert "not acknowledged" in after.note


def test_a_detour_is_told_in_words_while_a_packet_takes_one() -> None:
    of = plan(leaves=2, spines=2, hosts=1)
    core, network = settled(of)
    link = network.cable("spine1", "leaf2")
    for end in (link.a, link.b):
        assert isinstance(end, PortRef)
        dead = network.wiring.by_dpid[end.dpid].set_port_up(end.port_no, False)
        core.handle(PortChanged(end.dpid, core.state.switches[end.dpid].session_id or "", dead), network.now_s)
    shown = traced(core, "h11", "h21")
    notes = [(switch.switch, switch.note.rpartition("; ")[2]) for switch in shown.switches]
    back = "no way down is live: the packet goes back where it came from, on a detour, bounced once"
    assert ("spine1", back) in notes
    assert ("leaf1", "the packet is on a detour and goes on by another way than the one it came from") in notes
    assert ("spine2", "the packet is on a detour and goes down on its last hop") in notes
    assert {(end.kind, end.host) for end in shown.ends} == {("host", "h21")}


def test_what_others_installed_is_met_and_called_foreign() -> None:
    of = plan()
    core, network = settled(of)
    hijack = Rule(3, 5000, match(eth_type=0x0800), 0xBEEF)
    network.switch("leaf1").execute((AddRule(hijack),))
    network.run_for(12.0)
    shown = traced(core, "h11", "h21")
    rule = rule_of(shown.switches[0], "route")
    assert (rule.kind, rule.cookie, rule.actions) == ("foreign", 0xBEEF, ("drop",))
    (end,) = shown.ends
    assert (end.kind, end.switch) == ("dropped", "leaf1")
    assert "table 3" in end.reason


def test_rules_that_rival_each_other_are_shown() -> None:
    of = plan()
    core, network = settled(of)
    rival = Rule(1, 200, match(eth_type=0x0800, ip_proto=17), 0xBEEF, goto_table=2)
    network.switch("leaf1").execute((AddRule(rival),))
    network.run_for(12.0)
    classify = next(t for t in traced(core, "h11", "h21").switches[0].tables if t.table == "classify")
    assert {r.kind for r in (classify.rule, *classify.rivals) if r} == {"classify", "foreign"}


def test_a_table_miss_is_a_drop_that_names_its_table() -> None:
    core, _ = settled(plan())
    held = core.state.switches[leaf(1)].actual
    assert held is not None
    for key in [key for key in held.rules if key[0] == 1]:
        del held.rules[key]
    shown = traced(core, "h11", "h21")
    assert shown.switches[0].tables[-1].rule is None
    assert [(end.kind, end.reason) for end in shown.ends] == [("dropped", "table 1: no rule matches")]


def test_a_loop_ends_and_is_called_one() -> None:
    of = plan()
    core, _ = settled(of)
    around = {leaf(1): 1, spine(1): 2, leaf(2): 2, spine(2): 1}
    for dpid, port_no in around.items():
        held = core.state.switches[dpid].actual
        assert held is not None
        rule = Rule(0, 5000, match(eth_type=0x0800), 0xBEEF, (Output(port_no),))
        held.rules[rule.key] = rule
    shown = traced(core, "h11", "h21")
    assert path(shown) == ["leaf1", "spine1", "leaf2", "spine2", "leaf1"]
    assert [end.kind for end in shown.ends] == ["looped"]


def test_a_switch_that_is_away_is_where_knowledge_ends() -> None:
    of = plan(leaves=2, spines=1)
    core, network = settled(of)
    network.lose_session("leaf2", reconnect_after_s=60.0)
    network.run_for(1.0)
    (end,) = traced(core, "h11", "h21").ends
    assert (end.kind, end.switch) == ("unknown", "leaf2")
    assert "not connected" in end.reason


def test_a_host_whose_port_is_not_there_any_more_is_no_end() -> None:
    of = plan()
    core, _ = settled(of)
    source, destination = known_hosts(core, "h11", "h12")
    core.hosts.forget_port(destination.port)
    core.survey.look()
    packet = roce_packet(source, destination, 49152, 0)
    (end,) = trace(core.state.switches, core.discovery, core.state.view, packet, source).ends
    assert end.kind is EndKind.UNKNOWN
    assert end.at == destination.port


def test_every_unknown_host_is_named() -> None:
    core, _ = settled(plan())
    with pytest.raises(views.UnknownHost) as error:
        views.explain_flow(core, "nobody", "10.9.9.9", 0)
    assert str(error.value).splitlines() == [
        "no host 'nobody' on this fabric",
        "no host '10.9.9.9' on this fabric",
    ]


def test_held_tables_say_what_forwarding_asks() -> None:
    rule = Rule(0, 1, (), 0)
    held = HeldTables(ActualTables(rules={rule.key: rule}), {1: True, 2: False})
    hit = held.hit(0, {})
    assert isinstance(hit, Entry)
    held.count(hit, 100)
    assert hit.packets == 0
    assert held.conforms(1)
    assert (held.is_live(1), held.is_live(2), held.is_live(3)) == (True, False, False)
    assert held.port_numbers() == (1, 2)
