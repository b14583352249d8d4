"""NCCL's own log of a job (NCCL_DEBUG=INFO) -> who is where, which rings, which connections cross the network.

It decides which lines belong to one communicator and what they say together. A log may hold several communicators, as
every PyTorch job's does; NCCL names them by commId since 2.16, by pointers per process before. Logs may be partial
(one host's, an excerpt): everything found is reported, and nothing is made up. What a job announces from this is
decided in `nccl_job`.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO

from controller.formats.nccl_lines import (
    Hca,
    HcasLine,
    RankLine,
    RingLine,
    SettingLine,
    Speaker,
    Statement,
    TreeNode,
    TreesLine,
    Unusable,
    VersionLine,
    read_line,
)
from controller.formats.nccl_rings import CommunicatorBuilder
from controller.formats.problems import FileFormatError, FileProblem

# NCCL formats a line into 2,048 bytes; the prefix of a launcher and 34 HCAs fit many times.
MAX_LINE_BYTES = 65536
# 8,192 ranks with 32 channels have half a million connections.
MAX_STATEMENTS = 2_000_000


class NcclLogError(FileFormatError):
    """The file cannot be used as an NCCL log."""


@dataclass(frozen=True, slots=True)
class Rank:
    """Where a rank runs, as far as the log says: host as NCCL prints it, CUDA device, PCI bus id ("3b000")."""

    rank: int
    host: str | None = None
    gpu: int | None = None
    bus_id: str | None = None


@dataclass(frozen=True, slots=True)
class NetworkConnection:
    """One direction of one channel between two ranks over the network.

    `src_hca` is the number of the network device at the sender, `dst_hca` at the receiver; each is known only
    from that rank's own lines. `point_to_point`: made for ncclSend/ncclRecv, so part of no ring and no tree.
    """

    channel: int
    src_rank: int
    dst_rank: int
    transport: str
    src_hca: int | None
    dst_hca: int | None
    point_to_point: bool


@dataclass(frozen=True, slots=True)
class Communicator:
    """`n_ranks` is None when the log does not say. `rings` has the complete rings by channel; `incomplete_rings` the
    channels that are mentioned but of which too few lines are there."""

    identity: str | None
    n_ranks: int | None
    ranks: Mapping[int, Rank]
    rings: Mapping[int, tuple[int, ...]]
    incomplete_rings: tuple[int, ...]
    network: tuple[NetworkConnection, ...]
    trees: tuple[TreeNode, ...]


@dataclass(frozen=True, slots=True)
class NcclLog:
    """`communicators` has at least one entry, the largest first. `hcas` are by host name ("" where the log names no
    host). `skipped_lines` are NCCL's but torn, run together or too long; `first_skipped` is the first one's number."""

    filename: str
    version: str | None
    communicators: tuple[Communicator, ...]
    settings: Mapping[str, str]
    hcas: Mapping[str, tuple[Hca, ...]]
    skipped_lines: int
    first_skipped: int | None


def sample_path() -> Path:
    """A log that we wrote ourselves: 16 ranks on gpu-01 to gpu-16, two channels."""
    return Path(str(files("controller.formats") / "samples" / "allreduce-16ranks.log"))


def load(path: str | Path) -> NcclLog:
    """Reads a log of any size in linear time. Raises NcclLogError if it cannot be read or is no NCCL log."""
    try:
        with Path(path).open("rb") as file:
            return _read(file, str(path))
    except OSError as error:
        reason = error.strerror or str(error)
        problem = FileProblem(str(path), 0, f"cannot be read: {reason}", "check the path and its permissions")
        raise NcclLogError([problem]) from error


def load_text(text: str, filename: str = "<text>") -> NcclLog:
    """As `load`, from text."""
    return _read(io.BytesIO(text.encode("utf-8", errors="replace")), filename)


def _read(file: BinaryIO, filename: str) -> NcclLog:
    collector = _Collector(filename)
    for number, line in _lines(file):
        collector.take(number, Unusable.BROKEN if line is None else read_line(line))
    return collector.result()


def _lines(file: BinaryIO) -> Iterator[tuple[int, str | None]]:
    """(number, text) of each line; None for a line that is too long, which is read past without being kept."""
    number = 0
    while data := file.readline(MAX_LINE_BYTES):
        number += 1
        if len(data) == MAX_LINE_BYTES and not data.endswith(b"\n"):
            while data and not data.endswith(b"\n"):
                data = file.readline(MAX_LINE_BYTES)
            yield number, None
        else:
            yield number, data.decode("utf-8", errors="replace").rstrip("\r\n")


_Thread = tuple[str | None, str | None, str | None, int]


class _Collector:
    """Sorts statements to communicators. A thread of a process works on one communicator at a time."""

    def __init__(self, filename: str) -> None:
        self._filename = filename
        self._communicators: dict[str, CommunicatorBuilder] = {}
        # The communicator a thread has said it is setting up, and what it stated before saying so.
        self._current: dict[_Thread, CommunicatorBuilder] = {}
        self._waiting: dict[_Thread, list[tuple[Speaker, Statement]]] = {}
        self._by_pointer: dict[tuple[str | None, str | None, str], CommunicatorBuilder] = {}
        self._version: str | None = None
        self._settings: dict[str, str] = {}
        self._hcas: dict[str, dict[int, Hca]] = {}
        self._skipped = 0
        self._first_skipped: int | None = None
        self._understood = 0
        self._is_nccl = False

    def take(self, number: int, read: tuple[Speaker, Statement] | Unusable) -> None:
        if read is Unusable.BROKEN:
            self._skipped += 1
            self._first_skipped = self._first_skipped or number
        elif read is Unusable.OTHER:
            self._is_nccl = True
        elif not isinstance(read, Unusable):
            self._count(number, _weight(read[1]))
            self._state(*read)

    def _count(self, number: int, weight: int) -> None:
        self._understood += weight
        if self._understood > MAX_STATEMENTS:
            what = f"more than {MAX_STATEMENTS} statements about ranks and connections"
            cure = "give the log of one job, or of its rank 0 only"
            raise NcclLogError([FileProblem(self._filename, number, what, cure)])

    def _state(self, speaker: Speaker, statement: Statement) -> None:
        match statement:
            case VersionLine():
                self._version = self._version or statement.version
            case SettingLine():
                self._settings.setdefault(statement.name, statement.value)
            case HcasLine():
                known = self._hcas.setdefault(speaker.host or "", {})
                for hca in statement.hcas:
                    known.setdefault(hca.index, hca)
            case RankLine():
                self._rank(speaker, statement)
            case _:
                thread = _thread(speaker)
                if thread in self._current:
                    self._current[thread].add(speaker, statement)
                else:
                    self._waiting.setdefault(thread, []).append((speaker, statement))

    def _rank(self, speaker: Speaker, statement: RankLine) -> None:
        communicator = self._communicator(speaker, statement)
        thread = _thread(speaker)
        communicator.add(speaker, statement)
        if statement.starts:
            self._current[thread] = communicator
        elif thread not in self._current:
            # Old versions say only at the end which communicator the lines before were about.
            for waiting in self._waiting.pop(thread, []):
                communicator.add(*waiting)

    def _communicator(self, speaker: Speaker, statement: RankLine) -> CommunicatorBuilder:
        """By identity; else by the pointer, if its process has used it with one; else one for each size."""
        pointer = (speaker.host, speaker.pid, statement.pointer) if statement.pointer else None
        if statement.identity is None and pointer in self._by_pointer:
            known = self._by_pointer[pointer]
            if known.n_ranks == statement.n_ranks:
                return known
        key = f"{statement.n_ranks} {statement.identity or ''}"
        found = self._communicators.get(key)
        if found is None:
            found = self._communicators[key] = CommunicatorBuilder(statement.identity, statement.n_ranks)
        if pointer:
            self._by_pointer[pointer] = found
        return found

    def result(self) -> NcclLog:
        if not (self._is_nccl or self._understood):
            cure = "set NCCL_DEBUG=INFO for the job and give its output"
            what = 'no whole line of it is NCCL\'s ("NCCL INFO")'
            raise NcclLogError([FileProblem(self._filename, 0, what, cure)])
        builders = sorted(self._communicators.values(), key=_size, reverse=True)
        builders = builders or [CommunicatorBuilder(None, None)]
        # Threads that never said which communicator they are in: most likely the job's own, which is the largest.
        for statements in self._waiting.values():
            for speaker, statement in statements:
                builders[0].add(speaker, statement)
        return NcclLog(
            self._filename,
            self._version,
            tuple(_communicator(builder) for builder in builders),
            self._settings,
            {host: tuple(known[index] for index in sorted(known)) for host, known in self._hcas.items()},
            self._skipped,
            self._first_skipped,
        )


def _size(builder: CommunicatorBuilder) -> tuple[int, int]:
    """By the ranks that spoke, so that one damaged number does not make the largest communicator."""
    return len(builder.speakers), builder.n_ranks or 0


def _weight(statement: Statement) -> int:
    """How many things a statement holds, at least one."""
    match statement:
        case RingLine():
            return len(statement.order)
        case TreesLine():
            return len(statement.nodes)
        case HcasLine():
            return len(statement.hcas) + 1
        case _:
            return 1


def _thread(speaker: Speaker) -> _Thread:
    return (speaker.host, speaker.pid, speaker.thread, speaker.gpu)


def _communicator(builder: CommunicatorBuilder) -> Communicator:
    rings, incomplete = builder.rings()
    return Communicator(
        builder.identity,
        builder.known_size(),
        {
            rank: Rank(rank, builder.hosts.get(rank), builder.gpus.get(rank), builder.bus_ids.get(rank))
            for rank in sorted(builder.hosts.keys() | builder.gpus.keys() | builder.bus_ids.keys())
        },
        rings,
        incomplete,
        tuple(
            NetworkConnection(channel, src, dst, c.transport, c.src_hca, c.dst_hca, point_to_point)
            for (channel, src, dst, point_to_point), c in sorted(builder.connections.items())
        ),
        tuple(builder.trees[key] for key in sorted(builder.trees)),
    )
