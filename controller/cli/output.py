"""Where output goes: answers on standard output, everything else on standard error; and protobuf as plain JSON.

What the tables look like is decided in `tables`.
"""

import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from google.protobuf.message import Message

# Without a terminal there is no width to ask for; a pipe is read by people and by grep, who want whole names.
_PIPE_WIDTH = 120


def stdout() -> Console:
    return _console(stderr=False)


def stderr() -> Console:
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if "COLUMNS" in os.environ or stream.isatty() else _PIPE_WIDTH
    return Console(stderr=stderr, width=width, highlight=False)


def say(text: str) -> None:
    """A remark for people, on standard error, so that it never mixes with machine output."""
    stderr().print(text, markup=False, soft_wrap=True)


def complain(problems: Iterable[str]) -> None:
    for problem in problems:
        say(f"heddle: {problem}")


def print_json(value: Any, *, compact: bool = False) -> None:
    """One JSON document on standard output; `compact` puts it on one line, for streams of documents."""
    print(json.dumps(value, indent=None if compact else 2, ensure_ascii=False), flush=True)


def as_plain(message: "Message") -> dict[str, Any]:
    """Protobuf JSON with the field names of the .proto files, every field present (but unset `optional` ones), and
    64-bit integers as numbers.

    The canonical mapping writes 64-bit integers as strings for JavaScript's sake; jq and Python read numbers.
    """
    from google.protobuf.json_format import MessageToDict

    plain: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    _numbers_for_strings(plain, message.DESCRIPTOR)
    return plain


def _numbers_for_strings(plain: dict[str, Any], descriptor: Any) -> None:
    wide = {descriptor.fields[0].CPPTYPE_INT64, descriptor.fields[0].CPPTYPE_UINT64} if descriptor.fields else set()
    for field in descriptor.fields:
        value = plain.get(field.name)
        if value is None:
            continue
        if field.cpp_type in wide:
            plain[field.name] = [int(v) for v in value] if isinstance(value, list) else int(value)
        elif field.message_type is not None:
            for inner in value if isinstance(value, list) else [value]:
                _numbers_for_strings(inner, field.message_type)
