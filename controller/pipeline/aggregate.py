"""Puts steering rules together where a switch is short of room, without catching a flow that is meant elsewhere.

Two ways, both sound for every announced flow: the queue pairs of one pair of hosts that take the same way become one
rule of the two addresses; then all flows from one leaf to a prefix of destinations become one rule of two prefixes,
when every announced flow to them takes that way. A flow that was left to ECMP keeps its addresses out of both.
"""

import ipaddress
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from controller.pipeline.neighbourhood import Neighbourhood
from controller.pipeline.prefixes import Block, blocks
from controller.pipeline.rules import Match
from controller.pipeline.steering import (
    PAIR_PRIORITY,
    PREFIX_PRIORITY,
    Steering,
    Unit,
    Way,
    prefix_match,
    steer_match,
)

_BITS = {4: 32, 6: 128}
Prefix = tuple[int, int]


def by_pair(rules: Iterable[Steering], left_out: Collection[Unit]) -> list[Steering]:
    """One rule for each pair of addresses whose flows all go the same way."""
    kept_out = {(source, destination) for source, destination, _ in left_out}
    of_pair: dict[tuple[str, str], list[Steering]] = defaultdict(list)
    for rule in rules:
        of_pair[rule.units[0][:2]].append(rule)
    result: list[Steering] = []
    for pair, its_rules in of_pair.items():
        same_way = len({rule.way for rule in its_rules}) == 1
        if len(its_rules) > 1 and same_way and pair not in kept_out:
            its_rules = [_together(its_rules, PAIR_PRIORITY, steer_match((*pair, 0)))]
        result += its_rules
    return result


def by_prefix(near: Neighbourhood, dpid: int, rules: Sequence[Steering], left_out: Collection[Unit]) -> list[Steering]:
    """One rule for each prefix of destinations to which everything announced goes the same way, here.

    `rules` must match destinations one by one, and be all that this switch steers.
    """
    result = list(rules)
    for version in _BITS:
        result = _by_prefix(near, dpid, result, left_out, version)
    return result


def _by_prefix(
    near: Neighbourhood, dpid: int, rules: list[Steering], left_out: Collection[Unit], version: int
) -> list[Steering]:
    from_here = _source(near, dpid, version)
    if from_here is None:
        return rules
    source, sources = from_here
    of_destination: dict[int, list[Steering]] = defaultdict(list)
    for rule in rules:
        if sources is not None and any(unit[0] not in sources for unit in rule.units):
            # What a core sends down to one of several links keeps its own rule.
            continue
        address = ipaddress.ip_address(rule.units[0][1])
        if address.version == version:
            of_destination[int(address)].append(rule)
    kept_out = {unit[1] for unit in left_out if sources is None or unit[0] in sources}
    meaning: dict[int, Way | None] = dict.fromkeys(_known(near, version))
    for destination, its_rules in of_destination.items():
        ways = {rule.way for rule in its_rules}
        free = its_rules[0].units[0][1] not in kept_out
        meaning[destination] = its_rules[0].way if len(ways) == 1 and free else None
    replaced: set[int] = set()
    result: list[Steering] = []
    for block in blocks(meaning, _BITS[version]):
        covered = _covered(block, of_destination)
        if len(covered) > 1:
            replaced |= {id(rule) for rule in covered}
            matched = prefix_match(version, source, (block.value, block.mask))
            result.append(_together(covered, PREFIX_PRIORITY, matched))
    return [rule for rule in rules if id(rule) not in replaced] + result


def _covered(block: Block[Way], of_destination: dict[int, list[Steering]]) -> list[Steering]:
    return [rule for address in block.members for rule in of_destination[address]]


def _together(rules: Sequence[Steering], priority: int, matched: Match) -> Steering:
    units = tuple(sorted(unit for rule in rules for unit in rule.units))
    return Steering(matched, priority, rules[0].way, min(rule.owner for rule in rules), units)


def _known(near: Neighbourhood, version: int) -> list[int]:
    addresses = (ipaddress.ip_address(text) for host in near.view.hosts for text in host.addresses)
    return [int(address) for address in addresses if address.version == version]


def _source(near: Neighbourhood, dpid: int, version: int) -> tuple[Prefix | None, Collection[str] | None] | None:
    """The prefix and the addresses of the sources whose flows a prefix rule may meet on this switch, each None where
    that is any; None alone when the hosts below the switch share no prefix of their own.

    The rules of a leaf, or of a spine below a core, must not catch what is sent down by mistake, which would then go up
    again and could circle. The topmost switches only choose among the links to the destination's leaf: there sources
    make no difference.
    """
    if not near.tiers.uppers.get(dpid):
        return None, None
    below = near.below(dpid)
    here = {text for switch in below for host in near.hosts_of.get(switch, ()) for text in host.addresses}
    numbers = {int(a) for a in map(ipaddress.ip_address, here) if a.version == version}
    found = blocks({address: True if address in numbers else None for address in _known(near, version)}, _BITS[version])
    if len(found) != 1:
        return None
    return (found[0].value, found[0].mask), here
