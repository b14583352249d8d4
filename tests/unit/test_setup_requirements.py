"""The requirements file is what pyproject.toml asks for, pinned and hashed, and names no place to fetch it from."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.setup_tree import ROOT, clone, run

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FILES = [ROOT / "deploy" / "requirements.txt", ROOT / "deploy" / "build-constraints.txt"]
OUR_OWN = {"controller", "apps", "heddle", "tests", "benchmarks", "heddle_ryu_manager"}
# The lab's modules and the benchmarks' are imported by name, with their folder on the path.
OUR_OWN |= {path.stem for folder in ("mininet", "benchmarks") for path in (ROOT / folder).glob("*.py")}
# Debian's package, and what tests/fuzz says how to install; nobody needs it to run the tests.
NOT_INSTALLED = {"mininet", "atheris"}
NO_INDEX = r"error sending request|dns error|failed to (fetch|connect|lookup)|timed out"


def pins(text: str) -> dict[str, tuple[str, int]]:
    """Canonical name -> (version and marker, number of hashes)."""
    entries = re.findall(r"^([a-z0-9][^=\s]*)==(.*?)((?: \\\n +--hash=sha256:[0-9a-f]{64})*)$", text, flags=re.M)
    return {canonicalize_name(name): (rest, hashes.count("--hash")) for name, rest, hashes in entries}


def declared() -> list[Requirement]:
    texts = PYPROJECT["project"]["dependencies"] + PYPROJECT["dependency-groups"]["dev"]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_everything_is_hashed_and_no_host_is_named(file: Path) -> None:
    text = file.read_text()
    found = pins(text)
    assert len(found) == len(re.findall(r"^[a-z0-9]", text, flags=re.M)), "a line that is not a pin"
    assert [name for name, (_, hashes) in found.items() if hashes == 0] == []
    assert re.findall(r"://|^-|@", text, flags=re.M) == []


def test_every_dependency_is_pinned_within_its_bounds() -> None:
    found = pins(FILES[0].read_text())
    wrong = [
        str(requirement)
        for requirement in declared()
        if (pin := found.get(canonicalize_name(requirement.name))) is None
        or not requirement.specifier.contains(pin[0].split(" ")[0])
    ]
    assert wrong == []


def test_compiling_again_changes_no_name_and_no_version(tmp_path: Path) -> None:
    """Hashes are left out of the comparison: a project may add a wheel to a version that is already out."""
    tree = clone(tmp_path / "clone")
    (tree / ".venv").symlink_to(Path(sys.executable).parent.parent)
    done = run(tree / "deploy" / "packaging" / "compile-requirements", status=None)
    if done.returncode != 0 and re.search(NO_INDEX, done.stderr, flags=re.I):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    fresh, ours = (pins((root / "deploy" / "requirements.txt").read_text()) for root in (tree, ROOT))
    assert {name: pin for name, (pin, _) in fresh.items()} == {name: pin for name, (pin, _) in ours.items()}


def test_a_wheels_stubs_run_with_the_oldest_admitted_grpc() -> None:
    """The build hook's protoc must not be newer than the bounds in [project], nor differ from the one used here."""
    [protoc] = map(Requirement, PYPROJECT["tool"]["hatch"]["build"]["hooks"]["custom"]["dependencies"])
    floors = {
        r.name: next(s.version for s in r.specifier if s.operator == ">=")
        for r in declared()
        if r.specifier and "grpcio" in r.name
    }
    assert all(protoc.specifier.contains(f"{floor}.0") for floor in floors.values()), floors
    assert protoc.specifier.contains(pins(FILES[0].read_text())["grpcio-tools"][0])
    stub = (ROOT / "proto" / "heddle" / "v1" / "fabric_pb2.py").read_text()
    generated_by = re.search(r"Protobuf Python Version: (\S+)", stub)
    assert generated_by is not None
    [protobuf] = [r for r in declared() if r.name == "protobuf"]
    assert f">={generated_by[1]}" in str(protobuf.specifier)


def imported(folder: str) -> set[str]:
    """Top-level names that any module below `folder` imports."""
    names = set()
    for file in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize(
    ("folder", "group"),
    [("controller", "run"), ("apps", "run"), ("tests", "dev"), ("benchmarks", "dev"), ("mininet", "dev")],
)
def test_what_is_imported_is_declared(folder: str, group: str) -> None:
    """A package that comes only as somebody else's dependency may go with the next upgrade."""
    run_time = PYPROJECT["project"]["dependencies"]
    texts = run_time if group == "run" else run_time + PYPROJECT["dependency-groups"]["dev"]
    allowed = {canonicalize_name(Requirement(text).name) for text in texts}
    neighbours = {path.stem for path in (ROOT / folder).rglob("*.py")}
    distributions = packages_distributions()
    undeclared = {
        name: distributions.get(name)
        for name in imported(folder) - set(sys.stdlib_module_names) - OUR_OWN - neighbours - NOT_INSTALLED
        if not allowed & {canonicalize_name(distribution) for distribution in distributions.get(name, [])}
    }
    assert undeclared == {}
