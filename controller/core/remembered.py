"""What outlives a restart of the controller: the words in which the core and a store speak about it.

Decides nothing. What is worth remembering, and when, is `memory`'s; how it is kept is the shell's. Whatever a switch
tells by itself (rules, counters) is not part of it; cables are, because it takes two switches to show one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.fabric.model import Path, PortRef
from controller.jobs.collective import Collective

# Its two ends, in order: a < b.
Cable = tuple[PortRef, PortRef]

# A steerable unit: (source address, destination address, UDP source port or 0). Two jobs that use the same one
# share its rule and its path, and its load is their sum.
Unit = tuple[str, str, int]


# What traffic can be kept off: a switch, by its datapath id, or one cable.
Target = int | Cable


@dataclass(frozen=True, slots=True)
class Avoidance:
    """`reason` is for people. `forced`: traffic is kept off even where nothing else leads, and hosts are cut off."""

    reason: str = ""
    forced: bool = False


@dataclass(frozen=True, slots=True)
class RememberedJob:
    """`ends[i]` is (host name, address) of rank i as it was when the job was announced."""

    collective: Collective
    ends: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Jobs by id, the path of every placed unit, the port behind which each address was seen, switches by dpid, the
    cables that were usable, and what an operator has drained."""

    jobs: Mapping[str, RememberedJob] = field(default_factory=dict)
    paths: Mapping[Unit, Path] = field(default_factory=dict)
    hosts: Mapping[str, PortRef] = field(default_factory=dict)
    switches: frozenset[int] = frozenset()
    cables: frozenset[Cable] = frozenset()
    drains: Mapping[Target, Avoidance] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FactKeys:
    """Which facts are meant."""

    jobs: tuple[str, ...] = ()
    paths: tuple[Unit, ...] = ()
    hosts: tuple[str, ...] = ()
    switches: tuple[int, ...] = ()
    cables: tuple[Cable, ...] = ()
    drains: tuple[Target, ...] = ()
