"""NCCL logs: nothing a file may hold makes the reader do worse than refuse, and torn lines cost only themselves."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.formats.nccl import NcclLog, NcclLogError, load, load_text, sample_path
from controller.formats.nccl_job import RankMappingError, hosts_by_rank, job_from_log

_HEADS = st.sampled_from(
    ["gpu-01:11:12 [0] NCCL INFO ", "[1,1]<stdout>:gpu-02:21:22 [3] NCCL INFO ", " [0] NCCL INFO ", ""]
)
_NUMBERS = st.sampled_from(["0", "1", "2", "3", "00", "15", "999999999", "-1", "9999999999"])
_WORDS = [
    "Channel",
    "Ring",
    "Trees",
    "comm",
    "rank",
    "nranks",
    "via",
    "->",
    ":",
    "/",
    "[",
    "]",
    "|",
    "[send]",
    "[receive]",
    "NET/IB/0",
    "P2P/IPC",
    "0x1f",
    "busId",
    "commId",
    "3b000",
    "-",
    "Init",
    "START",
    "COMPLETE",
    "NCCL",
    "INFO",
    "[0]",
    "1/-1/-1->0->-1",
    "NCCL_IB_QPS_PER_CONNECTION",
    "set",
    "by",
    "environment",
    "to",
    "4.",
]
_TOKENS = st.one_of(
    _NUMBERS,
    st.sampled_from(_WORDS),
)
_LINES = st.builds(lambda head, tokens: head + " ".join(tokens), _HEADS, st.lists(_TOKENS, max_size=14))


def _read_or_refused(text: str) -> NcclLog | None:
    """Whatever is read holds what its documentation promises."""
    try:
        log = load_text(text)
    except NcclLogError:
        return None
    for communicator in log.communicators:
        for ring in communicator.rings.values():
            assert sorted(ring) == list(range(communicator.n_ranks or 0))
        assert not communicator.rings.keys() & set(communicator.incomplete_rings)
    return log


@given(st.binary(max_size=2000))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    _read_or_refused(data.decode("latin-1"))


@given(st.lists(_LINES, max_size=30))
def test_any_words_of_nccl_are_read_or_refused(lines: list[str]) -> None:
    log = _read_or_refused("\n".join(lines))
    if log is None:
        return
    try:
        job = job_from_log(log)
        hosts = hosts_by_rank(job, [f"h{number}" for number in range(16)])
    except (NcclLogError, RankMappingError):
        return
    assert len(hosts) == len(job.machines)


_WHOLE = sample_path().read_text()
_RANKS = 16


@given(st.integers(0, len(_WHOLE)), st.integers(0, 200), st.text(max_size=20))
def test_damage_in_one_place_costs_no_more_than_the_lines_it_touches(start: int, length: int, put_in: str) -> None:
    """Every connection is stated by both its ends, so one damaged place can hide none, nor invent a ring."""
    damaged = _WHOLE[:start] + put_in + _WHOLE[start + length :]
    log = _read_or_refused(damaged)
    assert log is not None
    read = log.communicators[0]
    assert read.n_ranks == _RANKS
    assert [read.rings[channel] for channel in (0, 1)] == [tuple(range(_RANKS))] * 2


def test_a_file_of_one_endless_line_is_refused_without_keeping_it(tmp_path: Path) -> None:
    path = tmp_path / "endless.log"
    path.write_bytes(b"gpu-01:1:1 [0] NCCL INFO " + b"Channel 00/02 : 0 1 " * 1_000_000)
    with pytest.raises(NcclLogError, match="NCCL_DEBUG=INFO"):
        load(path)
