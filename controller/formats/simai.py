"""Workload files of SimAI and its generator AICB: a header, a count, and a line for each layer.

The format is ASTRA-sim's text format with SimAI's groups (aliyun/SimAI, `Workload::initialize_workload`): name,
dependency, then for forward, input gradient and weight gradient each the time in ns, the collective and its bytes, and
the time of the update. Forward and input gradient collectives run among tensor ranks and those of the weight gradient
among data ranks, unless the name ends in _EP or _DP_EP. Decides what a line means and in which order layers run:
forward through all of them, then backward from the last to the first.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from controller.formats.problems import FileFormatError, FileProblem
from controller.formats.workload import Group, Workload, WorkloadStep
from controller.jobs.collective import Operation

HEADS = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER", "MICRO", "DATA", "MODEL")
_OPERATIONS = {
    "ALLREDUCE": Operation.ALL_REDUCE,
    "ALLGATHER": Operation.ALL_GATHER,
    "REDUCESCATTER": Operation.REDUCE_SCATTER,
    "ALLTOALL": Operation.ALL_TO_ALL,
}
_GROUPS = {"_DP_EP": Group.DATA_EXPERT, "_EP": Group.EXPERT}
_SETTING = re.compile(r"([A-Za-z_]+):?\s+([0-9]+)")
_FIELDS = (11, 12)
_NS = 1e-9


@dataclass(frozen=True, slots=True)
class _Layer:
    forward: WorkloadStep
    input_gradient: WorkloadStep
    weight_gradient: WorkloadStep


def read(text: str, filename: str = "<text>") -> Workload:
    """Raises FileFormatError with every wrong line; `filename` is what the problems are reported under."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    problems: list[FileProblem] = []
    if not lines or not lines[0][1].startswith(HEADS):
        cure = f"the first line begins with one of {', '.join(HEADS)}"
        raise FileFormatError([FileProblem(filename, 1, "no SimAI or AICB workload", cure)])
    settings = dict(_SETTING.findall(lines[0][1]))
    layers = [layer for number, line in lines[2:] if (layer := _layer(number, line, filename, problems)) is not None]
    problems += _count_problems(lines, len(lines) - 2, filename)
    if problems:
        raise FileFormatError(problems)
    return Workload(
        source=filename,
        ranks=int(settings.get("all_gpus", 0)),
        tensor=max(int(settings.get("model_parallel_NPU_group", 1)), 1),
        expert=max(int(settings.get("ep", 1)), 1),
        pipeline=max(int(settings.get("pp", 1)), 1),
        steps=tuple(_steps(layers)),
        remarks=tuple(_remarks(settings)),
    )


def _count_problems(lines: list[tuple[int, str]], found: int, filename: str) -> list[FileProblem]:
    if len(lines) < 2 or not lines[1][1].strip().isdecimal():
        number = lines[1][0] if len(lines) > 1 else 1
        return [FileProblem(filename, number, "the number of layers is missing", "write it alone on the second line")]
    said = int(lines[1][1])
    if said != found:
        what = f"{said} layers are announced and {found} are there"
        return [FileProblem(filename, lines[1][0], what, "is the file cut off? Write the number that is there")]
    return []


def _layer(number: int, line: str, filename: str, problems: list[FileProblem]) -> _Layer | None:
    words = line.split()
    if len(words) not in _FIELDS:
        cure = "a layer has a name, a dependency, three times (ns, collective, bytes), and the time of the update"
        problems.append(FileProblem(filename, number, f"{len(words)} words", cure))
        return None
    steps = []
    for part, default in ((words[2:5], Group.TENSOR), (words[5:8], Group.TENSOR), (words[8:11], Group.DATA)):
        try:
            steps.append(_step(words[0], part, default))
        except ValueError as error:
            problems.append(
                FileProblem(filename, number, str(error), "write ns, collective and bytes, such as 100 NONE 0")
            )
    return _Layer(*steps) if len(steps) == 3 else None


def _step(name: str, words: list[str], group: Group) -> WorkloadStep:
    time_ns, collective, size = words
    if not (time_ns.isdecimal() and size.isdecimal()):
        raise ValueError(f'"{" ".join(words)}" has no whole numbers for time and bytes')
    compute_s = int(time_ns) * _NS
    if collective == "NONE" or not int(size):
        return WorkloadStep(name, compute_s)
    base = collective
    for suffix, its in _GROUPS.items():
        if collective.endswith(suffix):
            base, group = collective.removesuffix(suffix), its
            break
    if base not in _OPERATIONS:
        raise ValueError(f'"{collective}" is no collective; known are {", ".join(_OPERATIONS)} and NONE')
    return WorkloadStep(name, compute_s, _OPERATIONS[base], group, int(size))


def _steps(layers: list[_Layer]) -> Iterator[WorkloadStep]:
    yield from (layer.forward for layer in layers)
    for layer in reversed(layers):
        yield layer.input_gradient
        yield layer.weight_gradient


def _remarks(settings: dict[str, str]) -> Iterator[str]:
    if int(settings.get("pp_comm", 0)):
        yield "what pipeline stages send one another (pp_comm) is left out: the file does not say when"
