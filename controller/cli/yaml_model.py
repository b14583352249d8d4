"""Reads a YAML or JSON file into a pydantic model, or says everything that is wrong with it, with lines and cures.

It decides wording only. Every field's first example serves as its cure; what a field may hold is the model's to say.
"""

from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from controller.cli.units import parse_size
from controller.formats.problems import FileFormatError, FileProblem
from controller.formats.yaml_lines import Document, YamlFaultError, read_yaml

LARGEST_FILE_BYTES = 16 * 1024 * 1024

Location = tuple[int | str, ...]
_Model = TypeVar("_Model", bound=BaseModel)


class Entry(BaseModel):
    """What every model of such a file is: strict, without unknown keys."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


def refuse(kind: str, text: str) -> PydanticCustomError:
    """To be raised by a validator. pydantic takes braces in a template as placeholders, so the text is beside it."""
    return PydanticCustomError(kind, "{text}", {"text": text})


def size_or_number(value: Any) -> Any:
    """For a BeforeValidator: bytes of "256MiB"; what is no text is left for the field to judge."""
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except ValueError as error:
        raise refuse("size", str(error)) from None


def load_model(path: Path, model: type[_Model]) -> tuple[_Model, Document]:
    """The file's values and their lines. FileFormatError lists everything that is wrong with it."""
    name = str(path)
    try:
        document = read_yaml(_text(path))
    except YamlFaultError as error:
        raise FileFormatError(FileProblem(name, f.line, f.what, f.cure) for f in error.faults) from error
    problems = [FileProblem(name, fault.line, fault.what, fault.cure) for fault in document.faults]
    try:
        read = model.model_validate(document.value)
    except ValidationError as error:
        problems += [_problem(name, model, document, details) for details in error.errors()]
        raise FileFormatError(problems) from error
    if problems:
        raise FileFormatError(problems)
    return read, document


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise _whole_file(path, f"larger than {LARGEST_FILE_BYTES} bytes", "name a smaller file")
        # A tab is white space in JSON and an error in YAML; inside a JSON string it would have to be escaped.
        text = path.read_text(encoding="utf-8")
        return text.replace("\t", " ") if path.suffix == ".json" else text
    except UnicodeDecodeError as error:
        raise _whole_file(path, "not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise _whole_file(path, f"cannot be read ({error.strerror})", "check its name and permissions") from error


def _whole_file(path: Path, what: str, cure: str) -> FileFormatError:
    return FileFormatError([FileProblem(str(path), 0, what, cure)])


def _problem(name: str, model: type[BaseModel], document: Document, details: ErrorDetails) -> FileProblem:
    location = details["loc"]
    where = ".".join(map(str, location))
    kind = details["type"]
    if kind == "extra_forbidden":
        return FileProblem(name, document.key_line(*location), f"unknown key {where}", _known_keys(model, location))
    if kind == "missing":
        return FileProblem(name, document.line(*location), f"{where} is missing", f"add it{_example(model, location)}")
    if not location and kind == "model_type":
        first = next(iter(model.model_fields))
        return FileProblem(name, 1, "no keys and values", f"write one key on each line{_example(model, (first,))}")
    message = details["msg"].replace("Input should be", "must be")
    place = f"{where}: " if where else ""
    return FileProblem(name, document.line(*location), f"{place}{message}", f"change it{_example(model, location)}")


def _model_at(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """The model whose key is the last part of `location`."""
    for part in location[:-1]:
        field = model.model_fields.get(str(part))
        inner = _models_in(field.annotation) if field else []
        model = inner[0] if inner else model
    return model


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def _known_keys(model: type[BaseModel], location: Location) -> str:
    known = list(_model_at(model, location).model_fields)
    close = get_close_matches(str(location[-1]), known, n=1)
    return f"did you mean {close[0]}?" if close else f"use only {', '.join(known)}"


def _example(model: type[BaseModel], location: Location) -> str:
    """For the innermost key that has one: ", for example size_bytes: 256MiB"."""
    for depth in range(len(location), 0, -1):
        fields: dict[str, FieldInfo] = _model_at(model, location[:depth]).model_fields
        field = fields.get(str(location[depth - 1]))
        if field is not None and field.examples:
            return f", for example {location[depth - 1]}: {field.examples[0]}"
    return ""
