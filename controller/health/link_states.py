"""The states of a link, and what takes it from one to the next: all of it is the table below.

A link is a cable between two switch ports, and it is judged by what is seen at both. `discovery` says at every moment
what that is (`Seen`); `damping` says when a cable has failed too often to be trusted for now, and when it has been calm
for long enough (`Past`). Nothing else moves a link.

- **unknown**: nothing has been seen of it since the controller started. It is not used.
- **up**: each end hears the other. Only then it is used.
- **suspect**: something is heard, but not what makes a link: one direction only (a broken fibre, a port that does not
  send), or a second neighbour in one of its ports (a hub, a NIC that bridges), so that nobody can say where a packet
  sent there would come out. It is not used. A person should look at it.
- **down**: a port of it has no carrier, or neither direction is heard although both switches are at work, or the
  switches' own check (BFD) has failed: they do not use it then, whatever beacons say. BFD alone never makes a link.
- **held**: it has flapped: whatever is seen of it now, it is left alone until its penalty has decayed. Every change
  would move traffic, reorder RDMA and write rules, for a link that is about to change again. Whether it is heard does
  not show while it is held, so that a link that flaps a hundred times is one change for everybody, not two hundred.

`calm` leads from held to down, from where what is seen at that moment takes it on at once; so a held link comes back by
itself, and one that has died meanwhile is down. A signal that leads back to the same state changes nothing.
"""

from collections.abc import Mapping
from enum import StrEnum

from controller.fabric.discovery import Seen


class LinkState(StrEnum):
    UNKNOWN = "unknown"
    UP = "up"
    SUSPECT = "suspect"
    DOWN = "down"
    HELD = "held"


class Past(StrEnum):
    """What a link's past says of it."""

    FLAPPING = "flapping"
    CALM = "calm"


Signal = Seen | Past

_U, _UP, _S, _D, _H = LinkState.UNKNOWN, LinkState.UP, LinkState.SUSPECT, LinkState.DOWN, LinkState.HELD
_SEEN: Mapping[Signal, LinkState] = {
    Seen.BOTH_WAYS: _UP,
    Seen.ONE_WAY: _S,
    Seen.AMBIGUOUS: _S,
    Seen.SILENT: _D,
    Seen.NO_CARRIER: _D,
    Seen.BFD_DOWN: _D,
}

TRANSITIONS: Mapping[LinkState, Mapping[Signal, LinkState]] = {
    # A cable of which nothing was ever heard cannot have gone silent.
    _U: {**_SEEN, Seen.SILENT: _U, Past.FLAPPING: _H, Past.CALM: _U},
    _UP: {**_SEEN, Past.FLAPPING: _H, Past.CALM: _UP},
    _S: {**_SEEN, Past.FLAPPING: _H, Past.CALM: _S},
    _D: {**_SEEN, Past.FLAPPING: _H, Past.CALM: _D},
    _H: {**dict.fromkeys(_SEEN, _H), Past.FLAPPING: _H, Past.CALM: _D},
}


def after(state: LinkState, signal: Signal) -> LinkState:
    return TRANSITIONS[state][signal]
