"""One flow table: which rule a packet hits.

Tuple-space search, as in Open vSwitch's classifier (Srinivasan et al., SIGCOMM 1999): rules that look at the same bits
of the same fields share one hash map, so a lookup costs one probe per distinct mask, not one comparison per rule.
Matching looks at fields only; whether a rule is well-formed is decided in `tables`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.pipeline.rules import Match, Rule


@dataclass(slots=True)
class Entry:
    """A rule in a table, with its counters. `sequence` orders entries by when they came in."""

    rule: Rule
    sequence: int
    packets: int = 0
    size_bytes: int = 0


# Per field: name, mask (None: all bits), and what an absent field reads as. Only a missing VLAN tag has a value of
# its own, OFPVID_NONE; any other absent field matches nothing.
_Signature = tuple[tuple[str, int | None, int | None], ...]


def _signature(match: Match) -> _Signature:
    return tuple((field.name, field.mask, 0 if field.name == "vlan_vid" else None) for field in match)


class _Subtable:
    """The entries of one signature, by the values of the signature's fields; highest priority first."""

    __slots__ = ("entries", "max_priority", "signature")

    def __init__(self, signature: _Signature) -> None:
        self.signature = signature
        self.entries: dict[tuple[int, ...], list[Entry]] = {}
        self.max_priority = -1

    def find(self, headers: Mapping[str, int]) -> list[Entry] | None:
        key = []
        for name, mask, absent in self.signature:
            value = headers.get(name, absent)
            if value is None:
                return None
            key.append(value if mask is None else value & mask)
        return self.entries.get(tuple(key))

    def put(self, entry: Entry) -> None:
        column = self.entries.setdefault(tuple(field.value for field in entry.rule.match), [])
        column.append(entry)
        column.sort(key=_rank)
        self.max_priority = max(self.max_priority, entry.rule.priority)

    def remove(self, entry: Entry) -> None:
        key = tuple(field.value for field in entry.rule.match)
        column = self.entries[key]
        column.remove(entry)
        if not column:
            del self.entries[key]
        # Only the highest rule's going changes the maximum, and tables shrink rarely.
        if entry.rule.priority == self.max_priority:
            self.max_priority = max((column[0].rule.priority for column in self.entries.values()), default=-1)


def _rank(entry: Entry) -> tuple[int, int]:
    return (-entry.rule.priority, entry.sequence)


class FlowTable:
    """Rules by identity (priority, match) and by what they match."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[int, Match], Entry] = {}
        self._subtables: dict[_Signature, _Subtable] = {}
        self._by_priority: list[_Subtable] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._by_key.values())

    def __contains__(self, rule: Rule) -> bool:
        return (rule.priority, rule.match) in self._by_key

    def put(self, rule: Rule) -> None:
        """Adds, or overwrites the rule with the same priority and match and keeps its counters."""
        present = self._by_key.get((rule.priority, rule.match))
        if present is not None:
            present.rule = rule
            return
        self._sequence += 1
        entry = Entry(rule, self._sequence)
        self._by_key[rule.priority, rule.match] = entry
        signature = _signature(rule.match)
        self._subtables.setdefault(signature, _Subtable(signature)).put(entry)
        self._order()

    def remove(self, rule: Rule) -> None:
        """Removes the rule with this priority and match; none is no error, as in OpenFlow."""
        entry = self._by_key.pop((rule.priority, rule.match), None)
        if entry is None:
            return
        signature = _signature(rule.match)
        subtable = self._subtables[signature]
        subtable.remove(entry)
        if not subtable.entries:
            del self._subtables[signature]
        self._order()

    def snapshot(self) -> list[tuple[Entry, Rule]]:
        """What `restore` takes to undo everything that happens to the table from now on, counters apart."""
        return [(entry, entry.rule) for entry in self]

    def restore(self, entries: list[tuple[Entry, Rule]]) -> None:
        self._by_key.clear()
        self._subtables.clear()
        for entry, rule in entries:
            entry.rule = rule
            self._by_key[rule.priority, rule.match] = entry
            signature = _signature(rule.match)
            self._subtables.setdefault(signature, _Subtable(signature)).put(entry)
        self._order()

    def lookup(self, headers: Mapping[str, int]) -> Entry | None:
        """The matching entry of highest priority; among equals, which OpenFlow leaves open, the oldest."""
        best: Entry | None = None
        for subtable in self._by_priority:
            if best is not None and best.rule.priority > subtable.max_priority:
                break
            column = subtable.find(headers)
            if column and (best is None or _rank(column[0]) < _rank(best)):
                best = column[0]
        return best

    def rivals(self, headers: Mapping[str, int], winner: Entry) -> list[Entry]:
        """Other matching entries of the winner's priority: OpenFlow does not say which of them applies."""
        columns = (subtable.find(headers) or [] for subtable in self._by_priority)
        priority = winner.rule.priority
        return [entry for column in columns for entry in column if entry.rule.priority == priority and entry != winner]

    def _order(self) -> None:
        self._by_priority = sorted(self._subtables.values(), key=lambda subtable: -subtable.max_priority)
