"""Where output goes: answers on standard output, everything else on standard error; and protobuf as plain JSON.

What the tables look like is decided in `tables`.
"""

import ctypes
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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


@contextmanager
def libraries_aside() -> Iterator[None]:
    """While it lasts, what code in C prints goes to standard error (HiGHS says a word now and then): a document on
    standard output must have it to itself. Nothing of our own may be printed meanwhile."""
    if getattr(sys, "stdout", None) is None:
        # It is closed, so nothing can get into it.
        yield
        return
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        # What C has buffered would come out later, and where it must not.
        ctypes.CDLL(None).fflush(None)
        os.dup2(ours, 1)
        os.close(ours)


def as_plain(message: "Message") -> dict[str, Any]:
    """Protobuf JSON with the field names of the .proto files, every field present (but unset `optional` ones), and
    64-bit integers as numbers.

    The canonical mapping writes 64-bit integers as strings for JavaScript's sake; jq and Python read numbers.
    """
    from google.protobuf.json_format import MessageToDict

    plain: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _tidied(plain, message.DESCRIPTOR)


def _tidied(plain: dict[str, Any], descriptor: Any) -> dict[str, Any]:
    """In the order of the .proto file, with numbers where the canonical mapping has 64-bit integers as text."""
    return {field.name: _value(plain[field.name], field) for field in descriptor.fields if field.name in plain}


def _value(value: Any, field: Any) -> Any:
    if isinstance(value, list):
        return [_value(item, field) for item in value]
    if field.message_type is not None:
        return _tidied(value, field.message_type)
    return int(value) if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else value
