"""Leaf and spine by cabling, hosts and plan."""

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


def test_a_link_between_leaves_is_named() -> None:
    links = [*LINKS, (PortRef(leaf(3), 9), PortRef(leaf(4), 9))]
    roles = inferred(links, [], list(FABRIC.switches), names={leaf(3): "leaf3", leaf(4): "leaf4"})
    assert roles.of[leaf(1)] == Role.UNKNOWN
    assert len(roles.problems) == 1


def test_the_plan_wins() -> None:
    roles = inferred([], [], [leaf(1)], planned={leaf(1): Role.LEAF})
    assert roles.of == {leaf(1): Role.LEAF}


def test_a_lone_switch_with_a_host_is_a_leaf() -> None:
    assert inferred([], [PortRef(1, 1)], [1]).of == {1: Role.LEAF}
