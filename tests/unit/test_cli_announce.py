"""`heddle announce`: from options, from a job file, from an NCCL log."""

import json
from pathlib import Path

import grpc
import pytest
from cli_fakes import Fake, serving
from heddle.v1 import collective_pb2 as pb

from controller.cli.main import invoke
from controller.formats.nccl import sample_path

OPTIONS = ["--job", "llama", "--op", "all-reduce", "--bytes", "1GiB", "--ranks", "h1_1,h1_2,h2_1,h2_2"]
NCCL_LOG = """\
node-a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0xc0ffee - Init START
node-b:1:1 [0] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 0 busId 1000 commId 0xc0ffee - Init START
node-a:1:1 [0] NCCL INFO NCCL_IB_QPS_PER_CONNECTION set by environment to 4.
node-a:1:1 [0] NCCL INFO Channel 00/02 :    0   1
node-a:1:1 [0] NCCL INFO Channel 01/02 :    0   1
"""


def announced(fake: Fake) -> pb.Collective:
    (request,) = fake.requests
    collective: pb.Collective = request.collective
    return collective


def test_options_become_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--rings", "0,1,2,3", "--rings", "0,2,1,3;3,2,1,0", "--qps", "4", "--algorithm", "ring"]
    more += ["--ranks-per-host", "2", "--priority", "7", "--phase", "train-64b:3"]
    with serving(Fake()) as fake:
        assert invoke(["announce", *OPTIONS, *more, "--controller", fake.address]) == 0
    assert announced(fake) == pb.Collective(
        job_id="llama",
        operation=pb.OPERATION_ALL_REDUCE,
        algorithm=pb.ALGORITHM_RING,
        ranks=["h1_1", "h1_2", "h2_1", "h2_2"],
        size_bytes=2**30,
        rings=[pb.Ring(ranks=[0, 1, 2, 3]), pb.Ring(ranks=[0, 2, 1, 3]), pb.Ring(ranks=[3, 2, 1, 0])],
        queue_pairs=4,
        ranks_per_host=2,
        priority=7,
        phase=pb.Phase(iteration="train-64b", number=3),
    )
    out = capsys.readouterr().out
    assert "job llama: placed, 2 flows (revision 7)" in out
    assert "leaf1:1 → spine1:2 → leaf2" in out
    assert "12 rules changed on the switches" in out


@pytest.mark.parametrize("operation", pb.Operation.keys()[1:])
def test_every_operation_of_the_protocol_can_be_announced(operation: str) -> None:
    word = operation.removeprefix("OPERATION_").lower().replace("_", "-")
    options = ["--job", "x", "--op", word, "--bytes", "1", "--ranks", "a,b"]
    with serving(Fake()) as fake:
        assert invoke(["announce", *options, "--controller", fake.address]) == 0
    assert announced(fake).operation == pb.Operation.Value(operation)


def test_announcing_again_says_that_nothing_changed(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(rules_changed=0)) as fake:
        assert invoke(["announce", *OPTIONS, "--controller", fake.address]) == 0
    assert "nothing changed: the switches hold this plan already" in capsys.readouterr().out


def test_the_answer_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["announce", *OPTIONS, "--json", "--controller", fake.address]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer.keys() == {"plan", "rules_changed"}
    assert answer["plan"]["job_id"] == "llama"


def test_everything_wrong_with_the_options_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--bytes", "much", "--rings", "0,a", "--ranks", "h1,,h2", "--phase", "3"]
    assert invoke(["announce", "--job", "x", *wrong]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "heddle: missing: --op"
    assert [line.split(":")[1] for line in lines[1:]] == [" --bytes", " --ranks", " --rings", " --phase"]


def test_nothing_to_announce_says_what_there_could_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["announce"]) == 2
    assert "a job file, an NCCL log (--nccl-log), or --job, --op, --bytes, --ranks" in capsys.readouterr().err


def test_the_controllers_problems_are_all_shown(capsys: pytest.CaptureFixture[str]) -> None:
    problems = ["ranks[0]: no host 'h1_1' on this fabric", "rings[0]: rank 3 is missing"]
    with serving(Fake(refusal=(grpc.StatusCode.INVALID_ARGUMENT, problems), rich=True)) as fake:
        assert invoke(["announce", *OPTIONS, "--controller", fake.address]) == 2
    assert capsys.readouterr().err.splitlines() == [f"heddle: {problem}" for problem in problems]


def test_no_room_on_the_switches_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, ["leaf1 has no room for 8 rules: the flows use ECMP"])
    with serving(Fake(refusal=refusal)) as fake:
        assert invoke(["announce", *OPTIONS, "--controller", fake.address]) == 1
    assert "leaf1 has no room" in capsys.readouterr().err


# --- job files -------------------------------------------------------------------------------------------------------


def test_a_job_file(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "job_id: moe\noperation: all-to-all\nranks: [h1_1, 10.0.2.1, fd00::3]\nsize_bytes: 36GiB\nqueue_pairs: 2\n"
        "ports:\n  - {src_rank: 0, dst_rank: 1, udp_source_ports: [49152, 49153]}\n"
    )
    with serving(Fake()) as fake:
        assert invoke(["announce", str(file), "--controller", fake.address]) == 0
    assert announced(fake) == pb.Collective(
        job_id="moe",
        operation=pb.OPERATION_ALL_TO_ALL,
        ranks=["h1_1", "10.0.2.1", "fd00::3"],
        size_bytes=38_654_705_664,
        queue_pairs=2,
        ports=[pb.QueuePairPorts(src_rank=0, dst_rank=1, udp_source_ports=[49152, 49153])],
    )


def test_a_job_file_in_json_with_tabs(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    fields = {"job_id": "j", "operation": "broadcast", "ranks": ["a", "b"], "size_bytes": 13_509_853_184}
    file.write_text(json.dumps(fields, indent="\t"))
    with serving(Fake()) as fake:
        assert invoke(["announce", str(file), "--controller", fake.address]) == 0
    assert announced(fake).size_bytes == 13_509_853_184


def test_a_job_file_and_options_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["announce", str(tmp_path / "job.yaml"), "--qps", "4"]) == 2
    assert "the job file says everything" in capsys.readouterr().err


def test_a_wrong_job_file_sends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("job_id: x\noperation: all-reduce\nranks: [a, b]\n")
    with serving(Fake()) as fake:
        assert invoke(["announce", str(file), "--controller", fake.address]) == 2
    assert fake.requests == []
    error = capsys.readouterr().err
    assert error == f"heddle: {file}:1: size_bytes is missing; add it, for example size_bytes: 256MiB\n"


# --- NCCL logs -------------------------------------------------------------------------------------------------------

FROM_LOG = ["--job", "x", "--op", "all-reduce", "--bytes", "1GiB"]


def nccl_log(folder: Path) -> str:
    file = folder / "nccl.log"
    file.write_text(NCCL_LOG)
    return str(file)


def test_ranks_rings_and_queue_pairs_come_from_the_log(tmp_path: Path) -> None:
    with serving(Fake()) as fake:
        assert invoke(["announce", "--nccl-log", nccl_log(tmp_path), *FROM_LOG, "--controller", fake.address]) == 0
    collective = announced(fake)
    assert list(collective.ranks) == ["node-a", "node-b"]
    assert [list(ring.ranks) for ring in collective.rings] == [[0, 1], [0, 1]]
    assert collective.queue_pairs == 4


def test_hosts_stand_for_the_logs_machines_and_options_go_before_the_log(tmp_path: Path) -> None:
    more = ["--hosts", "h1_1,h2_1", "--qps", "2"]
    with serving(Fake()) as fake:
        command = ["announce", "--nccl-log", nccl_log(tmp_path), *FROM_LOG, *more, "--controller", fake.address]
        assert invoke(command) == 0
    assert list(announced(fake).ranks) == ["h1_1", "h2_1"]
    assert announced(fake).queue_pairs == 2


def test_the_sample_log_has_sixteen_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        command = ["announce", "--nccl-log", str(sample_path()), *FROM_LOG, "--controller", fake.address]
        assert invoke([*command, "--json"]) == 0
    assert len(announced(fake).ranks) == 16
    assert json.loads(capsys.readouterr().out)["plan"]["job_id"] == "x"


def test_too_few_hosts_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["announce", "--nccl-log", nccl_log(tmp_path), *FROM_LOG, "--hosts", "h1_1"]) == 2
    assert "the job has 2 machines and 1 hosts are given" in capsys.readouterr().err


def test_what_nccl_does_not_log_must_be_given_and_what_it_logs_must_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["announce", "--nccl-log", nccl_log(tmp_path), "--job", "x", "--ranks", "a,b"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "heddle: --ranks: the NCCL log says that; leave it out",
        "heddle: missing: --op, --bytes; NCCL does not log them",
    ]


def test_ranks_without_a_machine_need_hosts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "nccl.log"
    file.write_text("\n".join(NCCL_LOG.splitlines()[:1]) + "\n")
    assert invoke(["announce", "--nccl-log", str(file), *FROM_LOG]) == 2
    error = capsys.readouterr().err
    assert "the log does not say where 1 of 2 ranks are, rank 1 first" in error
    assert "the log shows no ring" in error


def test_a_file_that_is_no_log_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "other.txt"
    file.write_text("hello\n")
    assert invoke(["announce", "--nccl-log", str(file), *FROM_LOG]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"heddle: {file}: ")
    assert "set NCCL_DEBUG=INFO for the job" in error


def test_hosts_without_a_log_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["announce", *OPTIONS, "--hosts", "h1_1"]) == 2
    assert "--hosts goes with --nccl-log" in capsys.readouterr().err
