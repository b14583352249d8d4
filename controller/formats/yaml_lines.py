"""Reads a YAML text into plain values and remembers on which line each of them stands.

It decides what YAML we take: one document of mappings, lists and scalars, resolved as in YAML 1.2's core schema
(https://yaml.org/spec/1.2.2/#103-core-schema). PyYAML alone resolves by YAML 1.1, where the MAC address
`12:34:56:01:02:03` is a number in base 60 and `0101` is 65, so the scalars are resolved here. Anchors, aliases and
tags are refused: nobody needs them in a file of this size, and they are how a kilobyte becomes a gigabyte.
It does not decide which keys or values make sense.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

# The largest fabric that the schema allows, written out, has 7 MiB.
MAX_BYTES = 16 * 1024 * 1024
# A topology file is three levels deep; what is deeper is an attack or a mistake.
MAX_DEPTH = 16
MAX_KEYS = 64

Scalar = str | int | float | bool | None
Value = Scalar | list["Value"] | dict[str, "Value"]
# Keys and list positions from the document's root.
Location = tuple[str | int, ...]

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,39})|0x[0-9a-fA-F]{1,32}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_LOOKS_NUMERIC = re.compile(r"[-+]?[.0-9][0-9]*([.eExX_].*)?")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class YamlFault:
    """What is wrong with the YAML itself. `line` counts from 1."""

    line: int
    what: str
    cure: str


class YamlFaultError(Exception):
    """The text is not YAML that we take. `faults` has at least one entry."""

    def __init__(self, *faults: YamlFault) -> None:
        super().__init__("; ".join(f"line {fault.line}: {fault.what}" for fault in faults))
        self.faults = faults


@dataclass(slots=True)
class Document:
    """The values, the line of each (`lines`), the line of each mapping key (`key_lines`), spellings of numbers."""

    value: Value = None
    lines: dict[Location, int] = field(default_factory=dict)
    key_lines: dict[Location, int] = field(default_factory=dict)
    # How each number was spelled: a host may be called 1e5.
    spellings: dict[Location, str] = field(default_factory=dict)
    faults: list[YamlFault] = field(default_factory=list)

    def line(self, *location: str | int) -> int:
        """The line of that value, or of the nearest thing around it that the file does have."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)

    def key_line(self, *location: str | int) -> int:
        return self.key_lines.get(location) or self.line(*location)


def resolve(text: str) -> Scalar:
    """The value of a plain (unquoted) scalar by YAML 1.2's core schema, without octal numbers."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 16 if text.startswith("0x") else 10)
    # A leading zero is octal to some readers and decimal to others: it stays text, and the schema will object.
    if _FLOAT.fullmatch(text) and not re.match(r"[-+]?0[0-9]", text) and len(text) <= 64:
        return float(text)
    return text


def needs_quotes(text: str) -> bool:
    """Whether some YAML reader, old or new, would take this plain word for something other than text."""
    return (
        text in _WORDS
        or text.lower() in {"yes", "no", "on", "off", "y", "n"}
        or _LOOKS_NUMERIC.fullmatch(text) is not None
        or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text) is None
    )


def read_yaml(text: str, max_keys: int = MAX_KEYS) -> Document:
    """Raises YamlFaultError when the text cannot be read at all; duplicate keys are listed in `faults` instead.

    `max_keys` bounds each mapping; formats that name things by keys need more than our own.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # The parser in C wants bytes; a lone surrogate cannot be one.
        text.encode("utf-8")
        document = _Composer(yaml.parse(text, Loader=loader), max_keys).document()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise YamlFaultError(YamlFault(line, "a character that is not valid Unicode", "remove it")) from None
    except yaml.YAMLError as error:
        raise YamlFaultError(_syntax_fault(error, text)) from None
    return document


def _syntax_fault(error: yaml.YAMLError, text: str) -> YamlFault:
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        context = f" {error.context}" if error.context else ""
        what = f"not valid YAML: {error.problem or 'unexpected text'}{context} (column {mark.column + 1})"
        return YamlFault(mark.line + 1, what, "check quotes, colons, brackets and indentation just before this place")
    position = getattr(error, "position", None)
    line = text.count("\n", 0, position) + 1 if isinstance(position, int) else 1
    return YamlFault(line, "a character that YAML does not allow", "remove control characters; save the file as UTF-8")


class _Composer:
    """Builds values from PyYAML's events, which carry the lines and never expand anything."""

    def __init__(self, events: Iterator[yaml.Event], max_keys: int) -> None:
        self._events = events
        self._max_keys = max_keys
        self._result = Document()

    def document(self) -> Document:
        event = self._next()
        while isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            return self._result
        self._result.value = self._value(event, ())
        self._next()
        if isinstance(after := self._next(), yaml.DocumentStartEvent):
            raise YamlFaultError(
                YamlFault(_line(after), "a second document starts here", 'keep one, and remove the "---"')
            )
        return self._result

    def _next(self) -> yaml.Event:
        return next(self._events)

    def _value(self, event: yaml.Event, location: Location) -> Value:
        line = _line(event)
        self._result.lines[location] = line
        _refuse_magic(event, line)
        if len(location) > MAX_DEPTH:
            raise YamlFaultError(YamlFault(line, f"nested deeper than {MAX_DEPTH} levels", "write it flatter"))
        if isinstance(event, yaml.ScalarEvent):
            value = resolve(event.value) if event.implicit[0] else str(event.value)
            if not isinstance(value, str):
                self._result.spellings[location] = str(event.value)
            return value
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(location)
        return self._mapping(location)

    def _list(self, location: Location) -> list[Value]:
        items: list[Value] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(event, (*location, len(items))))
        return items

    def _mapping(self, location: Location) -> dict[str, Value]:
        items: dict[str, Value] = {}
        given = 0
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            line = _line(event)
            _refuse_magic(event, line)
            given += 1
            if given > self._max_keys:
                what = f"more than {self._max_keys} keys in one place"
                raise YamlFaultError(YamlFault(line, what, "use lists for many"))
            if not isinstance(event, yaml.ScalarEvent):
                raise YamlFaultError(YamlFault(line, "a key that is not a word", 'write keys as "name: value"'))
            key = str(event.value)
            if key in items:
                first = self._result.key_lines[(*location, key)]
                what = f'key "{key}" is given twice, first on line {first}'
                self._result.faults.append(YamlFault(line, what, "keep one of the two"))
                # The second value is read to get past it, under a place where nobody looks.
                self._value(self._next(), (*location, f"{key} (again on line {line})"))
                continue
            self._result.key_lines[(*location, key)] = line
            items[key] = self._value(self._next(), (*location, key))
        return items


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _refuse_magic(event: yaml.Event, line: int) -> None:
    if anchor := getattr(event, "anchor", None):
        kind = "alias" if isinstance(event, yaml.AliasEvent) else "anchor"
        raise YamlFaultError(YamlFault(line, f'{kind} "{anchor}" is not supported', "write the value out each time"))
    tag = getattr(event, "tag", None)
    # The non-specific tag "!" is what a parser reports for a quoted scalar.
    if tag and tag != "!":
        raise YamlFaultError(YamlFault(line, f'tag "{tag}" is not supported', "remove it and write the plain value"))
