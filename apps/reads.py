"""Reads that take several messages: the tables of a switch and its port counters.

They collect the parts of multipart answers by transaction id and know when they are complete or too late.
"""

from collections.abc import Callable
from typing import Any, Protocol

from heddle.southbound.v1 import link_pb2
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from apps.codec_decode import is_cable

# Silence after which a read is given up. Every part that arrives starts it anew.
READ_TIMEOUT_S = 5.0


class Read(Protocol):
    deadline: float

    def messages(self, datapath: Any) -> list[Any]:
        """The Ryu requests, to be sent in this order."""

    def sent(self, xid: int) -> None: ...

    def part(self, xid: int, entries: list[Any], more: bool, now: float, /) -> None: ...

    def refused(self, xid: int) -> None:
        """The switch answered this request with an error."""

    @property
    def complete(self) -> bool: ...

    def answer(self) -> link_pb2.AgentMessage: ...

    def failure(self) -> list[link_pb2.AgentMessage]:
        """What the controller is told when the switch does not answer."""


class TableRead:
    """Rules of all tables, groups and meters. Requests go out in this order, behind a barrier."""

    def __init__(self, request: link_pb2.ReadTables, now: float) -> None:
        self._tables = link_pb2.Tables(dpid=request.dpid, session_id=request.session_id, request_id=request.request_id)
        # In the order of `messages`, after the barrier.
        self._adders: tuple[Callable[[list[Any]], None], ...] = (
            self._tables.rules.extend,
            self._tables.groups.extend,
            self._tables.meters.extend,
        )
        self._order: list[int] = []
        self._open: set[int] = set()
        self.deadline = now + READ_TIMEOUT_S

    def messages(self, datapath: Any) -> list[Any]:
        # The barrier makes sure that what was sent before is in the tables when they are read.
        return [
            parser.OFPBarrierRequest(datapath),
            parser.OFPFlowStatsRequest(datapath, table_id=ofp.OFPTT_ALL, out_port=ofp.OFPP_ANY, out_group=ofp.OFPG_ANY),
            parser.OFPGroupDescStatsRequest(datapath, 0),
            parser.OFPMeterConfigStatsRequest(datapath, 0, ofp.OFPM_ALL),
        ]

    def sent(self, xid: int) -> None:
        self._order.append(xid)
        if len(self._order) > 1:  # The first one is the barrier, whose reply nobody waits for.
            self._open.add(xid)

    def part(self, xid: int, entries: list[Any], more: bool, now: float) -> None:
        self._adders[self._order.index(xid) - 1](entries)
        self.deadline = now + READ_TIMEOUT_S
        if not more:
            self._open.discard(xid)

    def refused(self, xid: int) -> None:
        """A switch without groups or meters says so by an error: it holds none. One that refuses flows has failed."""
        self._open.discard(xid)
        if xid in self._order[:2]:
            self._tables.failed = True

    @property
    def complete(self) -> bool:
        return len(self._order) > 1 and not self._open

    def answer(self) -> link_pb2.AgentMessage:
        return link_pb2.AgentMessage(tables=self._tables)

    def failure(self) -> list[link_pb2.AgentMessage]:
        tables = self._tables
        failed = link_pb2.Tables(
            dpid=tables.dpid, session_id=tables.session_id, request_id=tables.request_id, failed=True
        )
        return [link_pb2.AgentMessage(tables=failed)]


class PortRead:
    """Counters of every cabled port. There is no answer at all when the switch gives none: the next read is near."""

    def __init__(self, request: link_pb2.ReadPortStatistics, now: float) -> None:
        self._statistics = link_pb2.PortStatistics(
            dpid=request.dpid, session_id=request.session_id, request_id=request.request_id
        )
        self.complete = False
        self.deadline = now + READ_TIMEOUT_S

    def messages(self, datapath: Any) -> list[Any]:
        return [parser.OFPPortStatsRequest(datapath, 0, ofp.OFPP_ANY)]

    def sent(self, xid: int) -> None:
        """One request, one answer: there is nothing to remember."""

    def part(self, _xid: int, entries: list[Any], more: bool, now: float) -> None:
        self._statistics.ports.extend(entry for entry in entries if is_cable(entry.port_no))
        self.deadline = now + READ_TIMEOUT_S
        self.complete = not more

    def refused(self, xid: int) -> None:
        """Nothing comes any more: the read ends by its deadline, without a report."""

    def answer(self) -> link_pb2.AgentMessage:
        return link_pb2.AgentMessage(port_statistics=self._statistics)

    def failure(self) -> list[link_pb2.AgentMessage]:
        return []
