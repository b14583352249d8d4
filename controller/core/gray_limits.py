"""How many of the links that lose packets may be avoided at once: which of them are, and which are used all the same.

Evidence that is the same everywhere has one cause, such as counters that do not count what they should, and acting on
all of it would take the fabric out. So every switch keeps at least half of its links upwards, the least lossy ones.
Downwards there is no such limit: a spine that is worn loses on all its links, and its leaves have others.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from controller.fabric.discovery import Cable
from controller.fabric.model import Role

# Up is where the number is larger. A switch of which nothing is known may be a leaf.
_LEVEL: Mapping[Role, int] = {Role.EDGE: 0, Role.LEAF: 1, Role.UNKNOWN: 1, Role.SPINE: 2, Role.CORE: 3}
# A link that is avoided stays so unless another is so many times as lossy: changing over has its price.
_STICKY = 3.0


@dataclass(frozen=True, slots=True)
class Fabric:
    """What limits depend on: the cables that are up, those of them that an operator has drained, and all roles."""

    up: Collection[Cable]
    drained: Collection[Cable]
    role: Mapping[int, Role]

    def lower_ends(self, cable: Cable) -> tuple[int, ...]:
        """From where a cable leads upwards; both ends where they are level."""
        levels = [_LEVEL[self.role.get(end.dpid, Role.UNKNOWN)] for end in cable]
        return tuple(end.dpid for end, level in zip(cable, levels, strict=True) if level == min(levels))


def kept(
    lost: Mapping[Cable, float], avoided: Collection[Cable], fabric: Fabric, name: Callable[[int], str]
) -> dict[Cable, str]:
    """Which lossy links are to be used all the same, and why in words; `lost` is the share that each loses, `avoided`
    those that have been avoided so far."""
    upwards = Counter(dpid for cable in fabric.up for dpid in fabric.lower_ends(cable))
    spared = Counter(dpid for cable in fabric.drained for dpid in fabric.lower_ends(cable))
    result: dict[Cable, str] = {}
    for cable in sorted(lost, key=lambda cable: (-lost[cable] * (_STICKY if cable in avoided else 1.0), cable)):
        if cable not in fabric.up or cable in fabric.drained:
            continue
        lower = fabric.lower_ends(cable)
        short = [dpid for dpid in lower if spared[dpid] >= max(1, upwards[dpid] // 2)]
        if short:
            count = spared[short[0]]
            result[cable] = (
                f"of the {upwards[short[0]]} links upwards of {name(short[0])} {count} {'is' if count == 1 else 'are'}"
                " avoided already"
            )
        else:
            spared.update(lower)
    return result
