"""A small and safe XML reader: elements with their lines, and none of what makes XML dangerous.

It decides what XML we take: no document type, hence no entities of its own and nothing fetched; bounded depth and
number of elements. Namespaces are dropped, because minigraphs put the same element in several.
"""

from dataclasses import dataclass, field
from xml.parsers import expat

MAX_DEPTH = 64
MAX_ELEMENTS = 2_000_000


class XmlFaultError(Exception):
    """`line` counts from 1."""

    def __init__(self, line: int, what: str, cure: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line, self.what, self.cure = line, what, cure


@dataclass(slots=True)
class Element:
    """`tag` and the keys of `attributes` come without namespace; `text` is all text directly inside, stripped."""

    tag: str
    line: int
    attributes: dict[str, str]
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def all(self, *path: str) -> list["Element"]:
        """Every element at that path below this one."""
        found = [self]
        for tag in path:
            found = [child for element in found for child in element.children if child.tag == tag]
        return found

    def get(self, tag: str) -> str:
        """The text of the first child with that tag; empty when there is none."""
        return next((child.text for child in self.children if child.tag == tag), "")


def parse(text: str) -> Element:
    """The root element. Raises XmlFaultError."""
    builder = _Builder()
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise XmlFaultError(1, "a character that is not valid Unicode", "save the file as UTF-8") from None
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        what = f"not well-formed XML: {expat.ErrorString(error.code)} (column {error.offset + 1})"
        raise XmlFaultError(error.lineno, what, "close every element, and quote every attribute") from None
    if builder.root is None:
        raise XmlFaultError(1, "no element at all", "is this the right file?")
    return builder.root


class _Builder:
    def __init__(self) -> None:
        # The text is UTF-8 by now, whatever its declaration says.
        self.parser = expat.ParserCreate("utf-8")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.buffer_text = True
        self.root: Element | None = None
        self._open: list[Element] = []
        self._count = 0

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        self._count += 1
        if len(self._open) >= MAX_DEPTH or self._count > MAX_ELEMENTS:
            raise XmlFaultError(line, "too deep or too many elements", "is this the right file?")
        element = Element(_local(tag), line, {_local(key): value for key, value in attributes.items()})
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, _tag: str) -> None:
        element = self._open.pop()
        element.text = element.text.strip()

    def _characters(self, data: str) -> None:
        if self._open:
            self._open[-1].text += data

    def _doctype(self, *_: object) -> None:
        line = self.parser.CurrentLineNumber
        raise XmlFaultError(line, "a document type (DOCTYPE), which may hide entities", "remove it")


def _local(name: str) -> str:
    return name.rpartition(":")[2]
