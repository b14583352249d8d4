"""A job from command line options: the same fields as a job file, in shell spelling. It decides the spelling only."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from controller.cli.errors import bad_input
from controller.cli.job_file import JobFile, load_job
from controller.cli.units import parse_size
from controller.fabric.host_lists import HostListError, expand

# Field of the job, the option that gives it.
OPTIONS = {"job_id": "--job", "operation": "--op", "size_bytes": "--bytes", "ranks": "--ranks"}


def job_of(
    file: Path | None, flags: Mapping[str, object], otherwise: Mapping[str, object] = MappingProxyType({})
) -> JobFile:
    """The job of a file, or of options; `otherwise` is what options that were left out mean."""
    if file is None:
        return job_from_flags({**otherwise, **flags})
    if flags:
        raise bad_input("the job file says everything: change it there, or leave the file out and use options only")
    return load_job(file)


def job_from_flags(flags: Mapping[str, object]) -> JobFile:
    """`flags` holds what was given: field name to the option's value. CommandError lists everything that is wrong."""
    fields, problems = fields_of(flags)
    missing = [option for field, option in OPTIONS.items() if field not in flags]
    if len(missing) == len(OPTIONS):
        problems.insert(0, f"say what to announce: a job file, an NCCL log (--nccl-log), or {', '.join(missing)}")
    elif missing:
        problems.insert(0, f"missing: {', '.join(missing)}")
    if problems:
        raise bad_input(problems)
    return JobFile.model_validate(fields)


def fields_of(flags: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """The job's fields from the options that were given, and what is wrong with those."""
    fields, problems = dict(flags), []
    for field, read in (("size_bytes", _size), ("ranks", _ranks), ("rings", _rings), ("phase", _phase)):
        if field not in flags:
            continue
        try:
            fields[field] = read(flags[field])
        except ValueError as error:
            problems.append(str(error))
    return fields, problems


def _size(value: object) -> int:
    try:
        return parse_size(str(value))
    except ValueError as error:
        raise ValueError(f"--bytes: {error}") from None


def _ranks(value: object) -> list[str]:
    if "[" in str(value):
        try:
            return list(expand(str(value)))
        except HostListError as error:
            raise ValueError(f"--ranks: {error}") from None
    ranks = [rank.strip() for rank in str(value).split(",")]
    if not all(ranks):
        raise ValueError("--ranks: an empty name between commas: write --ranks h1,h2,h3, one host for each rank")
    return ranks


def _rings(value: object) -> list[list[int]]:
    """Each option holds one ring, or several with semicolons between them."""
    texts: Sequence[str] = [
        part for text in (value if isinstance(value, list) else [str(value)]) for part in text.split(";")
    ]
    try:
        return [[_rank(rank) for rank in text.split(",")] for text in texts]
    except ValueError:
        raise ValueError(
            "--rings: write rank numbers with commas, for example --rings 0,1,2,3 --rings 0,2,1,3"
        ) from None


def _phase(value: object) -> dict[str, object]:
    iteration, _, number = str(value).rpartition(":")
    if not iteration or not number.strip().isdecimal():
        raise ValueError("--phase: write the iteration's name, a colon and a number, for example --phase llama-70b:1")
    return {"iteration": iteration, "number": int(number)}


def _rank(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(text)
    return int(text)
