"""What a model switch takes, refuses, forgets and counts."""

from collections import Counter

import pytest

from controller.core.events import Refusal
from controller.fabric.model import Port, PortRef
from controller.pipeline.forwarding import OFPP_IN_PORT, OFPP_TABLE
from controller.pipeline.packet import ETH_IPV4, Packet, udp
from controller.pipeline.rules import (
    OFPP_CONTROLLER,
    AddGroup,
    AddMeter,
    AddRule,
    Barrier,
    Bucket,
    Bundle,
    DecrementTtl,
    DeleteGroup,
    DeleteMeter,
    DeleteRule,
    Group,
    GroupKind,
    Meter,
    Modification,
    ModifyGroup,
    Output,
    Rule,
    SetField,
    SetQueue,
    ToGroup,
    match,
)
from controller.simulation.admission import Limits
from controller.simulation.switches import ModelSwitch

ALL = match()
ENDS = ("10.0.1.1", "10.0.2.1", "02:00:00:00:01:01", "02:00:00:00:02:01")
PACKET = udp(*ENDS, 49152)


def switch(limits: Limits | None = None) -> ModelSwitch:
    ports = [Port(PortRef(1, n), f"p{n}", f"02:01:00:00:00:{n:02x}", True) for n in range(1, 5)]
    return ModelSwitch(1, "s1", ports, limits=limits)


def failover(group_id: int, *ports: int) -> Group:
    return Group(group_id, GroupKind.FAST_FAILOVER, tuple(Bucket((Output(p),), watch_port=p) for p in ports))


def ports_of(model: ModelSwitch, packet: Packet = PACKET, in_port: int = 4) -> list[int]:
    return [sent.port_no for sent in model.forward(packet, in_port).sent]


def errors(model: ModelSwitch, *modifications: Modification) -> list[str | None]:
    refused = {refusal.index: refusal.name for refusal in model.execute(modifications)}
    return [refused.get(index) for index in range(len(modifications))]


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("modification", "name"),
    [
        (AddGroup(failover(1, 1)), "OFPET_GROUP_MOD_FAILED/OFPGMFC_GROUP_EXISTS"),
        (ModifyGroup(failover(9, 1)), "OFPET_GROUP_MOD_FAILED/OFPGMFC_UNKNOWN_GROUP"),
        (AddRule(Rule(0, 1, ALL, 0, (ToGroup(9),))), "OFPET_BAD_ACTION/OFPBAC_BAD_OUT_GROUP"),
        (AddRule(Rule(200, 1, ALL, 0)), "OFPET_FLOW_MOD_FAILED/OFPFMFC_BAD_TABLE_ID"),
        (AddRule(Rule(2, 1, ALL, 0, goto_table=2)), "OFPET_BAD_INSTRUCTION/OFPBIC_BAD_TABLE_ID"),
        (AddRule(Rule(0, 1, ALL, 0, meter_id=3)), "OFPET_METER_MOD_FAILED/OFPMMFC_INVALID_METER"),
        (AddRule(Rule(0, 1, match(ipv4_dst=1), 0)), "OFPET_BAD_MATCH/OFPBMC_BAD_PREREQ"),
        (AddRule(Rule(0, 1, match(eth_type=ETH_IPV4, ip_dscp=(1, 1)), 0)), "OFPET_BAD_MATCH/OFPBMC_BAD_MASK"),
        (AddRule(Rule(0, 1, ALL, 0, (DecrementTtl(),))), "OFPET_BAD_ACTION/OFPBAC_MATCH_INCONSISTENT"),
        (AddRule(Rule(0, 1, ALL, 0, (SetField("ip_dscp", 1),))), "OFPET_BAD_ACTION/OFPBAC_MATCH_INCONSISTENT"),
    ],
)
def test_a_refused_modification_is_named_and_changes_nothing(modification: Modification, name: str) -> None:
    model = switch(Limits(tables=100))
    model.execute([AddGroup(failover(1, 1)), AddRule(Rule(0, 0, ALL, 0))])
    before = model.tables()
    assert model.execute([Barrier(), modification, Barrier()]) == (Refusal(1, name),)
    assert model.tables() == before


def test_the_rest_of_a_batch_stands() -> None:
    model = switch()
    bad, good = Rule(0, 2, ALL, 0, (ToGroup(9),)), Rule(0, 1, ALL, 0)
    model.execute([AddRule(bad), AddRule(good)])
    assert model.tables().rules == {good}


def test_a_full_table_takes_overwrites_only() -> None:
    model = switch(Limits(rules=2))
    full = "OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL"
    rules = [Rule(table, 1, ALL, 0) for table in (0, 1, 2)]
    assert errors(model, *map(AddRule, rules)) == [None, None, full]
    overwriting = Rule(1, 1, ALL, 9, (Output(1),))
    assert errors(model, AddRule(overwriting), DeleteRule(rules[0]), AddRule(rules[2])) == [None, None, None]
    assert model.tables().rules == {overwriting, rules[2]}


def test_a_limit_for_each_table() -> None:
    model = switch(Limits(rules_per_table=1))
    names = errors(model, *(AddRule(Rule(table, p, ALL, 0)) for table in (0, 1) for p in (1, 2)))
    assert [name is None for name in names] == [True, False, True, False]


def test_no_more_groups_than_there_is_room_for() -> None:
    model = switch(Limits(groups=1))
    room = "OFPET_GROUP_MOD_FAILED/OFPGMFC_OUT_OF_GROUPS"
    assert errors(model, AddGroup(failover(1, 1)), AddGroup(failover(2, 1))) == [None, room]
    assert errors(model, DeleteGroup(1), AddGroup(failover(2, 1))) == [None, None]


# --- deletions --------------------------------------------------------------------------------------------


def test_deleting_a_group_or_meter_deletes_the_rules_that_use_it() -> None:
    model = switch()
    kept = Rule(0, 1, ALL, 0, (ToGroup(2),))
    model.execute([AddGroup(failover(1, 1)), AddGroup(failover(2, 2)), AddMeter(Meter(1, 10, 10))])
    model.execute([AddRule(kept), AddRule(Rule(0, 2, ALL, 0, (ToGroup(1),))), AddRule(Rule(1, 1, ALL, 0, meter_id=1))])
    assert model.execute([DeleteGroup(1), DeleteMeter(1), DeleteGroup(77), DeleteMeter(77)]) == ()
    assert model.tables().rules == {kept}
    assert {group.group_id for group in model.tables().groups} == {2}


def test_deleting_is_strict() -> None:
    model = switch()
    rule = Rule(0, 5, match(in_port=1), 1)
    model.execute([AddRule(rule), DeleteRule(Rule(0, 4, match(in_port=1), 1)), DeleteRule(Rule(0, 5, ALL, 1))])
    assert model.tables().rules == {rule}
    model.execute([DeleteRule(Rule(0, 5, match(in_port=1), cookie=99))])
    assert model.tables().rules == frozenset()


def test_a_reboot_forgets_everything_but_the_ports() -> None:
    model = switch()
    model.execute([AddGroup(failover(1, 1)), AddRule(Rule(0, 1, ALL, 0, (ToGroup(1),)))])
    model.reboot()
    assert model.tables() == switch().tables()
    assert sorted(model.ports) == [1, 2, 3, 4]


# --- packets ----------------------------------------------------------------------------------------------


def test_a_table_miss_drops() -> None:
    model = switch()
    model.execute([AddRule(Rule(0, 1, ALL, 0, goto_table=3))])
    outcome = model.forward(PACKET, 1)
    assert (outcome.sent, outcome.punts) == ((), ())
    assert outcome.drops == ("table 3: no rule matches",)


def test_failover_follows_the_ports() -> None:
    model = switch()
    model.execute([AddGroup(failover(1, 1, 2)), AddRule(Rule(0, 1, ALL, 0, (ToGroup(1),)))])
    assert ports_of(model) == [1]
    model.set_port_up(1, False)
    assert ports_of(model) == [2]
    model.set_port_up(2, False)
    assert model.forward(PACKET, 4).drops == ("group 1: no bucket is live",)
    model.set_port_up(1, True)
    assert ports_of(model) == [1]


def test_never_back_out_of_the_port_it_came_in_on() -> None:
    model = switch()
    model.execute([AddRule(Rule(0, 1, ALL, 0, (Output(1), Output(2))))])
    assert ports_of(model, in_port=1) == [2]
    model.execute([AddRule(Rule(0, 1, ALL, 0, (Output(OFPP_IN_PORT),)))])
    assert ports_of(model, in_port=1) == [1]


def test_a_queue_holds_until_it_is_set_again_and_across_tables() -> None:
    model = switch()
    model.execute([AddRule(Rule(0, 1, ALL, 0, (SetQueue(2), Output(1), SetQueue(3)), goto_table=1))])
    model.execute([AddRule(Rule(1, 1, ALL, 0, (Output(2),)))])
    assert [(sent.port_no, sent.queue_id) for sent in model.forward(PACKET, 4).sent] == [(1, 2), (2, 3)]


def test_a_bucket_changes_only_its_own_copy() -> None:
    model = switch()
    buckets = (Bucket((SetField("ip_dscp", 10), SetQueue(7), Output(1))), Bucket((Output(2),)))
    model.execute([AddGroup(Group(1, GroupKind.ALL, buckets))])
    model.execute([AddRule(Rule(0, 1, ALL, 0, (ToGroup(1), Output(3))))])
    sent = model.forward(PACKET, 4).sent
    assert [(s.port_no, s.packet.get("ip_dscp"), s.queue_id) for s in sent] == [(1, 10, 7), (2, 0, None), (3, 0, None)]


def test_a_punt_says_where_it_came_from() -> None:
    model = switch()
    model.execute([AddRule(Rule(0, 1, ALL, 0xABC, (Output(OFPP_CONTROLLER, 64),)))])
    (punt,) = model.forward(PACKET, 3).punts
    assert (punt.in_port, punt.cookie, punt.table_id, punt.max_len) == (3, 0xABC, 0, 64)


def test_groups_that_name_each_other_end() -> None:
    model = switch()
    for group_id, other in ((1, 2), (2, 1)):
        model.execute([AddGroup(Group(group_id, GroupKind.INDIRECT, (Bucket((ToGroup(other),)),)))])
    model.execute([AddRule(Rule(0, 1, ALL, 0, (ToGroup(1),)))])
    assert any("nest deeper" in drop for drop in model.forward(PACKET, 4).drops)


def test_a_packet_out_may_enter_the_tables() -> None:
    model = switch()
    model.execute([AddRule(Rule(0, 1, match(in_port=OFPP_CONTROLLER), 0, (Output(3),)))])
    assert [s.port_no for s in model.send_out(PACKET, OFPP_CONTROLLER, (OFPP_TABLE,)).sent] == [3]
    assert [s.port_no for s in model.send_out(PACKET, OFPP_CONTROLLER, (1, 2)).sent] == [1, 2]


def test_rules_count_their_packets_and_a_dry_run_does_not() -> None:
    model = switch()
    model.execute([AddRule(Rule(0, 1, ALL, 0, (Output(1),)))])
    model.forward(PACKET, 4)
    model.forward(PACKET, 4, dry_run=True)
    (entry,) = model.entries()
    assert (entry.packets, entry.size_bytes) == (1, PACKET.size_bytes)


def test_a_dry_run_names_rival_rules() -> None:
    model = switch()
    first, second = Rule(0, 5, match(in_port=4), 0, (Output(1),)), Rule(0, 5, match(eth_type=ETH_IPV4), 0, (Output(2),))
    model.execute([AddRule(first), AddRule(second), AddRule(Rule(0, 4, ALL, 0))])
    outcome = model.forward(PACKET, 4, dry_run=True)
    assert (outcome.rules, outcome.rivals) == ((first,), (second,))


def test_a_meter_lets_its_burst_through_and_then_its_rate() -> None:
    model = switch()
    model.execute([AddMeter(Meter(1, 10, 5)), AddRule(Rule(0, 1, ALL, 0, (Output(1),), meter_id=1))])
    passed = []
    for model.now_s in [0.0] * 20 + [1.0] * 20:
        passed.append(len(model.forward(PACKET, 4).sent))
    assert (sum(passed[:20]), sum(passed[20:])) == (5, 5)


# --- spreading --------------------------------------------------------------------------------------------

FLOWS = [udp(*ENDS, 49152 + i) for i in range(600)]


def spread(model: ModelSwitch) -> Counter[int]:
    return Counter(port for flow in FLOWS for port in ports_of(model, flow))


def bundle(*ports: int, basis: int = 0, fields: int = 3) -> AddRule:
    return AddRule(Rule(0, 1, ALL, 0, (Bundle(ports, basis, fields),)))


def test_a_bundle_spreads_by_weight_over_udp_ports() -> None:
    model = switch()
    model.execute([bundle(1, 2, 2)])
    counts = spread(model)
    assert set(counts) == {1, 2}
    assert 1.6 < counts[2] / counts[1] < 2.5


def test_a_dead_member_moves_only_its_own_flows() -> None:
    model = switch()
    model.execute([bundle(1, 2, 3)])
    before = [ports_of(model, flow) for flow in FLOWS]
    model.set_port_up(2, False)
    after = [ports_of(model, flow) for flow in FLOWS]
    assert all(new == old for old, new in zip(before, after, strict=True) if old != [2])
    assert {port for (port,) in after} == {1, 3}
    for port in (1, 3):
        model.set_port_up(port, False)
    assert model.forward(PACKET, 4).drops == ("no member of the bundle is live",)


def test_both_directions_of_a_flow_hash_alike() -> None:
    model = switch()
    model.execute([bundle(1, 2, 3)])
    for port in range(50):
        there = udp(*ENDS, 50000 + port)
        back = udp(ENDS[1], ENDS[0], ENDS[3], ENDS[2], 4791, 50000 + port)
        assert ports_of(model, there) == ports_of(model, back)


def test_the_basis_makes_switches_choose_differently() -> None:
    chosen = []
    for basis in (1, 2):
        model = switch()
        model.execute([bundle(1, 2, basis=basis)])
        chosen.append([ports_of(model, flow) for flow in FLOWS])
    same = sum(a == b for a, b in zip(*chosen, strict=True))
    assert 0.4 < same / len(FLOWS) < 0.6


def test_a_hash_without_ports_sends_a_host_pair_to_one_member() -> None:
    model = switch()
    model.execute([bundle(1, 2, 3, fields=2)])
    assert len(spread(model)) == 1


def test_a_select_group_spreads_by_weight_over_live_buckets() -> None:
    model = switch()
    buckets = tuple(Bucket((Output(p),), weight=p, watch_port=p) for p in (1, 2, 3))
    model.execute([AddGroup(Group(1, GroupKind.SELECT, buckets)), AddRule(Rule(0, 1, ALL, 0, (ToGroup(1),)))])
    counts = spread(model)
    assert [round(6 * counts[port] / len(FLOWS)) for port in (1, 2, 3)] == [1, 2, 3]
    model.set_port_up(3, False)
    assert set(spread(model)) == {1, 2}
