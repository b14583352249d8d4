"""What is seen of cables: by what is heard at both ends, and by carrier."""

from itertools import pairwise

import pytest
from fabrics import leaf, port, spine

from controller.fabric.answers import Answers
from controller.fabric.beacon import Beacon
from controller.fabric.discovery import Cable, Discovery, Doubt, Seen, cable_of
from controller.fabric.model import PortRef

A, B, C = PortRef(leaf(1), 1), PortRef(spine(1), 1), PortRef(spine(2), 1)
AB, AC = cable_of(A, B), cable_of(A, C)


def started(*refs: PortRef) -> Discovery:
    discovery = Discovery(period_s=1.0)
    for ref in refs:
        discovery.set_port(port(ref), 0.0)
    return discovery


def say(discovery: Discovery, sender: PortRef, at: PortRef, now_s: float) -> bool:
    """A beacon that was sent just now."""
    discovery.timers.set(sender, now_s)
    sent = [beacon for beacon, _ in discovery.beacons_due(now_s) if beacon.sender == sender]
    assert sent
    return discovery.hear(sent[-1], at, now_s)


def link_up(discovery: Discovery, a: PortRef, b: PortRef, now_s: float) -> None:
    say(discovery, a, b, now_s)
    say(discovery, b, a, now_s)


def test_one_direction_is_not_a_link() -> None:
    discovery = started(A, B)
    assert say(discovery, A, B, 0.1)
    assert discovery.seen(AB) is Seen.ONE_WAY
    assert discovery.touched >= {A, B}
    assert discovery.cables_at(A) == discovery.cables_at(B) == {AB}


def test_both_directions_are() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.1)
    assert discovery.seen(AB) is Seen.BOTH_WAYS


def test_port_down_is_seen_at_once() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.1)
    discovery.touched.clear()
    discovery.set_port(port(A, up=False), 0.2)
    assert (discovery.seen(AB), discovery.touched) == (Seen.NO_CARRIER, {A, B})


def test_a_link_needs_new_beacons_after_its_port_was_down() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.1)
    discovery.set_port(port(A, up=False), 0.2)
    discovery.set_port(port(A), 0.3)
    assert discovery.seen(AB) is not Seen.BOTH_WAYS
    link_up(discovery, A, B, 0.4)
    assert discovery.seen(AB) is Seen.BOTH_WAYS


def test_a_beacon_from_before_either_port_went_down_is_ignored() -> None:
    for bounced in (A, B):
        discovery = started(A, B)
        late = next(beacon for beacon, _ in discovery.beacons_due(0.1) if beacon.sender == A)
        discovery.set_port(port(bounced, up=False), 0.2)
        discovery.set_port(port(bounced), 0.3)
        assert not discovery.hear(late, B, 0.4)
        assert discovery.seen(AB) is not Seen.ONE_WAY
        assert say(discovery, A, B, 0.5)


def test_the_same_holds_when_the_port_was_taken_out_altogether() -> None:
    discovery = started(A, B)
    late = next(beacon for beacon, _ in discovery.beacons_due(0.1) if beacon.sender == A)
    discovery.remove_port(B)
    assert not discovery.hear(late, B, 0.2)
    discovery.set_port(port(B), 0.3)
    assert not discovery.hear(late, B, 0.4)


def test_a_beacon_that_comes_a_second_time_keeps_nothing_alive() -> None:
    discovery = started(A, B)
    beacon = next(beacon for beacon, _ in discovery.beacons_due(0.0) if beacon.sender == A)
    assert discovery.hear(beacon, B, 0.1)
    assert not discovery.hear(beacon, B, 2.0)
    discovery.expire(4.5, answering(A.dpid, B.dpid, until_s=5))
    assert discovery.seen(AB) is Seen.SILENT


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
        discovery.expire(16.0, answering(present.dpid, until_s=16))
        assert discovery.seen(AB) is Seen.BOTH_WAYS


def test_silence_proves_nothing_when_the_two_ends_were_at_work_one_after_the_other() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.0)
    say(discovery, B, A, 8.0)
    answers = answering(B.dpid, until_s=8)
    # What A was told at 2.0 left it at 9.0, when it thawed; B had stopped answering before that.
    answers.start(A.dpid, 0.0)
    answers.ask(A.dpid, 2.0)
    answers.answered(A.dpid, 9.0)
    discovery.expire(10.0, answers)
    assert discovery.seen(AB) is Seen.BOTH_WAYS
    answers.ask(B.dpid, 9.5)
    answers.answered(B.dpid, 9.6)
    discovery.expire(10.5, answers)
    assert discovery.seen(AB) is Seen.ONE_WAY


def test_beacons_from_before_a_session_were_not_missed() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.0)
    answers = answering(A.dpid, until_s=14)
    answers.start(B.dpid, 12.0)
    for asked_s in (12.0, 13.0):
        answers.ask(B.dpid, asked_s)
        answers.answered(B.dpid, asked_s + 0.01)
    discovery.expire(13.5, answers)
    assert discovery.seen(AB) is Seen.BOTH_WAYS


def test_silence_in_one_direction_shows_after_three_periods() -> None:
    discovery = started(A, B)
    link_up(discovery, A, B, 0.0)
    for second in range(1, 4):
        say(discovery, A, B, second)
        discovery.expire(second, answering(A.dpid, B.dpid, until_s=second))
        assert discovery.seen(AB) is Seen.BOTH_WAYS
    discovery.expire(4.2, answering(A.dpid, B.dpid, until_s=4))
    assert discovery.seen(AB) is Seen.ONE_WAY


def test_a_cable_that_was_moved_without_a_word_is_believed_within_two_periods() -> None:
    discovery = started(A, B, C)
    answers = answering(A.dpid, B.dpid, C.dpid, until_s=20)
    link_up(discovery, A, B, 10.0)
    # The cable is moved right after the last beacons.
    link_up(discovery, A, C, 10.9)
    assert discovery.seen(AC) is Seen.AMBIGUOUS
    discovery.expire(11.6, answers)
    assert discovery.seen(AC) is Seen.BOTH_WAYS
    assert discovery.seen(AB) is Seen.SILENT


def test_two_neighbours_in_one_port_stay_in_doubt_while_both_are_heard() -> None:
    discovery = started(A, B, C)
    answers = answering(A.dpid, B.dpid, C.dpid, until_s=60)
    link_up(discovery, A, B, 10.0)
    for step in range(1, 60):
        say(discovery, (B, C)[step % 2], A, 10.0 + step / 2)
        say(discovery, A, B, 10.0 + step / 2)
        discovery.expire(10.0 + step / 2, answers)
        assert discovery.seen(AB) is Seen.AMBIGUOUS
    assert discovery.ports[A].doubt is Doubt.CONFIRMED
    assert list(discovery.shared()) == [A]
    # C leaves: the doubt is over after three periods.
    for step in range(60, 68):
        link_up(discovery, A, B, 10.0 + step / 2)
        discovery.expire(10.0 + step / 2, answers)
    assert discovery.seen(AB) is Seen.BOTH_WAYS


def test_own_beacon_coming_back_makes_no_link() -> None:
    discovery = started(A)
    assert say(discovery, A, A, 0.1)
    assert not discovery.faces_switch(A)
    assert list(discovery.echoing(0.2)) == [A]
    assert list(discovery.echoing(4.0)) == []


def test_a_cable_within_one_switch_is_none_to_send_over() -> None:
    other = PortRef(A.dpid, 2)
    discovery = started(A, other)
    link_up(discovery, A, other, 0.1)
    cable: Cable = (A, other)
    assert discovery.seen(cable) is Seen.AMBIGUOUS


def test_beacons_come_quickly_at_first_then_once_a_period() -> None:
    discovery = started(A)
    sent = []
    now = 0.0
    while now < 10.0:
        sent += [now for _ in discovery.beacons_due(now)]
        now = round(now + 0.01, 2)
    assert [t for t in sent if t < 0.5] == pytest.approx([0.0, 0.1, 0.3], abs=0.011)
    gaps = [b - a for a, b in pairwise(sent[2:])]
    assert all(0.85 <= gap <= 1.05 for gap in gaps)


def test_hearing_a_neighbour_for_the_first_time_answers_at_once() -> None:
    discovery = started(A, B)
    discovery.beacons_due(0.0)
    discovery.hear(Beacon(A, 3), B, 0.05)
    # B has just sent one, which is under way.
    assert [beacon.sender for beacon, _ in discovery.beacons_due(0.05)] == []
    sent = [beacon for beacon, _ in discovery.beacons_due(0.6) if beacon.sender == B]
    assert sent

    quiet = started(A)
    quiet.beacons_due(0.0)
    quiet.set_port(port(B), 0.0)
    quiet.hold(B.dpid, 0.0)
    quiet.hear(Beacon(A, 3), B, 0.05)
    assert [beacon.sender for beacon, _ in quiet.beacons_due(0.05)] == [B]


def test_a_switch_that_connects_sends_one_beacon_from_each_port_once_it_punts_them() -> None:
    discovery = started(A, B)
    discovery.beacons_due(0.3)
    discovery.hold(A.dpid, 0.3)
    assert not discovery.told([A.dpid])
    assert [beacon.sender for beacon, _ in discovery.beacons_due(0.9)].count(A) == 0
    discovery.announce(A.dpid, 1.0)
    assert [beacon.sender for beacon, _ in discovery.beacons_due(1.0)].count(A) == 1
    assert discovery.told([A.dpid])


def test_ports_of_hosts_are_probed_rarely() -> None:
    discovery = started(A, B)
    discovery.leads_to_host = lambda ref: ref == A
    sent = []
    for step in range(1000):
        sent += [beacon.sender for beacon, _ in discovery.beacons_due(step / 10)]
    assert sent.count(A) < sent.count(B) / 5


def test_ports_that_came_up_together_do_not_beacon_together_for_ever() -> None:
    refs = [PortRef(leaf(1), number) for number in range(1, 65)]
    discovery = started(*refs)
    most = 0
    for step in range(6000):
        sent = len(discovery.beacons_due(step / 100))
        if step > 5000:
            most = max(most, sent)
    assert most <= 12


def test_a_port_whose_neighbour_fell_silent_may_hold_a_host_again() -> None:
    discovery = started(A, B)
    say(discovery, A, B, 0.0)
    assert discovery.faces_switch(B)
    discovery.expire(5.0, answering(A.dpid, B.dpid, until_s=5))
    assert not discovery.faces_switch(B)
