"""./heddle on a clone that has nothing yet: it sets itself up once, whoever calls it from wherever, or says what is
missing. What the installed programs then do is other tests' business."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.setup_tree import ROOT, clone, run

SHELL_FILES = [ROOT / "heddle", ROOT / ".ci" / "run", *sorted(ROOT.glob("deploy/**/*.sh"))]
DEBIAN_PACKAGES = ROOT / "deploy" / "debian-packages.txt"
# What a shell with an activated environment and somebody's pip habits would hand down.
FOREIGN_SHELL = {
    "PYTHONPATH": "/nowhere",
    "PYTHONHOME": "/nowhere",
    "VIRTUAL_ENV": "/nowhere",
    "PYENV_VERSION": "2.7.1",
    "PIP_TARGET": "/nowhere",
    "PIP_USER": "1",
    "PIP_CONSTRAINT": "/nowhere",
    "PIP_REQUIRE_VIRTUALENV": "1",
    "UV_PYTHON": "2.7",
    "UV_SYSTEM_PYTHON": "1",
    "UV_CONSTRAINT": "/nowhere",
}
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else or unplug the network")


@pytest.fixture(scope="module")
def two_starts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[subprocess.CompletedProcess[str]]]:
    """A clone (with a blank in its path, and an environment that an interruption left half-made) and its first two
    starts, at the same time, one of them through a symbolic link and from another folder."""
    folder = tmp_path_factory.mktemp("launcher")
    tree = clone(folder / "a clone")
    (tree / ".venv" / "bin").mkdir(parents=True)
    (tree / ".venv" / "bin" / "python").symlink_to("/usr/bin/python3")
    (folder / "link").symlink_to(tree / "heddle")
    with ThreadPoolExecutor() as pool:
        starts = [
            pool.submit(run, command, "setup", cwd=folder, status=None, env=FOREIGN_SHELL)
            for command in (tree / "heddle", folder / "link")
        ]
        return tree, [start.result() for start in starts]


@pytest.mark.slow
def test_two_first_starts_share_one_set_up(
    two_starts: tuple[Path, list[subprocess.CompletedProcess[str]]],
) -> None:
    tree, starts = two_starts
    assert [start.returncode for start in starts] == [0, 0], [start.stderr for start in starts]
    said = sorted((start.stderr for start in starts), key=len)
    assert said[0] in ("", "heddle: another start is setting up; waiting for it\n")
    assert said[1].splitlines()[-1] == "heddle: set up"
    assert run(tree / ".venv" / "bin" / "ryu-manager", "--version").stdout.split() == ["ryu-manager", "4.34"]


@pytest.mark.slow
def test_a_later_start_does_nothing(two_starts: tuple[Path, list[subprocess.CompletedProcess[str]]]) -> None:
    tree, _ = two_starts
    before = {path: path.stat().st_mtime_ns for path in (tree / ".venv").glob("lib/*/site-packages/*")}
    done = run(tree / "heddle", "setup", cwd=tree.parent, env=FOREIGN_SHELL)
    assert done.stdout + done.stderr == ""
    assert {path: path.stat().st_mtime_ns for path in (tree / ".venv").glob("lib/*/site-packages/*")} == before


@pytest.mark.slow
def test_commands_get_their_arguments(two_starts: tuple[Path, list[subprocess.CompletedProcess[str]]]) -> None:
    """`test ARGUMENTS` is pytest alone, `bench NAME` is that file, both with the environment's own Python."""
    tree, _ = two_starts
    (tree / "tests" / "unit").mkdir(parents=True, exist_ok=True)
    (tree / "tests" / "unit" / "test_one.py").write_text("def test_one(): pass\ndef test_two(): pass\n")
    done = run(tree / "heddle", "test", "-k", "test_two", cwd=tree.parent, env=FOREIGN_SHELL)
    assert "1 passed, 1 deselected" in done.stdout
    assert "ruff" not in done.stdout + done.stderr

    (tree / "benchmarks").mkdir()
    (tree / "benchmarks" / "speed.py").write_text("import sys, controller; print(sys.prefix, sys.argv[1:])")
    done = run(tree / "heddle", "bench", "speed", "a b", cwd=tree.parent, env=FOREIGN_SHELL)
    assert done.stdout == f"{tree / '.venv'} ['a b']\n"
    assert run(tree / "heddle", "bench").stdout == "speed\n"
    assert "there are: speed" in run(tree / "heddle", "bench", "sped", status=2).stderr


@pytest.mark.slow
def test_a_changed_input_is_set_up_again(two_starts: tuple[Path, list[subprocess.CompletedProcess[str]]]) -> None:
    tree, _ = two_starts
    proto = tree / "proto" / "heddle" / "v1" / "added.proto"
    proto.write_text('syntax = "proto3";\npackage heddle.v1;\nmessage Added {}\n')
    assert "stubs" in run(tree / "heddle", "setup").stderr
    assert run(tree / ".venv" / "bin" / "python", "-c", "from heddle.v1.added_pb2 import Added; print(Added())")
    proto.unlink()
    run(tree / "heddle", "setup")
    assert not proto.with_name("added_pb2.py").exists()


@pytest.fixture
def open_clone() -> Iterator[Path]:
    """A clone in a folder that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="heddle-clone-") as name:
        Path(name).chmod(0o755)
        yield clone(Path(name) / "clone")


def pretend(folder: Path, program: str, script: str) -> str:
    """A PATH on which `program` is replaced."""
    folder.mkdir()
    folder.chmod(0o755)
    (folder / program).write_text(f"#!/bin/sh\n{script}\n")
    (folder / program).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@root_only
def test_without_root_it_says_what_needs_root(open_clone: Path) -> None:
    os.chown(open_clone, 65534, 65534)
    path = pretend(open_clone.parent / "bin", "dpkg-query", "echo mininet installed")
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = run(*as_nobody, open_clone / "heddle", "demo", cwd=Path("/"), status=2, env={"PATH": path})
    assert len(done.stderr.splitlines()) == 1
    assert "sudo apt-get install --no-install-recommends" in done.stderr
    assert "openvswitch-switch" in done.stderr
    assert "mininet" not in done.stderr, "it is installed"


@root_only
def test_somebody_elses_clone_is_left_alone(open_clone: Path) -> None:
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = run(*as_nobody, open_clone / "heddle", "demo", cwd=Path("/"), status=2)
    assert "only the owner" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@root_only
def test_without_a_network_it_says_so_in_one_sentence(open_clone: Path) -> None:
    done = run(
        "unshare", "-n", open_clone / "heddle", "demo", status=1, env={"PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1"}
    )
    *steps, last = done.stderr.splitlines()
    assert "package server cannot be reached" in last
    assert all(step.startswith(("heddle: making", "heddle: installing")) for step in steps)
    assert not (open_clone / ".venv" / "heddle-setup").exists(), "a failed set-up must be tried again"


@pytest.mark.parametrize("script", ["exit 1", "echo 3.9; exit 1", None])
def test_an_unfit_interpreter_is_named(open_clone: Path, script: str | None) -> None:
    name = "old-python"
    path = pretend(open_clone.parent / "bin", name, script) if script else os.environ["PATH"]
    done = run(open_clone / "heddle", "demo", status=2, env={"PATH": path, "HEDDLE_PYTHON": name})
    assert name in done.stderr
    assert "Python 3.11 or newer" in done.stderr


CHECKS = """
set -euo pipefail
root=$1
say() { echo "heddle: $*"; }
fail() { say "$1"; exit 1; }
ruff() { echo "ruff: $*"; [[ $1 != "${BROKEN:-}" ]]; }
mypy() { [[ mypy != "${BROKEN:-}" ]]; }
lint-imports() { :; }
codespell() { [[ -z ${BROKEN:-} ]]; }
python() { :; }
source "$2"
run_tests
"""


def run_checks(tmp_path: Path, status: int, broken: str = "", pytest: str = 'echo "pytest: $*"') -> str:
    """The checks with every tool replaced: what is looked at is their order and what a failure means."""
    for name in ("mininet", "unit", "openvswitch", "property", "another", "__pycache__"):
        (tmp_path / "tests" / name).mkdir(parents=True)
    (tmp_path / "mininet").mkdir()
    path = pretend(tmp_path / "bin", "pytest", pytest)
    checks = ROOT / "deploy" / "checks.sh"
    done = run("bash", "-c", CHECKS, "bash", tmp_path, checks, status=status, env={"PATH": path, "BROKEN": broken})
    return done.stderr + done.stdout


def test_cheap_tests_come_first(tmp_path: Path) -> None:
    cheap, real = run_checks(tmp_path, 0).splitlines()[-2:]
    assert cheap == "pytest: -n auto --dist loadfile tests/unit tests/property"
    assert real == "pytest: tests/openvswitch tests/mininet tests/another"


def test_one_failing_part_hides_neither_the_other_nor_the_failure(tmp_path: Path) -> None:
    said = run_checks(tmp_path, 1, pytest='echo "pytest: $*"; [[ $* != *property* ]]')
    assert "pytest: tests/openvswitch tests/mininet tests/another" in said
    assert said.splitlines()[-1] == "heddle: tests failed"


def test_all_failing_checks_are_shown_and_then_no_test_is_run(tmp_path: Path) -> None:
    said = run_checks(tmp_path, 1, broken="format")
    assert "ruff: format --check ." in said, "what the tool said"
    assert said.splitlines()[-1].endswith("these checks failed: ruff format, spelling")
    assert "pytest:" not in said


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shell_scripts_are_clean() -> None:
    scripts = [*SHELL_FILES, ROOT / "deploy" / "packaging" / "compile-requirements"]
    run("shellcheck", "-x", *scripts)


def test_entrances_are_executable() -> None:
    for script in (ROOT / "heddle", ROOT / ".ci" / "run"):
        assert os.access(script, os.X_OK), script


def test_debian_packages_are_one_sorted_list_and_installed() -> None:
    lines = [line for line in DEBIAN_PACKAGES.read_text().splitlines() if not line.startswith("#")]
    names = [line.split("#")[0].strip() for line in lines]
    assert names == sorted(set(names))
    if shutil.which("dpkg-query") is None:
        pytest.skip("not a Debian machine")
    done = run("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names)
    assert {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")} == set(names)
