"""A copy of what a fresh clone holds, and programs run in it as a newcomer's shell would run them."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
PARTS = (".ci", "apps", "controller", "deploy", "heddle", "proto", "pyproject.toml", "README.md")
NOT_IN_A_CLONE = ("__pycache__", "*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", ".*")


def clone(target: Path) -> Path:
    """Copies the work tree without anything that is made at set-up. Returns `target`."""
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns(*NOT_IN_A_CLONE))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def run(
    *command: str | Path, cwd: Path = ROOT, status: int | None = 0, env: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """Runs to the end (at most four minutes) with no input. A `status` other than the expected one fails the test with
    all that was printed; None accepts any."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if status is not None:
        assert done.returncode == status, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done
