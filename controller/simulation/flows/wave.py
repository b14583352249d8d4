"""One running collective as lanes: what may be sent now, given what has arrived.

A *lane* is what one queue pair carries from one server to another: segments of equal size, one after the other. The
rule when a lane may send its next segment is decided here; how fast it is sent is `engine`'s and `maxmin`'s.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from controller.simulation.flows.maxmin import FloatArray, LinkRows

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_DONE = np.iinfo(np.int64).max


class Pace(StrEnum):
    """What a lane waits for.

    RANK: what its server received in the steps before, as ring and tree libraries do. TOGETHER: that everybody has
    finished the step before. AT_ONCE: for nothing; all bytes of a lane are one transfer.
    """

    RANK = "rank"
    TOGETHER = "together"
    AT_ONCE = "at-once"


@dataclass(frozen=True, slots=True)
class Lanes:
    """Row i of each array is lane i. `flow` numbers what is routed alike; `source` and `target` are server numbers.

    A lane sends `count` segments of `segment_bits`, the first in the collective's segment number `first`. A step is
    `segments` segments: a server passes on the first of them while the others still arrive.
    """

    flow: IntArray
    source: IntArray
    target: IntArray
    first: IntArray
    count: IntArray
    segment_bits: FloatArray
    servers: int
    segments: int = 1

    def __len__(self) -> int:
        return len(self.flow)


@dataclass(slots=True, eq=False)
class Wave:
    """The lanes of one collective under way. `rows[i]` are the links of lane i; `sent[i]` its whole segments so far,
    `left_bits[i]` what is missing of the one under way; `finished_s[i]` NaN until it is done."""

    lanes: Lanes
    pace: Pace
    rows: LinkRows
    started_s: float
    on_end: Callable[["Wave"], None] = field(repr=False)
    sent: IntArray = field(init=False)
    left_bits: FloatArray = field(init=False)
    finished_s: FloatArray = field(init=False)
    active: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        self.sent = np.zeros(len(self.lanes), dtype=np.int64)
        self.left_bits = self.lanes.segment_bits.copy()
        self.finished_s = np.full(len(self.lanes), np.nan)
        self.update()

    @property
    def done(self) -> bool:
        return bool((self.sent >= self.lanes.count).all())

    @property
    def places(self) -> IntArray:
        """The collective's segment number that each lane is at; past the end for those that are done."""
        return np.where(self.sent < self.lanes.count, self.lanes.first + self.sent, _DONE)

    def update(self) -> None:
        """Works out which lanes may send."""
        places = self.places
        unfinished = places < _DONE
        match self.pace:
            case Pace.AT_ONCE:
                self.active = unfinished
            case Pace.TOGETHER:
                self.active = unfinished & (places <= places.min(initial=_DONE))
            case Pace.RANK:
                received = np.full(self.lanes.servers, _DONE, dtype=np.int64)
                np.minimum.at(received, self.lanes.target, places)
                ahead = self.lanes.segments - 1
                self.active = unfinished & (places - ahead <= received[self.lanes.source])

    def complete(self, which: BoolArray, now_s: float) -> None:
        """The lanes `which` have sent the segment they were at."""
        self.sent[which] += 1
        self.left_bits[which] = self.lanes.segment_bits[which]
        self.finished_s[which & (self.sent >= self.lanes.count)] = now_s
        self.update()

    def pattern(self) -> tuple[int, bytes]:
        """(how far the last lane is, what else there is to know of the state as one value).

        Two moments with one pattern go on alike, as long as no lane comes to its end.
        """
        places = self.places
        last = int(places.min(initial=_DONE))
        part = np.round(self.left_bits / self.lanes.segment_bits, 9)
        return last, np.where(places < _DONE, places - last, -1).tobytes() + part.tobytes()

    def rounds_left(self, advance: int) -> int:
        """How many times every unfinished lane can advance by so many segments and still have one to send."""
        unfinished = self.sent < self.lanes.count
        spare = (self.lanes.count - self.sent)[unfinished] - 1
        return int(spare.min() // advance) if advance and len(spare) else 0

    def skip(self, segments: int) -> None:
        """Every unfinished lane has sent so many more segments."""
        self.sent[self.sent < self.lanes.count] += segments
        self.update()
