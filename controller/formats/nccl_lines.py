"""One line of an NCCL log (NCCL_DEBUG=INFO) -> what it states.

It decides which lines are understood and which are broken. Ranks write to one stream without a lock, so lines run
together or are torn; every form is therefore matched from end to end, and a line that begins like one of ours but
does not end like it is broken, never half believed. What the lines mean together is decided in `nccl`.

The forms are those NCCL prints in src/init.cc, src/graph/connect.cc, src/graph/rings.cc and src/transport/*.cc, from
2.3 to 2.27; RCCL prints the same.
"""

import re
from dataclasses import dataclass
from enum import Enum

MARKER = "NCCL INFO "


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who printed the line: None where the line does not say. `gpu` is the CUDA device in square brackets."""

    host: str | None
    pid: str | None
    thread: str | None
    gpu: int


@dataclass(frozen=True, slots=True)
class RankLine:
    """ "comm 0x55.. rank 0 nranks 2 cudaDev 0 busId 19000 commId 0xb4.. - Init COMPLETE" """

    rank: int
    n_ranks: int
    pointer: str | None
    # What tells communicators apart in all processes: their id, or the colour of a split. None in old versions.
    identity: str | None
    gpu: int | None
    bus_id: str | None
    starts: bool
    completes: bool


@dataclass(frozen=True, slots=True)
class RingLine:
    """ "Channel 00/02 :    0   1   2": the ring from rank 0 on, at most MAX_RING_LINE ranks of it."""

    channel: int
    order: tuple[int, ...]


# NCCL cuts the list there (MAXWIDTH in src/graph/rings.cc), without a sign.
MAX_RING_LINE = 20


class Side(Enum):
    """Which end of a connection printed the line. Lines without a direction are printed by the sender."""

    SEND = "send"
    RECEIVE = "receive"


@dataclass(frozen=True, slots=True)
class ConnectionLine:
    """ "Channel 03/0 : 5[5] -> 12[4] [send] via NET/IB/3". `devices` are the bracketed words of both ends.

    `transport` is "NET/IB", "NET/Socket", "P2P" and so on; `hca` is the number of the network device, counted on
    the side that printed the line. `point_to_point`: made for ncclSend/ncclRecv, so no part of a ring or tree.
    """

    channel: int
    src_rank: int
    dst_rank: int
    devices: tuple[str | None, str | None]
    side: Side
    transport: str
    hca: int | None
    point_to_point: bool


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One rank's place in the tree of one channel; the root has no parent."""

    channel: int
    rank: int
    parent: int | None
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TreesLine:
    """ "Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1" """

    nodes: tuple[TreeNode, ...]


@dataclass(frozen=True, slots=True)
class Hca:
    """A network device as NCCL numbers it: "[3]mlx5_5:1/RoCE"."""

    index: int
    name: str
    port: int
    link_layer: str


@dataclass(frozen=True, slots=True)
class HcasLine:
    hcas: tuple[Hca, ...]


@dataclass(frozen=True, slots=True)
class SettingLine:
    """ "NCCL_IB_GID_INDEX set by environment to 3." """

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class VersionLine:
    version: str


class Unusable(Enum):
    BROKEN = "broken"  # NCCL's, but torn or run together with another.
    OTHER = "other"  # NCCL's, and of no use here.
    FOREIGN = "foreign"  # Not NCCL's at all.


Statement = RankLine | RingLine | ConnectionLine | TreesLine | HcasLine | SettingLine | VersionLine

_NUMBER = r"[0-9]{1,9}"
_SPEAKER = re.compile(
    r"(?:^|[\s:\]>)])(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*):"
    rf"(?P<pid>{_NUMBER}):(?P<thread>{_NUMBER}) \[(?P<gpu>{_NUMBER})\] *$"
)
_NAMELESS_SPEAKER = re.compile(rf"\s*\[(?P<gpu>{_NUMBER})\] *")
_VERSION = re.compile(r"\b[NR]CCL version ([0-9][\w.+-]{0,60})")
_RANK = re.compile(
    r"(?:ncclComm\w+ )?(?:comm (?P<pointer>0x[0-9a-f]{1,16}) )?"
    rf"rank (?P<rank>{_NUMBER}) n[rR]anks (?P<n_ranks>{_NUMBER})"
    r"(?P<details>(?: \(?[\w.]+\)?)*) ?(?:- (?P<phase>\w+ (?:START|COMPLETE)))?"
)
_DETAIL = re.compile(r" (cudaDev|busId|commId|color) (0x[0-9a-f]{1,32}|[0-9a-f]{1,32})(?= |$)")
_RING = re.compile(rf"Channel (?P<channel>{_NUMBER})/{_NUMBER} :(?P<order>(?: +{_NUMBER})+)")
_RANK_AND_DEVICE = rf"({_NUMBER})(?:\[([0-9a-f]{{1,12}})\])?"
_CONNECTION = re.compile(
    rf"(?:Channel|Ring) (?P<channel>{_NUMBER})(?:/(?P<index>{_NUMBER}))? : {_RANK_AND_DEVICE} -> {_RANK_AND_DEVICE}"
    r"(?: \[(?P<side>send|receive)\])? via "
    rf"(?:(?P<network>NET/\w{{1,40}})/(?P<hca>{_NUMBER})(?:\({_NUMBER}\))?(?:/[\w=]+(?:\(\w+\))?)*|"
    r"(?P<local>[A-Za-z0-9][\w/ ]*?(?:\[[0-9a-f]{1,12}\][\w/]*)?))"
    rf"(?: comm 0x[0-9a-f]{{1,16}} nRanks {_NUMBER})?"
)
_BRANCH = r"-?[0-9]{1,9}(?:/-?[0-9]{1,9})*"
_TREE = rf"\[({_NUMBER})\] ({_BRANCH})->({_NUMBER})->({_BRANCH})(?:\|{_BRANCH}->{_NUMBER}->{_BRANCH})?"
_TREES = re.compile(rf"Trees(?: {_TREE})+")
_ONE_TREE = re.compile(_TREE)
_HCAS = re.compile(r"NET/\w+ ?: (?:Using )?\[")
_HCA = re.compile(rf"\[({_NUMBER})\] ?([\w.-]{{1,64}}):({_NUMBER})/([A-Za-z]+)")
_SETTING = re.compile(r"(?P<name>NCCL_[A-Z0-9_]{1,64}) set by environment to (?P<value>.{0,1000}?)\.?")
# A line that begins so is one of ours, and broken if it matches none of the forms above.
_OURS = re.compile(
    r"(?:ncclComm\w+ )?(?:comm 0x[0-9a-f]+ )?rank [0-9]|(?:Channel|Ring) [0-9]+(?:/[0-9]+)? : *[0-9]|Trees \["
)


def read_line(line: str) -> tuple[Speaker, Statement] | Unusable:
    """What one line (without its line end) states, and who says so. Never raises; time is linear in the length."""
    if MARKER not in line:
        return _unmarked(line)
    head, _, message = line.partition(MARKER)
    if MARKER.rstrip() in message:
        return Unusable.BROKEN
    speaker = _speaker(head)
    message = message.rstrip()
    statement = _statement(message)
    if statement is None:
        return Unusable.BROKEN if speaker is None or _OURS.match(message) else Unusable.OTHER
    return Unusable.BROKEN if speaker is None else (speaker, statement)


_NOBODY = Speaker(None, None, None, 0)


def _unmarked(line: str) -> tuple[Speaker, Statement] | Unusable:
    """The version banner has no marker; a message without one is the tail of a torn line."""
    if version := _VERSION.search(line):
        return _NOBODY, VersionLine(version[1])
    return Unusable.BROKEN if _OURS.match(line) else Unusable.FOREIGN


def _speaker(head: str) -> Speaker | None:
    """Whatever launchers and loggers put before "host:pid:thread [gpu]" is passed over."""
    # No host name is longer than 255; longer heads are not worth searching.
    if match := _SPEAKER.search(head[-300:]):
        return Speaker(match["host"], match["pid"], match["thread"], int(match["gpu"]))
    if match := _NAMELESS_SPEAKER.fullmatch(head):
        return Speaker(None, None, None, int(match["gpu"]))
    return None


def _statement(message: str) -> Statement | None:
    if match := _CONNECTION.fullmatch(message):
        return _connection(match)
    if match := _RING.fullmatch(message):
        return RingLine(int(match["channel"]), tuple(map(int, match["order"].split())))
    if _TREES.fullmatch(message):
        return TreesLine(tuple(_tree(match) for match in _ONE_TREE.finditer(message)))
    if match := _RANK.fullmatch(message):
        return _rank(match)
    if _HCAS.match(message):
        found = _HCA.findall(message)
        return HcasLine(tuple(Hca(int(index), name, int(port), layer) for index, name, port, layer in found))
    if match := _SETTING.fullmatch(message):
        return SettingLine(match["name"], match["value"])
    if version := _VERSION.match(message):
        return VersionLine(version[1])
    return None


def _connection(match: re.Match[str]) -> ConnectionLine:
    _, _, src, src_device, dst, dst_device, *_ = match.groups()
    local = match["local"] or ""
    return ConnectionLine(
        int(match["channel"]),
        int(src),
        int(dst),
        (src_device, dst_device),
        Side.RECEIVE if match["side"] == "receive" else Side.SEND,
        match["network"] or local.partition("/")[0],
        int(match["hca"]) if match["hca"] else None,
        # src/p2p connections are the second of a channel's two ("connIndex" 1).
        match["index"] not in (None, "0"),
    )


def _tree(match: re.Match[str]) -> TreeNode:
    """Since 2.5 children come first ("1/-1/-1->0->7"); before, the parent does ("26->25->-1/-1/-1"). Only the
    children have slashes. Where 2.5 prints more after "|", it is the same edges the other way round."""
    channel, left, rank, right = match.groups()
    parent, children = (left, right) if "/" in right else (right, left)
    return TreeNode(
        int(channel),
        int(rank),
        int(parent) if "/" not in parent and int(parent) >= 0 else None,
        tuple(child for child in map(int, children.split("/")) if child >= 0),
    )


def _rank(match: re.Match[str]) -> RankLine | None:
    details = dict(_DETAIL.findall(match["details"]))
    rank, n_ranks = int(match["rank"]), int(match["n_ranks"])
    if rank >= n_ranks:
        return None
    gpu = details.get("cudaDev", "")
    color = f"color {details['color']}" if "color" in details else None
    return RankLine(
        rank,
        n_ranks,
        match["pointer"],
        details.get("commId", color),
        int(gpu) if gpu.isdecimal() and len(gpu) < 4 else None,
        details.get("busId"),
        match["phase"] == "Init START",
        match["phase"] == "Init COMPLETE",
    )
