"""How every reader of a file says what is wrong with it: place, fault and cure, all of them at once.

It decides only the spelling. What counts as a problem is decided by each reader.
"""

from collections.abc import Iterable
from dataclasses import dataclass

# Past this many, one more line helps nobody; the rest is counted instead.
MAX_PRINTED = 50


@dataclass(frozen=True, slots=True)
class FileProblem:
    """One fault. `line` counts from 1; 0 means the file as a whole. `cure` is an imperative without a full stop."""

    file: str
    line: int
    what: str
    cure: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return _printable(f"{place}: {self.what}; {self.cure}")


def _printable(text: str) -> str:
    """One line that a terminal can show, whatever the file made us quote."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class FileFormatError(Exception):
    """A file that cannot be used. `problems` lists every fault found, in the order of the file; `str()` prints them."""

    def __init__(self, problems: Iterable[FileProblem]) -> None:
        self.problems = tuple(sorted(set(problems), key=lambda problem: (problem.line, problem.what)))
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:MAX_PRINTED]]
        if len(self.problems) > MAX_PRINTED:
            lines.append(f"and {len(self.problems) - MAX_PRINTED} more problems")
        return "\n".join(lines)
