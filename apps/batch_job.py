"""A batch on its way to one switch: which modification comes next, and what the switch said about each.

Decides neither when something is sent nor what its transaction id is; `session` does.
"""

import struct
from collections.abc import Callable
from typing import Any

from heddle.southbound.v1 import link_pb2
from ryu.ofproto import ofproto_v1_3_parser as parser

from apps.codec_encode import encode_modification, serialise
from apps.codec_fields import CodecError
from apps.error_names import NOT_SENT, error_name


class BatchJob:
    """`errors` by index into the batch's modifications; `transaction_ids` maps every id to that index."""

    def __init__(self, batch: link_pb2.Batch) -> None:
        self.batch = batch
        self.errors: dict[int, link_pb2.ModificationError] = {}
        self.transaction_ids: dict[int, int] = {}
        self._position = 0
        self._awaited_barrier: int | None = None
        self._closing_xid: int | None = None

    def next_message(self, datapath: Any, next_xid: Callable[[], int]) -> tuple[int, bytes] | None:
        """Transaction id and bytes of the next message; None while a barrier is awaited and when all was sent.

        A modification that has no spelling in OpenFlow 1.3 counts as refused and is passed over.
        """
        if self._awaited_barrier is not None or self.all_sent:
            return None
        modifications = self.batch.modifications
        while self._position < len(modifications):
            index, xid = self._position, next_xid()
            self._position += 1
            try:
                data = serialise(encode_modification(datapath, modifications[index]), xid)
            except (CodecError, struct.error) as problem:
                self._refuse(index, *NOT_SENT, name=f"NOT_SENT/{problem}")
                continue
            self.transaction_ids[xid] = index
            if modifications[index].WhichOneof("kind") == "barrier":
                self._awaited_barrier = xid
            return xid, data
        self._closing_xid = xid = next_xid()
        self.transaction_ids[xid] = len(modifications)
        return xid, serialise(parser.OFPBarrierRequest(datapath), xid)

    @property
    def all_sent(self) -> bool:
        """The closing barrier, too."""
        return self._closing_xid is not None

    def barrier_answered(self, xid: int) -> bool:
        """True when it was the closing barrier: the batch is through."""
        if xid == self._awaited_barrier:
            self._awaited_barrier = None
        return xid == self._closing_xid

    def refused(self, xid: int, error_type: int, code: int, experimenter: int) -> None:
        self._refuse(self.transaction_ids[xid], error_type, code, error_name(error_type, code, experimenter))

    def result(self, status: link_pb2.BatchResult.Status) -> link_pb2.AgentMessage:
        return link_pb2.AgentMessage(
            batch_result=link_pb2.BatchResult(
                dpid=self.batch.dpid,
                session_id=self.batch.session_id,
                batch_id=self.batch.batch_id,
                status=status,
                errors=[self.errors[index] for index in sorted(self.errors)],
            )
        )

    def _refuse(self, index: int, error_type: int, code: int, name: str) -> None:
        # A switch may complain twice about one message; the first complaint is the cause.
        error = link_pb2.ModificationError(index=index, type=error_type, code=code, name=name)
        self.errors.setdefault(index, error)
