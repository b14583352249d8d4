"""Links come and go by what is heard in both directions."""

from itertools import pairwise

from fabrics import leaf, port, spine

from controller.fabric.answers import Answers
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


def answering(*dpids: int, until_s: int) -> Answers:
    """Switches that were asked every second and answered at once."""
    answers = Answers()
    for dpid in dpids:
        answers.start(dpid, 0.0)
        for second in range(until_s):
            answers.ask(dpid, second)
            answers.answered(dpid, second + 0.01)
    return answers


def test_silence_proves_nothing_while_a_switch_at_either_end_is_silent_altogether() -> None:
    for present in (A, B):
        discovery = started(A, B)
        link_up(discovery, A, B, 0.0)
        assert discovery.expire(16.0, answering(present.dpid, until_s=16)) == []
        assert list(discovery.usable_links()) == [(A, B)]


def test_silence_proves_nothing_when_the_two_ends_were_at_work_one_after_the_other() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.0)
    discovery.hear(Beacon(B, 2), A, 8.0)
    answers = answering(B.dpid, until_s=8)
    # What A was told at 2.0 left it at 9.0, when it thawed; B had stopped answering before that.
    answers.start(A.dpid, 0.0)
    answers.ask(A.dpid, 2.0)
    answers.answered(A.dpid, 9.0)
    assert discovery.expire(10.0, answers) == []
    answers.ask(B.dpid, 9.5)
    answers.answered(B.dpid, 9.6)
    assert discovery.expire(10.5, answers) == [(A, B)]


def test_beacons_from_before_a_session_were_not_missed() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.0)
    answers = answering(A.dpid, until_s=14)
    answers.start(B.dpid, 12.0)
    for asked_s in (12.0, 13.0):
        answers.ask(B.dpid, asked_s)
        answers.answered(B.dpid, asked_s + 0.01)
    assert discovery.expire(13.5, answers) == []


def test_silence_in_one_direction_takes_it_down_after_three_periods() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.0)
    for second in range(1, 4):
        discovery.hear(Beacon(A, second + 1), B, second)
        assert discovery.expire(second, answering(A.dpid, B.dpid, until_s=second)) == []
    assert discovery.expire(4.2, answering(A.dpid, B.dpid, until_s=4)) == [(A, B)]
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
    discovery.expire(5.0, answering(A.dpid, B.dpid, until_s=5))
    assert not discovery.faces_switch(B)
