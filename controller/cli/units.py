"""Sizes, rates, times and gaps as people write and read them. Values inside Heddle are bytes, bit/s and seconds."""

import re

# Prefixes as NCCL, the IEC and network people use them: "256M" and "256MB" are decimal, "256Mi" and "256MiB" binary.
_MULTIPLES = {
    "": 1,
    **{prefix: 1000**power for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}i": 1024**power for power, prefix in enumerate("kmgt", start=1)},
}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<prefix>[kmgt]i?)?b?", re.IGNORECASE)
_LARGEST = 2**64 - 1


def parse_size(text: str) -> int:
    """Bytes from "268435456", "256MiB" or "1.5 GB". ValueError says what is wrong and what would be right."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is no size: write bytes as a number, or a unit with it, such as 256MiB or 1.5GB")
    size = _exact(match["number"], _MULTIPLES[(match["prefix"] or "").lower()])
    if not 0 < size <= _LARGEST:
        raise ValueError(f"'{text}' is out of range: a size is at least 1 byte and below 2^64")
    return size


def _exact(number: str, multiple: int) -> int:
    """Whole bytes, computed without floats: they would lose the last digits above 2^53."""
    whole, _, fraction = number.partition(".")
    return int(whole) * multiple + (int(fraction) * multiple // 10 ** len(fraction) if fraction else 0)


def size_text(size_bytes: int) -> str:
    """Three digits and a binary unit: "256 MiB"."""
    return _scaled(float(size_bytes), 1024.0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))


def rate_text(rate_bps: float) -> str:
    """Three digits and a decimal unit: "100 Gb/s"."""
    return _scaled(rate_bps, 1000.0, ("b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"))


def time_text(seconds: float) -> str:
    """Three digits and a unit: "12.9 ms"."""
    if seconds == 0:
        return "0 s"
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 0.9995 or unit == "µs":
            return f"{_three_digits(seconds * factor)} {unit}"
    raise AssertionError("unreachable: the last unit takes every value")


def gap_text(gap: float) -> str:
    """A gap of 0.0312 is "3.12 %"; one that is 0 but for rounding is "0 %"."""
    return f"{_three_digits(gap * 100) if gap > 1e-9 else '0'} %"


def _scaled(value: float, step: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        if value < step * 0.9995:
            return f"{_three_digits(value)} {unit}"
        value /= step
    return f"{_three_digits(value)} {units[-1]}"


def _three_digits(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 0.001 or value == 0 else "<0.001"
