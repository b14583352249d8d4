"""Job files: every fault at once, with its line and a cure."""

from pathlib import Path

import pytest

from controller.cli.job_file import JobFile, load_job
from controller.formats.problems import FileFormatError
from controller.jobs.collective import Algorithm, Operation

GOOD = """\
job_id: llama-70b
operation: all-reduce
algorithm: ring
ranks: [h1_1, h1_2, h2_1, h2_2]
size_bytes: 256MiB
rings: [[0, 1, 2, 3], [0, 2, 1, 3]]
queue_pairs: 4
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "job.yaml"
    file.write_text(text)
    return file


def faults(folder: Path, text: str) -> list[str]:
    file = written(folder, text)
    with pytest.raises(FileFormatError) as refused:
        load_job(file)
    return [str(problem).removeprefix(f"{file}:") for problem in refused.value.problems]


def test_a_whole_file(tmp_path: Path) -> None:
    assert load_job(written(tmp_path, GOOD)) == JobFile(
        job_id="llama-70b",
        operation=Operation.ALL_REDUCE,
        algorithm=Algorithm.RING,
        ranks=["h1_1", "h1_2", "h2_1", "h2_2"],
        size_bytes=2**28,
        rings=[[0, 1, 2, 3], [0, 2, 1, 3]],
        queue_pairs=4,
    )


def test_all_faults_are_listed_in_order_with_lines_and_cures(tmp_path: Path) -> None:
    text = (
        "job_id: 7\noperaton: all-reduce\noperation: allreduce\nranks: [h1, 3]\nsize_bytes: 12 apples\n"
        "ports:\n  - src_rank: 0\n    dst_rank: x\n    udp_source_ports: [0]\n    colour: red\n"
        "queue_pairs: 0\nranks: []\n"
    )
    found = faults(tmp_path, text)
    assert [fault.partition(":")[0] for fault in found] == ["1", "2", "3", "4", "5", "8", "9", "10", "11", "12"]
    assert found[1] == "2: unknown key operaton; did you mean operation?"
    assert found[2].endswith("for example operation: all-reduce")
    assert "'12 apples' is no size" in found[4]
    assert found[7] == "10: unknown key ports.0.colour; use only src_rank, dst_rank, udp_source_ports"
    assert found[9] == '12: key "ranks" is given twice, first on line 4; keep one of the two'


@pytest.mark.parametrize("key", ["job_id", "operation", "ranks", "size_bytes"])
def test_a_missing_key_is_named_with_an_example(key: str, tmp_path: Path) -> None:
    text = "".join(line for line in GOOD.splitlines(keepends=True) if not line.startswith(f"{key}:"))
    (fault,) = faults(tmp_path, text)
    assert f"{key} is missing; add it, for example {key}: " in fault


@pytest.mark.parametrize("text", ["", "- a list\n", "only words\n", "12\n"])
def test_what_is_no_mapping_is_said(text: str, tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, text)
    assert fault == "1: no keys and values; write one key on each line, for example job_id: llama-70b"


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("size_bytes: 0", "size_bytes"),
        ("size_bytes: 18446744073709551616", "size_bytes"),
        ("size_bytes: 1.5", "size_bytes"),
        ("size_bytes: yes", "size_bytes"),
        ("queue_pairs: 4294967296", "queue_pairs"),
        ("queue_pairs: '4'", "queue_pairs"),
        ("rings: [0]", "rings.0"),
        ("rings: [[0, -1]]", "rings.0.1"),
        ("ports: [{src_rank: 0, dst_rank: 1, udp_source_ports: [65536]}]", "ports.0.udp_source_ports.0"),
        ("algorithm: bush", "algorithm"),
        ("priority: 8", "priority"),
        ("ranks_per_host: -1", "ranks_per_host"),
    ],
)
def test_values_out_of_range(line: str, where: str, tmp_path: Path) -> None:
    key = line.partition(":")[0]
    text = "".join(each for each in GOOD.splitlines(keepends=True) if not each.startswith(f"{key}:"))
    faults_found = faults(tmp_path, f"{text}{line}\n")
    assert len(faults_found) == 1
    assert f": {where}: " in faults_found[0]
    assert "; change it, for example " in faults_found[0]


def test_broken_yaml_has_its_line(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "job_id: x\nranks: [a, b\noperation: broadcast\n")
    assert fault.startswith("3: not valid YAML")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="cannot be read \\(No such file or directory\\); check its name"):
        load_job(tmp_path / "missing.yaml")
    with pytest.raises(FileFormatError, match="cannot be read \\(Is a directory\\)"):
        load_job(tmp_path)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="not UTF-8 text; save it as UTF-8"):
        load_job(binary)
