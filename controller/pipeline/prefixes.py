"""Groups addresses that mean the same into the fewest prefixes that catch no other known address.

Decides which prefixes are safe; what they are used for is decided in `compile` and `aggregate`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Meaning = TypeVar("Meaning")


@dataclass(frozen=True, slots=True)
class Block(Generic[Meaning]):
    """All addresses with `address & mask == value`; every known one among them means `meaning`."""

    value: int
    mask: int
    meaning: Meaning
    # The known addresses it covers, sorted.
    members: tuple[int, ...]


def blocks(meaning_of: Mapping[int, Meaning | None], bits: int) -> list[Block[Meaning]]:
    """The fewest prefixes of `bits`-bit addresses, each as long as its members allow; they do not overlap.

    `meaning_of` must hold every address known on the fabric: None keeps an address out of all prefixes. An address
    that joins later changes the prefixes around it only.
    """
    known = sorted(meaning_of)
    result: list[Block[Meaning]] = []
    # (first, last + 1) of ranges of `known` that are whole subtrees of the address tree.
    open_ranges = [(0, len(known))] if known else []
    while open_ranges:
        first, end = open_ranges.pop()
        meanings = {meaning_of[address] for address in known[first:end]}
        differing = (known[first] ^ known[end - 1]).bit_length()
        if len(meanings) == 1:
            (meaning,) = meanings
            if meaning is not None:
                mask = ((1 << bits) - 1) ^ ((1 << differing) - 1)
                result.append(Block(known[first] & mask, mask, meaning, tuple(known[first:end])))
            continue
        half = known[end - 1] >> (differing - 1) << (differing - 1)
        middle = next(i for i in range(first, end) if known[i] >= half)
        open_ranges += [(middle, end), (first, middle)]
    return result
