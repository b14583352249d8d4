"""What the switches should hold, for small fabrics."""

import ipaddress

from fabrics import RATE_BPS, leaf, plan, spine, view

from controller.fabric.model import FabricView, Link, PortRef
from controller.pipeline.compile import compile_base, merged
from controller.pipeline.detour import has_detours, is_detour_rule
from controller.pipeline.marks import bounced_for
from controller.pipeline.rules import (
    OFPP_IN_PORT,
    Action,
    Bucket,
    Bundle,
    Group,
    GroupKind,
    Output,
    Rule,
    SetField,
    SetQueue,
    SwitchTables,
    ToGroup,
)
from controller.pipeline.steering import SteeredFlow, compile_steering
from controller.qos.classes import QosSettings


def route_to(tables: SwitchTables, address: str) -> Rule | None:
    wanted = int(ipaddress.IPv4Address(address))
    routes = [r for r in tables.rules if r.table_id == 3]
    found = [r for r in routes if any(f.value == wanted and f.name == "ipv4_dst" for f in r.match)]
    assert len(found) <= 1
    return found[0] if found else None


def base(of: FabricView) -> dict[int, SwitchTables]:
    return compile_base(of, QosSettings(), 500)


def without(of: FabricView, a: PortRef) -> FabricView:
    links = tuple(k for k in of.links if a not in (k.a, k.b))
    return FabricView(of.switches, links, of.hosts)


def test_every_switch_punts_lldp_above_everything() -> None:
    for tables in base(view(plan())).values():
        guard = [r for r in tables.rules if r.table_id == 0]
        top = max(guard, key=lambda r: r.priority)
        assert [(f.name, f.value) for f in top.match] == [("eth_type", 0x88CC)]
        assert top.goto_table is None


def test_local_hosts_go_to_their_port_and_remote_ones_over_all_uplinks() -> None:
    tables = base(view(plan(leaves=2, spines=4)))[leaf(1)]
    assert route_to(tables, "10.0.1.1").actions == (Output(5),)
    assert route_to(tables, "10.0.2.1").actions == (Bundle((1, 2, 3, 4), basis=leaf(1)),)


def group_of(tables: SwitchTables, action: Action) -> Group:
    assert isinstance(action, ToGroup)
    return next(g for g in tables.groups if g.group_id == action.group_id)


def test_a_spine_goes_straight_down_or_sends_back() -> None:
    tables = base(view(plan()))[spine(2)]
    (action,) = route_to(tables, "10.0.2.2").actions
    down, back = group_of(tables, action).buckets
    assert down == Bucket((Output(2),), watch_port=2)
    # Its own port to the other leaf stands in for the port that the packet came in by.
    assert (back.actions[-1], back.watch_port) == (Output(OFPP_IN_PORT), 1)


def test_parallel_links_of_a_spine_are_shared_and_watched_together() -> None:
    tables = base(view(plan(parallel=2)))[spine(1)]
    spread, watch = route_to(tables, "10.0.2.1").actions
    assert spread == Bundle((3, 4), basis=spine(1))
    first, second, back = group_of(tables, watch).buckets
    assert [(b.actions, b.watch_port) for b in (first, second)] == [((), 3), ((), 4)]
    assert back.actions[-1] == Output(OFPP_IN_PORT)


def test_without_detours_a_spine_needs_no_group() -> None:
    tables = compile_base(view(plan()), QosSettings(), 500, without_detours=[spine(2)])[spine(2)]
    assert route_to(tables, "10.0.2.2").actions == (Output(2),)
    assert not has_detours(tables)


def test_a_switch_without_extensions_has_detours_too() -> None:
    tables = base(view(plan(leaves=3, spines=3), nicira=False))
    on = [r.actions for r in tables[leaf(1)].rules if is_detour_rule(r) and r.table_id == 3]
    assert len(on) == 3
    for (action,) in on:
        assert group_of(tables[leaf(1)], action).kind == GroupKind.FAST_FAILOVER
    (action,) = route_to(tables[spine(1)], "10.0.2.1").actions
    assert group_of(tables[spine(1)], action).buckets[-1].actions[-1] == Output(OFPP_IN_PORT)


def test_a_leaf_sends_up_again_by_every_other_spine_and_names_only_the_leaves_that_differ() -> None:
    lost = without(view(plan(leaves=4, spines=4)), PortRef(leaf(4), 1))
    on = {r.match: r.actions for r in base(lost)[leaf(1)].rules if is_detour_rule(r) and r.table_id == 3}
    others = {1: {2, 3, 4}, 2: {1, 3, 4}, 3: {1, 2, 4}, 4: {1, 2, 3}}
    found: dict[tuple[int, bool], set[int]] = {}
    for matched, (bundle,) in on.items():
        names_a_leaf = matched[0].mask == bounced_for(0)[1]
        found[matched[1].value, names_a_leaf] = set(bundle.ports)
    usual = {(port, False): ports for port, ports in others.items()}
    assert found == usual | {(port, True): ports - {1} for port, ports in others.items() if port != 1}


def test_unequal_links_are_weights() -> None:
    of = view(plan(leaves=2, spines=2))
    links = tuple(Link(k.a, k.b, RATE_BPS * (3 if k.a == PortRef(leaf(1), 1) else 1)) for k in of.links)
    tables = base(FabricView(of.switches, links, of.hosts))[leaf(1)]
    assert route_to(tables, "10.0.2.1").actions[0].ports == (1, 1, 1, 2)


def test_a_spine_that_lost_its_link_to_a_leaf_is_not_used_for_it() -> None:
    lost = without(view(plan(leaves=3, spines=2)), PortRef(leaf(3), 1))
    tables = base(lost)
    assert route_to(tables[leaf(1)], "10.0.3.1").actions == (Output(2),)
    assert isinstance(route_to(tables[leaf(1)], "10.0.2.1").actions[0], Bundle)
    assert route_to(tables[spine(1)], "10.0.3.1") is None


def test_what_comes_down_never_goes_up_again() -> None:
    tables = base(view(plan()))[leaf(1)]
    drops = {f.value for r in tables.rules if r.table_id == 3 and r.priority == 200 for f in r.match}
    assert drops == {1, 2}
    assert all(not r.actions for r in tables.rules if r.table_id == 3 and r.priority == 200)


def test_a_switch_without_extensions_gets_a_select_group() -> None:
    tables = base(view(plan(), nicira=False))[leaf(1)]
    (action,) = route_to(tables, "10.0.2.1").actions
    group = next(g for g in tables.groups if g.group_id == action.group_id)
    assert group.kind == GroupKind.SELECT
    assert [b.actions for b in group.buckets] == [(Output(1),), (Output(2),)]


def test_classes_are_marked_and_queued() -> None:
    tables = base(view(plan()))[leaf(1)]
    classify = {r.match: r.actions for r in tables.rules if r.table_id == 1}
    roce = next(a for m, a in classify.items() if [f.name for f in m] == ["eth_type", "ip_proto", "udp_dst"])
    assert roce == (SetField("ip_dscp", 26), SetQueue(1))
    assert {r.goto_table for r in tables.rules if r.table_id == 1} == {2}


def test_without_classes_nothing_is_marked() -> None:
    tables = compile_base(view(plan()), QosSettings(enabled=False), 500)[leaf(1)]
    assert all(not r.actions for r in tables.rules if r.table_id == 1)


def flow(path: tuple[PortRef, ...], port: int = 0) -> SteeredFlow:
    return SteeredFlow("10.0.1.1", "10.0.2.1", port, path, "job")


def test_a_steered_flow_prefers_its_uplink_and_falls_back_on_every_other() -> None:
    of = view(plan(leaves=2, spines=4))
    tables = compile_steering(of, [flow((PortRef(leaf(1), 3), PortRef(spine(3), 2)))])
    assert set(tables) == {leaf(1)}
    (group,), (rule,) = tables[leaf(1)].groups, tables[leaf(1)].rules
    assert rule.actions == (ToGroup(group.group_id),)
    ports = [b.watch_port for b in group.buckets]
    assert ports[0] == 3
    assert sorted(ports) == [1, 2, 3, 4]


def test_alternates_of_one_port_are_spread() -> None:
    of = view(plan(leaves=5, spines=4))
    flows = [
        SteeredFlow("10.0.1.1", f"10.0.{i}.1", 0, (PortRef(leaf(1), 1), PortRef(spine(1), i)), "job") for i in (2, 3, 4)
    ]
    groups = compile_steering(of, flows)[leaf(1)].groups
    assert len({g.buckets[1].watch_port for g in groups}) == 3


def test_a_spine_with_parallel_links_steers_too() -> None:
    of = view(plan(parallel=2))
    tables = compile_steering(of, [flow((PortRef(leaf(1), 1), PortRef(spine(1), 4)))])
    (group,) = tables[spine(1)].groups
    assert [b.watch_port for b in group.buckets] == [4, 3, 1]
    assert [b.actions[-1] for b in group.buckets] == [Output(4), Output(3), Output(OFPP_IN_PORT)]


def test_a_flow_with_a_port_is_matched_before_one_without() -> None:
    of = view(plan())
    path = (PortRef(leaf(1), 1), PortRef(spine(1), 2))
    tables = compile_steering(of, [flow(path), flow(path, port=50_000)])[leaf(1)]
    with_port, without_port = sorted(tables.rules, key=lambda r: -r.priority)
    assert "udp_src" in {f.name for f in with_port.match}
    assert "udp_src" not in {f.name for f in without_port.match}
    assert with_port.priority > without_port.priority


def test_a_flow_whose_last_link_died_is_left_to_routing() -> None:
    lost = without(view(plan()), PortRef(leaf(2), 1))
    assert compile_steering(lost, [flow((PortRef(leaf(1), 1), PortRef(spine(1), 2)))]) == {}


def test_group_numbers_do_not_depend_on_other_groups() -> None:
    of = view(plan(leaves=3, spines=2))
    one = SteeredFlow("10.0.1.1", "10.0.2.1", 0, (PortRef(leaf(1), 1), PortRef(spine(1), 2)), "job")
    two = SteeredFlow("10.0.1.2", "10.0.3.1", 0, (PortRef(leaf(1), 2), PortRef(spine(2), 3)), "job")
    assert compile_steering(of, [one])[leaf(1)].groups < compile_steering(of, [one, two])[leaf(1)].groups


def test_merged_leaves_out_switches_without_a_base() -> None:
    of = view(plan())
    steering = compile_steering(of, [flow((PortRef(leaf(1), 1), PortRef(spine(1), 2)))])
    tables = merged({leaf(2): SwitchTables()}, steering)
    assert tables == {leaf(2): SwitchTables()}
