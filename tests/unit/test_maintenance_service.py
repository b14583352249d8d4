"""Drains and events of a real core over real gRPC, asked by the `heddle` command."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from cli_fakes import topology
from core_model import all_to_all, ask, started
from fabrics import plan
from heddle.v1 import events_pb2 as pb
from heddle.v1 import events_pb2_grpc, maintenance_pb2_grpc
from served import served

from controller.cli.events import following
from controller.cli.fabric_picture import describe
from controller.cli.fabric_seen import seen_fabric
from controller.cli.main import invoke
from controller.cli.picture_description import LinkState
from controller.cli.tables import AVOIDED
from controller.core.events import CollectiveAnnounced, Event
from controller.core.history import KEPT, Topic
from controller.core.views import drains
from controller.runtime.grpc_events import EventService
from controller.runtime.grpc_maintenance import MaintenanceService
from controller.runtime.revisions import Revisions

RUN = "a-run"


class Fabric:
    """Three leaves, two spines, an announced all-to-all; requests are carried out in simulated time."""

    def __init__(self) -> None:
        of = plan(leaves=3, spines=2, hosts=1)
        self.core, self.network = started(of)
        ask(self.network, CollectiveAnnounced(1, all_to_all(of, "llama", ports=2)))
        self._ids = count(100)

    async def ask(self, make: Callable[[int], Event]) -> Any:
        return ask(self.network, make(next(self._ids)))

    def add(self, server: grpc.aio.Server) -> None:
        engine: Any = SimpleNamespace(core=self.core, now_s=lambda: self.network.now_s)
        news = Revisions(lambda: self.core.last_event)
        maintenance_pb2_grpc.add_MaintenanceServiceServicer_to_server(
            MaintenanceService(engine, drains, self),  # type: ignore[arg-type]
            server,
        )
        service = EventService(engine, news, RUN, clock=lambda: 1_000_000 + self.network.now_s)
        events_pb2_grpc.add_EventServiceServicer_to_server(service, server)


@pytest.fixture(scope="module")
def fabric() -> Iterator[tuple[Fabric, str]]:
    made = Fabric()
    with served(made.add) as address:
        yield made, address


def heddle(address: str, *words: str) -> int:
    return invoke([*words, "--controller", address])


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_drain_tells_its_cost_beforehand_and_is_listed_until_it_is_undone(
    fabric: tuple[Fabric, str], capsys: pytest.CaptureFixture[str]
) -> None:
    of, address = fabric
    assert heddle(address, "drain", "switch", "spine2", "--dry-run", "--json") == 0
    tried = said(capsys)
    assert tried["drains"] == []
    assert of.core.state.reduced.left_out == {}
    assert heddle(address, "drain", "switch", "spine2", "--reason", "new firmware", "--json") == 0
    done = said(capsys)
    assert done["forecast"] == tried["forecast"]
    assert done["forecast"]["jobs"] == ["llama"]
    assert 0 < done["forecast"]["flows_to_move"] < done["forecast"]["flows"] == 12
    assert done["forecast"]["max_load_after_s"] == pytest.approx(2 * done["forecast"]["max_load_before_s"])
    # What was foretold is what came.
    assert of.core.state.placement is not None
    assert of.core.state.placement.certificate.max_load_s == done["forecast"]["max_load_after_s"]
    assert done["drains"] == [
        {
            "target": "spine2",
            "origin": "operator",
            "reason": "new firmware",
            "forced": False,
            "state": "drained",
            "note": "",
        }
    ]
    assert heddle(address, "drain") == 0
    assert "new firmware" in capsys.readouterr().out
    # Part of what is drained cannot be given back alone, and it is said why.
    assert heddle(address, "undrain", "link", "leaf1", "spine2") == 0
    assert "still avoided: spine2 (operator: new firmware)" in capsys.readouterr().out
    assert heddle(address, "drain", "link", "leaf2:1", "spine1") == 1
    assert "this would cut off h21 at leaf2 from all other hosts" in capsys.readouterr().err
    assert heddle(address, "undrain", "switch", "spine2", "--json") == 0
    assert said(capsys)["drains"] == []
    assert heddle(address, "drain") == 0
    assert "nothing is drained" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("switch", "spine9"), "no switch 'spine9'"),
        (("link", "leaf1", "leaf2"), "no link between leaf1 and leaf2"),
        (("link", "leaf1:9", "spine1"), "no link between leaf1:9 and spine1"),
    ],
)
def test_what_is_not_there_cannot_be_drained(
    fabric: tuple[Fabric, str], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    assert heddle(fabric[1], "drain", *words) == 2
    assert problem in capsys.readouterr().err


def test_events_are_told_from_where_a_reader_stopped_and_whoever_comes_late_hears_what_is_lost(
    fabric: tuple[Fabric, str], capsys: pytest.CaptureFixture[str]
) -> None:
    of, address = fabric
    for word in ("drain", "undrain"):
        assert heddle(address, word, "switch", "spine1") == 0
    capsys.readouterr()
    assert heddle(address, "events", "--json") == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["sequence"] for event in told] == list(range(1, of.core.last_event + 1))
    assert told[0]["message"].startswith("the fabric is known")
    assert told[0]["time_s"] > 1_000_000
    outcome = next(event["outcome"] for event in told if event["topic"] == "plan" and event["outcome"]["moved"])
    assert outcome["certificate"]["max_load_s"] > 0
    with grpc.insecure_channel(address) as channel:
        watch = events_pb2_grpc.EventServiceStub(channel).WatchEvents
        last = of.core.last_event
        (alone,) = watch(pb.WatchEventsRequest(after_sequence=last - 1, run_id=RUN))
        assert [event.sequence for event in alone.events] == [last]
        (nothing,) = watch(pb.WatchEventsRequest(after_sequence=last, run_id=RUN))
        assert (nothing.run_id, len(nothing.events)) == (RUN, 0)
        # Numbers of another run mean nothing.
        anew = [e.sequence for r in watch(pb.WatchEventsRequest(after_sequence=last, run_id="other")) for e in r.events]
        assert anew[0] == 1
        for number in range(KEPT + 1):
            of.core.chronicle.history.note(Topic.JOB, "x", f"note {number}", 0.0, acts=False)
        first, *others = watch(pb.WatchEventsRequest(after_sequence=last, run_id=RUN))
        assert (first.missed, [r.missed for r in others]) == (1, [0] * len(others))
        assert first.events[0].sequence == last + 2


def test_following_survives_a_controller_that_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pb.WatchEventsResponse(run_id="1"), pb.WatchEventsResponse(run_id="2")
    one.events.add(sequence=7)
    asked = []

    class Controller:
        def events(self, request: pb.WatchEventsRequest) -> Iterator[pb.WatchEventsResponse]:
            asked.append((request.run_id, request.after_sequence))
            yield one if len(asked) == 1 else other

    @contextmanager
    def connect(_: str) -> Iterator[Controller]:
        yield Controller()

    monkeypatch.setattr("controller.cli.events.connect", connect)
    answers = following("somewhere", sleep=lambda _: None)
    assert [next(answers).run_id, next(answers).run_id] == ["1", "2"]
    assert asked == [("", 0), ("1", 7)]


@pytest.mark.parametrize("state", AVOIDED)
def test_a_link_that_is_kept_free_of_traffic_is_drawn_and_compared_as_one_that_works(state: str) -> None:
    answer = topology()
    answer.links[0].state = state
    assert {link.state for link in describe(answer).links} == {LinkState.UP}
    assert {cable.state for cable in seen_fabric(answer).cables} == {"up"}
