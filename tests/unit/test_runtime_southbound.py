"""The agent link over a real Unix socket, with a hand-spoken agent and a core of straw."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from heddle.southbound.v1 import link_pb2 as pb
from runtime_fakes import FakeAgent, FakeCore, Running, eventually, running

from controller.core.commands import ReadPortStatistics, ReadTables, SendBatch, SendPacket
from controller.core.events import (
    BatchAnswered,
    BatchStatus,
    PacketReceived,
    SwitchConnected,
    SwitchDisconnected,
    TablesRead,
)
from controller.pipeline.rules import Barrier
from controller.runtime import agent_link

Scenario = Callable[[Running], Awaitable[None]]


def play(folder: Path, scenario: Scenario, core: FakeCore | None = None) -> None:
    async def whole() -> None:
        async with asyncio.timeout(90), running(folder, core) as run:
            await scenario(run)

    asyncio.run(whole())


async def linked(run: Running, *dpids: int, agent_id: str = "agent-1", session_id: str = "s1") -> FakeAgent:
    agent = await FakeAgent.connect(run.southbound)
    await agent.hello(agent_id)
    assert (await agent.heard()).WhichOneof("body") == "welcome"
    before = len(run.core.of(SwitchConnected))
    for dpid in dpids:
        await agent.switch_up(dpid, session_id)
    await eventually(lambda: len(run.core.of(SwitchConnected)) == before + len(dpids))
    return agent


def test_switch_comes_is_commanded_and_goes_with_its_agent(tmp_path: Path) -> None:
    async def scenario(run: Running) -> None:
        agent = await linked(run, 5)
        await agent.say(packet_in=pb.PacketIn(dpid=5, session_id="s1", in_port=1, data=b"hi"))
        await eventually(lambda: PacketReceived(5, "s1", 1, b"hi") in run.core.events)
        for command, body in (
            (SendPacket(5, (1,), b"x"), "packet_out"),
            (SendBatch(5, "s1", 9, (Barrier(),)), "batch"),
            (ReadTables(5, "s1", 3), "read_tables"),
            (ReadPortStatistics(5, "s1"), "read_port_statistics"),
        ):
            assert tuple(run.application.southbound.perform(command)) == ()
            assert (await agent.heard_other_than_ping()).WhichOneof("body") == body
        agent.close()
        await eventually(lambda: bool(run.core.of(SwitchDisconnected)))
        assert [e.dpid for e in run.core.of(SwitchDisconnected)] == [5]
        assert run.application.southbound.links == ()

    play(tmp_path, scenario)


def test_commands_without_a_way_to_the_switch_are_answered_as_lost(tmp_path: Path) -> None:
    async def scenario(run: Running) -> None:
        await linked(run, 5)
        perform = run.application.southbound.perform
        lost = BatchAnswered(6, "s1", 9, BatchStatus.LOST)
        assert tuple(perform(SendBatch(6, "s1", 9, ()))) == (lost,)
        assert tuple(perform(SendBatch(5, "old", 9, ()))) == (BatchAnswered(5, "old", 9, BatchStatus.LOST),)
        assert tuple(perform(ReadTables(6, "s1", 3))) == (TablesRead(6, "s1", 3, None),)
        assert tuple(perform(SendPacket(6, (1,), b"x"))) == ()

    play(tmp_path, scenario)


MALFORMED = {
    "no message": struct.pack("!I", 5) + b"\xff\xff\xff\xff\xff",
    "too long": struct.pack("!I", 0x7FFFFFFF),
    "impossible": (lambda p: struct.pack("!I", len(p)) + p)(
        pb.AgentMessage(switch_up=pb.SwitchUp(dpid=1)).SerializeToString()
    ),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_frame_ends_that_link_only(tmp_path: Path, kind: str) -> None:
    async def scenario(run: Running) -> None:
        good = await linked(run, 1, agent_id="good")
        bad = await linked(run, 2, agent_id="bad")
        bad.writer.write(MALFORMED[kind])
        assert await bad.closed_by_controller()
        await eventually(lambda: len(run.core.of(SwitchDisconnected)) == 1)
        assert run.core.of(SwitchDisconnected)[0].dpid == 2
        await good.switch_up(3)
        await eventually(lambda: len(run.core.of(SwitchConnected)) == 3)
        assert [link.agent_id for link in run.application.southbound.links] == ["good"]

    play(tmp_path, scenario)


def test_frame_cut_short_ends_the_link(tmp_path: Path) -> None:
    async def scenario(run: Running) -> None:
        agent = await linked(run, 1)
        agent.writer.write(struct.pack("!I", 100) + b"only this")
        agent.writer.write_eof()
        await eventually(lambda: len(run.core.of(SwitchDisconnected)) == 1)

    play(tmp_path, scenario)


def test_first_message_must_be_hello_of_our_version(tmp_path: Path) -> None:
    async def scenario(run: Running) -> None:
        rude = await FakeAgent.connect(run.southbound)
        await rude.switch_up(1)
        assert await rude.closed_by_controller()
        old = await FakeAgent.connect(run.southbound)
        await old.hello(version=99)
        assert await old.closed_by_controller()
        assert run.core.events == []

    play(tmp_path, scenario)


def test_unknown_kind_of_message_is_ignored(tmp_path: Path) -> None:
    async def scenario(run: Running) -> None:
        agent = await linked(run)
        await agent.say()
        await agent.switch_up(1)
        await eventually(lambda: len(run.core.of(SwitchConnected)) == 1)

    play(tmp_path, scenario)


def test_newer_session_replaces_the_older_also_across_agents(tmp_path: Path) -> None:
    async def scenario(run: Running) -> None:
        first = await linked(run, 7, agent_id="first", session_id="a")
        second = await linked(run, 7, agent_id="second", session_id="b")
        kinds = [(type(e).__name__, e.session_id) for e in run.core.events]  # type: ignore[union-attr]
        assert kinds == [("SwitchConnected", "a"), ("SwitchDisconnected", "a"), ("SwitchConnected", "b")]
        run.application.southbound.perform(SendPacket(7, (1,), b"x"))
        assert (await second.heard_other_than_ping()).packet_out.data == b"x"
        # What the old agent says of its dead session no longer takes the switch away.
        await first.say(switch_down=pb.SwitchDown(dpid=7, session_id="a"))
        first.close()
        await eventually(lambda: len(run.application.southbound.links) == 1)
        assert 7 in run.application.southbound.switches

    play(tmp_path, scenario)


def test_heartbeat_remembers_the_worst_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_link, "PING_PERIOD_S", 0.01)

    async def scenario(run: Running) -> None:
        agent = await linked(run)
        for delay_s in (0.5, 3.0, 0.1):
            ping = (await agent.heard()).ping
            await agent.say(pong=pb.Pong(nonce=ping.nonce, worst_loop_delay_s=delay_s))
        link = run.application.southbound.links[0]
        await eventually(lambda: link.worst_agent_delay_s == 3.0)

    play(tmp_path, scenario)


def test_silent_agent_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_link, "PING_PERIOD_S", 0.01)
    monkeypatch.setattr(agent_link, "SILENCE_LIMIT_S", 0.2)

    async def scenario(run: Running) -> None:
        agent = await linked(run, 1)
        assert await agent.closed_by_controller()
        await eventually(lambda: len(run.core.of(SwitchDisconnected)) == 1)

    play(tmp_path, scenario)


def test_agent_that_does_not_read_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(run: Running) -> None:
        agent = await linked(run, 1)
        link = run.application.southbound.links[0]
        monkeypatch.setattr(link, "_max_unsent_bytes", 100_000)
        sent = 0
        while run.application.southbound.switches and sent < 1000:
            run.application.southbound.perform(SendPacket(1, (1,), bytes(10_000)))
            sent += 1
            await asyncio.sleep(0)
        assert sent < 1000
        await eventually(lambda: len(run.core.of(SwitchDisconnected)) == 1)
        agent.close()

    play(tmp_path, scenario)


def test_large_table_dump_arrives_and_the_loop_keeps_turning(tmp_path: Path) -> None:
    match = [pb.MatchField(name="eth_type", value=b"\x08\x00")]
    listed = [
        pb.Rule(table_id=2, priority=n, cookie=n, match=match, actions=[pb.Action(group_id=n)]) for n in range(20_000)
    ]

    async def scenario(run: Running) -> None:
        agent = await linked(run, 1)
        saying = asyncio.create_task(agent.say(tables=pb.Tables(dpid=1, session_id="s1", request_id=1, rules=listed)))
        turns = 0
        while not run.core.of(TablesRead):
            await asyncio.sleep(0.001)
            turns += 1
        await saying
        (read,) = run.core.of(TablesRead)
        assert len(read.tables.rules) == len(listed)
        assert turns > 10

    play(tmp_path, scenario)


def test_foreign_rules_without_words_are_reported_not_fatal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = pb.Rule(match=[pb.MatchField(name="reg0", value=bytes(4))])

    async def scenario(run: Running) -> None:
        agent = await linked(run, 0xAB)
        await agent.say(tables=pb.Tables(dpid=0xAB, session_id="s1", rules=[rule, rule]))
        await eventually(lambda: bool(run.core.of(TablesRead)))

    play(tmp_path, scenario)
    said = capsys.readouterr().out
    assert "no words" in said
    assert "ab" in said


def test_stopping_closes_links_and_submits_nothing_more(tmp_path: Path) -> None:
    agents: list[FakeAgent] = []

    async def whole() -> Any:
        async with asyncio.timeout(90):
            async with running(tmp_path) as run:
                agents.append(await linked(run, 1))
                core = run.core
            assert await agents[0].closed_by_controller()
            return core

    core = asyncio.run(whole())
    assert core.of(SwitchDisconnected) == []
    assert not (tmp_path / "c.sock").exists()
