"""A core, views and an agent of straw, for tests of the shell around them."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from heddle.southbound.v1 import link_pb2 as pb

from controller.core.commands import Accepted, Command
from controller.core.events import CollectiveAnnounced, CollectiveWithdrawn, Event, Tick
from controller.core.history import Entry
from controller.core.views import (
    DiffView,
    EndpointView,
    ExplainedFlowView,
    FlowExplanationView,
    HopView,
    JobExplanationView,
    LinkExplanationView,
    LinkView,
    PacketTraceView,
    PlannedFlowView,
    PlanView,
    SwitchDiffView,
    SwitchView,
    TopologyView,
    UnknownHost,
    UnknownJob,
    UnknownLink,
    UnknownSwitch,
)
from controller.pipeline.difference import SwitchComparison
from controller.placement.certificate import Certificate
from controller.runtime.application import Application
from controller.runtime.settings import Settings, read_settings

PROOF = Certificate(1.5, 1.5, 0.0, "edge-colouring", True, 2.0)


@dataclass
class FakeCore:
    """Answers what `replies` says for an event's type; accepts requests otherwise. Remembers every event."""

    revision: int = 1
    entries: list[Entry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    replies: dict[type, Callable[[Any], list[Command]]] = field(default_factory=dict)
    deadline_s: float | None = None
    jobs: dict[str, int] = field(default_factory=dict)

    @property
    def last_event(self) -> int:
        return self.entries[-1].number if self.entries else 0

    def handle(self, event: Event, now_s: float) -> list[Command]:
        self.events.append(event)
        self.times_s.append(now_s)
        if isinstance(event, Tick):
            self.deadline_s = None
        if type(event) in self.replies:
            return self.replies[type(event)](event)
        if isinstance(event, CollectiveAnnounced):
            self.revision += 1
            self.jobs[event.collective.job_id] = self.revision
            return [Accepted(event.request_id, event.collective.job_id, 4)]
        if isinstance(event, CollectiveWithdrawn):
            self.revision += 1
            self.jobs.pop(event.job_id)
            return [Accepted(event.request_id, event.job_id, 2)]
        return []

    def next_deadline_s(self) -> float | None:
        return self.deadline_s

    def events_after(self, number: int) -> tuple[list[Entry], int]:
        return [entry for entry in self.entries if entry.number > number], 0

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class FakeViews:
    """One switch, one flow for each job."""

    def __init__(self, flows: int = 1, links: int = 1) -> None:
        self.plans_made = 0
        self._flows = flows
        self._links = links

    def topology(self, core: Any, now_s: float) -> TopologyView:
        a, b = EndpointView("leaf1", 1, 1, "leaf1-eth1"), EndpointView("spine1", 101, 1, "spine1-eth1")
        switch = SwitchView(1, "leaf1", "leaf", True, True, 12, 3, 0, "127.0.0.1:40000", "Open vSwitch 3.1.0")
        links = (LinkView(a, b, "up", "", "", 10**10, 5.5, None, 1, 0),) * self._links
        return TopologyView((switch,), links, (), ("look here",), core.revision, True)

    def plans(self, core: Any, job_id: str) -> tuple[PlanView, ...]:
        self.plans_made += 1
        if job_id and job_id not in core.jobs:
            raise UnknownJob(f"job_id: no job {job_id!r} is announced")
        names = [job_id] if job_id else sorted(core.jobs)
        flows = (self._flow(),) * self._flows
        return tuple(PlanView(name, core.jobs[name], PROOF, flows, "placed", ("a note",)) for name in names)

    def explain_flow(self, core: Any, src: str, dst: str, udp_source_port: int, dscp: int) -> FlowExplanationView:
        missing = [host for host in (src, dst) if not host.startswith("h")]
        if missing:
            raise UnknownHost("\n".join(f"no host {host!r} on this fabric" for host in missing))
        flow = ExplainedFlowView(self._flow(), "job", PROOF, (), "the only one")
        return FlowExplanationView((flow,), PacketTraceView("a packet", udp_source_port, dscp, src, dst, (), ()))

    def explain_job(self, core: Any, job_id: str) -> JobExplanationView:
        if job_id not in core.jobs:
            raise UnknownJob(f"no job {job_id!r} is announced")
        return JobExplanationView(job_id, PROOF, (), (), (), 1, 0, ("a sentence",))

    def explain_link(self, core: Any, a: str, b: str, now_s: float) -> LinkExplanationView:
        if {a, b} != {"leaf1", "spine1"}:
            raise UnknownLink(f"no link between {a} and {b} is known")
        return LinkExplanationView((), PROOF)

    def find_switches(self, core: Any, name: str) -> frozenset[int]:
        if name not in ("", "leaf1"):
            raise UnknownSwitch(f"no switch {name!r} has connected to this controller")
        return frozenset({1})

    def diff(self, core: Any, switch: str) -> DiffView:
        return DiffView((SwitchDiffView("leaf1", 1, "equal", "", (), 12, 3),), True)

    def diff_of(self, core: Any, comparisons: tuple[SwitchComparison, ...]) -> DiffView:
        switches = (SwitchDiffView("leaf1", c.dpid, "unknown", c.unknown, (), 0, 0) for c in comparisons)
        return DiffView(tuple(switches), False)

    def _flow(self) -> PlannedFlowView:
        hop = HopView("leaf1", 1, 1, "leaf1-eth1", "spine1")
        return PlannedFlowView("job/0-1", "h1", "h2", "10.0.0.1", "10.0.0.2", 1 << 40, 4, 0, (hop,), "planned")


class FakeAgent:
    """The agent's end of the link, spoken by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, path: str) -> "FakeAgent":
        return cls(*await asyncio.open_unix_connection(path))

    async def hello(self, agent_id: str = "agent-1", version: int = 1) -> None:
        await self.say(hello=pb.AgentHello(agent_id=agent_id, protocol_version=version, listen_address="0.0.0.0:6653"))

    async def say(self, **body: Any) -> None:
        payload = pb.AgentMessage(**body).SerializeToString()
        self.writer.write(struct.pack("!I", len(payload)) + payload)
        await self.writer.drain()

    async def switch_up(self, dpid: int, session_id: str = "s1") -> None:
        port = pb.Port(port_no=1, name="eth1", hardware_address=bytes.fromhex("020000000001"), link_up=True)
        await self.say(switch_up=pb.SwitchUp(dpid=dpid, session_id=session_id, peer_address="10.0.0.9:1", ports=[port]))

    async def heard(self) -> pb.ControllerMessage:
        """The next message; raises IncompleteReadError when the controller has closed."""
        (length,) = struct.unpack("!I", await self.reader.readexactly(4))
        message = pb.ControllerMessage()
        message.ParseFromString(await self.reader.readexactly(length))
        return message

    async def heard_other_than_ping(self) -> pb.ControllerMessage:
        while (message := await self.heard()).WhichOneof("body") == "ping":
            pass
        return message

    async def closed_by_controller(self) -> bool:
        """Reads to the end; False when there is none within a generous time."""
        try:
            async with asyncio.timeout(30):
                await self.reader.read()
        except TimeoutError:
            return False
        except ConnectionResetError:
            pass
        return True

    def close(self) -> None:
        self.writer.close()


@dataclass
class Running:
    """A started application and where its two doors are."""

    application: Application
    core: FakeCore
    views: FakeViews
    southbound: str

    def channel(self) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(self.application.northbound.bound, options=[("grpc.enable_http_proxy", 0)])


def shell_settings(folder: str, **changed: str) -> Settings:
    chosen = {"HEDDLE_SOUTHBOUND": f"unix:{folder}/c.sock", "HEDDLE_GRPC": "127.0.0.1:0", "HEDDLE_STATE": "none"}
    return read_settings({}, {**chosen, "HEDDLE_OVSDB": f"unix:{folder}/no-db.sock", **changed})


@asynccontextmanager
async def running(folder: Any, core: FakeCore | None = None, views: FakeViews | None = None) -> AsyncIterator[Running]:
    core, views = core or FakeCore(), views or FakeViews()
    application = Application(shell_settings(str(folder)), core, views)
    try:
        await application.start()
        yield Running(application, core, views, f"{folder}/c.sock")
    finally:
        await application.stop()


async def eventually(true: Callable[[], bool], timeout_s: float = 30) -> None:
    """Waits until `true()`; fails when it stays false."""
    async with asyncio.timeout(timeout_s):
        while not true():
            await asyncio.sleep(0.01)
