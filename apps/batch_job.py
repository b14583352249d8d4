"""A batch on its way to one switch: which messages come next, and what the switch said about each modification.

Decides neither when something is sent nor what its transaction id is; `session` does. There are two ways:

`PlainJob` sends the modifications one after the other. A barrier holds back what follows until the switch has answered
it, and a closing barrier ends the batch. What the switch refuses is reported, the rest stands. Holding back is caution:
a switch has to keep that order by itself (OpenFlow 1.3.5, 6.2), but not every one does. One that knows
ordered bundles is trusted with it, which saves a round trip.

`AtomicJob` puts all of them into one ONF bundle, which the switch carries out as a whole or not at all, in order and at
one moment for the packets. Barriers inside the batch need nothing then: they only keep an order that a bundle keeps by
itself. Open vSwitch reports the modification it choked on by that one's own transaction id and refuses the commit.
"""

import struct
from collections.abc import Callable
from typing import Protocol

from heddle.southbound.v1 import link_pb2
from ryu.ofproto import ofproto_v1_3 as ofp

from apps.codec_encode import encode_barrier, encode_bundle_control, encode_modification, in_bundle
from apps.codec_fields import CodecError
from apps.error_names import NOT_SENT, error_name

# Open vSwitch 3.1 takes no meters into a bundle (ofputil_is_bundlable). And it aborts, the whole daemon, when it undoes
# the deletion of a group that rules still used ("assertion group != NULL failed in ofproto_rule_insert__()").
_NOT_IN_BUNDLES = frozenset({"add_meter", "modify_meter", "delete_meter_id", "delete_group_id"})

_Result = link_pb2.BatchResult


class Job(Protocol):
    """`transaction_ids` maps every id that was used to the index of its modification, or beyond the last one."""

    batch: link_pb2.Batch
    transaction_ids: dict[int, int]

    def next_message(self, next_xid: Callable[[], int]) -> tuple[int, bytes] | None:
        """Transaction id and bytes of the next message; None while an answer is awaited and when all was sent."""

    @property
    def all_sent(self) -> bool: ...

    def answered(self, xid: int) -> bool:
        """A barrier's or a bundle's reply. True when the batch is through."""

    def refused(self, xid: int, error_type: int, code: int, experimenter: int) -> bool:
        """An error's. True when the batch is through."""

    @property
    def status(self) -> link_pb2.BatchResult.Status: ...

    def result(self, status: link_pb2.BatchResult.Status) -> link_pb2.AgentMessage: ...


def make_job(batch: link_pb2.Batch, bundle_id: int | None) -> Job:
    """`bundle_id`: a number for a bundle if the switch knows them, else None."""
    may_be_bundled = batch.atomic and not any(m.WhichOneof("kind") in _NOT_IN_BUNDLES for m in batch.modifications)
    if bundle_id is None or not may_be_bundled:
        return PlainJob(batch, waits=bundle_id is None)
    return AtomicJob(batch, bundle_id)


class _Job:
    def __init__(self, batch: link_pb2.Batch) -> None:
        self.batch = batch
        self.errors: dict[int, link_pb2.ModificationError] = {}
        self.transaction_ids: dict[int, int] = {}
        self._position = 0

    def result(self, status: link_pb2.BatchResult.Status) -> link_pb2.AgentMessage:
        return link_pb2.AgentMessage(
            batch_result=_Result(
                dpid=self.batch.dpid,
                session_id=self.batch.session_id,
                batch_id=self.batch.batch_id,
                status=status,
                errors=[self.errors[index] for index in sorted(self.errors)],
            )
        )

    def _encode(self, index: int, xid: int, bundle_id: int | None = None) -> bytes | None:
        """None, and an error, for a modification that has no spelling in OpenFlow 1.3."""
        try:
            data = encode_modification(self.batch.modifications[index], xid)
            return data if bundle_id is None else in_bundle(data, bundle_id, xid)
        except (CodecError, struct.error) as problem:
            self._refuse(index, *NOT_SENT, name=f"NOT_SENT/{problem}")
            return None

    def _refuse(self, index: int, error_type: int, code: int, name: str) -> None:
        # A switch may complain twice about one message; the first complaint is the cause.
        error = link_pb2.ModificationError(index=index, type=error_type, code=code, name=name)
        self.errors.setdefault(index, error)


class PlainJob(_Job):
    """A modification without a spelling counts as refused and is passed over. `waits`: for the answers to barriers."""

    def __init__(self, batch: link_pb2.Batch, waits: bool) -> None:
        super().__init__(batch)
        self._waits = waits
        self._awaited_barrier: int | None = None
        self._closing_xid: int | None = None

    def next_message(self, next_xid: Callable[[], int]) -> tuple[int, bytes] | None:
        if self._awaited_barrier is not None or self.all_sent:
            return None
        modifications = self.batch.modifications
        while self._position < len(modifications):
            index, xid = self._position, next_xid()
            self._position += 1
            data = self._encode(index, xid)
            if data is None:
                continue
            self.transaction_ids[xid] = index
            if self._waits and modifications[index].WhichOneof("kind") == "barrier":
                self._awaited_barrier = xid
            return xid, data
        self._closing_xid = xid = next_xid()
        self.transaction_ids[xid] = len(modifications)
        return xid, encode_barrier(xid)

    @property
    def all_sent(self) -> bool:
        """The closing barrier, too."""
        return self._closing_xid is not None

    def answered(self, xid: int) -> bool:
        if xid == self._awaited_barrier:
            self._awaited_barrier = None
        return xid == self._closing_xid

    def refused(self, xid: int, error_type: int, code: int, experimenter: int) -> bool:
        self._refuse(self.transaction_ids[xid], error_type, code, error_name(error_type, code, experimenter))
        return False

    @property
    def status(self) -> link_pb2.BatchResult.Status:
        return _Result.STATUS_REFUSED if self.errors else _Result.STATUS_DONE


class AtomicJob(_Job):
    """Open, one message for each modification, a barrier, and the commit once its answer says that all were taken.

    Open vSwitch commits a bundle without the messages that it refused to take into it; hence the barrier. A
    modification that is refused, or has no spelling, spoils the whole batch: the bundle is discarded.
    """

    def __init__(self, batch: link_pb2.Batch, bundle_id: int) -> None:
        super().__init__(batch)
        self._bundle_id = bundle_id
        self._opened = False
        self._spoilt = False
        self._barrier_xid: int | None = None
        self._filled = False
        self._last_xid: int | None = None

    def next_message(self, next_xid: Callable[[], int]) -> tuple[int, bytes] | None:
        awaiting = self._barrier_xid is not None and not self._filled
        if awaiting or self.all_sent:
            return None
        xid = next_xid()
        if not self._opened:
            self._opened = True
            return self._control(ofp.ONF_BCT_OPEN_REQUEST, xid)
        if self._filled:
            self._last_xid = xid
            return self._control(ofp.ONF_BCT_DISCARD_REQUEST if self._spoilt else ofp.ONF_BCT_COMMIT_REQUEST, xid)
        return self._next_modification(xid) or self._barrier(xid)

    def _next_modification(self, xid: int) -> tuple[int, bytes] | None:
        modifications = self.batch.modifications
        while self._position < len(modifications) and not self._spoilt:
            index = self._position
            self._position += 1
            if modifications[index].WhichOneof("kind") == "barrier":
                continue
            data = self._encode(index, xid, self._bundle_id)
            if data is not None:
                self.transaction_ids[xid] = index
                return xid, data
            self._spoilt = True
        return None

    def _barrier(self, xid: int) -> tuple[int, bytes]:
        self._barrier_xid = xid
        self.transaction_ids[xid] = len(self.batch.modifications)
        return xid, encode_barrier(xid)

    def _control(self, kind: int, xid: int) -> tuple[int, bytes]:
        self.transaction_ids[xid] = len(self.batch.modifications)
        return xid, encode_bundle_control(kind, self._bundle_id, xid)

    @property
    def all_sent(self) -> bool:
        """The commit, or the discard in its place, too."""
        return self._last_xid is not None

    def answered(self, xid: int) -> bool:
        if xid == self._barrier_xid:
            self._filled = True
        return xid == self._last_xid

    def refused(self, xid: int, error_type: int, code: int, experimenter: int) -> bool:
        self._spoilt = True
        index = self.transaction_ids[xid]
        if index < len(self.batch.modifications):
            self._refuse(index, error_type, code, error_name(error_type, code, experimenter))
        return xid == self._last_xid

    @property
    def status(self) -> link_pb2.BatchResult.Status:
        return _Result.STATUS_ROLLED_BACK if self._spoilt else _Result.STATUS_DONE
