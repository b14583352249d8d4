"""The yardstick for discovery: Ryu's own topology application, and one that notes when it says what.

Run by `ryu-manager --observe-links`, which loads `ryu.topology.switches`. Each event is a line of JSON in NOTED_EVENTS:
monotonic seconds, the kind, and for a link the datapath id and port number of its sender.
"""

import json
import os
import time
from typing import Any

from ryu.base import app_manager
from ryu.controller.handler import set_ev_cls
from ryu.ofproto import ofproto_v1_3
from ryu.topology import event


class NotedTopology(app_manager.RyuApp):  # type: ignore[misc]
    OFP_VERSIONS = (ofproto_v1_3.OFP_VERSION,)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._file = open(os.environ["NOTED_EVENTS"], "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - to the end

    def _note(self, kind: str, *about: int) -> None:
        self._file.write(json.dumps([time.monotonic(), kind, *about]) + "\n")

    @set_ev_cls(event.EventSwitchEnter)
    def _switch(self, _: Any) -> None:
        self._note("switch")

    @set_ev_cls(event.EventLinkAdd)
    def _link(self, added: Any) -> None:
        self._note("link", added.link.src.dpid, added.link.src.port_no)

    @set_ev_cls(event.EventLinkDelete)
    def _lost(self, lost: Any) -> None:
        self._note("lost", lost.link.src.dpid, lost.link.src.port_no)
