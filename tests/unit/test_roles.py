"""Leaf and spine by cabling, hosts and plan."""

import pytest
from fabrics import leaf, plan, spine, view

from controller.fabric.model import PortRef, Role
from controller.fabric.roles import infer


def inferred(links: list[tuple[PortRef, PortRef]], hosts: list[PortRef], dpids: list[int], **more):  # type: ignore[no-untyped-def]
    return infer(dpids, links, hosts, more.get("edge", {}), more.get("planned", {}), more.get("names", {}))


FABRIC = view(plan(4, 2, 1))
LINKS = [(k.a, k.b) for k in FABRIC.links]


def test_the_side_with_hosts_is_the_leaves() -> None:
    roles = inferred(LINKS, [h.port for h in FABRIC.hosts], list(FABRIC.switches))
    assert roles.of == {d: s.role for d, s in FABRIC.switches.items()}
    assert roles.problems == ()


def test_without_hosts_the_side_with_edge_ports() -> None:
    roles = inferred(LINKS, [], list(FABRIC.switches), edge={leaf(1): 4, leaf(2): 4})
    assert roles.of[leaf(3)] == Role.LEAF
    assert roles.of[spine(1)] == Role.SPINE


NAMES = {d: s.name for d, s in FABRIC.switches.items()}


@pytest.mark.parametrize("hosts", [True, False])
def test_links_between_leaves_are_named_and_left_out(hosts: bool) -> None:
    links = [*LINKS, (PortRef(leaf(3), 9), PortRef(leaf(4), 9)), (PortRef(leaf(1), 9), PortRef(leaf(2), 9))]
    heard = [h.port for h in FABRIC.hosts] if hosts else []
    roles = inferred(links, heard, list(FABRIC.switches), names=NAMES, edge={leaf(1): 2})
    assert roles.of == {d: s.role for d, s in FABRIC.switches.items()}
    assert roles.problems == (
        "leaf1 has a link to leaf2, on its own side of the fabric: it carries nothing",
        "leaf3 has a link to leaf4, on its own side of the fabric: it carries nothing",
    )


def test_where_nobody_alone_is_to_blame_no_roles_are_told_and_a_pair_is_named() -> None:
    triangle = [(PortRef(1, 1), PortRef(2, 1)), (PortRef(2, 2), PortRef(3, 2)), (PortRef(1, 3), PortRef(3, 3))]
    roles = inferred(triangle, [], [1, 2, 3])
    assert set(roles.of.values()) == {Role.UNKNOWN}
    assert len(roles.problems) == 1
    assert "no roles can be told" in roles.problems[0]
    # Hosts tell: the cable between the two that bear them is the odd one.
    assert inferred(triangle, [PortRef(1, 9), PortRef(2, 9)], [1, 2, 3]).of[3] == Role.SPINE


def test_when_nothing_tells_the_sides_apart_it_says_so() -> None:
    roles = inferred(LINKS, [], list(FABRIC.switches), names=NAMES)
    assert set(roles.of.values()) == {Role.UNKNOWN}
    assert roles.problems == (
        "no host has been heard that tells leaves from spines among leaf1, leaf2, leaf3, leaf4, ...",
    )


def test_a_spine_with_a_host_stays_a_spine_and_is_named() -> None:
    heard = [*(h.port for h in FABRIC.hosts), PortRef(spine(2), 9)]
    roles = inferred(LINKS, heard, list(FABRIC.switches), names=NAMES)
    assert roles.of[spine(2)] == Role.SPINE
    assert roles.problems == ("spine2 looks like a spine but a host is attached to it",)


def test_switches_with_hosts_below_leaves_are_edge_switches() -> None:
    one, two = 0x401, 0x402
    links = [*LINKS, *((PortRef(leaf(1), 9 + i), PortRef(d, 1)) for i, d in enumerate((one, two)))]
    links.append((PortRef(leaf(2), 9), PortRef(two, 2)))
    heard = [*(h.port for h in FABRIC.hosts), PortRef(one, 9), PortRef(two, 9)]
    roles = inferred(links, heard, [*FABRIC.switches, one, two])
    assert (roles.of[one], roles.of[two], roles.of[spine(1)]) == (Role.EDGE, Role.EDGE, Role.SPINE)
    assert roles.problems == ()


def tiers(pods: int = 3, edges: bool = False) -> tuple[list[tuple[PortRef, PortRef]], dict[int, Role]]:
    """Pods of two leaves and two spines, whose n-th spines meet at core n; an edge switch below each leaf."""
    links, roles = [], {}
    for pod in range(pods):
        for s in (1, 2):
            at = spine(10 * pod + s)
            roles |= {at: Role.SPINE, 0x300 + s: Role.CORE}
            links.append((PortRef(at, 9), PortRef(0x300 + s, pod + 1)))
            for number in (1, 2):
                below = leaf(10 * pod + number)
                roles[below] = Role.LEAF
                links.append((PortRef(below, s), PortRef(at, number)))
                if edges and s == 1:
                    roles[0x400 + below] = Role.EDGE
                    links.append((PortRef(0x400 + below, 1), PortRef(below, 8)))
    return links, roles


@pytest.mark.parametrize("hosts", [1, 2])
def test_what_joins_the_spines_of_pods_is_a_core(hosts: int) -> None:
    """Also while some leaves have not let a host be heard yet."""
    links, roles = tiers()
    heard = [PortRef(leaf(10 * pod + n), 7) for pod in range(3) for n in range(1, hosts + 1)]
    assert inferred(links, heard, list(roles)).of == roles


def test_a_core_is_a_core_while_one_pod_only_has_spoken() -> None:
    links, roles = tiers()
    edge = {dpid: 4 for dpid, role in roles.items() if role == Role.LEAF}
    assert inferred(links, [PortRef(leaf(1), 7)], list(roles), edge=edge).of == roles


def test_where_all_hosts_are_below_edge_switches_four_tiers_are_told() -> None:
    links, roles = tiers(edges=True)
    heard = [PortRef(dpid, 7) for dpid, role in roles.items() if role == Role.EDGE]
    assert inferred(links, heard, list(roles)).of == roles


def test_the_plan_wins() -> None:
    roles = inferred([], [], [leaf(1)], planned={leaf(1): Role.LEAF})
    assert roles.of == {leaf(1): Role.LEAF}


def test_a_lone_switch_with_a_host_is_a_leaf() -> None:
    assert inferred([], [PortRef(1, 1)], [1]).of == {1: Role.LEAF}


def test_one_part_that_makes_no_sense_costs_no_other_its_roles() -> None:
    triangle = [(PortRef(1, 1), PortRef(2, 1)), (PortRef(2, 2), PortRef(3, 2)), (PortRef(1, 3), PortRef(3, 3))]
    roles = inferred([*LINKS, *triangle], [h.port for h in FABRIC.hosts], [*FABRIC.switches, 1, 2, 3], names=NAMES)
    assert {d: roles.of[d] for d in FABRIC.switches} == {d: s.role for d, s in FABRIC.switches.items()}
    assert {roles.of[d] for d in (1, 2, 3)} == {Role.UNKNOWN}
    assert len(roles.problems) == 1
