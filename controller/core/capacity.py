"""Learns what a switch can hold from what it refuses, decides when to try again, and says so while it matters.

Limits are learned per table, as what the table held when it refused more. Nothing is sent here: what was learned
changes what is wanted, and the reconciler does the rest.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from controller.core.events import SwitchConnected
from controller.core.planning import silent_switches
from controller.core.state import State
from controller.pipeline.detour import has_detours, is_detour_rule
from controller.pipeline.diff import ActualTables, is_steering
from controller.pipeline.groups import is_select
from controller.pipeline.refusals import NoRoom
from controller.pipeline.room import Room, reported_room
from controller.pipeline.rules import AddRule, Group, Rule, SwitchTables
from controller.pipeline.tables import ROUTE, STEER, TABLES

# A switch that is full stays full for long, and each try costs it a refused batch: tries become rare.
FIRST_RETRY_S = 30.0
LONGEST_RETRY_S = 600.0


def start_session(state: State, event: SwitchConnected) -> None:
    """What was learnt of a switch is forgotten with its session; what it says itself counts from the start."""
    state.rooms.pop(event.dpid, None)
    room = reported_room(event.table_limits, event.max_groups)
    if room is not None:
        state.rooms[event.dpid] = room


def foresee(state: State, base: Mapping[int, SwitchTables]) -> bool:
    """Whether some switch says that it cannot hold everything, which was not known yet; from now on it gets less: no
    detours where they would crowd plans out, and prefixes where it cannot hold a route for each host."""
    found = False
    for dpid, room in state.rooms.items():
        if dpid not in base:
            continue
        if not room.without_detours and has_detours(base[dpid]) and _is_crowded(room, base[dpid]):
            room.without_detours = found = True
        most = room.reported.get(ROUTE.table_id)
        if most is not None and not room.prefixes:
            needed = sum(r.table_id == ROUTE.table_id and not is_detour_rule(r) for r in base[dpid].rules)
            room.prefixes = needed > most
            found = found or room.prefixes
    return found


def _is_crowded(room: Room, base: SwitchTables) -> bool:
    """Whether what every switch holds, detours included, leaves less for plans than it takes itself."""
    held = Counter(rule.table_id for rule in base.rules)
    of_rules = [2 * held[table_id] > most for table_id, most in room.reported.items()]
    groups = room.reported_groups
    return any(of_rules) or (groups is not None and 2 * len(base.groups) > groups)


def learn(state: State, refused: Sequence[NoRoom], now_s: float) -> None:
    """Takes in what switches had no room for."""
    of_switch: dict[int, list[NoRoom]] = defaultdict(list)
    for refusal in refused:
        if not refusal.consequence:
            of_switch[refusal.dpid].append(refusal)
    for dpid, refusals in of_switch.items():
        actual = state.switches[dpid].actual
        if actual is None:
            continue
        room = state.rooms.setdefault(dpid, Room())
        changes = [refusal.modification for refusal in refusals]
        if not room.without_detours and has_detours(state.desired.get(dpid, SwitchTables())):
            # They are the first to go, and nothing else is learnt until it is seen whether that is enough.
            room.without_detours = True
            continue
        _learn_groups(room, [m.group for m in changes if not isinstance(m, AddRule)], actual)
        _learn_rules(room, [m.rule for m in changes if isinstance(m, AddRule)], actual)
        room.backoff_s = min(LONGEST_RETRY_S, max(FIRST_RETRY_S, 2 * room.backoff_s))
        room.retry_due_s = now_s + room.backoff_s


def _learn_groups(room: Room, refused: Sequence[Group], actual: ActualTables) -> None:
    if not refused:
        return
    room.groups = len(actual.groups) if room.groups is None else min(room.groups, len(actual.groups))
    room.shared_groups = True
    # Routing needs no group to deliver, only to spread.
    room.unspread = room.unspread or any(is_select(group.group_id) for group in refused)


def _learn_rules(room: Room, refused: Sequence[Rule], actual: ActualTables) -> None:
    held = Counter(rule.table_id for rule in actual.rules.values())
    for table_id in {rule.table_id for rule in refused}:
        room.rules[table_id] = min(held[table_id], room.rules.get(table_id, held[table_id]))
    needed = [rule for rule in refused if not is_steering(rule)]
    if not room.prefixes and any(rule.table_id == ROUTE.table_id for rule in needed):
        room.prefixes = True
        needed = [rule for rule in needed if rule.table_id != ROUTE.table_id]
    if not needed:
        return
    steering = sum(is_steering(rule) for rule in actual.rules.values())
    if steering and not room.yielded:
        # Many switches keep all tables in one memory: whatever routes and classes lack, steering gives.
        room.yielded = True
        room.rules[STEER.table_id] = max(0, held[STEER.table_id] - len(needed))
        return
    room.withheld |= {rule.key for rule in needed}


def without_withheld(state: State, base: Mapping[int, SwitchTables]) -> dict[int, SwitchTables]:
    """What the switches should hold besides steering, less what they have refused."""
    result = dict(base)
    for dpid, room in state.rooms.items():
        if room.withheld and dpid in base:
            room.withheld &= {rule.key for rule in base[dpid].rules}
            kept = frozenset(rule for rule in base[dpid].rules if rule.key not in room.withheld)
            result[dpid] = SwitchTables(kept, base[dpid].groups, base[dpid].meters)
    return result


def plan_retries(state: State, now_s: float) -> None:
    """To be called after every placement: a retry is due some time while something is missing, and only then."""
    for dpid, room in state.rooms.items():
        missing = bool(state.given_up.get(dpid)) or bool(room.withheld) or room.unspread
        if not missing or not room.is_full:
            room.retry_due_s = None
        elif room.retry_due_s is None:
            room.retry_due_s = now_s + max(room.backoff_s, FIRST_RETRY_S)


def retries_due_s(state: State) -> list[float]:
    return [room.retry_due_s for room in state.rooms.values() if room.retry_due_s is not None]


def look_again(state: State, dpid: int, before: ActualTables | None, after: ActualTables) -> None:
    """To be called with what a switch was believed to hold and what was read: what others have laid or taken away is
    no lasting measure of its room."""
    room = state.rooms.get(dpid)
    if room is not None and room.is_full and before is not None:
        known, read = (tables.rules.keys() | tables.groups.keys() for tables in (before, after))
        room.misjudged = room.misjudged or known != read


def retry(state: State, now_s: float, *, settled: bool) -> bool:
    """Forgets limits that are due to be tried again; whether there were any. `settled`: all that can be is laid, and
    what others have left there has gone."""

    def is_due(room: Room) -> bool:
        return (room.retry_due_s is not None and now_s >= room.retry_due_s) or (room.misjudged and settled)

    due = [room for room in state.rooms.values() if is_due(room)]
    for room in due:
        # Prefixes and shared groups stay: they cost nothing, and changing back would be a change for nothing. Detours
        # stay away, since a switch that had no room for them once would refuse them at every try.
        room.rules, room.groups, room.withheld = {}, None, frozenset()
        room.unspread, room.yielded, room.retry_due_s, room.misjudged = False, False, None, False
    return bool(due)


def alarms(state: State, name: Callable[[int], str]) -> dict[str, str]:
    """What people should know about full and silent switches, by a key for each."""
    result = {}
    for dpid in sorted(silent_switches(state) & {d for d, s in state.switches.items() if s.session_id}):
        waiting = sum(leaf == dpid for leaf in state.waiting.values())
        and_so = f"; {waiting} flows that enter there use ECMP" if waiting else ""
        result[f"silent {dpid:x}"] = (
            f"{name(dpid)} does not answer: it goes on forwarding, new flows go round it{and_so}"
        )
    for dpid, room in sorted(state.rooms.items()):
        sentences = [
            *_steering_sentence(len(state.given_up.get(dpid, ())), room),
            *_withheld_sentence(room),
            *(["it has no group left to spread traffic with: each leaf is reached over one link"] * room.unspread),
        ]
        if sentences:
            sentences += ["links that fail behind it wait for the controller"] * room.without_detours
            result[f"room {dpid:x}"] = f"{name(dpid)} is full: {'; '.join(sentences)}"
    return result


def _steering_sentence(given_up: int, room: Room) -> list[str]:
    if not given_up:
        return []
    most = room.most_rules(STEER.table_id)
    limits = [f"{most} rules in table {STEER.name}"] if most is not None else []
    groups = room.most_groups()
    limits += [f"{groups} groups"] if groups is not None else []
    return [f"{given_up} flows use ECMP, since it holds no more than {' and '.join(limits)}"]


def _withheld_sentence(room: Room) -> list[str]:
    if not room.withheld:
        return []
    tables = Counter(TABLES[table_id].name for table_id, _, _ in room.withheld)
    counts = ", ".join(f"{count} of table {table}" for table, count in sorted(tables.items()))
    return [f"it refused rules that others rely on ({counts}): not all hosts are reached through it; raise its limits"]


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[tuple[str, bool]]:
    """(sentence, whether it is new) of alarms that came or went; one whose figures alone changed is no news."""
    yield from ((sentence, True) for key, sentence in after.items() if key not in before)
    yield from ((sentence, False) for key, sentence in before.items() if key not in after)
