"""Switches that say what they can hold are asked for no more: what fits is laid, and the caller told of the rest."""

from dataclasses import replace

import pytest
from core_model import KEY, all_to_all, ask, steer_rules
from fabrics import leaf, plan

from controller.core import views
from controller.core.commands import Accepted, Command, Failure, Refused
from controller.core.events import BatchAnswered, BatchStatus, CollectiveAnnounced, Event, SwitchConnected
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.plan import FabricPlan
from controller.pipeline.room import reported_room
from controller.pipeline.tables import ROUTE, STEER, TABLES
from controller.simulation.admission import Limits
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery

MILLION = 1_000_000


class Frank:
    """A core whose switches say at once what they can hold, and what they answered."""

    def __init__(self, core: Core, table_limits: dict[int, int], max_groups: int | None) -> None:
        self.core, self.answers = core, list[BatchAnswered]()
        self._limits, self._groups = table_limits, max_groups

    def handle(self, event: Event, now_s: float) -> list[Command]:
        if isinstance(event, SwitchConnected):
            event = replace(event, table_limits=self._limits, max_groups=self._groups)
        if isinstance(event, BatchAnswered):
            self.answers.append(event)
        return self.core.handle(event, now_s)

    def next_deadline_s(self) -> float | None:
        return self.core.next_deadline_s()

    @property
    def refused(self) -> list[BatchAnswered]:
        return [answer for answer in self.answers if answer.status != BatchStatus.DONE]


def started_frankly(
    fabric: FabricPlan, table_limits: dict[int, int], max_groups: int | None = None
) -> tuple[Core, ModelNetwork, Frank]:
    core = Core(CoreSettings(beacon_key=KEY, plan=fabric))
    frank = Frank(core, table_limits, max_groups)
    network = ModelNetwork(fabric, frank, seed=1)
    per_table = min(table_limits.values()) if len(table_limits) == len(TABLES) else None
    for switch in network.wiring.switches.values():
        switch.limits = Limits(rules_per_table=per_table, groups=max_groups)
    network.announce_hosts()
    network.run_until_quiet(60)
    return core, network, frank


def test_as_much_as_fits_is_laid_and_no_more_is_tried() -> None:
    fabric = plan(leaves=3, spines=2, hosts=3)
    core, network, frank = started_frankly(fabric, dict.fromkeys(TABLES, 20))
    ask(network, CollectiveAnnounced(1, all_to_all(fabric, ports=4)))
    assert frank.refused == []
    # 72 flows leave each leaf; one rule of the table leads on to routing.
    rules = [steer_rules(network, f"leaf{i}") for i in (1, 2, 3)]
    assert all(0 < len(here) <= 19 for here in rules)
    assert core.state.paths
    assert [str(v) for v in check_delivery(network)] == []


def test_what_does_not_fit_is_told_without_trying() -> None:
    fabric = plan(leaves=2, spines=2, hosts=6)
    core, network, frank = started_frankly(fabric, {STEER.table_id: 3})
    answer = ask(network, CollectiveAnnounced(1, all_to_all(fabric, ports=4)))
    assert isinstance(answer, Refused)
    assert answer.failure == Failure.RESOURCE_EXHAUSTED
    assert frank.refused == []
    assert len(steer_rules(network, "leaf1")) == 2
    assert any("no more than 3 rules in table steer" in alarm for alarm in views.topology(core, 0.0).alarms)
    assert [str(v) for v in check_delivery(network)] == []


def test_groups_are_shared_before_a_switch_refuses_any() -> None:
    fabric = plan(leaves=4, spines=2, hosts=2)
    core, network, frank = started_frankly(fabric, {}, max_groups=2)
    assert isinstance(ask(network, CollectiveAnnounced(1, all_to_all(fabric))), Accepted)
    assert frank.refused == []
    assert all(len(switch.tables().groups) <= 2 for switch in network.wiring.switches.values())
    assert core.state.refused_units == set()


def test_a_switch_with_little_room_for_routes_gets_prefixes_at_once() -> None:
    fabric = plan(leaves=4, spines=2, hosts=8)
    core, network, frank = started_frankly(fabric, dict.fromkeys(TABLES, 60))
    assert frank.refused == []
    assert core.state.rooms[leaf(1)].prefixes
    assert [str(v) for v in check_delivery(network)] == []


@pytest.mark.parametrize(
    ("tables", "groups"), [({}, None), ({2: MILLION, 3: 0}, 0xFFFFFF00), ({200: 5}, None), ({}, 0)]
)
def test_what_says_nothing_about_our_tables_is_no_limit(tables: dict[int, int], groups: int | None) -> None:
    assert reported_room(tables, groups) is None


def test_the_smaller_of_what_is_said_and_what_was_seen_counts() -> None:
    room = reported_room({STEER.table_id: 50}, 10)
    assert room is not None
    assert not room.is_full
    assert (room.most_rules(STEER.table_id), room.most_rules(ROUTE.table_id), room.most_groups()) == (50, None, 10)
    room.rules[STEER.table_id], room.groups = 40, 20
    assert (room.most_rules(STEER.table_id), room.most_groups()) == (40, 10)
