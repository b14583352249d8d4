"""Protobuf answers as plain JSON, and units as people write them."""

import json
import subprocess
import sys

import pytest
from cli_fakes import LARGE_DPID, plan, topology
from heddle.v1 import collective_pb2, fabric_pb2
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.output import as_plain
from controller.cli.units import gap_text, parse_size, rate_text, size_text, time_text


def test_64_bit_integers_are_numbers_without_loss() -> None:
    switches = as_plain(topology())["switches"]
    assert json.loads(json.dumps(switches))[0]["dpid"] == LARGE_DPID
    flows = as_plain(plan())["flows"]
    assert flows[0]["size_bytes"] == 38_654_705_664


def test_names_are_those_of_the_proto_file_in_its_order() -> None:
    plain = as_plain(topology())
    names = ["switches", "links", "hosts", "alarms", "revision", "in_sync", "neighbours", "packet_counts"]
    assert list(plain) == names
    declared = [field.name for field in fabric_pb2.Switch.DESCRIPTOR.fields]
    assert list(plain["switches"][0]) == declared


def test_fields_without_a_value_are_there_but_unknown_rates_are_not() -> None:
    plain = as_plain(topology())
    assert plain["alarms"] == []
    assert plain["switches"][0]["foreign_rules"] == 0
    assert plain["links"][0]["a_to_b_bps"] == 92.5e9
    assert "a_to_b_bps" not in plain["links"][-1]


def test_an_empty_answer_has_every_key() -> None:
    assert as_plain(collective_pb2.GetPlanResponse()) == {"plans": [], "revision": 0}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("268435456", 268_435_456),
        ("256MiB", 268_435_456),
        ("256Mi", 268_435_456),
        ("256M", 256_000_000),
        ("1.5 GB", 1_500_000_000),
        ("36GiB", 38_654_705_664),
        ("1.1TiB", 1_209_462_790_553),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "MiB", "12 apples", "-1", "0", "1e9", "18446744073709551616", "20000000TiB", "1,5GB"]
)
def test_what_is_no_size_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no size|out of range") as refused:
        parse_size(text)
    assert f"'{text}'" in str(refused.value)


@given(st.integers(min_value=1, max_value=2**64 - 1))
def test_every_size_in_bytes_is_exact(size: int) -> None:
    assert parse_size(str(size)) == size


@given(st.floats(min_value=0, max_value=1e15))
def test_texts_are_short_and_within_half_a_percent(value: float) -> None:
    factors = {"b/s": 1, "kb/s": 1e3, "Mb/s": 1e6, "Gb/s": 1e9, "Tb/s": 1e12}
    text = rate_text(value)
    number, unit = text.split()
    if number == "<0.001":
        assert value < 0.001
        return
    assert len(number) <= 7
    assert float(number) * factors[unit] == pytest.approx(value, rel=0.0051)


def test_texts() -> None:
    assert [size_text(n) for n in (0, 1, 1023, 1024, 2**20 - 1, 2**64 - 1)] == [
        "0 B", "1 B", "1023 B", "1 KiB", "1 MiB", "16 EiB",
    ]  # fmt: skip
    assert [time_text(s) for s in (0, 1.29e-5, 0.0129, 0.9999, 61.25)] == ["0 s", "12.9 µs", "12.9 ms", "1 s", "61.2 s"]
    assert [gap_text(g) for g in (0.0, 1e-16, 0.0312, 1.0)] == ["0 %", "0 %", "3.12 %", "100 %"]
    assert [rate_text(r) for r in (0, 8e6, 100e9, 999.9e6)] == ["0 b/s", "8 Mb/s", "100 Gb/s", "1 Gb/s"]


def test_what_code_in_c_prints_keeps_out_of_standard_output() -> None:
    script = """
import ctypes
from controller.cli.output import libraries_aside, print_json
with libraries_aside():
    ctypes.CDLL(None).puts(b"a stray word")
print_json({"a": 1})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == {"a": 1}
    assert done.stderr == "a stray word\n"
