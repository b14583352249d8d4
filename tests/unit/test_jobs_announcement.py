"""Every way an announcement can be wrong, each answered with the field and what would be right."""

from dataclasses import replace

import pytest

from controller.jobs.announcement import problems
from controller.jobs.collective import Algorithm, Collective, Operation, Phase, QueuePairPorts
from controller.jobs.edges import SUPPORTED

GOOD = Collective("job-1", Operation.ALL_REDUCE, Algorithm.RING, ("h1", "h2", "h3", "10.0.0.4"), 1 << 30)


def ports(src: int, dst: int, *numbers: int) -> tuple[QueuePairPorts, ...]:
    return (QueuePairPorts(src, dst, numbers),)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"job_id": "a/b.c_d-9"},
        {"job_id": "x" * 128},
        {"ranks": ("h1", "h2")},
        {"ranks": ("fe80::1", "fe80::2")},
        {"size_bytes": 1},
        {"size_bytes": 2**63},
        {"rings": ((0, 1, 2, 3), (3, 1, 0, 2))},
        {"queue_pairs": 0},
        {"queue_pairs": 1024},
        {"ports": ports(0, 1, 1, 65535, 65535)},
        {"ports": ports(3, 0, 4791)},
        {"ports": ports(3, 1, 4791), "rings": ((3, 1, 0, 2),)},
        {"ports": ports(0, 3, 7), "operation": Operation.ALL_TO_ALL, "algorithm": Algorithm.DIRECT},
        {"operation": Operation.SEND_RECV, "algorithm": Algorithm.DIRECT},
        {"ranks": ("h1", "h2", "h1", "h3", "h1")},
        {"ranks_per_host": 2, "algorithm": Algorithm.HIERARCHICAL, "priority": 7},
        {"phase": Phase("train", 0)},
        {"phase": Phase("train/2", 1023)},
        {"algorithm": Algorithm.HALVING_DOUBLING, "ranks": ("a", "b", "c")},
    ],
)
def test_what_makes_sense_is_accepted(change: dict) -> None:
    assert problems(replace(GOOD, **change)) == ()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"job_id": ""}, "job_id: empty; use 1 to 128 letters, digits and . _ - /"),
        ({"job_id": "a b"}, "job_id: 'a b'; use 1 to 128 letters, digits and . _ - /"),
        ({"job_id": "ü"}, "job_id: 'ü'; use 1 to 128 letters, digits and . _ - /"),
        ({"job_id": "a\n"}, "job_id: 'a\\n'; use 1 to 128 letters, digits and . _ - /"),
        ({"job_id": "x" * 129}, f"job_id: '{'x' * 40}'; use 1 to 128 letters, digits and . _ - /"),
        ({"ranks": ("h1",)}, "ranks: 1 given; a collective needs 2 at least"),
        ({"ranks": ()}, "ranks: 0 given; a collective needs 2 at least"),
        ({"ranks": ("h1",) * 4}, "ranks: all 4 are on h1; nothing would meet the fabric, so announce nothing"),
        ({"ranks_per_host": -1}, "ranks_per_host: -1; use 0 (meaning 1) to 1024"),
        ({"ranks_per_host": 3}, "ranks_per_host: 3 does not divide 4 ranks; list the ranks server by server"),
        ({"ranks_per_host": 4}, "ranks_per_host: all 4 ranks share one server; nothing would meet the fabric"),
        ({"priority": 8}, "priority: 8; use 0 (the usual one) to 7 (placed first)"),
        (
            {"phase": Phase("a b", 1)},
            "phase.iteration: 'a b'; use 1 to 128 letters, digits and . _ - /, the same for all phases of an iteration",
        ),
        ({"phase": Phase("train", 1024)}, "phase.number: 1024; use 0 to 1023"),
        (
            {"operation": Operation.ALL_GATHER, "algorithm": Algorithm.HALVING_DOUBLING, "ranks": ("a", "b", "c")},
            "algorithm: halving-doubling of all-gather needs a power of two ranks, 3 given; use ring",
        ),
        (
            {"ranks": ("h1", "", "a b")},
            "ranks: ranks 1 and 2: not a host name or address (1 to 253 characters, no spaces)",
        ),
        ({"ranks": ("h1", "x" * 254)}, "ranks: rank 1: not a host name or address (1 to 253 characters, no spaces)"),
        ({"size_bytes": 0}, "size_bytes: 0; it must be positive"),
        ({"size_bytes": -5}, "size_bytes: -5; it must be positive"),
        ({"size_bytes": 2**63 + 1}, "size_bytes: 9223372036854775809 is more than 2^63"),
        ({"rings": ((0, 1, 2, 3), (0, 1, 2))}, "rings[1]: not a permutation of the ranks; 3 is missing"),
        (
            {"rings": ((0, 1, 1, 9),)},
            "rings[0]: not a permutation of the ranks; 9 is not a rank, 1 is there twice, 2 and 3 are missing",
        ),
        ({"queue_pairs": -1}, "queue_pairs: -1; use 0 (meaning 1) to 1024"),
        ({"queue_pairs": 1025}, "queue_pairs: 1025; use 0 (meaning 1) to 1024"),
        ({"ports": ports(0, 1, 0, 65536, 80)}, "ports[0]: udp_source_ports 0 and 65536 out of 1 to 65535"),
        ({"ports": ports(0, 1)}, "ports[0]: no udp_source_ports; leave the entry out when they are not known"),
        ({"ports": ports(0, 1, *[5] * 1025)}, "ports[0]: 1025 udp_source_ports; 1024 at most"),
        ({"ports": ports(0, 9, 5)}, "ports[0]: 0 -> 9 names a rank that does not exist"),
        (
            {"ports": ports(0, 2, 5)},
            "ports[0]: 0 -> 2 are not neighbours in this collective; nothing is sent between them",
        ),
        (
            {"ports": ports(1, 1, 5), "operation": Operation.ALL_TO_ALL, "algorithm": Algorithm.DIRECT},
            "ports[0]: 1 -> 1 are not neighbours in this collective; nothing is sent between them",
        ),
        ({"ports": ports(0, 1, 5) * 2}, "ports: 0 -> 1 is listed 2 times; list it once"),
        (
            {"algorithm": Algorithm.DIRECT},
            "algorithm: all-reduce is not supported with direct; use halving-doubling or hierarchical or ring or tree",
        ),
        (
            {"operation": Operation.ALL_TO_ALL},
            "algorithm: all-to-all is not supported with ring; use direct or hierarchical",
        ),
    ],
)
def test_what_is_wrong_is_named(change: dict, expected: str) -> None:
    assert problems(replace(GOOD, **change)) == (expected,)


def test_all_problems_are_told_at_once() -> None:
    wrong = Collective("", Operation.ALL_REDUCE, Algorithm.DIRECT, ("h1",), 0, ((1,),), -1, ports(0, 0, 0))
    fields = [sentence.split(":")[0] for sentence in problems(wrong)]
    assert fields == ["job_id", "algorithm", "ranks", "size_bytes", "rings[0]", "queue_pairs", "ports[0]"]


def test_every_operation_has_an_algorithm() -> None:
    assert {operation for operation, _ in SUPPORTED} == set(Operation)


def test_more_than_65536_ranks_are_refused_and_65536_are_not() -> None:
    ranks = tuple(f"h{i}" for i in range(65_537))
    assert problems(replace(GOOD, ranks=ranks)) == ("ranks: 65,537 given; 65,536 at most",)
    assert problems(replace(GOOD, ranks=ranks[:-1])) == ()


@pytest.mark.parametrize(
    "change",
    [
        {
            "operation": Operation.ALL_TO_ALL,
            "algorithm": Algorithm.DIRECT,
            "ranks": tuple(f"h{i}" for i in range(2000)),
        },
        {"ranks": tuple(f"h{i}" for i in range(20_000)), "rings": (tuple(range(20_000)),) * 60},
    ],
)
def test_more_connections_than_anything_can_hold_are_refused(change: dict) -> None:
    (found,) = problems(replace(GOOD, **change))
    assert found.startswith("ranks, rings: ")
    assert "1,048,576 at most" in found


def test_long_lists_of_faults_are_cut_and_counted() -> None:
    found = problems(replace(GOOD, rings=((0,),) * 20))
    assert found[-1] == "rings: 12 more are not permutations of the ranks"
    found = problems(replace(GOOD, ports=tuple(QueuePairPorts(0, 9, (i,)) for i in range(1, 21))))
    assert found[-1] == "ports: 13 more problems of these kinds"


def test_listed_ports_are_bounded_in_all_not_only_for_each_pair() -> None:
    names = tuple(f"h{n}" for n in range(16))
    ports = tuple(QueuePairPorts(a, b, tuple(range(1, 301))) for a in range(16) for b in range(16) if a != b)
    asked = Collective("job", Operation.ALL_TO_ALL, Algorithm.DIRECT, names, 1000, ports=ports)
    assert any(problem.startswith("ports: 72,000 udp_source_ports in all") for problem in problems(asked))
