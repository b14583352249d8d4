"""Links go through their states by the table, and one that flaps is held."""

from itertools import product

import pytest
from fabrics import leaf, port, spine

from controller.fabric.answers import Answers
from controller.fabric.discovery import Cable, Discovery, Seen, cable_of
from controller.fabric.model import PortRef
from controller.health.damping import DampingSettings, Penalty
from controller.health.last_resort import needed
from controller.health.link_states import TRANSITIONS, LinkState, Past, after
from controller.health.links import LinkChange, Links

A, B, C = PortRef(leaf(1), 1), PortRef(spine(1), 1), PortRef(spine(2), 1)
AB = cable_of(A, B)


class Bench:
    """Two ports and a cable between them, which works, is cut or is silent."""

    def __init__(self) -> None:
        self.discovery = Discovery(1.0)
        self.answers = Answers()
        self.links = Links(self.discovery)
        self.changes: list[LinkChange] = []
        self.now_s = 100.0
        for end in AB:
            self.answers.start(end.dpid, 0.0)
            self.discovery.set_port(port(end), self.now_s)
        self.talk()

    @property
    def state(self) -> LinkState:
        return self.links.of[AB].state

    def follow(self, after_s: float = 0.0) -> None:
        """Lets time pass, and the core look whenever it has asked for it."""
        end_s = self.now_s + after_s
        while (due_s := self.links.next_deadline_s()) is not None and due_s <= end_s:
            self.now_s = max(self.now_s, due_s)
            self.changes += self.links.follow(self.now_s, self.answers)
        self.now_s = end_s
        self.changes += self.links.follow(self.now_s, self.answers)

    def talk(self, *ends: PortRef) -> None:
        for sender in ends or AB:
            self.discovery.timers.set(sender, self.now_s)
            for beacon, _ in self.discovery.beacons_due(self.now_s):
                if beacon.sender == sender:
                    self.discovery.hear(beacon, B if sender == A else A, self.now_s)
        self.follow()

    def carrier(self, *, up: bool) -> None:
        for end in AB:
            self.discovery.set_port(port(end, up=up), self.now_s)
        self.follow()

    def flap(self, off_s: float, on_s: float) -> None:
        self.carrier(up=False)
        self.follow(off_s)
        self.carrier(up=True)
        self.talk()
        self.follow(on_s)


def test_every_state_answers_every_signal() -> None:
    signals = {*Seen, *Past}
    assert TRANSITIONS.keys() == set(LinkState)
    assert all(row.keys() == signals for row in TRANSITIONS.values())


@pytest.mark.parametrize(("state", "seen"), list(product(LinkState, Seen)))
def test_only_both_directions_make_a_link_usable_and_only_calm_ends_a_hold(state: LinkState, seen: Seen) -> None:
    up = after(state, seen) is LinkState.UP
    assert up == (seen is Seen.BOTH_WAYS and state is not LinkState.HELD)
    assert after(LinkState.HELD, seen) is LinkState.HELD


def test_thirty_flaps_are_three_changes_and_the_link_comes_back_by_itself() -> None:
    for off_s, on_s in ((0.05, 0.05), (0.3, 0.3), (2.0, 3.0), (5.0, 10.0)):
        bench = Bench()
        assert bench.state is LinkState.UP
        bench.changes.clear()
        for _ in range(30):
            bench.flap(off_s, on_s)
        assert len(bench.changes) <= 3
        assert bench.state is LinkState.HELD
        bench.follow(DampingSettings().half_life_s * 2.5)
        assert bench.state is LinkState.UP
        assert bench.changes[-1] == LinkChange(AB, LinkState.HELD, LinkState.UP, Seen.BOTH_WAYS)
        assert bench.links.up == {AB}


def test_a_held_link_that_has_died_meanwhile_is_down() -> None:
    bench = Bench()
    for _ in range(5):
        bench.flap(0.1, 0.1)
    bench.carrier(up=False)
    assert bench.state is LinkState.HELD
    bench.follow(100.0)
    assert (bench.state, bench.links.of[AB].cause) == (LinkState.DOWN, Seen.NO_CARRIER)


def test_one_outage_is_no_reason_to_hold_a_link() -> None:
    bench = Bench()
    bench.flap(5.0, 0.0)
    assert bench.state is LinkState.UP


def test_a_bounce_is_an_outage_of_a_second() -> None:
    bench = Bench()
    bench.flap(0.1, 0.0)
    assert bench.state is LinkState.DOWN
    assert bench.links.spare == {AB}
    bench.follow(0.95)
    assert (bench.state, bench.links.spare) == (LinkState.UP, set())


def test_a_switch_that_reboots_once_or_twice_is_not_damped_and_one_that_does_so_for_ever_is() -> None:
    bench = Bench()
    for number in range(1, 9):
        bench.carrier(up=False)
        bench.follow(0.3)
        bench.answers.start(B.dpid, bench.now_s)
        bench.carrier(up=True)
        bench.talk()
        assert (bench.state is LinkState.UP) == (number <= 3)
        bench.follow(1.0)
    assert bench.state is LinkState.HELD


def test_a_session_that_was_lost_excuses_no_flap() -> None:
    bench = Bench()
    bench.answers.start(B.dpid, bench.now_s)
    for _ in range(3):
        bench.flap(0.2, 1.5)
    assert bench.state is LinkState.HELD


def test_bounces_faster_than_beacons_count() -> None:
    bench = Bench()
    for _ in range(4):
        bench.carrier(up=False)
        bench.follow(0.01)
        bench.carrier(up=True)
        bench.follow(0.01)
    bench.talk()
    assert bench.state is LinkState.HELD


def test_a_direction_that_stops_makes_a_link_suspect_at_once_and_one_being_found_is_given_time() -> None:
    bench = Bench()
    for second in range(1, 5):
        bench.follow(1.0)
        bench.talk(A)
        for end in AB:
            bench.answers.ask(end.dpid, bench.now_s - 0.5)
            bench.answers.answered(end.dpid, bench.now_s - 0.4)
        bench.discovery.expire(bench.now_s, bench.answers)
        bench.follow()
        assert (bench.state is LinkState.UP) == (second <= 3), second
    assert (bench.state, bench.links.of[AB].cause) == (LinkState.SUSPECT, Seen.ONE_WAY)

    fresh = Bench()
    fresh.carrier(up=False)
    fresh.follow(10.0)
    fresh.carrier(up=True)
    fresh.talk(A)
    assert fresh.state is LinkState.DOWN
    fresh.follow(2.1)
    assert fresh.state is LinkState.SUSPECT


def test_a_cable_that_was_moved_leaves_no_dead_link_behind() -> None:
    bench = Bench()
    bench.carrier(up=False)
    bench.discovery.set_port(port(C), bench.now_s)
    bench.discovery.set_port(port(A), bench.now_s)
    bench.follow(0.1)
    assert set(bench.links.of) == {AB}
    for sender, at in ((A, C), (C, A)):
        bench.discovery.timers.set(sender, bench.now_s)
        for beacon, _ in bench.discovery.beacons_due(bench.now_s):
            if beacon.sender == sender:
                bench.discovery.hear(beacon, at, bench.now_s)
    bench.follow()
    assert set(bench.links.of) == {cable_of(A, C)}


def test_a_penalty_decays_by_half_in_its_half_life_and_has_a_ceiling() -> None:
    settings = DampingSettings(half_life_s=10.0, hold_above=1.5, release_below=0.5, most=4.0)
    penalty = Penalty()
    assert not penalty.charge(settings, 0.0)
    assert penalty.now(settings, 10.0) == 0.5
    assert [penalty.charge(settings, 10.0) for _ in range(100)] == [False] + [True] * 99
    assert penalty.released_at_s(settings) == 40.0


def cable(a: int, b: int, number: int = 1) -> Cable:
    return cable_of(PortRef(a, b * 10 + number), PortRef(b, a * 10 + number))


L1, L2, S1, S2 = leaf(1), leaf(2), spine(1), spine(2)


@pytest.mark.parametrize(
    ("usable", "spare", "used"),
    [
        # Another way joins the two leaves.
        ([cable(L1, S2), cable(L2, S1), cable(L2, S2)], [cable(L1, S1)], 0),
        # None does.
        ([cable(L1, S2), cable(L2, S1)], [cable(L1, S1)], 1),
        ([], [cable(L1, S1), cable(L2, S1)], 2),
        # A parallel cable is another way.
        ([cable(L1, S1), cable(L2, S1)], [cable(L1, S1, 2)], 0),
        # A spine that nobody else reaches joins nobody.
        ([cable(L1, S1), cable(L2, S1)], [cable(L1, S2)], 0),
    ],
)
def test_what_is_held_is_used_only_where_nothing_else_joins_two_leaves(
    usable: list[Cable], spare: list[Cable], used: int
) -> None:
    assert len(needed(usable, set(spare), {L1, L2})) == used


EDGE = 0x401


@pytest.mark.parametrize(
    ("usable", "spare", "used"),
    [
        # Its only way up.
        ([cable(L1, S1), cable(L2, S1)], [cable(EDGE, L1)], 1),
        # One of its ways up is enough, and so is another one that works.
        ([cable(L1, S1), cable(L2, S1)], [cable(EDGE, L1), cable(EDGE, L2)], 1),
        ([cable(L1, S1), cable(L2, S1), cable(EDGE, L2)], [cable(EDGE, L1)], 0),
        # It joins no leaves: these need their spine.
        ([cable(EDGE, L1), cable(EDGE, L2), cable(L1, S1)], [cable(L2, S1)], 1),
    ],
)
def test_edge_switches_keep_a_way_up_and_join_no_leaves(usable: list[Cable], spare: list[Cable], used: int) -> None:
    assert len(needed(usable, set(spare), {L1, L2}, {EDGE})) == used
