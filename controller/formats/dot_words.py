"""Graphviz's language, cut into words: names, signs, quoted text; remarks dropped.

It decides spelling only. Source: graphviz.org/doc/info/lang.html.
"""

import re
from dataclasses import dataclass


class DotFaultError(Exception):
    """`line` counts from 1."""

    def __init__(self, line: int, what: str, cure: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line, self.what, self.cure = line, what, cure


@dataclass(frozen=True, slots=True)
class Word:
    """`kind` is "name", "sign" or "end"."""

    kind: str
    text: str
    line: int
    quoted: bool = False


_WORD = re.compile(
    r"""
    (?P<space>\s+ | //[^\n]* | \#[^\n]* | /\*.*?\*/)
  | "(?P<quoted>(?:[^"\\]|\\.)*)"
  | (?P<name>-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?![\w]) | [^\W\d]\w*(?:[./]\w+)*)
  | (?P<sign>-- | -> | [{}\[\];,:=+])
    """,
    re.VERBOSE | re.DOTALL,
)


def words(text: str) -> list[Word]:
    """All words and an "end". Raises DotFaultError at the first character that begins none."""
    found: list[Word] = []
    position, line = 0, 1
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            raise DotFaultError(line, *_complaint(text, position))
        if match["quoted"] is not None:
            # Graphviz knows two escapes in a plain string: a quote, and a line that goes on.
            plain = match["quoted"].replace("\\\n", "").replace('\\"', '"')
            found.append(Word("name", plain, line, quoted=True))
        elif match["name"] is not None:
            found.append(Word("name", match["name"], line))
        elif match["sign"] is not None:
            found.append(Word("sign", match["sign"], line))
        line += text.count("\n", position, match.end())
        position = match.end()
    return [*found, Word("end", "", line)]


def _complaint(text: str, position: int) -> tuple[str, str]:
    if text[position] == '"':
        return "a quote that is never closed", 'add the closing "'
    if text.startswith("/*", position):
        return "a remark that is never closed", "add the closing */"
    return f"the character {text[position]!r}", "put names with such characters in double quotes"
