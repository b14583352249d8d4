"""BFD is turned on where others carry on meanwhile, and what it says is evidence, never proof that there is a link."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from core_model import started
from fabrics import leaf, plan, spine

from controller.core.commands import ConfigureBfd
from controller.core.events import BfdRead
from controller.fabric.discovery import Cable, Seen, cable_of
from controller.fabric.model import PortRef
from controller.health.bfd import Bfd, BfdSettings, Session
from controller.health.link_states import LinkState

UP, DOWN = Session.UP, Session.DOWN


def cables(leaves: int, spines: int) -> list[Cable]:
    return sorted(
        cable_of(PortRef(leaf(i), j), PortRef(spine(j), i)) for i in range(1, leaves + 1) for j in range(1, spines + 1)
    )


class Bench:
    """Switches that do as they are told; sessions come up when both ends run BFD, unless a switch is mute."""

    def __init__(self, all_cables: Iterable[Cable], mute: frozenset[int] = frozenset()) -> None:
        self.bfd = Bfd()
        self.cables = list(all_cables)
        self.leaves = {dpid for cable in self.cables for dpid in (cable[0].dpid, cable[1].dpid) if dpid < spine(1)}
        self.mute = mute
        self.on: dict[int, frozenset[int]] = {end.dpid: frozenset() for cable in self.cables for end in cable}
        self.now_s = 100.0
        self.most_starting = 0
        self.say()

    def runs(self, end: PortRef) -> bool:
        return end.port_no in self.on[end.dpid]

    def say(self, dead: Iterable[Cable] = ()) -> None:
        far = {end: cable[1 - i] for cable in self.cables for i, end in enumerate(cable)}
        lost = {end for cable in dead for end in cable}
        for dpid, ports in self.on.items():
            ends = [PortRef(dpid, number) for number in ports]
            up = {
                end for end in ends if self.runs(far[end]) and end not in lost and not {dpid, far[end].dpid} & self.mute
            }
            self.bfd.take(dpid, {end.port_no: UP if end in up else DOWN for end in ends})

    def round(self, up: Iterable[Cable] | None = None) -> bool:
        """Whether anything was to be told."""
        told = self.bfd.follow(self.cables, self.cables if up is None else list(up), self.leaves, self.now_s)
        self.on |= told
        return bool(told)

    def wait(self) -> None:
        """Until it wants to be asked again, if ever."""
        due_s = self.bfd.next_deadline_s()
        assert due_s is None or due_s > self.now_s
        self.now_s = self.now_s if due_s is None else due_s

    def settle(self) -> None:
        for _ in range(1000):
            told = self.round()
            self.say()
            if not told:
                return
        raise AssertionError("it never ends")


@pytest.mark.parametrize(("leaves", "spines"), [(2, 2), (4, 4), (6, 3)])
def test_it_runs_everywhere_in_the_end_and_never_starts_twice_at_one_switch(leaves: int, spines: int) -> None:
    bench = Bench(cables(leaves, spines))
    for _ in range(1000):
        before = {end for cable in bench.bfd.watched for end in cable}
        if not bench.round():
            break
        new = [end.dpid for cable in bench.bfd.watched for end in cable if end not in before]
        assert len(new) == len(set(new))
        assert len(new) <= 2 or spines >= 3
        bench.say()
    assert bench.bfd.watched == set(bench.cables)
    assert not bench.bfd.failed


def test_what_everything_depends_on_is_left_alone() -> None:
    bench = Bench(cables(leaves=3, spines=1))
    bench.settle()
    assert not bench.bfd.watched


def test_a_switch_that_speaks_no_bfd_is_not_down_and_is_tried_again_after_a_long_time() -> None:
    bench = Bench(cables(4, 4), mute=frozenset({spine(2)}))
    tried_s: list[float] = []
    for _ in range(200):
        before = set(bench.bfd.watched)
        bench.round()
        bench.say()
        mute = [c for c in bench.bfd.watched - before if spine(2) in (c[0].dpid, c[1].dpid)]
        tried_s += [bench.now_s for cable in mute if cable == bench.cables[1]]
        assert not bench.bfd.failed
        bench.wait()
    gaps = [later - earlier for earlier, later in pairwise(tried_s)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 3600.0
    others = {c for c in bench.cables if spine(2) not in (c[0].dpid, c[1].dpid)}
    assert others <= bench.bfd.watched
    bench.mute = frozenset()
    for _ in range(20):
        bench.settle()
        bench.wait()
    assert bench.bfd.watched == set(bench.cables)


def test_a_session_that_was_up_and_is_not_is_a_failure_until_it_is_up_again() -> None:
    bench = Bench(cables(4, 4))
    bench.settle()
    dead = bench.cables[5]
    bench.say([dead])
    assert bench.bfd.failed == {dead}
    bench.say()
    assert not bench.bfd.failed


def test_a_database_that_is_gone_says_nothing() -> None:
    bench = Bench(cables(4, 4))
    bench.settle()
    bench.say([bench.cables[0]])
    for end in bench.cables[0]:
        bench.bfd.take(end.dpid, None)
    assert not bench.bfd.failed


def test_a_new_controller_leaves_alone_what_runs_and_takes_it_off_what_is_no_link() -> None:
    bench = Bench(cables(4, 4))
    bench.settle()
    bench.on[leaf(1)] |= {77}
    old = dict(bench.on)
    bench.bfd = Bfd()
    for dpid, ports in old.items():
        bench.bfd.take(dpid, dict.fromkeys(ports, UP))
    bench.round()
    assert bench.on == {**old, leaf(1): old[leaf(1)] - {77}}
    assert bench.bfd.watched == set(bench.cables)


def test_a_cable_that_is_replaced_or_cut_before_it_came_up_is_forgotten() -> None:
    bench = Bench(cables(4, 4))
    bench.settle()
    gone = bench.cables.pop(3)
    bench.round()
    assert all(not bench.runs(end) for end in gone)
    fresh = Bench(cables(4, 4))
    fresh.round()
    cut = next(iter(fresh.bfd.watched))
    fresh.round(up=[c for c in fresh.cables if c != cut])
    assert cut not in fresh.bfd.watched


def test_switched_off_it_is_taken_away_everywhere() -> None:
    bench = Bench(cables(4, 4))
    bench.settle()
    bench.bfd = Bfd(BfdSettings(enabled=False))
    bench.say()
    for _ in range(100):
        before = dict(bench.on)
        if not bench.round():
            break
        # At one end it goes a moment before it does at the other; the other cables of both switches carry on.
        assert all(len(before[dpid] - ports) <= 1 for dpid, ports in bench.on.items())
        bench.say()
    assert set(bench.on.values()) == {frozenset()}
    assert bench.bfd.next_deadline_s() is None


def test_what_somebody_else_keeps_running_is_waited_for_only_for_a_while() -> None:
    bench = Bench(cables(2, 2))
    bench.settle()
    foreign = {dpid: dict.fromkeys(ports, UP) for dpid, ports in bench.on.items()}
    bench.bfd = Bfd(BfdSettings(enabled=False))
    for _ in range(12):
        for dpid, states in foreign.items():
            bench.bfd.take(dpid, states)
        bench.round()
        bench.now_s = max(bench.now_s, bench.bfd.next_deadline_s() or 0.0)
    assert set(bench.on.values()) == {frozenset()}
    assert bench.bfd.next_deadline_s() is None


# --- in the core ---------------------------------------------------------------------------------------------------


def test_in_the_core_a_failure_takes_a_link_down_at_once_and_its_end_brings_it_back() -> None:
    core, network = started(plan(leaves=3, spines=3))

    def obey() -> None:
        """Every session comes up at once."""
        told = network.record.commands_of(ConfigureBfd)
        for dpid, ports in {command.dpid: command.ports for command in told}.items():
            network.inject(BfdRead(dpid, dict.fromkeys(ports or (), UP)))

    for _ in range(12):
        obey()
        network.run_for(0.1)
    assert len(core.watch.bfd.watched) == 9
    assert len(core.links.up) == 9
    a, b = cable = sorted(core.links.up)[4]
    states = dict.fromkeys(core.watch.bfd.told(a.dpid) or (), UP)
    network.inject(BfdRead(a.dpid, {**states, a.port_no: DOWN}))
    record = core.links.of[cable]
    assert (record.state, record.cause) == (LinkState.DOWN, Seen.BFD_DOWN)
    assert cable not in {(link.a, link.b) for link in core.state.view.links}
    network.inject(BfdRead(a.dpid, states))
    network.run_for(2.0)
    assert record.state is LinkState.UP
    # It is lost by beacons whatever BFD says.
    network.fail_silently(network.cable("leaf2", "spine2"))
    network.run_for(6.0)
    assert len(core.links.up) == 8
    assert b in cable
