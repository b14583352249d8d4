"""One OpenFlow session: which bytes go to the switch next, and which answers its replies amount to.

Sans-I/O: requests and replies come in by method calls that return what the controller is to be told; the shell asks
`next_bytes` for what to send. Time is an argument.

Two lanes. Packets and port counters are urgent: beacons must not wait behind ten thousand rules. Batches and table
reads keep the order in which they were asked for. A barrier inside a batch holds back what follows until the switch
has answered it; behind a closing barrier the next batch starts at once, since the switch keeps that order itself.

Answers are matched by transaction id alone: the request that an error carries may be cut off after 64 bytes.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from heddle.southbound.v1 import link_pb2

from apps.batch_job import BatchJob
from apps.codec_encode import encode_packet_out, serialise
from apps.reads import PortRead, Read, TableRead

# As much as is encoded in one go: about 10 ms of work, after which other switches get their turn.
_CHUNK_MESSAGES = 64
# Packets that wait for a switch; beyond that the oldest is dropped, as a switch with a full queue would.
_MAX_URGENT = 512
# Batches and reads that may wait for a switch before it counts as one that no longer listens.
_MAX_WORK = 4096

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
        self._work: deque[BatchJob | TableRead] = deque()
        self._jobs: dict[int, BatchJob] = {}
        self._reads: dict[int, Read] = {}
        self.dropped_packets = 0
        self.unmatched_errors = 0

    # --- requests of the controller ---------------------------------------------------------------------

    def submit(self, batch: link_pb2.Batch) -> None:
        """Answered by one BatchResult."""
        self._work.append(BatchJob(batch))

    def send_packet(self, packet: link_pb2.PacketOut) -> None:
        if len(self._urgent) >= _MAX_URGENT:
            self._urgent.popleft()
            self.dropped_packets += 1
        self._urgent.append(serialise(encode_packet_out(self._datapath, packet), self._next_xid()))

    def read_tables(self, request: link_pb2.ReadTables, now: float) -> None:
        """Answered by Tables, with `failed` set when the switch does not answer in time."""
        self._work.append(TableRead(request, now))

    def read_ports(self, request: link_pb2.ReadPortStatistics, now: float) -> None:
        """Answered by PortStatistics, or not at all."""
        read = PortRead(request, now)
        self._urgent.append(self._request(read, read.messages(self._datapath)[0]))

    def ask(self, message: Any) -> None:
        """Sends a request whose answer is handled elsewhere."""
        self._urgent.append(serialise(message, self._next_xid()))

    @property
    def overwhelmed(self) -> bool:
        """So much waits for the switch that it cannot be listening any more."""
        return len(self._work) > _MAX_WORK

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
            if isinstance(head, BatchJob) and not head.all_sent:
                return b""  # It waits for a barrier.
        return b""

    def _table_requests(self, read: TableRead) -> bytes:
        self._work.popleft()
        return b"".join(self._request(read, message) for message in read.messages(self._datapath))

    def _modifications(self, job: BatchJob) -> bytes:
        messages: list[bytes] = []
        while len(messages) < _CHUNK_MESSAGES and (message := job.next_message(self._datapath, self._next_xid)):
            xid, data = message
            self._jobs[xid] = job
            messages.append(data)
        if job.all_sent:
            self._work.popleft()
        return b"".join(messages)

    def _request(self, read: Read, message: Any) -> bytes:
        xid = self._next_xid()
        self._reads[xid] = read
        read.sent(xid)
        return serialise(message, xid)

    # --- replies of the switch --------------------------------------------------------------------------

    def on_barrier(self, xid: int) -> Messages:
        job = self._jobs.get(xid)
        if job is None or not job.barrier_answered(xid):
            return []
        return self._finish(job)

    def on_error(self, xid: int, error_type: int, code: int, experimenter: int = 0) -> Messages:
        """A refusal. One that belongs to no request of this session is only counted."""
        if job := self._jobs.get(xid):
            job.refused(xid, error_type, code, experimenter)
        elif read := self._reads.get(xid):
            read.refused(xid)
            return self._finish_read(read)
        else:
            self.unmatched_errors += 1
        return []

    def on_multipart(self, xid: int, entries: list[Any], more: bool, now: float) -> Messages:
        """One part of an answer; `more` when others follow."""
        read = self._reads.get(xid)
        if read is None:
            return []
        read.part(xid, entries, more, now)
        return self._finish_read(read)

    def expire(self, now: float) -> Messages:
        """Gives up on reads that got no answer for too long. To be called about once a second."""
        late = [read for read in self._all_reads() if read.deadline <= now]
        for read in late:
            self._forget(read)
        return [message for read in late for message in read.failure()]

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
        self._urgent.clear()
        self._jobs.clear()
        self._reads.clear()

    def _finish(self, job: BatchJob) -> Messages:
        for xid in job.transaction_ids:
            del self._jobs[xid]
        refused = link_pb2.BatchResult.STATUS_REFUSED if job.errors else link_pb2.BatchResult.STATUS_DONE
        return [job.result(refused)]

    def _finish_read(self, read: Read) -> Messages:
        if not read.complete:
            return []
        self._forget(read)
        return [read.answer()]

    def _all_jobs(self) -> list[BatchJob]:
        return _unique([*self._jobs.values(), *(work for work in self._work if isinstance(work, BatchJob))])

    def _all_reads(self) -> list[Read]:
        return _unique([*self._reads.values(), *(work for work in self._work if isinstance(work, TableRead))])

    def _forget(self, read: Read) -> None:
        self._reads = {xid: other for xid, other in self._reads.items() if other is not read}
        self._work = deque(work for work in self._work if work is not read)


def _unique(things: Iterable[_T]) -> list[_T]:
    """Each object once, in the order of its first appearance: one job has many transaction ids."""
    return list({id(thing): thing for thing in things}.values())
