"""The engine: order, time, timers, and what an exception in the core does."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from runtime_fakes import FakeCore, eventually

from controller.core.commands import Accepted, Failure, Refused, Report, SendBatch, Severity
from controller.core.events import (
    BatchAnswered,
    BatchStatus,
    CollectiveWithdrawn,
    Event,
    SwitchDisconnected,
    Tick,
)
from controller.runtime.engine import Engine, EngineFailed, EngineStopped
from controller.runtime.reports import QUIET_S, Reports
from controller.runtime.requests import Requests
from controller.runtime.revisions import Revisions

GONE = SwitchDisconnected(1, "s")


def scenario(test: Callable[[], Any]) -> None:
    asyncio.run(test())


def started(core: FakeCore, changed: Callable[[], None] = lambda: None, **performers: Any) -> Engine:
    engine = Engine(core, changed)
    by_name = {"SendBatch": SendBatch, "Accepted": Accepted, "Refused": Refused, "Report": Report}
    engine.start({by_name[name]: performer for name, performer in performers.items()})
    return engine


def test_events_that_follow_from_a_command_come_after_the_event_at_hand() -> None:
    async def test() -> None:
        batch = SendBatch(1, "s", 7, ())
        lost = BatchAnswered(1, "s", 7, BatchStatus.LOST)
        core = FakeCore(replies={SwitchDisconnected: lambda _: [batch]})
        engine = started(core, SendBatch=lambda _: (lost,))

        engine.submit(GONE, CollectiveWithdrawnStub)

        assert core.events == [GONE, CollectiveWithdrawnStub, lost]

    CollectiveWithdrawnStub = BatchAnswered(2, "s", 1, BatchStatus.DONE)
    scenario(test)


def test_submitting_from_within_a_performer_queues_behind() -> None:
    async def test() -> None:
        order: list[str] = []
        core = FakeCore(replies={SwitchDisconnected: lambda _: [SendBatch(1, "s", 7, ())]})

        def perform(_: SendBatch) -> Iterable[Event]:
            engine.submit(Tick())
            order.append("performed")
            return ()

        engine = started(core, SendBatch=perform)
        core.replies[Tick] = lambda _: order.append("tick") or []  # type: ignore[func-returns-value]
        engine.submit(GONE)
        assert order == ["performed", "tick"]

    scenario(test)


def test_deadline_of_the_core_brings_a_tick() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        core = FakeCore(deadline_s=loop.time() + 0.05)
        engine = started(core)
        await eventually(lambda: bool(core.events))
        assert core.events == [Tick()]
        assert core.times_s[0] >= loop.time() - 10
        engine.stop()

    scenario(test)


def test_deadline_in_the_past_does_not_starve_the_loop() -> None:
    async def test() -> None:
        core = FakeCore(deadline_s=0.0)
        core.replies[Tick] = lambda _: setattr(core, "deadline_s", 0.0) or []  # type: ignore[func-returns-value]
        engine = started(core)
        turns = 0
        while len(core.events) < 3:
            await asyncio.sleep(0)
            turns += 1
        engine.stop()
        assert turns > 3

    scenario(test)


def test_nearer_deadline_after_an_event_replaces_the_timer() -> None:
    async def test() -> None:
        core = FakeCore(deadline_s=asyncio.get_running_loop().time() + 3600)
        engine = started(core)
        core.replies[SwitchDisconnected] = lambda _: setattr(core, "deadline_s", 0.0) or []  # type: ignore[func-returns-value]
        engine.submit(GONE)
        await eventually(lambda: Tick() in core.events)
        engine.stop()

    scenario(test)


def test_exception_in_the_core_ends_the_engine_and_is_kept() -> None:
    async def test() -> None:
        def fail(_: Event) -> list[Any]:
            raise ZeroDivisionError("of the core")

        core = FakeCore(replies={SwitchDisconnected: fail})
        engine = started(core)
        with pytest.raises(EngineFailed):
            engine.submit(GONE)
        with pytest.raises(EngineStopped):
            engine.submit(Tick())
        assert core.events == [GONE]
        with pytest.raises(ZeroDivisionError):
            await engine.failure

    scenario(test)


def test_command_that_cannot_be_carried_out_ends_the_engine_too() -> None:
    async def test() -> None:
        core = FakeCore(replies={SwitchDisconnected: lambda _: [Report(Severity.INFO, "nobody writes me")]})
        engine = started(core)
        with pytest.raises(EngineFailed):
            engine.submit(GONE)
        with pytest.raises(KeyError):
            await engine.failure

    scenario(test)


def test_request_that_makes_the_core_fail_is_told_apart_from_a_stopped_controller() -> None:
    async def test() -> None:
        def fail(_: Event) -> list[Any]:
            raise ZeroDivisionError

        core = FakeCore(replies={CollectiveWithdrawn: fail})
        engine = started(core)
        requests = Requests(engine.submit)
        with pytest.raises(EngineFailed):
            await requests.ask(lambda number: CollectiveWithdrawn(number, "job"))
        later = await requests.ask(lambda number: CollectiveWithdrawn(number, "job"))
        assert isinstance(later, Refused)
        assert later.failure is Failure.UNAVAILABLE
        assert requests.waiting == 0
        assert isinstance(engine.failure.exception(), ZeroDivisionError)

    scenario(test)


def test_caller_that_goes_away_leaves_nothing_and_a_late_answer_finds_nobody() -> None:
    async def test() -> None:
        requests = Requests(lambda _: None)
        caller = asyncio.create_task(requests.ask(lambda number: CollectiveWithdrawn(number, "job")))
        await eventually(lambda: requests.waiting == 1)
        caller.cancel()
        await asyncio.wait([caller])
        assert requests.waiting == 0
        assert tuple(requests.answered(Accepted(1, "job", 0))) == ()

    scenario(test)


def test_waiting_for_a_revision() -> None:
    async def test() -> None:
        core = FakeCore(revision=5)
        revisions = Revisions(lambda: core.revision)
        await revisions.wait_for_newer(4, 60)  # is newer already
        await revisions.wait_for_newer(5, 0.01)  # time is up
        waiting = [asyncio.create_task(revisions.wait_for_newer(6, 60)) for _ in range(500)]
        await asyncio.sleep(0)
        core.revision = 6
        revisions.changed()  # wakes everybody, but 6 is not newer than 6
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        core.revision = 7
        revisions.changed()
        await asyncio.wait_for(asyncio.gather(*waiting), 30)

    scenario(test)


def test_revision_is_announced_once_for_a_burst_and_only_when_it_grew() -> None:
    async def test() -> None:
        changes: list[int] = []
        core = FakeCore()
        engine = started(core, lambda: changes.append(core.revision), Accepted=lambda _: ())
        engine.submit(GONE)
        assert changes == []
        core.jobs["a"] = core.jobs["b"] = 1
        engine.submit(CollectiveWithdrawn(1, "a"), CollectiveWithdrawn(2, "b"))
        assert changes == [3]

    scenario(test)


def test_same_report_is_written_once_a_minute_and_then_counts(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    reports = Reports(lambda: now_s)
    report = Report(Severity.WARNING, "a link flaps", (("link", "leaf1:1"), ("event", "a field of that name")))
    for _ in range(5):
        reports.write(report)
    reports.write(Report(Severity.WARNING, "a link flaps", (("link", "leaf1:2"),)))
    now_s = QUIET_S
    reports.write(report)
    lines = [line for line in capsys.readouterr().out.splitlines() if "a link flaps" in line]
    assert len(lines) == 3
    assert "repeated" not in lines[0]
    assert "repeated" in lines[2]
    assert "4" in lines[2].rpartition("repeated")[2]
