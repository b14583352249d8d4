"""Which host is meant: short name, full domain name, pod name, "ip-10-1-2-3", address, alias, host-list expression.

It decides among hosts that are known; where several fit equally well, none is taken and all are named. Surer ways go
first, so that a host really called "ip-10-1-2-3" is found by its name.
"""

import difflib
import ipaddress
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.fabric.host_lists import HostListError, expand

_IP_NAME = re.compile(r"ip-((?:[0-9]{1,3}-){3}[0-9]{1,3})(?:\..*)?", re.ASCII | re.IGNORECASE)
# Comparing a name with another takes some 10 microseconds.
_MOST_COMPARED = 2000


@dataclass(frozen=True, slots=True)
class Found:
    """`name` is the host's own name; where it is None, `why` is a sentence without the spelling's place."""

    name: str | None
    why: str = ""


class Names:
    """Made by `resolver`. Looking a name up takes constant time."""

    def __init__(self, hosts: Mapping[str, Iterable[str]], aliases: Mapping[str, str]) -> None:
        self._hosts = frozenset(hosts)
        self._aliases = {alias.casefold(): name for alias, name in aliases.items()}
        self._sorted: list[str] | None = None
        self._addresses: dict[str, set[str]] = defaultdict(set)
        self._whole: dict[str, set[str]] = defaultdict(set)
        self._short: dict[str, set[str]] = defaultdict(set)
        for name, addresses in hosts.items():
            self._whole[_tidy(name)].add(name)
            self._short[_first_label(name)].add(name)
            for address in addresses:
                self._addresses[_address(address) or address].add(name)

    def find(self, text: str) -> Found:
        """The one host that this spelling means."""
        if text in self._hosts:
            return Found(text)
        for candidates in self._ways(text):
            if len(candidates) == 1:
                return Found(next(iter(candidates)))
            if candidates:
                listed = ", ".join(sorted(candidates)[:5])
                return Found(None, f"{text!r} could be any of {listed}")
        return Found(None, f"no host {text!r} on this fabric")

    def near(self, text: str) -> tuple[str, ...]:
        """At most three names and aliases that are spelled much like this one, or like it without its domain."""
        if self._sorted is None:
            self._sorted = sorted({**dict.fromkeys(self._aliases), **{_tidy(name): None for name in self._hosts}})
        found: list[str] = []
        for spelled in dict.fromkeys((_tidy(text), _first_label(text))):
            around = self._sorted
            if len(around) > _MOST_COMPARED:
                # Names of one cluster begin alike: those that come next in order are the likeliest.
                at = bisect_left(around, spelled)
                around = around[max(0, at - _MOST_COMPARED // 2) : at + _MOST_COMPARED // 2]
            found += difflib.get_close_matches(spelled, around, n=3)
        return tuple(dict.fromkeys(found))[:3]

    def _ways(self, text: str) -> Iterable[set[str]]:
        """Candidates by each way in turn, the surest first."""
        yield self._addresses.get(_address(text) or text, set())
        alias = self._aliases.get(_tidy(text))
        yield {alias} & self._hosts if alias is not None else set()
        yield self._whole.get(_tidy(text), set())
        if found := _IP_NAME.fullmatch(text):
            yield self._addresses.get(_address(found[1].replace("-", ".")) or "", set())
        if _address(text) is None:
            alias = self._aliases.get(_first_label(text))
            yield {alias} & self._hosts if alias is not None else set()
            # Two full names of different domains are two hosts, however alike they begin; unless one of them is short.
            near = self._short.get(_first_label(text), set())
            yield {name for name in near if "." not in name.strip(".") or "." not in text.strip(".")}

    def expand(self, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(hosts, one sentence for each name that means none) of a name or a host-list expression."""
        whole = self.find(text)
        if whole.name is not None:
            return (whole.name,), ()
        try:
            spelled = expand(text)
        except HostListError as error:
            return (), (str(error),)
        found = [self.find(each) for each in spelled]
        return tuple(f.name for f in found if f.name is not None), tuple(f.why for f in found if f.name is None)


def resolver(hosts: Mapping[str, Iterable[str]], aliases: Mapping[str, str] | None = None) -> Names:
    """For `hosts` (name -> addresses) and `aliases` (another spelling -> host name)."""
    return Names(hosts, aliases or {})


def _tidy(text: str) -> str:
    """Domain names know no case, and may end in a dot."""
    return text.casefold().rstrip(".")


def _first_label(text: str) -> str:
    return _tidy(text).partition(".")[0]


def _address(text: str) -> str | None:
    """The usual spelling of an IPv4 or IPv6 address, None for anything else."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
