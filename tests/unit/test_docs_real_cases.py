"""The map from real cases to tests names files and tests that exist."""

import re
from fnmatch import fnmatchcase
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
# A linked test file, and the names that follow it up to the next link.
_NAMED = re.compile(r"\[\w+\]\((\.\./tests/[^)]+)\)([^\[]*)")


def test_every_test_that_is_named_exists() -> None:
    text = (DOCS / "real-cases.md").read_text(encoding="utf-8")
    named = _NAMED.findall(text)
    assert len(named) > 20
    missing = []
    for link, names in named:
        file = DOCS / link
        # What drives coverage-guided fuzzing is a program as a whole and has no tests with names.
        pattern = r"^def (\w+)" if file.parent.name == "fuzz" else r"def test_(\w+)"
        tests = re.findall(pattern, file.read_text(encoding="utf-8"), re.M) if file.is_file() else []
        wanted = [name.replace("…", "*") for name in re.findall(r"`(\w+…?)`", names)]
        missing += [f"{link}: {name}" for name in wanted or ["*"] if not any(fnmatchcase(t, name) for t in tests)]
    assert missing == []
