"""Reads a job file: one collective in YAML or JSON. It decides the form of the file only.

Whether the ranks exist and the rings visit every rank is the controller's to say: it knows the fabric, and it lists
all such problems in one answer. The keys are the field names of `Collective` in proto/heddle/v1/collective.proto.
"""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from controller.cli.units import parse_size
from controller.formats.problems import FileFormatError, FileProblem
from controller.formats.yaml_lines import Document, YamlFaultError, read_yaml
from controller.jobs.collective import Algorithm, Operation

LARGEST_FILE_BYTES = 16 * 1024 * 1024


def _size(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except ValueError as error:
        # pydantic takes braces in a template as placeholders, so the text is passed beside it.
        raise PydanticCustomError("size", "{text}", {"text": str(error)}) from None


Rank = Annotated[int, Field(ge=0)]
UdpPort = Annotated[int, Field(ge=1, le=65535)]


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class QueuePairPortsEntry(_Entry):
    src_rank: Rank = Field(examples=["0"])
    dst_rank: Rank = Field(examples=["1"])
    udp_source_ports: list[UdpPort] = Field(examples=["[49152, 49153]"])


class JobFile(_Entry):
    """One collective. `size_bytes` takes a unit too ("256MiB"); `rings` holds a list of rank numbers per channel."""

    job_id: str = Field(examples=["llama-70b"])
    # Strictness refuses text for an enumeration, and text is all that YAML has.
    operation: Operation = Field(strict=False, examples=["all-reduce"])
    algorithm: Algorithm | None = Field(default=None, strict=False, examples=["ring"])
    ranks: list[str] = Field(examples=["[h1_1, h1_2, h2_1, h2_2]"])
    size_bytes: Annotated[int, BeforeValidator(_size), Field(ge=1, lt=2**64)] = Field(examples=["256MiB"])
    rings: list[list[Rank]] = Field(default=[], examples=["[[0, 1, 2, 3]]"])
    queue_pairs: int = Field(default=1, ge=1, lt=2**32, examples=["4"])
    ports: list[QueuePairPortsEntry] = Field(
        default=[], examples=["[{src_rank: 0, dst_rank: 1, udp_source_ports: [49152]}]"]
    )
    ranks_per_host: int = Field(default=0, ge=0, lt=2**32, examples=["8"])
    priority: int = Field(default=0, ge=0, le=7, examples=["1"])


def load_job(path: Path) -> JobFile:
    """The file's collective. FileFormatError lists everything that is wrong with it, with lines and cures."""
    name = str(path)
    try:
        document = read_yaml(_text(path))
    except YamlFaultError as error:
        raise FileFormatError(FileProblem(name, f.line, f.what, f.cure) for f in error.faults) from error
    problems = [FileProblem(name, fault.line, fault.what, fault.cure) for fault in document.faults]
    try:
        job = JobFile.model_validate(document.value)
    except ValidationError as error:
        problems += [_problem(name, document, details) for details in error.errors()]
        raise FileFormatError(problems) from error
    if problems:
        raise FileFormatError(problems)
    return job


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise _whole_file(path, f"larger than {LARGEST_FILE_BYTES} bytes", "name a job file")
        # A tab is white space in JSON and an error in YAML; inside a JSON string it would have to be escaped.
        text = path.read_text(encoding="utf-8")
        return text.replace("\t", " ") if path.suffix == ".json" else text
    except UnicodeDecodeError as error:
        raise _whole_file(path, "not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise _whole_file(path, f"cannot be read ({error.strerror})", "check its name and permissions") from error


def _whole_file(path: Path, what: str, cure: str) -> FileFormatError:
    return FileFormatError([FileProblem(str(path), 0, what, cure)])


def _problem(name: str, document: Document, details: ErrorDetails) -> FileProblem:
    location = details["loc"]
    where = ".".join(map(str, location))
    kind = details["type"]
    if kind == "extra_forbidden":
        return FileProblem(name, document.key_line(*location), f"unknown key {where}", _cure_for_unknown(location))
    if kind == "missing":
        return FileProblem(name, document.line(*location), f"{where} is missing", f"add it{_example(location)}")
    if not location:
        return FileProblem(name, 1, "no keys and values", f"write one key on each line{_example(('job_id',))}")
    message = details["msg"].replace("Input should be", "must be")
    return FileProblem(name, document.line(*location), f"{where}: {message}", f"change it{_example(location)}")


def _keys_at(location: tuple[int | str, ...]) -> type[BaseModel]:
    return QueuePairPortsEntry if location[:1] == ("ports",) and len(location) > 2 else JobFile


def _cure_for_unknown(location: tuple[int | str, ...]) -> str:
    known = list(_keys_at(location).model_fields)
    close = get_close_matches(str(location[-1]), known, n=1)
    return f"did you mean {close[0]}?" if close else f"use only {', '.join(known)}"


def _example(location: tuple[int | str, ...]) -> str:
    """For the innermost key that has one: ", for example size_bytes: 256MiB"."""
    for depth in range(len(location), 0, -1):
        field = _keys_at(location[:depth]).model_fields.get(str(location[depth - 1]))
        if field is not None and field.examples:
            return f", for example {location[depth - 1]}: {field.examples[0]}"
    return ""
