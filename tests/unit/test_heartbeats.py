"""A link over which nothing arrives is noticed within a second, by counters; one over which something does is kept."""

import pytest
from fabrics import plan

from controller.core.commands import SendPacket
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.discovery import Seen
from controller.fabric.plan import FabricPlan
from controller.health.heartbeats import FRAME
from controller.health.link_states import LinkState
from controller.simulation.network import ModelNetwork
from controller.simulation.timing import Timing

KEY = b"k" * 32


def started(of: FabricPlan, seed: int = 1) -> tuple[Core, ModelNetwork]:
    core = Core(CoreSettings(KEY, of, heartbeat_period_s=0.25))
    network = ModelNetwork(of, core, seed=seed)
    network.announce_hosts()
    network.run_for(6.0)
    assert len(core.state.view.links) == len(of.links)
    return core, network


def down(core: Core, network: ModelNetwork, a: str, b: str) -> bool:
    ends = {network.switch(a).dpid, network.switch(b).dpid}
    return not any({link.a.dpid, link.b.dpid} == ends for link in core.state.view.links)


@pytest.mark.parametrize("sender", [None, "leaf1", "spine1"])
@pytest.mark.parametrize("seed", range(3))
def test_a_silent_loss_is_noticed_within_a_second(sender: str | None, seed: int) -> None:
    core, network = started(plan(leaves=3, spines=3), seed)
    network.run_for(0.07 * seed)
    network.fail_silently(network.cable("leaf1", "spine1"), sender=sender)
    network.run_for(0.85)
    assert down(core, network, "leaf1", "spine1")
    assert len(core.state.view.links) == 8


def test_a_switch_that_comes_later_is_watched_like_the_others() -> None:
    of = plan(leaves=3, spines=3)
    core = Core(CoreSettings(KEY, of, heartbeat_period_s=0.25))
    network = ModelNetwork(of, core, seed=1)
    late = ("leaf3", "spine3")
    for name in late:
        network.power_off(name)
    network.run_for(8.0)
    assert len(core.links.up) == 4
    for name in late:
        network.power_on(name)
        network.run_for(4.0)
    assert len(core.links.up) == 9
    network.fail_silently(network.cable("leaf3", "spine3"))
    network.run_for(0.85)
    assert down(core, network, "leaf3", "spine3")


def test_answers_that_come_after_the_next_heartbeat_still_tell() -> None:
    of = plan(leaves=3, spines=3)
    core = Core(CoreSettings(KEY, of, heartbeat_period_s=0.25))
    network = ModelNetwork(of, core, seed=1, timing=Timing(control_latency_s=(0.1, 0.3)))
    network.run_for(15.0)
    assert len(core.state.view.links) == len(of.links)
    network.fail_silently(network.cable("leaf1", "spine1"))
    network.run_for(2.5)
    assert down(core, network, "leaf1", "spine1")
    assert len(core.state.view.links) == 8


def test_a_switch_that_dies_without_a_word_takes_its_links_with_it() -> None:
    core, network = started(plan(leaves=4, spines=3))
    for leaf in range(1, 5):
        network.fail_silently(network.cable(f"leaf{leaf}", "spine2"))
    network.run_for(0.85)
    assert len(core.state.view.links) == 8


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_while_everything_works(seed: int) -> None:
    core, network = started(plan(leaves=3, spines=3), seed)
    before = core.state.revision
    network.run_for(30.0)
    assert core.state.revision == before
    beats = [c for c in network.record.commands_of(SendPacket) if c.data == FRAME]
    assert len(beats) > 30 / 0.25 * 6 * 0.9


def test_a_frozen_switch_keeps_its_links() -> None:
    core, network = started(plan(leaves=3, spines=3))
    network.freeze("spine1")
    network.run_for(20.0)
    assert len(core.state.view.links) == 9
    network.thaw("spine1")
    network.run_for(5.0)
    assert len(core.state.view.links) == 9


def test_a_switch_whose_counters_lag_keeps_its_links_and_is_left_in_peace(monkeypatch: pytest.MonkeyPatch) -> None:
    core, network = started(plan(leaves=2, spines=2))
    lagging = network.switch("spine1")
    seen = {"at_s": -100.0, "counters": lagging.counters()}
    current = lagging.counters

    def counters():  # type: ignore[no-untyped-def]
        if network.now_s - seen["at_s"] > 5.0:
            seen.update(at_s=network.now_s, counters=current())
        return seen["counters"]

    monkeypatch.setattr(lagging, "counters", counters)
    challenged: list[float] = []
    challenge = core.discovery.challenge
    monkeypatch.setattr(
        type(core.discovery),
        "challenge",
        lambda self, at, sender, now_s: (challenged.append(now_s), challenge(at, sender, now_s)),
    )
    network.run_for(300.0)
    assert len(core.state.view.links) == 4
    early, late = (sum(first <= at_s - 6.0 < first + 60 for at_s in challenged) for first in (0, 240))
    assert 0 < late < early / 4


def test_a_loss_that_only_beacons_can_see_is_seen_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something at the port swallows beacons, and heartbeats still count."""
    core, network = started(plan(leaves=2, spines=2))
    at, far = sorted(next(iter(core.links.up)))
    hear = core.discovery.hear
    monkeypatch.setattr(
        type(core.discovery), "hear", lambda _, beacon, *where: beacon.sender != far and hear(beacon, *where)
    )
    network.run_for(6.0)
    record = core.links.of[at, far]
    assert (record.state, record.cause) == (LinkState.SUSPECT, Seen.ONE_WAY)


def test_beacons_become_rarer_where_they_would_be_too_many_and_heartbeats_with_them() -> None:
    core, _ = started(plan(leaves=2, spines=2))
    assert core.discovery.period_s == 1.0
    core.discovery.pace(1200)
    assert core.discovery.period_s == 2.4
    core.discovery.pace(10)
    assert core.discovery.period_s == 2.4
    core.discovery.pace(10**6)
    assert core.discovery.period_s == 5.0
    core.heartbeats.counters_per_s = 8.0
    assert core.heartbeats.interval_s == 1.0
