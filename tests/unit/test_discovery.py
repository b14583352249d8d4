"""Links come and go by what is heard in both directions."""

from itertools import pairwise

from fabrics import leaf, port, spine

from controller.fabric.beacon import Beacon
from controller.fabric.discovery import Discovery
from controller.fabric.model import PortRef

A, B, C = PortRef(leaf(1), 1), PortRef(spine(1), 1), PortRef(spine(2), 1)


def started(*refs: PortRef) -> Discovery:
    discovery = Discovery(period_s=1.0)
    for ref in refs:
        discovery.set_port(port(ref), 0.0)
    return discovery


def link_up(discovery: Discovery, a: PortRef, b: PortRef, now_s: float) -> bool:
    first = discovery.hear(Beacon(a, 1), b, now_s)
    return discovery.hear(Beacon(b, 1), a, now_s) or first


def test_one_direction_is_not_a_link() -> None:
    discovery = started(A, B)
    assert not discovery.hear(Beacon(A, 1), B, 0.1)
    assert list(discovery.usable_links()) == []
    assert discovery.one_way_links(0.2) == [(A, B)]


def test_both_directions_are() -> None:
    discovery = started(A, B)
    assert link_up(discovery, A, B, 0.1)
    assert list(discovery.usable_links()) == [(A, B)]
    assert discovery.one_way_links(0.2) == []


def test_port_down_takes_the_link_at_once() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.1)
    assert discovery.set_port(port(A, up=False), 0.2)
    assert list(discovery.usable_links()) == []


def test_a_link_needs_new_beacons_after_its_port_was_down() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.1)
    discovery.set_port(port(A, up=False), 0.2)
    discovery.set_port(port(A), 0.3)
    assert list(discovery.usable_links()) == []
    discovery.hear(Beacon(A, 2), B, 0.4)
    assert discovery.hear(Beacon(B, 2), A, 0.4)


def at_work(dpid: int, since_s: float) -> bool:
    return True


def test_silence_proves_nothing_while_a_switch_at_either_end_is_silent_altogether() -> None:
    for silent in (A, B):
        discovery = started(A, B)
        link_up(discovery, A, B, 0.0)
        asked: list[float] = []

        def answers(dpid: int, since_s: float, silent: PortRef = silent, asked: list[float] = asked) -> bool:
            asked.append(since_s)
            return dpid != silent.dpid

        assert discovery.expire(60.0, answers) == []
        assert list(discovery.usable_links()) == [(A, B)]
        # Two beacons at the least must have been missed.
        assert set(asked) == {2.0}


def test_silence_in_one_direction_takes_it_down_after_three_periods() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.0)
    for second in range(1, 4):
        discovery.hear(Beacon(A, second + 1), B, second)
        assert discovery.expire(second, at_work) == []
    assert discovery.expire(3.2, at_work) == [(A, B)]
    assert list(discovery.usable_links()) == []


def test_a_moved_cable_replaces_the_old_link() -> None:
    discovery = started(A, B, C)
    link_up(discovery, A, B, 0.1)
    assert link_up(discovery, A, C, 0.5)
    assert list(discovery.usable_links()) == [(A, C)]


def test_own_beacon_coming_back_makes_no_link() -> None:
    discovery = started(A)
    assert not discovery.hear(Beacon(A, 1), A, 0.1)
    assert not discovery.faces_switch(A)


def test_beacons_come_quickly_at_first_then_once_a_period() -> None:
    discovery = started(A)
    sent = []
    now = 0.0
    while now < 10.0:
        sent += [now for _ in discovery.beacons_due(now)]
        now = round(now + 0.01, 2)
    assert [t for t in sent if t < 0.5] == [0.0, 0.1, 0.3]
    gaps = [b - a for a, b in pairwise(sent[2:])]
    assert all(0.85 <= gap <= 1.05 for gap in gaps)


def test_hearing_a_neighbour_for_the_first_time_answers_at_once() -> None:
    discovery = started(A, B)
    discovery.beacons_due(0.0)
    discovery.hear(Beacon(A, 1), B, 0.05)
    assert [beacon.sender for beacon, _ in discovery.beacons_due(0.05)] == [B]


def test_a_port_whose_neighbour_fell_silent_may_hold_a_host_again() -> None:
    discovery = started(A, B)
    discovery.hear(Beacon(A, 1), B, 0.0)
    assert discovery.faces_switch(B)
    discovery.expire(5.0, at_work)
    assert not discovery.faces_switch(B)
