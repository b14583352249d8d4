"""The Ryu side of every Heddle application: each OpenFlow event goes to one method of the switchboard.

Handlers never block (Ryu's queue of an application holds 128 events and stops the switches' readers when it is full)
and never fail silently: Ryu would log the exception and go on with half a switch, here that switch's session ends.
"""

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, cast

from heddle.southbound.v1 import link_pb2
from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls, set_ev_handler
from ryu.lib import hub
from ryu.ofproto import ofproto_common
from ryu.ofproto import ofproto_v1_3 as ofp

from apps import message_parser
from apps.lifetime import Lifetime
from apps.loop_delay import LoopDelay
from apps.port_problem import port_problem
from apps.switchboard import Switchboard

LOG = logging.getLogger("heddle.agent")

_EXPIRE_PERIOD_S = 0.5
# Ryu does not ask its switches for signs of life unless told to. 3 unanswered requests, 5 s apart, end a session.
_ECHO_INTERVAL_S = 5.0
_MAX_UNANSWERED_ECHOES = 2

Handler = Callable[["SwitchEventsApp", Any], None]


def _yield_after(event: Any) -> None:
    """Lets other greenlets run after every message of this kind.

    Ryu reads a switch's messages in one go as long as there are any. The parts of a large flow table are 64 KiB each
    and take milliseconds to decode; a hundred of them in a row would let other switches wait.
    """

    def pause(_event: Any) -> None:
        hub.sleep(0)

    reader = app_manager.lookup_service_brick(ofp_event.NAME)
    reader.register_handler(event, set_ev_handler(event, MAIN_DISPATCHER)(pause))


def on(event: Any, *states: str) -> Callable[[Handler], Handler]:
    """A Ryu event handler that takes the event's message, or the event itself when it has none."""

    def decorate(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def guarded(app: "SwitchEventsApp", ev: Any) -> None:
            subject = getattr(ev, "msg", ev)
            try:
                handler(app, subject)
            except Exception:  # noqa: BLE001 - see the head of this module.
                app.handler_failures += 1
                app.switches.failed(subject.datapath)

        return cast(Handler, set_ev_cls(event, list(states))(guarded))

    return decorate


class SwitchEventsApp(app_manager.RyuApp):  # type: ignore[misc]
    """An application that hears of every switch; subclasses say by `report` where the news go."""

    OFP_VERSIONS = (ofp.OFP_VERSION,)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.handler_failures = 0
        self.lifetime = Lifetime()
        self.loop_delay = LoopDelay()
        self.switches = Switchboard(self.report, time.monotonic)
        message_parser.install(self.switches.packet_in)
        self._prepare_listener()

    def report(self, message: link_pb2.AgentMessage) -> None:
        """What a switch has to say; must not block."""
        raise NotImplementedError

    def start(self) -> None:
        super().start()
        self.lifetime.install_signal_handlers()
        _yield_after(ofp_event.EventOFPFlowStatsReply)
        hub.spawn(self.loop_delay.run)
        hub.spawn(self._expire)

    @property
    def listen_address(self) -> str:
        return f"{self.CONF.ofp_listen_host}:{self._listen_port}"

    @property
    def _listen_port(self) -> int:
        """Ryu listens for TLS or for TCP, never for both."""
        secured = self.CONF.ctl_privkey and self.CONF.ctl_cert
        return int(self.CONF.ofp_ssl_listen_port if secured else self.CONF.ofp_tcp_listen_port)

    def _prepare_listener(self) -> None:
        """Ends the program with status 2 when the OpenFlow port is taken; Ryu would go on without it."""
        # With the port left open Ryu also listens on the pre-standard 6633, and breaks when that one is taken.
        self.CONF.set_default("ofp_tcp_listen_port", ofproto_common.OFP_TCP_PORT)
        self.CONF.set_default("ofp_ssl_listen_port", ofproto_common.OFP_SSL_PORT)
        self.CONF.set_default("echo_request_interval", _ECHO_INTERVAL_S)
        self.CONF.set_default("maximum_unreplied_echo_requests", _MAX_UNANSWERED_ECHOES)
        if problem := port_problem(self.CONF.ofp_listen_host, self._listen_port):
            self.lifetime.refuse_to_start(problem)

    def _expire(self) -> None:
        while True:
            hub.sleep(_EXPIRE_PERIOD_S)
            self.switches.expire()

    # --- the life of a connection ---------------------------------------------------------------------------

    @on(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def _features(self, message: Any) -> None:
        self.switches.opened(message)

    @on(ofp_event.EventOFPPortDescStatsReply, CONFIG_DISPATCHER)
    def _port_descriptions(self, message: Any) -> None:
        self.switches.ports_described(message.datapath, message.body)

    @on(ofp_event.EventOFPStateChange, MAIN_DISPATCHER, DEAD_DISPATCHER)
    def _state(self, event: Any) -> None:
        if event.state == MAIN_DISPATCHER:
            self.switches.ready(event.datapath)
        else:
            self.switches.closed(event.datapath)

    @on(ofp_event.EventOFPDescStatsReply, MAIN_DISPATCHER)
    def _description(self, message: Any) -> None:
        self.switches.described(message.datapath, message.body)

    @on(ofp_event.EventOFPTableFeaturesStatsReply, MAIN_DISPATCHER)
    def _table_features(self, message: Any) -> None:
        self.switches.tables_limited(message.datapath, message.body)

    @on(ofp_event.EventOFPGroupFeaturesStatsReply, MAIN_DISPATCHER)
    def _group_features(self, message: Any) -> None:
        self.switches.groups_limited(message.datapath, *message.body)

    # --- what switches say ----------------------------------------------------------------------------------

    @on(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def _port_status(self, message: Any) -> None:
        self.switches.port_changed(message.datapath, message.reason, message.desc)

    @on([ofp_event.EventOFPBarrierReply, ofp_event.EventONFBundleCtrlMsg], MAIN_DISPATCHER)
    def _reply(self, message: Any) -> None:
        self.switches.replied(message.datapath, message.xid)

    @on(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)
    def _error(self, message: Any) -> None:
        self.switches.refused(message)

    @on(
        [
            ofp_event.EventOFPFlowStatsReply,
            ofp_event.EventOFPGroupDescStatsReply,
            ofp_event.EventOFPMeterConfigStatsReply,
            ofp_event.EventOFPPortStatsReply,
        ],
        MAIN_DISPATCHER,
    )
    def _multipart(self, message: Any) -> None:
        more = bool(message.flags & ofp.OFPMPF_REPLY_MORE)
        self.switches.multipart_answered(message.datapath, message.xid, message.body, more)
