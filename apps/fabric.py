"""The agent: OpenFlow on one side, the southbound link to the controller on the other, and nothing of its own between.

`ryu-manager apps/fabric.py` is enough to bring up everything: when no controller answers, the agent starts one.
HEDDLE_SOUTHBOUND says where the controller is, HEDDLE_AGENT_ID how the agent is called in its reports.
"""

import logging
import os
from typing import Any

from heddle.southbound.v1 import link_pb2
from ryu.lib import hub

from apps.link import ControllerLink
from apps.southbound_settings import SettingsError, read_settings
from apps.supervisor import CONFIGURATION_ERROR, Supervisor, controller_command
from apps.switch_events import SwitchEventsApp

LOG = logging.getLogger("heddle.agent")

PROTOCOL_VERSION = 1


class FabricAgent(SwitchEventsApp):
    """Reports go to the controller, its requests to the switchboard."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        try:
            self._settings = read_settings(os.environ)
        except SettingsError as problem:
            self.lifetime.refuse_to_start(str(problem))
        self._link = ControllerLink(
            self._settings.southbound, self._introduction, self._handle, self.switches.controller_lost
        )
        environment = {**os.environ, "HEDDLE_SOUTHBOUND": self._settings.southbound.text}
        self._supervisor = Supervisor(controller_command(), environment, self._give_up, lambda: self._link.connected)

    def start(self) -> None:
        super().start()
        hub.spawn(self._link.run, on_first_silence=self._start_controller)

    def close(self) -> None:
        """Called by Ryu at the end."""
        self._supervisor.stop()

    def report(self, message: link_pb2.AgentMessage) -> None:
        self._link.send(message)

    def _start_controller(self) -> None:
        LOG.info("starting a controller, as none answers on %s", self._settings.southbound)
        hub.spawn(self._supervisor.run)

    def _give_up(self, problem: str) -> None:
        self.lifetime.end(CONFIGURATION_ERROR, problem)

    def _introduction(self) -> list[link_pb2.AgentMessage]:
        """What every new connection to the controller begins with."""
        hello = link_pb2.AgentHello(
            agent_id=self._settings.agent_id, protocol_version=PROTOCOL_VERSION, listen_address=self.listen_address
        )
        return [link_pb2.AgentMessage(hello=hello), *self.switches.report_all()]

    def _handle(self, message: link_pb2.ControllerMessage) -> None:
        """One message of the controller. Whatever is wrong with it must not end the link to all switches."""
        kind = message.WhichOneof("body")
        try:
            if kind == "welcome":
                self._welcome(message.welcome)
            elif kind == "ping":
                self._pong(message.ping)
            elif not self.switches.carry_out(message):
                LOG.warning("the controller sent a message that this agent does not know; is it newer?")
        except Exception:
            self.handler_failures += 1
            LOG.exception("cannot carry out a %s of the controller", kind)

    def _welcome(self, welcome: link_pb2.Welcome) -> None:
        if welcome.protocol_version != PROTOCOL_VERSION:
            LOG.error(
                "the controller speaks version %d of the southbound protocol, this agent version %d: "
                "install the same release on both sides",
                welcome.protocol_version,
                PROTOCOL_VERSION,
            )

    def _pong(self, ping: link_pb2.Ping) -> None:
        pong = link_pb2.Pong(nonce=ping.nonce, worst_loop_delay_s=self.loop_delay.take())
        self._link.send(link_pb2.AgentMessage(pong=pong))
