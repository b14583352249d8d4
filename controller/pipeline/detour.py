"""The downstream detour: how a packet gets round a link that died behind the last switch with a choice, without us.

The source is F10 (Liu et al., NSDI 2013), whose local rerouting this follows with one change: a switch that has lost
its last way down to a leaf sends the packet back where it came from (OFPP_IN_PORT), marked, and the switch below sends
it up again by another way. Every bounce is counted in the mark (`marks`), and on the last hop the mark says that nobody
is to send the packet up again; so it ends after `MOST_BOUNCES`, whatever the switches believe of one another.

Decides who bounces what, and where bounced packets go on. Routes without failures are decided in `compile`; a switch
that is short of room goes without (`core.capacity`). docs/decisions/0018-the-downstream-detour.md says why it is so.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from controller.fabric.model import Role
from controller.pipeline.cookies import Kind, cookie, is_ours, kind_of
from controller.pipeline.groups import bundle_over, detour_id, detour_id_over, failover_group, is_detour
from controller.pipeline.marks import (
    BOUNCED,
    LEAF_BITS,
    MOST_BOUNCES,
    SET_LAST_HOP,
    TURNED,
    Marked,
    bounced,
    bounced_for,
    bounced_often,
    set_bounced,
)
from controller.pipeline.neighbourhood import Neighbourhood
from controller.pipeline.rules import (
    OFPP_IN_PORT,
    Action,
    Bucket,
    Group,
    GroupKind,
    Output,
    Rule,
    SwitchTables,
    ToGroup,
    match,
)
from controller.pipeline.tables import ROUTE, STEER, checked

# Above the routes to hosts elsewhere and the drop of what comes down, below those to hosts that are here.
_CLIMB, _GO_ON, _GO_ON_BY_LEAF, _GIVE_UP_PLANE, _KNOWN, _FROM_BELOW = 205, 210, 220, 230, 260, 270
_PAST_STEERING = 400
# Nobody can watch the port that a packet came in by, so ports to so many other neighbours stand in for it: while one of
# them is live, the detour is. It takes three failures at one switch to lose it.
_WITNESSES = 2

Way = tuple[Action, ...]


def is_detour_rule(rule: Rule) -> bool:
    return is_ours(rule.cookie) and kind_of(rule.cookie) == Kind.DETOUR


# Where bounces are counted in a group's number: the group beside a bundle, for packets that have not bounced.
_BESIDE_BUNDLE = MOST_BOUNCES + 1


def has_detours(tables: SwitchTables) -> bool:
    return any(is_detour(group.group_id) for group in tables.groups) or any(map(is_detour_rule, tables.rules))


@dataclass(frozen=True, slots=True)
class Detours:
    """Of one view; `number_of` is each leaf's number in marks."""

    near: Neighbourhood
    number_of: Mapping[int, int]
    # The first port to each neighbour, by switch.
    _firsts: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, near: Neighbourhood) -> "Detours":
        taken: dict[int, int] = {}
        for leaf in sorted(near.hosts_of):
            number = leaf & (1 << LEAF_BITS) - 1
            while number in taken:
                number = (number + 1) & (1 << LEAF_BITS) - 1
            taken[number] = leaf
        return cls(near, {leaf: number for number, leaf in taken.items()})

    def bounces_at(self, dpid: int) -> bool:
        """Whether the switch sends back what it cannot deliver; not where hosts are attached, who would get it."""
        role = self.near.view.switches[dpid].role
        return role in (Role.SPINE, Role.CORE) and dpid not in self.near.hosts_of

    def back(self, dpid: int, leaf: int, bounces: int = 1) -> tuple[Bucket, ...]:
        """The last buckets of a failover group towards a leaf: the packet's `bounces`-th bounce. () where there is
        none: too many, several links up, which are no more than one failure at a time, or a leaf whose hosts are all
        below edge switches, for which no mark stands."""
        if bounces > MOST_BOUNCES or not self.bounces_at(dpid):
            return ()
        if leaf not in self.near.below(dpid) and len(self.near.choices(dpid, leaf)) != 1:
            return ()
        if leaf not in self.number_of:
            return ()
        actions = (set_bounced(bounces, self.number_of[leaf]), Output(OFPP_IN_PORT))
        return tuple(Bucket(actions, watch_port=port) for port in self._witnesses(dpid, leaf))

    def _witnesses(self, dpid: int, leaf: int) -> list[int]:
        direct = self.near.choices(dpid, leaf)
        firsts = self._firsts.get(dpid)
        if firsts is None:
            firsts = self._firsts[dpid] = tuple(ports[0] for ports in self.near.towards.get(dpid, {}).values())
        turned = (firsts[(leaf + turn) % len(firsts)] for turn in range(len(firsts)))
        return list(islice((port for port in turned if port not in direct), _WITNESSES))


@dataclass(slots=True)
class SwitchDetours:
    """What one switch does with bounced packets. Mutable while it is made: `guard` every way, then `freeze`."""

    detours: Detours
    dpid: int
    _rules: list[Rule] = field(default_factory=list)
    _groups: dict[int, Group] = field(default_factory=dict)

    @property
    def _near(self) -> Neighbourhood:
        return self.detours.near

    def guard(self, leaf: int, way: Way) -> Way:
        """The actions that lead to a leaf, with the bounce behind them; as they are where there is none.

        Over several links a bundle hashes, which no group can hold; so a second action watches the same ports and
        bounces when none of them is live. Without bundles several links are no worse off than one without detours.
        """
        back = self.detours.back(self.dpid, leaf) if way else ()
        direct = self._near.choices(self.dpid, leaf)
        if not back or (len(direct) > 1 and not self._has_bundles):
            return way
        if len(direct) == 1:
            return (self._group(leaf, 0, (Bucket(way, watch_port=direct[0]), *back)),)
        idle = tuple(Bucket((), watch_port=port) for port in direct)
        # Another group than that of a single link: whichever comes first, rule or group, neither loses a packet.
        return (*way, self._group(leaf, _BESIDE_BUNDLE, (*idle, *back)))

    def freeze(self) -> SwitchTables:
        """The rules for marked packets, and all groups."""
        below = self._near.below(self.dpid)
        leaves = [leaf for leaf in self._near.hosts_of if leaf != self.dpid and self._near.choices(self.dpid, leaf)]
        lower = [leaf for leaf in leaves if leaf in below]
        if self.detours.bounces_at(self.dpid):
            self._deliver(lower)
            self._climb([leaf for leaf in leaves if leaf not in below])
            self._turn_away_from(lower)
            self._send_down_again()
        self._send_up_again([leaf for leaf in leaves if leaf not in below])
        if self._rules:
            # A planned flow on a detour would be steered back to where it bounced.
            past = match(eth_src=BOUNCED)
            self._rules.append(
                checked(Rule(STEER.table_id, _PAST_STEERING, past, cookie(Kind.DETOUR), goto_table=ROUTE.table_id))
            )
        return SwitchTables(frozenset(self._rules), frozenset(self._groups.values()))

    def _deliver(self, leaves: Iterable[int]) -> None:
        """Bounced packets go down like all others, marked as on their last hop, or bounce once more."""
        for leaf in leaves:
            number = self.detours.number_of[leaf]
            direct = self._near.choices(self.dpid, leaf)
            for bounces in range(1, MOST_BOUNCES + 1):
                start = bounces % len(direct)
                ports = direct[start:] + direct[:start]
                down = tuple(Bucket((SET_LAST_HOP, Output(port)), watch_port=port) for port in ports)
                again = self.detours.back(self.dpid, leaf, bounces + 1)
                self._rule(_KNOWN, bounced(bounces, number), (self._group(leaf, bounces, down + again),))

    def _climb(self, leaves: Iterable[int]) -> None:
        """Where a spine has one link up that leads to a leaf, bounced packets take it like all others, still marked, or
        bounce once more. What the core at its end has bounced is not sent there again."""
        for leaf in leaves:
            for bounces in range(1, MOST_BOUNCES + 1):
                if not self.detours.back(self.dpid, leaf, bounces):
                    continue
                (port,) = self._near.choices(self.dpid, leaf)
                up = (Bucket((Output(port),), watch_port=port), *self.detours.back(self.dpid, leaf, bounces + 1))
                marked = bounced(bounces, self.detours.number_of[leaf])
                self._rule(_CLIMB, marked, (self._group(leaf, bounces, up),))

    def _turn_away_from(self, leaves: Iterable[int]) -> None:
        """What a spine sends back up to a core goes to another spine of the pod, or, where the core knows none, back
        down to the same spine, with the word to try another of its leaves."""
        spines = [lower for lower in self._near.tiers.lowers.get(self.dpid, ()) if self.detours.bounces_at(lower)]
        for leaf in leaves:
            number = self.detours.number_of[leaf]
            for spine in spines:
                if leaf not in self._near.below(spine):
                    continue
                others = self._without(self._near.choices(self.dpid, leaf), spine)
                for port in self._near.towards[self.dpid][spine]:
                    if others:
                        self._rule(_FROM_BELOW, bounced_for(number), self._over(others), port)
                        continue
                    for bounces in range(1, MOST_BOUNCES + 1):
                        turn = (set_bounced(bounces, number, turned=True), Output(OFPP_IN_PORT))
                        self._rule(_FROM_BELOW, bounced(bounces, number), turn, port)

    def _send_down_again(self) -> None:
        """What a core has turned goes to any other leaf of the pod, which knows another spine: the one that it is for
        is where the link is dead, and that port is not taken. So does what this spine's cores have bounced once too
        often: the leaf knows spines with other cores."""
        for port in self._near.from_above(self.dpid):
            self._rule(_FROM_BELOW, TURNED, self._over(self._down), port)
            self._rule(_GIVE_UP_PLANE, bounced_often(MOST_BOUNCES), self._over(self._down), port)

    @property
    def _down(self) -> tuple[int, ...]:
        """The ports to leaves that know other spines; to any where none does."""
        towards, tiers = self._near.towards.get(self.dpid, {}), self._near.tiers
        lowers = tiers.lowers.get(self.dpid, ())
        knowing = [lower for lower in lowers if len(tiers.uppers[lower]) > 1]
        return tuple(sorted(port for lower in knowing or lowers for port in towards[lower]))

    def _send_up_again(self, leaves: Iterable[int]) -> None:
        """What bounced above goes up by any other way that leads to its leaf; where a spine knows none, down again.

        These are the same for almost all leaves, so one rule for each port serves all of them and only the others have
        rules of their own.
        """
        reached_by: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for leaf in leaves:
            reached_by[self._near.choices(self.dpid, leaf)].append(leaf)
        towards = self._near.towards.get(self.dpid, {})
        otherwise = self._down if self.detours.bounces_at(self.dpid) else ()
        for upper in self._near.tiers.uppers.get(self.dpid, ()):
            ways: Counter[tuple[int, ...]] = Counter()
            for ports, theirs in reached_by.items():
                ways[self._without(ports, upper)] += len(theirs)
            if not ways:
                continue
            usual = max(ways, key=lambda ports: (ways[ports], ports))
            for port in towards[upper]:
                self._rule(_GO_ON, BOUNCED, self._over(usual or otherwise), port)
                for ports, theirs in reached_by.items():
                    others = self._without(ports, upper)
                    for leaf in theirs if others != usual else ():
                        marked = bounced_for(self.detours.number_of[leaf])
                        self._rule(_GO_ON_BY_LEAF, marked, self._over(others or otherwise), port)

    def _without(self, ports: tuple[int, ...], neighbour: int) -> tuple[int, ...]:
        theirs = self._near.towards[self.dpid][neighbour]
        return tuple(port for port in ports if port not in theirs)

    @property
    def _has_bundles(self) -> bool:
        return self._near.view.switches[self.dpid].nicira

    def _over(self, ports: tuple[int, ...]) -> Way:
        """Any of the ports that is live; spread where the switch can do so without a group."""
        if len(ports) <= 1:
            return tuple(map(Output, ports))
        if self._has_bundles:
            return (bundle_over(self.dpid, ports, self._near.capacity),)
        group = failover_group(detour_id_over(ports), ports)
        self._groups[group.group_id] = group
        return (ToGroup(group.group_id),)

    def _group(self, leaf: int, bounces: int, buckets: tuple[Bucket, ...]) -> ToGroup:
        group_id = detour_id(self.detours.number_of[leaf], bounces)
        self._groups[group_id] = Group(group_id, GroupKind.FAST_FAILOVER, buckets)
        return ToGroup(group_id)

    def _rule(self, priority: int, marked: Marked, actions: Way, in_port: int | None = None) -> None:
        self._rules.append(_rule(priority, marked, actions, in_port))


# A failure changes few of them, and the very same rules are found equal without a look at them.
@lru_cache(maxsize=1 << 16)
def _rule(priority: int, marked: Marked, actions: Way, in_port: int | None) -> Rule:
    at = {} if in_port is None else {"in_port": in_port}
    return checked(Rule(ROUTE.table_id, priority, match(eth_src=marked, **at), cookie(Kind.DETOUR), actions))
