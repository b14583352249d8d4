"""The yardstick: a Ryu application as an engineer writes it, that lays given rules, one message at a time.

For every rule it builds a match, an action, an instruction and an OFPFlowMod and hands it to `send_msg`; groups go
before, with a barrier between, and a barrier ends it. Ryu's hub batches what it batches. It reads rounds of work from
STOCK_WORK, does them when all switches are connected, and writes the seconds of each to STOCK_RESULT.
"""

import json
import os
import time
from typing import Any

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from ryu.lib import hub
from ryu.ofproto import ofproto_v1_3

_PAUSE_S = 0.3


class StockApp(app_manager.RyuApp):  # type: ignore[misc]
    OFP_VERSIONS = (ofproto_v1_3.OFP_VERSION,)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        with open(os.environ["STOCK_WORK"], encoding="utf-8") as file:
            self._work = json.load(file)
        self._datapaths: dict[int, Any] = {}
        self._awaited: set[int] = set()
        self._answered = hub.Event()

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def _connected(self, event: Any) -> None:
        self._datapaths[event.msg.datapath_id] = event.msg.datapath
        if len(self._datapaths) == self._work["switches"]:
            hub.spawn(self._run)

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
    def _barrier(self, event: Any) -> None:
        self._awaited.discard(event.msg.datapath.id)
        if not self._awaited:
            self._answered.set()

    def _run(self) -> None:
        hub.sleep(2)
        seconds: dict[str, list[float]] = {name: [] for name in self._work["rounds"]}
        for name, switches in self._work["rounds"].items():
            for _ in range(self._work["repeat"]):
                started_s = time.perf_counter()
                self._lay(switches)
                seconds[name].append(time.perf_counter() - started_s)
                self._clear(switches)
                hub.sleep(_PAUSE_S)
        temporary = os.environ["STOCK_RESULT"] + ".part"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(seconds, file)
        os.replace(temporary, os.environ["STOCK_RESULT"])

    def _lay(self, switches: dict[str, Any]) -> None:
        for dpid, tables in switches.items():
            datapath = self._datapaths[int(dpid)]
            for group in tables["groups"]:
                self._add_group(datapath, group)
        self._wait(switches)
        for dpid, tables in switches.items():
            datapath = self._datapaths[int(dpid)]
            for rule in tables["rules"]:
                self._add_rule(datapath, rule)
        self._wait(switches)

    def _add_group(self, datapath: Any, group: dict[str, Any]) -> None:
        ofproto, parser = datapath.ofproto, datapath.ofproto_parser
        buckets = [parser.OFPBucket(watch_port=port, actions=[parser.OFPActionOutput(port)]) for port in group["ports"]]
        message = parser.OFPGroupMod(datapath, ofproto.OFPGC_ADD, ofproto.OFPGT_FF, group["group_id"], buckets)
        datapath.send_msg(message)

    def _add_rule(self, datapath: Any, rule: dict[str, Any]) -> None:
        ofproto, parser = datapath.ofproto, datapath.ofproto_parser
        match = parser.OFPMatch(**rule["match"])
        actions = [parser.OFPActionGroup(rule["group_id"])]
        instructions = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions)]
        message = parser.OFPFlowMod(
            datapath,
            cookie=rule["cookie"],
            table_id=rule["table_id"],
            priority=rule["priority"],
            match=match,
            instructions=instructions,
        )
        datapath.send_msg(message)

    def _clear(self, switches: dict[str, Any]) -> None:
        for dpid in switches:
            datapath = self._datapaths[int(dpid)]
            ofproto, parser = datapath.ofproto, datapath.ofproto_parser
            everything = parser.OFPFlowMod(
                datapath,
                table_id=ofproto.OFPTT_ALL,
                command=ofproto.OFPFC_DELETE,
                out_port=ofproto.OFPP_ANY,
                out_group=ofproto.OFPG_ANY,
            )
            datapath.send_msg(everything)
            groups = parser.OFPGroupMod(datapath, ofproto.OFPGC_DELETE, ofproto.OFPGT_ALL, ofproto.OFPG_ALL, [])
            datapath.send_msg(groups)
        self._wait(switches)

    def _wait(self, switches: dict[str, Any]) -> None:
        self._awaited = {int(dpid) for dpid in switches}
        self._answered.clear()
        for dpid in switches:
            datapath = self._datapaths[int(dpid)]
            datapath.send_msg(datapath.ofproto_parser.OFPBarrierRequest(datapath))
        self._answered.wait()
