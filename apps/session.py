"""One OpenFlow session: which bytes go to the switch next, and which answers its replies amount to.

Sans-I/O: requests and replies come in by method calls that return what the controller is to be told; the shell asks
`next_bytes` for what to send. Time is an argument.

Two lanes. Packets and port counters are urgent: beacons must not wait behind ten thousand rules. Batches and table
reads keep the order in which they were asked for. A batch that awaits an answer in its middle holds back what follows;
behind a closing barrier or a commit the next batch starts at once, since the switch keeps that order itself.

What waits is bounded. A switch that falls behind by more loses its session: it comes back, is read, and gets what it
lacks. A batch that is larger than the bound is taken when nothing waits before it. One that makes no progress is given
up, so that a switch that hangs holds no memory for ever.

Answers are matched by transaction id alone: the request that an error carries may be cut off after 64 bytes.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from heddle.southbound.v1 import link_pb2
from ryu.ofproto import ofproto_v1_3 as ofp

from apps.batch_job import Job, make_job
from apps.codec_encode import encode_bundle_control, encode_packet_out
from apps.reads import PortRead, Read, TableRead

# As much as is encoded in one go, one write of some 20 KB: about 2 ms, after which other switches get their turn.
_CHUNK_MESSAGES = 128
# Packets that wait for a switch; beyond that the oldest is dropped, as a switch with a full queue would.
_MAX_URGENT = 512
# Batches and reads that may wait for a switch before it counts as one that no longer listens.
_MAX_WORK = 4096
# And how many modifications, of which each takes some 300 bytes here: the rules of a large switch, twice.
_MAX_WAITING_MODIFICATIONS = 200_000
# Without a message sent for it or an answer to it for so long, a batch is given up. The largest commit that Open
# vSwitch was seen to carry out (100,000 rules) took a second.
BATCH_TIMEOUT_S = 10.0
# The bundle that is opened and discarded at the start, to see whether the switch knows them.
_PROBE_BUNDLE = 0

Messages = list[link_pb2.AgentMessage]
_T = TypeVar("_T")


class SwitchSession:
    """`next_xid` gives transaction ids that no other message on this connection bears."""

    def __init__(self, datapath: Any, dpid: int, session_id: str, next_xid: Callable[[], int]) -> None:
        self._datapath = datapath
        self.dpid = dpid
        self.session_id = session_id
        self._next_xid = next_xid
        self._urgent: deque[bytes] = deque()
        self._work: deque[Job | TableRead] = deque()
        self._waiting_modifications = 0
        self._jobs: dict[int, Job] = {}
        self._progress = _Progress()
        self._reads: dict[int, Read] = {}
        self._probe_xids: tuple[int, ...] = ()
        self._asked_xids: set[int] = set()
        self._next_bundle_id = _PROBE_BUNDLE + 1
        # The switch carries out ONF bundles; False until it has shown so.
        self.atomic = False
        self.dropped_packets = 0
        self.unmatched_errors = 0

    # --- requests of the controller ---------------------------------------------------------------------

    def submit(self, batch: link_pb2.Batch) -> None:
        """Answered by one BatchResult."""
        bundle_id = None
        if self.atomic:
            bundle_id = self._next_bundle_id
            self._next_bundle_id += 1
        self._work.append(make_job(batch, bundle_id))
        self._waiting_modifications += len(batch.modifications)

    def send_packet(self, packet: link_pb2.PacketOut) -> None:
        """Raises CodecError when no OpenFlow message can hold it."""
        data = encode_packet_out(packet, self._next_xid())
        if len(self._urgent) >= _MAX_URGENT:
            self._urgent.popleft()
            self.dropped_packets += 1
        self._urgent.append(data)

    def probe(self) -> None:
        """Asks the switch whether it knows bundles, by opening an empty one and discarding it."""
        kinds = (ofp.ONF_BCT_OPEN_REQUEST, ofp.ONF_BCT_DISCARD_REQUEST)
        self._probe_xids = tuple(self._next_xid() for _ in kinds)
        for kind, xid in zip(kinds, self._probe_xids, strict=True):
            self._urgent.append(encode_bundle_control(kind, _PROBE_BUNDLE, xid))

    def read_tables(self, request: link_pb2.ReadTables, now: float) -> None:
        """Answered by Tables, with `failed` set when the switch does not answer in time."""
        self._work.append(TableRead(request, now))

    def read_ports(self, request: link_pb2.ReadPortStatistics, now: float) -> None:
        """Answered by PortStatistics, or not at all."""
        read = PortRead(request, now)
        self._urgent.append(self._request(read, read.messages(self._datapath)[0]))

    def ask(self, message: Any) -> None:
        """Sends a request whose answer is handled elsewhere, and without which one can do."""
        xid = self._next_xid()
        self._asked_xids.add(xid)
        self._urgent.append(_serialised(message, xid))

    @property
    def overwhelmed(self) -> bool:
        """So much waits for the switch that it cannot be listening any more."""
        too_many = self._waiting_modifications > _MAX_WAITING_MODIFICATIONS
        return len(self._work) > _MAX_WORK or (too_many and len(self._work) > 1)

    # --- what goes to the switch ------------------------------------------------------------------------

    def next_bytes(self) -> bytes:
        """The next OpenFlow messages, or nothing while there is nothing to send or a barrier is awaited."""
        if self._urgent:
            data = b"".join(self._urgent)
            self._urgent.clear()
            return data
        while self._work:
            head = self._work[0]
            data = self._table_requests(head) if isinstance(head, TableRead) else self._modifications(head)
            if data:
                return data
            if not isinstance(head, TableRead) and not head.all_sent:
                return b""  # It waits for an answer.
        return b""

    def _table_requests(self, read: TableRead) -> bytes:
        self._work.popleft()
        return b"".join(self._request(read, message) for message in read.messages(self._datapath))

    def _modifications(self, job: Job) -> bytes:
        messages: list[bytes] = []
        while len(messages) < _CHUNK_MESSAGES and (message := job.next_message(self._next_xid)):
            xid, data = message
            self._jobs[xid] = job
            messages.append(data)
        if messages:
            self._progress.made(job)
        if job.all_sent:
            self._work.popleft()
            self._waiting_modifications -= len(job.batch.modifications)
        return b"".join(messages)

    def _request(self, read: Read, message: Any) -> bytes:
        xid = self._next_xid()
        self._reads[xid] = read
        read.sent(xid)
        return _serialised(message, xid)

    # --- replies of the switch --------------------------------------------------------------------------

    def on_reply(self, xid: int) -> Messages:
        """The answer to a barrier or to a bundle's control message."""
        if self._probe_xids[:1] == (xid,):
            self.atomic = True
        job = self._jobs.get(xid)
        if job is None:
            return []
        self._progress.made(job)
        return self._finish(job) if job.answered(xid) else []

    def on_error(self, xid: int, error_type: int, code: int, experimenter: int = 0) -> Messages:
        """A refusal. One that belongs to no request of this session is only counted."""
        if job := self._jobs.get(xid):
            self._progress.made(job)
            return self._finish(job) if job.refused(xid, error_type, code, experimenter) else []
        if read := self._reads.get(xid):
            read.refused(xid)
            return self._finish_read(read)
        self.unmatched_errors += xid not in self._probe_xids and xid not in self._asked_xids
        return []

    def on_multipart(self, xid: int, entries: list[Any], more: bool, now: float) -> Messages:
        """One part of an answer; `more` when others follow."""
        read = self._reads.get(xid)
        if read is None:
            return []
        read.part(xid, entries, more, now)
        return self._finish_read(read)

    def expire(self, now: float) -> Messages:
        """Gives up on reads and batches that got no answer for too long. To be called about once a second."""
        late = [read for read in self._all_reads() if read.deadline <= now]
        for read in late:
            self._forget(read)
        messages = [message for read in late for message in read.failure()]
        for job in self._progress.stalled(now):
            messages.append(job.result(link_pb2.BatchResult.STATUS_LOST))
            self._drop(job)
        return messages

    def lost(self) -> Messages:
        """The switch went away: every open batch is lost, every read has failed."""
        messages = [job.result(link_pb2.BatchResult.STATUS_LOST) for job in self._all_jobs()]
        messages += [message for read in self._all_reads() for message in read.failure()]
        self.abandon()
        return messages

    def abandon(self) -> None:
        """The controller went away: what it asked for is not sent any more, and nobody waits for the answers.

        A controller that starts afresh counts its batches from the beginning; an answer to an old batch would be
        taken for the new one's.
        """
        self._work.clear()
        self._waiting_modifications = 0
        self._urgent.clear()
        self._jobs.clear()
        self._progress = _Progress()
        self._reads.clear()

    def _finish(self, job: Job) -> Messages:
        self._drop(job)
        return [job.result(job.status)]

    def _drop(self, job: Job) -> None:
        for xid in job.transaction_ids:
            self._jobs.pop(xid, None)
        self._progress.ended(job)
        if job in self._work:
            self._work.remove(job)
            self._waiting_modifications -= len(job.batch.modifications)

    def _finish_read(self, read: Read) -> Messages:
        if not read.complete:
            return []
        self._forget(read)
        return [read.answer()]

    def _all_jobs(self) -> list[Job]:
        return _unique([*self._jobs.values(), *(work for work in self._work if not isinstance(work, TableRead))])

    def _all_reads(self) -> list[Read]:
        return _unique([*self._reads.values(), *(work for work in self._work if isinstance(work, TableRead))])

    def _forget(self, read: Read) -> None:
        self._reads = {xid: other for xid, other in self._reads.items() if other is not read}
        self._work = deque(work for work in self._work if work is not read)


class _Progress:
    """When each batch that has been begun last went on, as far as `stalled` was told the time."""

    def __init__(self) -> None:
        # By identity; None: it has gone on since the time was last told.
        self._since: dict[int, tuple[Job, float | None]] = {}

    def made(self, job: Job) -> None:
        self._since[id(job)] = (job, None)

    def ended(self, job: Job) -> None:
        self._since.pop(id(job), None)

    def stalled(self, now: float) -> list[Job]:
        found = []
        for key, (job, since) in self._since.items():
            if since is None:
                self._since[key] = (job, now)
            elif now - since >= BATCH_TIMEOUT_S:
                found.append(job)
        return found


def _unique(things: Iterable[_T]) -> list[_T]:
    """Each object once, in the order of its first appearance: one job has many transaction ids."""
    return list({id(thing): thing for thing in things}.values())


def _serialised(message: Any, xid: int) -> bytes:
    """One of Ryu's messages, for those that are sent too rarely to be worth a spelling of our own."""
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)
