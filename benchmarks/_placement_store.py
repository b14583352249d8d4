"""What the quality benchmark has measured so far, on disk: a line for each seed of each setting.

Decides what of an earlier run still counts: whatever was measured by the same code. A long run that was interrupted
goes on where it was, and its tables can be printed meanwhile.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

_ROOT = Path(__file__).parents[1]
# What a result depends on. Traffic and methods are here, the shape of the tables is not.
_CODE = ("controller/placement/*.py", "controller/fabric/*.py", "benchmarks/_placement_cases.py")


@dataclass(frozen=True)
class Found:
    """Of one method on one problem: seconds on the fullest link, the same as a multiple of ideal spraying, and `gap`
    only where a bound for just this way of sending is known."""

    method: str
    queue_pairs: int
    load_s: float
    to_ideal: float
    gap: float | None = None
    proven: bool = False
    split_share: float = 0.0


@dataclass(frozen=True)
class Seed:
    """One problem, and what every method found."""

    fabric: str
    traffic: str
    failed: float
    seed: int
    flows: int
    found: tuple[Found, ...]

    @property
    def key(self) -> tuple[str, str, float, int]:
        return (self.fabric, self.traffic, self.failed, self.seed)


class Store:
    """The seeds measured so far; with a file they are kept there as soon as each is done."""

    def __init__(self, file: Path | None = None) -> None:
        """Raises ValueError for a file that other code has measured, or that is no such file."""
        self._file = file
        self._code = _digest()
        self._seeds: dict[tuple[str, str, float, int], Seed] = {}
        for seed in _read(file, self._code) if file is not None and file.exists() else ():
            self._seeds[seed.key] = seed

    def has(self, key: tuple[str, str, float, int]) -> bool:
        return key in self._seeds

    def add(self, seed: Seed) -> None:
        self._seeds[seed.key] = seed
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"code": self._code, **asdict(seed)}) + "\n")

    def of(self, fabric: str, traffic: str, failed: float) -> list[Seed]:
        """Of one setting, in the order of their numbers."""
        setting = (fabric, traffic, failed)
        return [self._seeds[key] for key in sorted(self._seeds) if key[:3] == setting]


def _read(file: Path, code: str) -> Iterator[Seed]:
    text = file.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        # Whoever was interrupted may have left part of a line; that seed is measured again.
        file.write_text(whole, encoding="utf-8")
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            fields = json.loads(line)
            measured_by = fields.pop("code")
            seed = Seed(**{**fields, "found": tuple(Found(**each) for each in fields["found"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{file}:{number}: not a measured seed ({error}); name another file") from error
        if measured_by != code:
            raise ValueError(f"{file}:{number}: measured by other code than this; name another file, or delete it")
        yield seed


def _digest() -> str:
    together = sha256()
    for pattern in _CODE:
        for file in sorted(_ROOT.glob(pattern)):
            together.update(file.name.encode() + b"\0" + file.read_bytes())
    return together.hexdigest()[:16]
