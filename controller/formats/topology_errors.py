"""Turns pydantic's complaints about a topology file into sentences with a cure.

It decides wording only. The cure of a wrong value is its field's own description and example, from `topology_schema`.
"""

import difflib
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from controller.formats.topology_checks import Finding
from controller.formats.topology_schema import NicEntry, TopologyFile
from controller.formats.yaml_lines import Location

_TYPE_WORDS = {
    "str": "text",
    "int": "number",
    "float": "number",
    "bool": "yes/no value",
    "list": "list",
    "dict": "block",
}


def finding_of(error: Any, value: Any) -> Finding:
    """A finding from one entry of `ValidationError.errors()` and the value it is about."""
    location: Location = tuple(error["loc"])
    key = str(location[-1]) if location else "file"
    if len(location) > 1 and location[0] == "aliases":
        return _alias_finding(location, value)
    match error["type"]:
        case "extra_forbidden":
            return Finding(location, f'unknown key "{key}"{_inside(location)}', _known_keys(location, key))
        case "missing":
            return Finding(location, f'missing key "{key}"{_inside(location)}', _add(location))
        case "place":
            return Finding(location, f'missing key "at"{_inside((*location, "at"))}', _add((*location, "at")))
        case "nics":
            return Finding((*location, "nics"), f"{_path(location)}: {error['msg']}", "or give the host one interface")
        case "greater_than_equal" | "less_than_equal":
            word = "at least" if error["type"] == "greater_than_equal" else "at most"
            limit = error["ctx"].get("ge", error["ctx"].get("le"))
            return Finding(location, f"{_path(location)} is {value}, it must be {word} {limit}", _write(location))
        case "string_too_long" | "too_long":
            return Finding(location, f"{_path(location)} is longer than {error['ctx']['max_length']}", "shorten it")
        case "string_pattern_mismatch" | "literal_error":
            return Finding(location, f"{_path(location)} is {_shown(value)}", _write(location))
        case "rate" | "mac" | "ipv4" | "port" | "size":
            return Finding(location, f"{_path(location)}: {error['msg']}", _write(location))
        case _:
            kind = _TYPE_WORDS.get(type(value).__name__, "empty" if value is None else "value")
            return Finding(location, f"{_path(location)} is {_article(kind)}{_shown_in(value)}", _write(location))


def _alias_finding(location: Location, value: Any) -> Finding:
    """`location` is (aliases, the alias) for a wrong name, and has one part more for a wrong alias."""
    alias = _shown(str(location[1]))
    if len(location) > 2:
        what, cure = f"alias {alias} is no name", "write letters, digits, dot, dash, underscore or colon, 253 at most"
    else:
        what, cure = f"alias {alias} stands for {_shown(value)}", "write the name of a host"
    return Finding(location[:2], what, f'{cure}, for example "aliases: {{gpu-1-0: h1_1}}"')


def _models() -> dict[str, type[BaseModel]]:
    """The model that each key of the file's top level holds."""
    found: dict[str, type[BaseModel]] = {}
    for name, info in TopologyFile.model_fields.items():
        for argument in get_args(info.annotation):
            if isinstance(argument, type) and issubclass(argument, BaseModel):
                found[name] = argument
    return found | {"nics": NicEntry}


_NESTED = _models()


def _model_at(location: Location) -> type[BaseModel]:
    """The model whose key is the last part of `location`."""
    around = [part for part in location[:-1] if part in _NESTED]
    return _NESTED[str(around[-1])] if around else TopologyFile


def _field_at(location: Location) -> FieldInfo | None:
    if location and isinstance(location[-1], int):
        location = location[:-1]
    return _model_at(location).model_fields.get(str(location[-1])) if location else None


def _expected(location: Location) -> str:
    info = _field_at(location)
    if info is None or info.description is None:
        return "see docs/topology-files.md"
    example = f', for example "{_example(location, info.examples[0])}"' if info.examples else ""
    return info.description.partition("; left out")[0] + example


def _example(location: Location, value: Any) -> str:
    """ "dpid: 0x101"; for an entry of a list "- {name: h1_1, at: leaf1}"."""
    key = location[-1]
    if isinstance(key, int):
        return f"- {_flow(value[0])}"
    return f"{key}: {value:#x}" if key == "dpid" else f"{key}: {_flow(value)}"


def _flow(value: Any) -> str:
    """YAML's flow style, for the few plain values that are examples."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    return "[" + ", ".join(map(_flow, value)) + "]" if isinstance(value, list) else str(value)


def _add(location: Location) -> str:
    return f"add it: {_expected(location)}"


def _write(location: Location) -> str:
    return f"write {_expected(location)}"


def _known_keys(location: Location, key: str) -> str:
    known = list(_model_at(location).model_fields)
    close = difflib.get_close_matches(key, known, n=1)
    return f'did you mean "{close[0]}"?' if close else f"remove it; known keys here: {', '.join(known)}"


def _path(location: Location) -> str:
    """ "links[3].a"; list positions count from 0, as in every YAML and JSON tool."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the file"


def _inside(location: Location) -> str:
    return f" in {_path(location[:-1])}" if len(location) > 1 else ""


def _shown(value: Any) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _shown_in(value: Any) -> str:
    return f" ({_shown(value)})" if isinstance(value, str | int | float) else ""


def _article(kind: str) -> str:
    return kind if kind in ("empty", "text") else f"a {kind}"
