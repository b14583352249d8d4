"""Host-list expressions ("node[001-004,007]"), as Slurm and its neighbours write them, within bounds.

Expansion and collection are python-hostlist's. This module decides what reaches it: nothing that means "no host"
("(null)"), nothing that would fill the memory, nothing that is no host name.
"""

import re
from collections.abc import Iterable

import hostlist

# 100,000 nodes are several times the largest cluster; python-hostlist has the same limit for one part.
MAX_HOSTS = 100_000
# A list of 100,000 names, written out.
MAX_CHARACTERS = 4_000_000
_MAX_BRACKETS = 8
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MAX_DIGITS = 12
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


class HostListError(ValueError):
    """`what` is wrong and `cure` says what to write instead."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(f"{what}; {cure}")
        self.what = what
        self.cure = cure


def expand(expression: str, limit: int = MAX_HOSTS) -> tuple[str, ...]:
    """The hosts of an expression, in its order, each once. Raises HostListError; the result has 1 to `limit` names."""
    if len(expression) > MAX_CHARACTERS:
        raise HostListError(f"a host list of {len(expression)} characters", "split it over several entries")
    text = expression.strip()
    if text.lower() in ("", "(null)", "n/a"):
        raise HostListError(f'"{text}" stands for no host at all', "name the hosts, or leave the entry out")
    if found := re.search(r"[\s()=\"'#\\]|[^ -~]", text):
        what = f'character {found[0]!r} in host list "{_short(text)}"'
        raise HostListError(what, "separate hosts by commas without spaces, as in node[1-4],login1")
    if "[" not in text and "]" not in text:
        names = [name for name in text.split(",") if name]
        if len(names) != text.count(",") + 1:
            raise HostListError(f'an empty name in host list "{_short(text)}"', "remove the comma too many")
        _check_count(len(names), text, limit)
        return tuple(dict.fromkeys(names))
    _check_size(text, limit)
    try:
        names = hostlist.expand_hostlist(text)
    except hostlist.BadHostlist as error:
        raise HostListError(f'host list "{_short(text)}": {error}', "write it as in node[001-004,007]") from None
    _check_count(len(names), text, limit)
    return tuple(names)


def collect(hosts: Iterable[str]) -> str:
    """The shortest usual expression for these names, which `expand` gives back (in another order perhaps)."""
    return str(hostlist.collect_hostlist(list(hosts)))


def _check_size(text: str, limit: int) -> None:
    """Counts before anything is expanded."""
    total = 0
    for part in re.split(r",(?![^\[\]]*\])", text):
        if not part:
            raise HostListError(f'an empty name in host list "{_short(text)}"', "remove the comma too many")
        brackets = _BRACKETS.findall(part)
        if len(brackets) > _MAX_BRACKETS:
            raise HostListError(f'more than {_MAX_BRACKETS} brackets in "{_short(part)}"', "write it as several names")
        count = 1
        for ranges in brackets:
            count *= sum(_size(each, text) for each in ranges.split(","))
        total += count
        _check_count(total, text, limit)


def _size(one: str, text: str) -> int:
    found = _RANGE.fullmatch(one)
    if found is None:
        raise HostListError(f'"{_short(one)}" in host list "{_short(text)}" is no range', "write 3, 07 or 1-16")
    low, high = found[1], found[2] or found[1]
    if max(len(low), len(high)) > _MAX_DIGITS:
        raise HostListError(f'a number of {max(len(low), len(high))} digits in "{_short(text)}"', "write a shorter one")
    if int(high) < int(low):
        raise HostListError(f'range "{one}" in host list "{_short(text)}" runs backwards', f"write {high}-{low}")
    return int(high) - int(low) + 1


def _check_count(count: int, text: str, limit: int) -> None:
    if count > limit:
        raise HostListError(f'host list "{_short(text)}" has {count} names, the limit is {limit}', "shorten its ranges")


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
