"""Rates as people write them: whole bit/s, or a number with one decimal SI suffix ("25G").

It decides what is unambiguous. Refused: "m" (milli to some tools, mega to others), "B" (bytes), binary prefixes, and
a leading zero (octal to some), and
anything that is not a whole number of bit/s, because Open vSwitch reads a fraction as 12 kbit/s.
"""

import re
from decimal import Decimal

# 100 Tbit/s: beyond any port that exists, below any counter that overflows.
MAX_RATE_BPS = 100_000_000_000_000
RATE_PATTERN = r"^(0|[1-9][0-9]{0,14})(\.[0-9]{1,12})?[kMGT]?$"

_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_rate(text: str) -> int:
    """Bit/s of "8000000", "8M" or "2.5G". Raises ValueError saying what is wrong, without the cure."""
    if re.fullmatch(RATE_PATTERN, text, re.ASCII) is None:
        raise ValueError(f'"{text[:40]}" is not a rate')
    suffix = text[-1] if text[-1] in _FACTORS else ""
    rate = Decimal(text.removesuffix(suffix)) * _FACTORS[suffix]
    if rate != int(rate):
        raise ValueError(f'"{text}" is not a whole number of bit/s')
    return int(rate)
