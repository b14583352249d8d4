"""Cookies: how a rule on a switch says that it is ours, what it is for, and whose it is.

64 bits: 16 of magic, 8 of kind, 40 of owner.
"""

import hashlib
from enum import IntEnum
from functools import lru_cache

_MAGIC = 0x4844  # "HD"


class Kind(IntEnum):
    GUARD = 1
    CLASSIFY = 2
    STEER = 3
    ROUTE = 4
    DETOUR = 5


@lru_cache(maxsize=4096)
def cookie(kind: Kind, owner: str = "") -> int:
    digest = int.from_bytes(hashlib.blake2s(owner.encode(), digest_size=5).digest(), "big") if owner else 0
    return _MAGIC << 48 | kind << 40 | digest


def is_ours(value: int) -> bool:
    return value >> 48 == _MAGIC


def kind_of(value: int) -> int:
    return value >> 40 & 0xFF
