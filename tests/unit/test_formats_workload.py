"""Workload files: SimAI and AICB text, Chakra execution traces, and what is said about those that are broken."""

from collections.abc import Callable
from pathlib import Path

import pytest

from controller.formats import chakra, simai
from controller.formats.problems import FileFormatError
from controller.formats.workload import Group, Workload, WorkloadStep
from controller.formats.workload_files import load
from controller.jobs.collective import Operation

SHARED = Path(__file__).resolve().parents[3] / "shared" / "inputs" / "workloads"

TEXT = """\
HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 4 pp: 3 vpp: 1 ga: 1 all_gpus: 48 pp_comm 7
3
attention -1 1000 ALLREDUCE 38654705664 2000 NONE 0 3000 REDUCESCATTER 8 100
experts\t-1\t1\tALLTOALL_EP\t64\t1\tALLTOALL_EP\t64\t1\tALLGATHER_DP_EP\t32\t100
norm -1 5 NONE 0 6 ALLGATHER 16 7 NONE 0
"""


def test_layers_run_forward_and_then_backward_from_the_last() -> None:
    found = simai.read(TEXT)
    assert (found.ranks, found.tensor, found.expert, found.pipeline) == (48, 2, 4, 3)
    assert [step.name for step in found.steps] == [
        *("attention", "experts", "norm"),
        *("norm", "norm", "experts", "experts", "attention", "attention"),
    ]
    assert found.steps[0] == WorkloadStep("attention", 1000 * 1e-9, Operation.ALL_REDUCE, Group.TENSOR, 38_654_705_664)
    assert found.steps[1] == WorkloadStep("experts", 1e-9, Operation.ALL_TO_ALL, Group.EXPERT, 64)
    assert found.steps[6] == WorkloadStep("experts", 1e-9, Operation.ALL_GATHER, Group.DATA_EXPERT, 32)
    assert found.steps[8] == WorkloadStep("attention", 3000e-9, Operation.REDUCE_SCATTER, Group.DATA, 8)
    assert "pp_comm" in found.remarks[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.replace("HYBRID", "HIDDEN", 1), "1: no SimAI or AICB workload"),
        (lambda t: t.replace("\n3\n", "\n4\n"), "2: 4 layers are announced and 3 are there"),
        (lambda t: t.replace("\n3\n", "\n"), "2: the number of layers is missing"),
        (lambda t: t.replace("ALLREDUCE", "ALLTWIST"), '3: "ALLTWIST" is no collective'),
        (lambda t: t.replace("1000", "1e3"), "has no whole numbers"),
        (lambda t: t.replace("norm -1 ", "norm "), "5: 10 words"),
        (lambda _t: "", "1: no SimAI or AICB workload"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(change: Callable[[str], str], said: str) -> None:
    with pytest.raises(FileFormatError) as refused:
        simai.read(change(TEXT), "w.txt")
    assert said in str(refused.value)


def test_all_wrong_lines_are_told_at_once() -> None:
    with pytest.raises(FileFormatError) as refused:
        simai.read(TEXT.replace("1000", "x").replace("ALLGATHER 16", "GATHER 16"))
    assert [problem.line for problem in refused.value.problems] == [3, 5]


def varint(number: int) -> bytes:
    found = b""
    while number >= 0x80:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def node(name: str, kind: int, duration_us: int = 0, **values: int) -> bytes:
    """A node as the published schema numbers its fields: name 2, type 3, duration 7, attributes 10."""
    body = b"\x12" + varint(len(name)) + name.encode() + b"\x18" + varint(kind) + b"\x38" + varint(duration_us)
    for key, value in values.items():
        attribute = b"\x0a" + varint(len(key)) + key.encode() + b"\x48" + varint(value)
        body += b"\x52" + varint(len(attribute)) + attribute
    return varint(len(body)) + body


HEAD = b"\x07\x0a\x050.0.4"


def test_a_trace_is_read_node_by_node() -> None:
    data = (
        HEAD + node("matmul", 4, 250) + node("reduce", 7, comm_type=0, comm_size=2**40) + node("wait", 7, comm_type=9)
    )
    found = chakra.read(data)
    assert found.steps == (
        WorkloadStep("matmul", 250e-6),
        WorkloadStep("reduce", 0.0, Operation.ALL_REDUCE, Group.DATA, 2**40),
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (HEAD + node("a", 4)[:-1], "ends in the middle"),
        (HEAD + b"\xff" * 12, "ends in the middle"),
        (HEAD + node("a", 7, comm_type=3), 'node 1 ("a") is a collective of type 3'),
        (HEAD + node("a", 5), "sends from one rank to another"),
    ],
)
def test_a_broken_trace_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(FileFormatError) as refused:
        chakra.read(data)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot be read"), (b"# A page\n", "no workload file"), (b"\x05ab", "no Chakra")]
)
def test_files_that_are_none(content: bytes | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "workload"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FileFormatError) as refused:
        load(file)
    assert said in str(refused.value)


@pytest.mark.skipif(not SHARED.is_dir(), reason="other people's files are not at hand")
@pytest.mark.parametrize(
    ("name", "ranks", "steps", "largest"),
    [
        ("simai-workload_analytical-9216gpu.txt", 9216, 3 * 1789, 38_654_705_664),
        ("simai-microAllReduce.txt", 8, 6, 67_108_864),
        ("aicb-all_to_all.txt", 0, 57, 2**30),
        ("aicb-G175B-M1-C03_GPT175B_megatron_tp8_pp1_mbs1_A100.txt", 0, 99, 11_175_321_600),
        ("astra-all_reduce-8npus_1MB.0.et", 0, 1, 2**20),
    ],
)
def test_other_peoples_files_load(name: str, ranks: int, steps: int, largest: int) -> None:
    found: Workload = load(SHARED / name)
    assert (found.ranks, len(found.steps), max(s.size_bytes for s in found.steps)) == (ranks, steps, largest)
