"""The server that Ryu agents connect to, and the way from a switch to the agent that has it.

It decides which agent a command goes to and when an agent is given up: a frame that is none, silence, or a reader that
does not read ends that agent's link and no other. What events mean is the core's business.

When two agents report one switch, the newer report wins. Both connections may be good (a switch with two controllers
set), but a dead agent that nobody has noticed yet looks just the same, and then only the newer one works.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import structlog

from controller.core import commands, events
from controller.runtime.agent_link import AgentLink, LinkClosed, LinkMalformed
from controller.runtime.engine import EngineStopped
from controller.runtime.reports import Reports
from controller.runtime.wire_messages import SouthboundCommand

Submit = Callable[..., None]


class Southbound:
    """All agent links. `submit` takes events for the core; `on_links` is told their number whenever it changes."""

    def __init__(
        self, controller_id: str, submit: Submit, reports: Reports, on_links: Callable[[int], None] = lambda _: None
    ) -> None:
        self._controller_id = controller_id
        self._submit = submit
        self._reports = reports
        self._on_links = on_links
        self._links: dict[AgentLink, asyncio.Task[None]] = {}
        self._routes: dict[int, tuple[AgentLink, str]] = {}
        self._log = structlog.get_logger("southbound")

    @property
    def links(self) -> tuple[AgentLink, ...]:
        return tuple(link for link in self._links if link.agent_id)

    @property
    def switches(self) -> Mapping[int, tuple[AgentLink, str]]:
        """The link and session of every connected switch, by datapath id."""
        return self._routes

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one agent until it goes; the callback of asyncio's servers."""
        link = AgentLink(reader, writer, self._controller_id, self._reports)
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("accept must run in a task")
        self._links[link] = task
        try:
            await link.serve(self._agent_ready, lambda event: self._received(link, event))
        except LinkClosed as closed:
            # A peer that leaves before it has said hello only looked whether somebody is here.
            if link.agent_id or isinstance(closed, LinkMalformed):
                self._reports.warn("agent link closed", agent=link.agent_id or "(no hello)", reason=str(closed))
        except EngineStopped:
            pass
        finally:
            del self._links[link]
            link.abort()
            self._agent_gone(link)

    async def stop(self) -> None:
        """Closes every link and waits until their tasks have ended. No event is submitted for them."""
        tasks = list(self._links.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def perform(self, command: SouthboundCommand) -> Iterable[events.Event]:
        """Performer of the commands that go to a switch. Without a way there, answers as if the switch were lost."""
        link, session_id = self._routes.get(command.dpid, (None, ""))
        wanted = getattr(command, "session_id", session_id)
        if link is None or wanted != session_id:
            return _unanswered(command)
        link.send(command)
        return ()

    def _agent_ready(self, agent_id: str, listen_address: str) -> None:
        self._log.info("agent linked", agent=agent_id, switches_connect_to=listen_address)
        self._on_links(len(self.links))

    def _received(self, link: AgentLink, event: events.Event) -> None:
        if isinstance(event, events.SwitchConnected):
            self._submit(*self._connected(link, event))
            return
        if isinstance(event, events.SwitchDisconnected) and self._routes.get(event.dpid) == (link, event.session_id):
            del self._routes[event.dpid]
        self._submit(event)

    def _connected(self, link: AgentLink, event: events.SwitchConnected) -> list[events.Event]:
        """The session that the new one replaces ends first, so that the core never sees two at once."""
        before = self._routes.get(event.dpid)
        self._routes[event.dpid] = (link, event.session_id)
        if before is None or before[1] == event.session_id:
            return [event]
        old_link, old_session = before
        if old_link is not link:
            self._reports.warn(
                "a switch is connected to two agents; the newer connection is used",
                switch=f"{event.dpid:x}",
                agent=link.agent_id,
                earlier_agent=old_link.agent_id,
            )
        return [events.SwitchDisconnected(event.dpid, old_session, "replaced by a newer session"), event]

    def _agent_gone(self, link: AgentLink) -> None:
        lost = [(dpid, session) for dpid, (owner, session) in self._routes.items() if owner is link]
        for dpid, _ in lost:
            del self._routes[dpid]
        if link.agent_id:
            self._on_links(len(self.links))
        try:
            reason = f"the link to agent {link.agent_id} is gone"
            self._submit(*(events.SwitchDisconnected(dpid, session, reason) for dpid, session in lost))
        except EngineStopped:
            pass  # The controller is stopping and wants no more news.


def _unanswered(command: SouthboundCommand) -> Iterable[events.Event]:
    if isinstance(command, commands.SendBatch):
        lost = events.BatchStatus.LOST
        return (events.BatchAnswered(command.dpid, command.session_id, command.batch_id, lost),)
    if isinstance(command, commands.ReadTables):
        return (events.TablesRead(command.dpid, command.session_id, command.request_id, None),)
    return ()
