"""Which refusals of a switch mean "no room", as opposed to "this is wrong".

Only the name of the error and the place in the batch are looked at, never the 64 bytes of the message that an error
carries: they are cut short on real switches. What follows from a full table is decided in `core.capacity`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.pipeline.detour import is_detour_rule
from controller.pipeline.groups import is_detour
from controller.pipeline.rules import AddGroup, AddRule, Modification, ToGroup

# OpenFlow 1.3.5, sections 7.4.5 and 7.4.7.
_FULL = frozenset({"OFPFMFC_TABLE_FULL", "OFPGMFC_OUT_OF_GROUPS"})
_NO_SUCH_GROUP = "OFPBAC_BAD_OUT_GROUP"


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A rule or a group that a switch has no room for; `consequence`: a rule whose group was refused."""

    dpid: int
    modification: AddRule | AddGroup
    consequence: bool = False


def no_room(dpid: int, modifications: Sequence[Modification], refused: Mapping[int, str]) -> list[NoRoom]:
    """Those of the refused modifications (index -> name of the error) that a full table or group table explains.

    A rule that names a group which the same batch failed to add is refused as a consequence, and counts as well. A
    detour counts whatever the switch has against it: it can do without.
    """
    by_code = {index: name.rpartition("/")[2] for index, name in refused.items()}
    full = {i for i, code in by_code.items() if code in _FULL or _is_detour(modifications[i])}
    missing = {m.group.group_id for i in full if isinstance(m := modifications[i], AddGroup)}
    result = []
    for index in sorted(refused):
        modification = modifications[index]
        if not isinstance(modification, AddRule | AddGroup):
            continue
        if index in full:
            result.append(NoRoom(dpid, modification))
        elif by_code[index] == _NO_SUCH_GROUP and _groups_of(modification) & missing:
            result.append(NoRoom(dpid, modification, consequence=True))
    return result


def _is_detour(modification: Modification) -> bool:
    match modification:
        case AddGroup(group):
            return is_detour(group.group_id)
        case AddRule(rule):
            return is_detour_rule(rule)
        case _:
            return False


def _groups_of(modification: Modification) -> set[int]:
    if not isinstance(modification, AddRule):
        return set()
    return {action.group_id for action in modification.rule.actions if isinstance(action, ToGroup)}
