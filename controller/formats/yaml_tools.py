"""Reading other people's YAML and JSON without trusting its shape: every look finds the right type or a problem.

It decides how a value of the wrong type is reported; what the values mean is each reader's own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from controller.formats.plan_builder import PlanBuilder, PlanFileError
from controller.formats.yaml_lines import Document, Location, YamlFaultError, read_yaml

# A topograph model names each of its switches by a key.
_MAX_KEYS = 100_000


@dataclass(frozen=True, slots=True)
class Node:
    """A value, where it stands, and whom to tell what is wrong with it. Every method survives any value."""

    value: Any
    location: Location
    document: Document
    builder: PlanBuilder

    @property
    def line(self) -> int:
        return self.document.key_line(*self.location)

    @property
    def path(self) -> str:
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.location)
        return "".join(parts).lstrip(".") or "the file"

    def get(self, key: str) -> "Node":
        """The value of a key, or a node whose value is None."""
        inside = self.value.get(key) if isinstance(self.value, dict) else None
        return Node(inside, (*self.location, key), self.document, self.builder)

    def has(self, key: str) -> bool:
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def items(self) -> Iterator[tuple[str, "Node"]]:
        """Of a mapping; absent means empty, anything else is a problem."""
        if isinstance(self.value, dict):
            yield from ((key, self.get(key)) for key in self.value)
        elif self.value is not None:
            self.wrong("a mapping of names", "name:")

    def each(self) -> Iterator["Node"]:
        """Of a list; absent means empty, anything else is a problem."""
        if isinstance(self.value, list):
            for index, value in enumerate(self.value):
                yield Node(value, (*self.location, index), self.document, self.builder)
        elif self.value is not None:
            self.wrong("a list", "- entry")

    def text(self, example: str) -> str | None:
        """A name, also when YAML takes it for a number; None and a problem for anything else."""
        if isinstance(self.value, str) and self.value:
            return self.value
        spelled = self.document.spellings.get(self.location)
        if spelled and self.value is not None and not isinstance(self.value, bool):
            return spelled
        self.wrong("a name", example)
        return None

    def wrong(self, wanted: str, example: str) -> None:
        kind = {dict: "a mapping", list: "a list", str: "text", type(None): "missing"}.get(type(self.value), "a value")
        if isinstance(self.value, dict | list | str) and not self.value:
            kind = "empty"
        self.builder.problem(self.line, f"{self.path} is {kind} where {wanted} belongs", f'write it as "{example}"')


def read_tree(text: str, builder: PlanBuilder) -> Node:
    """The root of a YAML document. Raises PlanFileError when it is none."""
    try:
        document = read_yaml(text, _MAX_KEYS)
    except YamlFaultError as error:
        for fault in error.faults:
            builder.problem(fault.line, fault.what, fault.cure)
        raise PlanFileError(builder.problems) from None
    for fault in document.faults:
        builder.problem(fault.line, fault.what, fault.cure)
    return Node(document.value, (), document, builder)
