"""What somebody else does to a switch's tables: wipes them, alters ours, adds rules of their own.

It decides nothing about when, and keeps no books; `fuzz_run` remembers what was foreign.
"""

from dataclasses import replace
from random import Random

from controller.pipeline.cookies import Kind, cookie, is_ours
from controller.pipeline.groups import is_ours as is_our_group
from controller.pipeline.rules import (
    AddGroup,
    AddMeter,
    AddRule,
    Bucket,
    DeleteGroup,
    DeleteMeter,
    DeleteRule,
    Group,
    GroupKind,
    Meter,
    Modification,
    ModifyGroup,
    ModifyMeter,
    Output,
    Rule,
    SwitchTables,
    ToGroup,
    match,
)
from controller.pipeline.tables import CLASSIFY, GUARD
from controller.simulation.switches import ModelSwitch

_FOREIGN_COOKIE = 0xF0E1_0000_0000
_ALWAYS_THE_SAME = (GUARD.table_id, CLASSIFY.table_id)
_FOREIGN_GROUP, _FOREIGN_METER = 7, 7


def wipe(switch: ModelSwitch) -> None:
    """Deletes every rule, group and meter; a reboot that ports and counters do not notice."""
    tables = switch.tables()
    switch.execute([DeleteRule(rule) for rule in tables.rules])
    switch.execute([DeleteGroup(group.group_id) for group in tables.groups])
    switch.execute([DeleteMeter(meter.meter_id) for meter in tables.meters])


def alter(switch: ModelSwitch, seed: int) -> str:
    """Changes one thing of ours; what was done, in words."""
    random = Random(seed)
    change = random.choice(_alterations(switch.tables(), random))
    switch.execute((change,))
    return str(change)


def _alterations(tables: SwitchTables, random: Random) -> list[Modification]:
    """One of each kind that is possible here. Sorted, because sets have no order to repeat."""
    stale = Rule(2, 200, match(eth_type=0x0800, ipv4_dst=0x0A090909), cookie(Kind.STEER, "gone"))
    result: list[Modification] = [AddRule(stale), AddGroup(Group(0x1000_0001, GroupKind.FAST_FAILOVER, ()))]
    rules = sorted((r for r in tables.rules if is_ours(r.cookie)), key=lambda r: r.order)
    if rules:
        rule = random.choice(rules)
        result += [DeleteRule(rule), AddRule(replace(rule, actions=(), goto_table=None, meter_id=None))]
        # The same place taken by a rule that says it is somebody else's; one that is always wanted there, or what is
        # somebody else's would stay and rightly be blamed for what it does.
        taken = random.choice([rule for rule in rules if rule.table_id in _ALWAYS_THE_SAME] or rules)
        result.append(AddRule(replace(taken, cookie=_FOREIGN_COOKIE)))
    groups = sorted((g for g in tables.groups if is_our_group(g.group_id)), key=lambda g: g.group_id)
    if groups:
        group = random.choice(groups)
        result += [DeleteGroup(group.group_id), ModifyGroup(replace(group, buckets=group.buckets[1:]))]
    meters = sorted((m for m in tables.meters if m.meter_id != _FOREIGN_METER), key=lambda m: m.meter_id)
    if meters:
        result += [DeleteMeter(meters[0].meter_id), ModifyMeter(replace(meters[0], packets_per_second=1))]
    return result


def foreign(seed: int) -> SwitchTables:
    """Entries of somebody else's that stand in nobody's way."""
    random = Random(seed)
    address = 0x0AFF0000 + random.randrange(4)
    rules = [
        Rule(0, 950, match(eth_type=0x8847), _FOREIGN_COOKIE + 1),
        Rule(2, 150, match(eth_type=0x0800, ipv4_dst=address), _FOREIGN_COOKIE + 2, (), 3),
        Rule(3, 300, match(eth_type=0x0800, ipv4_dst=address), _FOREIGN_COOKIE + 3, (Output(1),)),
        Rule(9, 1, (), 0, (ToGroup(_FOREIGN_GROUP),)),
    ]
    rule = random.choice(rules)
    group = Group(_FOREIGN_GROUP, GroupKind.ALL, (Bucket((Output(1),)),))
    needed = frozenset({group}) if rule.table_id == 9 else frozenset()
    meters = frozenset({Meter(_FOREIGN_METER, 5, 5)}) if random.random() < 0.3 else frozenset()
    return SwitchTables(frozenset({rule}), needed, meters)


def add(switch: ModelSwitch, tables: SwitchTables) -> SwitchTables:
    """Lays entries on a switch; those that it took."""
    groups = [g for g in tables.groups if switch.group(g.group_id) == g or switch.apply(AddGroup(g)) is None]
    meters = [m for m in tables.meters if m in switch.tables().meters or switch.apply(AddMeter(m)) is None]
    rules = [r for r in tables.rules if switch.apply(AddRule(r)) is None]
    return SwitchTables(frozenset(rules), frozenset(groups), frozenset(meters))
